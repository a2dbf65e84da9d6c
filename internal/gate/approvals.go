package gate

import (
	"cmp"
	"slices"
	"sync"
)

// approvals holds the answers that are valid for a caller's session.
type approvals struct {
	mu      sync.Mutex
	granted map[string]map[string]bool // caller → key
	refused map[string]map[string]bool // caller → key of a wider run
}

// A SessionApproval is a yes that holds until the caller's session ends.
type SessionApproval struct {
	Caller string `json:"caller"`
	Key    string `json:"key"` // what it covers: its kind, and its parts as JSON
}

// Remembered returns the approvals that hold for the callers' sessions, sorted.
func (g *Gate) Remembered() []SessionApproval {
	g.approvals.mu.Lock()
	defer g.approvals.mu.Unlock()
	var list []SessionApproval
	for caller, keys := range g.approvals.granted {
		for k := range keys {
			list = append(list, SessionApproval{caller, k})
		}
	}
	slices.SortFunc(list, func(a, b SessionApproval) int {
		return cmp.Or(cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.Key, b.Key))
	})
	return list
}

// Forget revokes an approval and reports whether it existed.
func (g *Gate) Forget(s SessionApproval) bool {
	g.approvals.mu.Lock()
	defer g.approvals.mu.Unlock()
	found := g.approvals.granted[s.Caller][s.Key]
	delete(g.approvals.granted[s.Caller], s.Key)
	return found
}

// covers reports whether the caller has approved all of the keys.
func (a *approvals) covers(caller string, keys []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return hasKeys(a.granted, caller, keys)
}

func (a *approvals) remember(caller string, keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	setKeys(&a.granted, caller, keys)
}

// wasRefused reports whether the caller has refused a wider run for all of
// the keys.
func (a *approvals) wasRefused(caller string, keys []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return hasKeys(a.refused, caller, keys)
}

func (a *approvals) refuse(caller string, keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	setKeys(&a.refused, caller, keys)
}

func setKeys(m *map[string]map[string]bool, caller string, keys []string) {
	if *m == nil {
		*m = map[string]map[string]bool{}
	}
	if (*m)[caller] == nil {
		(*m)[caller] = map[string]bool{}
	}
	for _, k := range keys {
		(*m)[caller][k] = true
	}
}

func hasKeys(m map[string]map[string]bool, caller string, keys []string) bool {
	for _, k := range keys {
		if !m[caller][k] {
			return false
		}
	}
	return len(keys) > 0
}
