package gate

import (
	"cmp"
	"slices"
	"sync"
)

// callerKeys holds keys of approvals for each caller's session.
type callerKeys struct {
	mu   sync.Mutex
	keys map[string]map[string]bool // caller → key
}

// cover reports whether all of the keys are held for the caller.
func (k *callerKeys) cover(caller string, keys []string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(key string) bool { return !k.keys[caller][key] })
}

func (k *callerKeys) add(caller string, keys []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil {
		k.keys = map[string]map[string]bool{}
	}
	if k.keys[caller] == nil {
		k.keys[caller] = map[string]bool{}
	}
	for _, key := range keys {
		k.keys[caller][key] = true
	}
}

// A SessionApproval is a yes that holds until the caller's session ends.
type SessionApproval struct {
	Caller string `json:"caller"`
	Key    string `json:"key"` // what it covers: its kind, and its parts as JSON
}

// Remembered returns the approvals that hold for the callers' sessions, sorted.
func (g *Gate) Remembered() []SessionApproval {
	g.granted.mu.Lock()
	defer g.granted.mu.Unlock()
	var list []SessionApproval
	for caller, keys := range g.granted.keys {
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
	g.granted.mu.Lock()
	defer g.granted.mu.Unlock()
	found := g.granted.keys[s.Caller][s.Key]
	delete(g.granted.keys[s.Caller], s.Key)
	return found
}
