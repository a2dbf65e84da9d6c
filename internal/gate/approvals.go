package gate

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"toolgate/policy"
)

// A SessionApproval is a yes that holds until the caller's session ends.
type SessionApproval struct {
	Caller string `json:"caller"`
	Key    string `json:"key"` // what it covers: its kind, and its parts as JSON
}

// sessionKeys holds keys of approvals for callers' sessions, with what each is
// bound to.
type sessionKeys struct {
	mu   sync.Mutex
	held map[SessionApproval]policy.Snapshot
}

// cover reports whether all of the keys are held for the caller, and what has
// changed since.
func (k *sessionKeys) cover(caller string, keys []string, now policy.Snapshot) (ok bool, changes []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range keys {
		seen, ok := k.held[SessionApproval{caller, key}]
		if !ok {
			return false, nil
		}
		if changes := seen.Changes(now); len(changes) > 0 {
			return false, changes
		}
	}
	return len(keys) > 0, nil
}

func (k *sessionKeys) add(caller string, keys []string, seen policy.Snapshot) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil {
		k.held = make(map[SessionApproval]policy.Snapshot)
	}
	for _, key := range keys {
		k.held[SessionApproval{caller, key}] = seen
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
	_, found := g.granted.held[s]
	delete(g.granted.held, s)
	return found
}
