package aggregator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"toolgate/policy"
)

// DownstreamOptions configures [Downstreams].
type DownstreamOptions struct {
	Version  string          // of toolgate, sent to the servers
	StateDir string          // where catalogs and pinned definitions are saved
	Roots    json.RawMessage // the answer to roots/list if no client can give one
	Reserved []string        // names of built-in tools
	Log      *slog.Logger    // nil: discard
	Grace    time.Duration   // between the steps of stopping a process; 0: two seconds

	// Hold delays the start of all servers until [Downstreams.Begin] is called or
	// one is needed, so that the first client gets its first answer sooner.
	Hold bool
}

// A Notice is a notification of a downstream server for clients.
type Notice struct {
	Server  string
	Method  string
	Params  json.RawMessage
	Callers []string // with calls pending on the server
}

// A Listener receives events of the downstream servers. Its functions must not
// block and may be nil.
type Listener struct {
	Changed func(Change)
	Notice  func(Notice)
}

// Downstreams runs the downstream servers from the config. It publishes their
// tools from saved catalogs at once, and a server that is slow or broken delays
// only its own callers. It may be used concurrently. Close stops all servers.
//
//	set := aggregator.NewDownstreams(options)
//	set.Update(specs)
//	defer set.Close()
//	for _, t := range set.Tools() { … }
type Downstreams struct {
	opts   DownstreamOptions
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelCauseFunc

	startable chan struct{} // closed when servers may start
	startOnce sync.Once

	published atomic.Pointer[published] // nil: not built yet

	mu        sync.Mutex
	servers   map[string]*Downstream
	listeners map[int]Listener
	clients   map[int]policy.ClientFunc
	next      int

	wg            sync.WaitGroup
	subscriptions subscriptions
	tasks         taskRegistry
}

// NewDownstreams returns a set without servers. The caller must call Close.
func NewDownstreams(o DownstreamOptions) *Downstreams {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Grace = cmp.Or(o.Grace, exitGrace)
	if o.Roots == nil {
		o.Roots = json.RawMessage(`{"roots":[]}`)
	}
	s := &Downstreams{
		opts:          o,
		log:           o.Log,
		servers:       map[string]*Downstream{},
		listeners:     map[int]Listener{},
		clients:       map[int]policy.ClientFunc{},
		startable:     make(chan struct{}),
		subscriptions: subscriptions{counts: map[subscription]int{}, levels: map[string]string{}},
	}
	s.subscriptions.changed, s.subscriptions.change = context.WithCancel(context.Background())
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if !o.Hold {
		s.Begin()
	}
	return s
}

// Begin lets the servers start, see [DownstreamOptions.Hold].
func (s *Downstreams) Begin() { s.startOnce.Do(func() { close(s.startable) }) }

// Update makes specs the servers of the set. It starts new servers, stops those
// that are gone and restarts those that changed, without waiting for any of it.
func (s *Downstreams) Update(specs []Spec) {
	s.mu.Lock()
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		return
	}
	keep := map[string]bool{}
	for _, spec := range specs {
		keep[spec.Name] = true
		old := s.servers[spec.Name]
		if old != nil && old.spec.Digest == spec.Digest && old.profile == spec.Profile.Digest() {
			continue
		}
		s.start(newDownstream(s, spec), old, errors.New("its config has changed"))
	}
	for name, d := range s.servers {
		if !keep[name] {
			d.cancel(errors.New("it was removed from the config"))
			delete(s.servers, name)
		}
	}
	s.mu.Unlock()
	s.republish(Change{Tools: true, Resources: true, Prompts: true})
}

// start runs d in place of old, which may be nil. s.mu must be held.
func (s *Downstreams) start(d, old *Downstream, why error) {
	s.servers[d.spec.Name] = d
	s.wg.Go(func() { // ends with d.ctx
		if old != nil {
			old.cancel(why)
			<-old.stopped // both may need the same port or file
		}
		d.run()
	})
}

// Close stops all servers and waits for them.
func (s *Downstreams) Close() {
	s.mu.Lock() // excludes a concurrent Update
	s.cancel(errShutdown)
	s.mu.Unlock()
	s.wg.Wait()
}

// all returns the servers, sorted by name.
func (s *Downstreams) all() []*Downstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted()
}

// sorted is all for callers that hold s.mu.
func (s *Downstreams) sorted() []*Downstream {
	var list []*Downstream
	for _, name := range slices.Sorted(maps.Keys(s.servers)) {
		list = append(list, s.servers[name])
	}
	return list
}

func (s *Downstreams) server(name string) (*Downstream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.servers[name]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("the server %s no longer exists", name)
}

// Listen sends changes and notices to l until remove is called.
func (s *Downstreams) Listen(l Listener) (remove func()) { return register(s, s.listeners, l) }

// register keeps v in m, one of the maps of s, until remove is called.
func register[V any](s *Downstreams, m map[int]V, v V) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	id := s.next
	m[id] = v
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(m, id)
	}
}

func (s *Downstreams) each(tell func(Listener)) {
	s.mu.Lock()
	list := slices.Collect(maps.Values(s.listeners))
	s.mu.Unlock()
	for _, l := range list {
		tell(l)
	}
}

func (s *Downstreams) notice(n Notice) {
	s.each(func(l Listener) {
		if l.Notice != nil {
			l.Notice(n)
		}
	})
}

// view returns the published lists, and builds them at the first call.
func (s *Downstreams) view() *published {
	if p := s.published.Load(); p != nil {
		return p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.published.Load(); p != nil {
		return p
	}
	return s.publish(&published{})
}

// publish rebuilds the published lists. s.mu must be held.
func (s *Downstreams) publish(before *published) *published {
	p := publishAll(s.sorted(), s.opts.Reserved)
	s.published.Store(p)
	for server, faults := range p.faults {
		for _, f := range faults {
			if !slices.Contains(before.faults[server], f) {
				s.log.Warn("tool left out", "downstream", server, "why", f)
			}
		}
	}
	return p
}

// republish rebuilds the published lists, if they have been built, and tells the
// listeners what changed.
func (s *Downstreams) republish(c Change) {
	s.mu.Lock()
	if before := s.published.Load(); before != nil {
		p := s.publish(before)
		same := func(a, b Tool) bool { return bytes.Equal(a.Definition, b.Definition) }
		c.Tools = c.Tools && !slices.EqualFunc(before.tools, p.tools, same)
	}
	s.mu.Unlock()
	if c == (Change{}) {
		return
	}
	s.each(func(l Listener) {
		if l.Changed != nil {
			l.Changed(c)
		}
	})
}

// AddClient registers a client until remove is called. While it is the only one,
// it answers requests for roots that belong to no call.
func (s *Downstreams) AddClient(client policy.ClientFunc) (remove func()) {
	return register(s, s.clients, client)
}

// soleClient returns the only registered client, nil when there are none or several.
func (s *Downstreams) soleClient() policy.ClientFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.clients) != 1 {
		return nil
	}
	for _, c := range s.clients {
		return c
	}
	return nil
}

// Tools returns the published tools, sorted by name. The caller must not modify
// the slice.
func (s *Downstreams) Tools() []Tool { return s.view().tools }

// Tool returns the tool published as name.
func (s *Downstreams) Tool(name string) (Tool, bool) {
	if t, ok := s.view().byName[name]; ok {
		return *t, true
	}
	return Tool{}, false
}

// Has reports whether a tool is published as name.
func (s *Downstreams) Has(name string) bool { return s.view().byName[name] != nil }

// Status returns the state of each server, sorted by name.
func (s *Downstreams) Status() []Status {
	p := s.view()
	var list []Status
	for _, d := range s.all() {
		d.mu.Lock()
		st := Status{Name: d.spec.Name, State: d.state, Faults: p.faults[d.spec.Name]}
		// While the server is being restarted, report why the last start failed.
		if err := cmp.Or(d.err, d.failed); err != nil && d.session == nil {
			st.Error = err.Error()
		}
		if d.session != nil {
			st.Server, st.Level = d.session.initial.Version, d.session.level()
		}
		d.mu.Unlock()
		for _, t := range p.tools {
			if t.Server == d.spec.Name {
				st.Tools++
			}
		}
		list = append(list, st)
	}
	return list
}

// Check starts every server that is not running, once, and returns the state of
// each.
func (s *Downstreams) Check(ctx context.Context) []Status {
	var all sync.WaitGroup
	for _, d := range s.all() {
		all.Go(func() {
			if _, err := d.acquire(ctx); err == nil {
				d.release()
			}
		})
	}
	all.Wait()
	s.WaitListed(ctx, false)
	return s.Status()
}

// WaitListed waits until every server without a saved catalog has listed what it
// offers or failed to, or ctx ends. If required, it waits only for the servers
// configured as required.
func (s *Downstreams) WaitListed(ctx context.Context, required bool) {
	s.waitListed(ctx, func(d *Downstream) bool { return !required || d.spec.Required })
}

// WaitForTool waits until the servers that may offer the unknown tool have listed
// what they offer, or ctx ends: those configured as required, and those whose
// prefix the name has.
func (s *Downstreams) WaitForTool(ctx context.Context, tool string) {
	s.waitListed(ctx, func(d *Downstream) bool {
		prefix := d.prefix()
		return d.spec.Required || prefix != "" && strings.HasPrefix(tool, prefix)
	})
}

func (s *Downstreams) waitListed(ctx context.Context, relevant func(*Downstream) bool) {
	for _, d := range s.all() {
		if !relevant(d) {
			continue
		}
		s.Begin()
		select {
		case <-d.listed:
		case <-ctx.Done():
			return
		}
	}
}

// Names returns the names of the servers, sorted.
func (s *Downstreams) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.servers))
}
