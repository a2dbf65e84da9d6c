package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"toolgate/internal/config"
	"toolgate/internal/httpauth"
	"toolgate/server"
)

// A household is all that one caller over HTTP has: a gate, workers, servers
// behind, sessions, approvals, the history of its patches. No two callers
// share any of it.
type household struct {
	app      *app
	endpoint *server.Endpoint
	ready    chan struct{} // closed when the rest is set
	err      error
	unwatch  func()

	// Under the lock of the households:
	using int
	used  time.Time
}

// households keeps one household for each caller, from its first request
// until it has been quiet for a while.
type households struct {
	p    *program
	opts server.EndpointOptions
	max  int
	log  *slog.Logger

	mu     sync.Mutex
	config config.HTTP
	open   map[string]*household
	closed bool
	ends   sync.WaitGroup
	stop   chan struct{}
}

func newHouseholds(p *program, c config.HTTP, log *slog.Logger) *households {
	hs := &households{
		p:      p,
		opts:   server.EndpointOptions{SessionTTL: c.SessionTime(), MaxSessions: c.MaxSessions},
		max:    c.MaxCallers,
		log:    log,
		config: c,
		open:   map[string]*household{},
		stop:   make(chan struct{}),
	}
	if hs.opts.SessionTTL == 0 {
		hs.opts.SessionTTL = 30 * time.Minute
	}
	if hs.max == 0 {
		hs.max = 64
	}
	hs.ends.Go(hs.sweep) // ends with stop
	return hs
}

// ServeHTTP serves MCP to the caller that the door has let in.
func (hs *households) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, ok := httpauth.From(r.Context())
	if !ok {
		http.Error(w, "bug: nobody was let in", http.StatusInternalServerError)
		return
	}
	h, done, err := hs.enter(caller)
	if err != nil {
		hs.log.Error("a caller cannot be served", "caller", caller.Name, "request", r.Header.Get(httpauth.RequestID), "err", err)
		w.Header().Set("Retry-After", "10")
		http.Error(w, "you cannot be served now; the log says why", http.StatusServiceUnavailable)
		return
	}
	defer done()
	h.endpoint.ServeHTTP(w, r)
}

var errAllTaken = errors.New("there are as many callers as there may be (http.max_callers), all of them busy")

// enter returns the household of a caller, which is there until done is
// called.
func (hs *households) enter(c httpauth.Caller) (h *household, done func(), err error) {
	hs.mu.Lock()
	if hs.closed {
		hs.mu.Unlock()
		return nil, nil, errors.New("toolgate is ending")
	}
	h, ok := hs.open[c.Name]
	if !ok {
		if len(hs.open) >= hs.max && !hs.makeRoom() {
			hs.mu.Unlock()
			return nil, nil, errAllTaken
		}
		h = &household{ready: make(chan struct{})}
		hs.open[c.Name] = h
		go h.start(hs.p.visitedBy(c, hs.visitor(c)), c, hs.opts) // ends when it has started
	}
	h.using++
	hs.mu.Unlock()
	done = func() {
		hs.mu.Lock()
		defer hs.mu.Unlock()
		h.using--
		h.used = time.Now()
	}
	<-h.ready
	if h.err != nil {
		done()
		hs.mu.Lock()
		defer hs.mu.Unlock()
		if hs.open[c.Name] == h {
			delete(hs.open, c.Name) // the next request tries again
		}
		return nil, nil, h.err
	}
	return h, done, nil
}

// visitor returns what is different for a caller; hs.mu is held.
func (hs *households) visitor(c httpauth.Caller) config.Visitor {
	switch {
	case c.OAuth:
		return hs.config.OAuth.Visitor
	case c.Token != "":
		return hs.config.Tokens[c.Token].Visitor
	}
	return config.Visitor{}
}

// makeRoom ends the household that has been quiet for longest; hs.mu is held.
func (hs *households) makeRoom() bool {
	var name string
	for n, h := range hs.open {
		if h.quiet() && (name == "" || h.used.Before(hs.open[name].used)) {
			name = n
		}
	}
	if name == "" {
		return false
	}
	hs.remove(name)
	return true
}

// quiet reports whether nobody needs the household; the lock of the households
// is held.
func (h *household) quiet() bool {
	select {
	case <-h.ready:
		return h.using == 0 && (h.err != nil || h.endpoint.Sessions() == 0)
	default:
		return false
	}
}

// remove ends a household; hs.mu is held.
func (hs *households) remove(name string) {
	h := hs.open[name]
	delete(hs.open, name)
	hs.ends.Go(h.close)
}

// start opens the household with the settings of its caller.
func (h *household) start(p *program, c httpauth.Caller, o server.EndpointOptions) {
	defer close(h.ready)
	if h.app, h.err = p.open(); h.err != nil {
		return
	}
	h.unwatch = p.watchConfig(h.app)
	o.Caller = c.Name
	h.endpoint = h.app.server.NewEndpoint(o)
	h.app.downstreams.Begin() // the first answer is on its way already
	h.app.log.Debug("a caller has come", "caller", c.Name, "workspace", h.app.policy.Workspace)
}

func (h *household) close() {
	<-h.ready
	if h.err != nil {
		return
	}
	h.endpoint.Close()
	h.unwatch()
	h.app.close()
}

// sweep ends the households that are quiet for long.
func (hs *households) sweep() {
	tick := time.NewTicker(min(hs.opts.SessionTTL/2+time.Millisecond, time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-hs.stop:
			return
		case now := <-tick.C:
			hs.mu.Lock()
			for name, h := range hs.open {
				if h.quiet() && now.Sub(h.used) >= hs.opts.SessionTTL {
					hs.remove(name)
				}
			}
			hs.mu.Unlock()
		}
	}
}

// update makes c the settings of callers that come from now on, and ends the
// households of tokens that are gone or mean something else now.
func (hs *households) update(c config.HTTP) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	old := hs.config
	hs.config = c
	for name := range hs.open {
		token, ok := strings.CutPrefix(name, "token:")
		if !ok || token == "default" {
			continue
		}
		was, is := old.Tokens[token], c.Tokens[token]
		same := was.Hash == is.Hash && was.Workspace == is.Workspace && was.ApprovalPolicy == is.ApprovalPolicy && was.SandboxMode == is.SandboxMode && was.Permissions == is.Permissions && slices.Equal(was.Servers, is.Servers)
		if !same {
			hs.remove(name)
		}
	}
}

// sessions returns how many there are of all callers.
func (hs *households) sessions() (n int) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, h := range hs.open {
		select {
		case <-h.ready:
			if h.err == nil {
				n += h.endpoint.Sessions()
			}
		default:
		}
	}
	return n
}

func (hs *households) count() int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return len(hs.open)
}

// drain refuses what is asked for now, waits for the answers still owed, and
// ends everything.
func (hs *households) drain(ctx context.Context) {
	hs.mu.Lock()
	hs.closed = true
	var all []*household
	for _, h := range hs.open {
		all = append(all, h)
	}
	clear(hs.open)
	hs.mu.Unlock()
	close(hs.stop)
	for _, h := range all {
		hs.ends.Go(func() {
			<-h.ready
			if h.err != nil {
				return
			}
			if err := h.endpoint.Drain(ctx); err != nil {
				hs.log.Warn("some calls got no answer", "err", err)
			}
			h.close()
		})
	}
	hs.ends.Wait()
}

// visitedBy returns the program as it is for one caller: its own settings win
// over those of the command line.
func (p *program) visitedBy(c httpauth.Caller, v config.Visitor) *program {
	q := *p
	q.caller = c.Name
	if v.Workspace != "" {
		q.flags.dir, q.flags.addDirs = v.Workspace, nil
	}
	if v.ApprovalPolicy != "" {
		q.flags.approval = v.ApprovalPolicy
	}
	if v.SandboxMode != "" {
		q.flags.sandbox, q.flags.profile = v.SandboxMode, ""
	}
	if v.Permissions != "" {
		q.flags.sandbox, q.flags.profile = "", v.Permissions
	}
	if v.Servers != nil {
		q.onlyServers = v.Servers
	}
	return &q
}

// checkVisitors returns what is wrong with the settings of callers, before
// any of them comes.
func (p *program) checkVisitors(c config.HTTP) error {
	check := func(what string, v config.Visitor) error {
		s, err := p.visitedBy(httpauth.Caller{Name: what}, v).settings()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if v.Workspace != "" && s.noRoots != "" {
			return fmt.Errorf("%s: workspace: %s", what, s.noRoots)
		}
		return nil
	}
	for name, t := range c.Tokens {
		if err := check("http.tokens."+name, t.Visitor); err != nil {
			return err
		}
	}
	if c.OAuth.Enabled() {
		return check("http.oauth", c.OAuth.Visitor)
	}
	return nil
}
