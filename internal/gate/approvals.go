package gate

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// A SessionApproval is a yes that holds until the caller's session ends.
type SessionApproval struct {
	Caller string `json:"caller"`
	Key    string `json:"key"` // what it covers: its kind, and its parts as JSON
}

// sessionKeys holds keys of approvals for callers' sessions.
type sessionKeys struct {
	mu   sync.Mutex
	held map[SessionApproval]bool
}

// cover reports whether all of the keys are held for the caller.
func (k *sessionKeys) cover(caller string, keys []string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	missing := func(key string) bool { return !k.held[SessionApproval{caller, key}] }
	return len(keys) > 0 && !slices.ContainsFunc(keys, missing)
}

func (k *sessionKeys) add(caller string, keys []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil {
		k.held = make(map[SessionApproval]bool)
	}
	for _, key := range keys {
		k.held[SessionApproval{caller, key}] = true
	}
}

// Remembered returns the approvals that hold for the callers' sessions, sorted.
func (g *Gate) Remembered() []SessionApproval {
	g.granted.mu.Lock()
	defer g.granted.mu.Unlock()
	return slices.SortedFunc(maps.Keys(g.granted.held), func(a, b SessionApproval) int {
		return cmp.Or(cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.Key, b.Key))
	})
}

// Forget revokes an approval and reports whether it existed.
func (g *Gate) Forget(s SessionApproval) bool {
	g.granted.mu.Lock()
	defer g.granted.mu.Unlock()
	found := g.granted.held[s]
	delete(g.granted.held, s)
	return found
}
