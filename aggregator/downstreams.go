package aggregator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"toolgate/policy"
)

// DownstreamOptions configure [Downstreams].
type DownstreamOptions struct {
	Version  string          // of toolgate, told to the servers
	StateDir string          // where catalogues are kept
	Roots    json.RawMessage // the answer to roots/list where no client can give one
	Reserved []string        // tool names that are taken
	Log      *slog.Logger    // nil: nothing is logged
	Grace    time.Duration   // between the steps of ending a process; 0: two seconds

	// Hold has no server started before [Downstreams.Begin], or before one is
	// needed: a client is waiting for its first answer meanwhile.
	Hold bool
}

// A Notice is a notification of a downstream server that concerns clients.
type Notice struct {
	Server  string
	Method  string
	Params  json.RawMessage
	Callers []string // whose calls were under way on the server
}

// Listener is told of what happens behind; its functions must not block and
// may be nil.
type Listener struct {
	Changed func(Change)
	Notice  func(Notice)
}

// Downstreams keeps the servers from the config. Their tools are published
// from saved catalogues at once, and a server that is slow, broken or gone
// holds up nobody but its own callers. Close ends all. It may be used
// concurrently.
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

	published atomic.Pointer[published] // nil: nobody has looked yet

	mu        sync.Mutex
	servers   map[string]*Downstream
	listeners map[int]Listener
	clients   map[int]policy.ClientFunc
	next      int

	wg            sync.WaitGroup
	subscriptions subscriptions
	tasks         taskRegistry
}

// NewDownstreams returns a set without servers.
func NewDownstreams(o DownstreamOptions) *Downstreams {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Grace == 0 {
		o.Grace = 2 * time.Second
	}
	if o.Roots == nil {
		o.Roots = json.RawMessage(`{"roots":[]}`)
	}
	s := &Downstreams{
		opts:      o,
		log:       o.Log,
		servers:   map[string]*Downstream{},
		listeners: map[int]Listener{},
		clients:   map[int]policy.ClientFunc{},
		startable: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if !o.Hold {
		s.Begin()
	}
	return s
}

// Begin lets the servers start.
func (s *Downstreams) Begin() { s.startOnce.Do(func() { close(s.startable) }) }

// Update makes specs the servers of the set: new ones are started, those that
// are gone or differ are ended. It does not wait for either.
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
		d := newDownstream(s, spec)
		s.servers[spec.Name] = d
		s.wg.Go(func() { // ends with d.ctx
			if old != nil {
				old.cancel(errors.New("its config has changed"))
				<-old.stopped // two of one server may want the same port or file
			}
			d.run()
		})
	}
	for name, d := range s.servers {
		if !keep[name] {
			d.cancel(errors.New("it was taken out of the config"))
			delete(s.servers, name)
		}
	}
	s.mu.Unlock()
	s.republish(Change{Tools: true, Resources: true, Prompts: true})
}

// Close ends all servers and waits for them.
func (s *Downstreams) Close() {
	s.mu.Lock() // no Update can be adding one now
	s.cancel(errShutdown)
	s.mu.Unlock()
	s.wg.Wait()
}

// all returns the servers by name.
func (s *Downstreams) all() []*Downstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*Downstream
	for _, name := range sortedNames(s.servers) {
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
	return nil, fmt.Errorf("there is no server %s any more", name)
}

// Listen has l told of changes and notices until remove is called.
func (s *Downstreams) Listen(l Listener) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	id := s.next
	s.listeners[id] = l
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, id)
	}
}

func (s *Downstreams) each(tell func(Listener)) {
	s.mu.Lock()
	var list []Listener
	for _, l := range s.listeners {
		list = append(list, l)
	}
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

// view returns what is published.
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

// publishAll makes what is published anew, under s.mu.
func (s *Downstreams) publish(before *published) *published {
	reserved := map[string]bool{}
	for _, name := range s.opts.Reserved {
		reserved[name] = true
	}
	var servers []*Downstream
	for _, name := range sortedNames(s.servers) {
		servers = append(servers, s.servers[name])
	}
	p := publishAll(servers, reserved)
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

// republish makes what is published anew, where somebody has looked at it
// before, and tells the listeners.
func (s *Downstreams) republish(c Change) {
	s.mu.Lock()
	if before := s.published.Load(); before != nil {
		p := s.publish(before)
		c.Tools = c.Tools && !slices.EqualFunc(before.tools, p.tools, func(a, b Tool) bool { return bytes.Equal(a.Definition, b.Definition) })
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

// AddClient makes client the one that is asked for roots outside of calls,
// while it is the only one there is, until remove is called.
func (s *Downstreams) AddClient(client policy.ClientFunc) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	id := s.next
	s.clients[id] = client
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.clients, id)
	}
}

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

// Tools returns the published tools, sorted by name. The slice is shared and
// must not be changed.
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

// Status says how the servers are, by name.
func (s *Downstreams) Status() []Status {
	p := s.view()
	var list []Status
	for _, d := range s.all() {
		d.mu.Lock()
		st := Status{Name: d.spec.Name, State: d.state, Faults: p.faults[d.spec.Name]}
		// Of a server that is being started again, why it did not start before.
		if err := cmp.Or(d.err, d.failed); err != nil && d.session == nil {
			st.Error = err.Error()
		}
		if d.session != nil {
			st.Server = d.session.version
			if d.session.proc != nil {
				st.Level = d.session.proc.Level
			}
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

// Check starts every server that does not run and returns how all are: ready,
// or why not after one attempt.
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

// WaitListed waits until every server that was never seen has told what it
// offers, or has failed to. With required it waits for those alone whose
// config says that they are.
func (s *Downstreams) WaitListed(ctx context.Context, required bool) {
	for _, d := range s.all() {
		if required && !d.spec.Required {
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

// WaitForTool waits, before a call of a tool that is not known, until the servers
// that could still have it have told what they offer: those that a listing
// waits for, and those whose prefix it has.
func (s *Downstreams) WaitForTool(ctx context.Context, tool string) {
	for _, d := range s.all() {
		if prefix := d.prefix(); !d.spec.Required && (prefix == "" || !strings.HasPrefix(tool, prefix)) {
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
	return sortedNames(s.servers)
}
