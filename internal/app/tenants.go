package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"toolgate/internal/config"
	"toolgate/internal/httpauth"
	"toolgate/policy"
	"toolgate/server"
)

// A tenant holds everything that belongs to one HTTP caller: a gate, workers, downstream servers,
// sessions, approvals and the history of its patches. Callers share none of it.
type tenant struct {
	app      *App
	endpoint *server.Endpoint
	ready    chan struct{} // closed when the other fields are set
	err      error
	unwatch  func()

	using int       // requests in progress; protected by tenants.mu
	used  time.Time // end of the last one; protected by tenants.mu
}

// tenants keeps one tenant for each caller, from its first request until it has been idle for the session TTL.
type tenants struct {
	base *Options
	opts server.EndpointOptions
	max  int
	log  *slog.Logger

	mu     sync.Mutex
	config config.HTTP
	open   map[string]*tenant
	closed bool
	ends   sync.WaitGroup
	stop   chan struct{}
}

func newTenants(base *Options, c config.HTTP, log *slog.Logger) *tenants {
	hs := &tenants{
		base:   base,
		opts:   server.EndpointOptions{MaxSessions: c.MaxSessions},
		max:    cmp.Or(c.MaxCallers, 64),
		log:    log,
		config: c,
		open:   map[string]*tenant{},
		stop:   make(chan struct{}),
	}
	hs.opts.SessionTTL = cmp.Or(c.SessionTime(), 30*time.Minute)
	hs.ends.Go(hs.sweep) // ends with stop
	return hs
}

// ServeHTTP serves MCP to the authenticated caller.
func (hs *tenants) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, ok := httpauth.From(r.Context())
	if !ok {
		http.Error(w, "missing caller identity", http.StatusInternalServerError)
		return
	}
	h, done, err := hs.enter(caller)
	if err != nil {
		hs.log.Error("a caller cannot be served", "caller", caller.Name,
			"request", r.Header.Get(httpauth.RequestID), "err", err)
		w.Header().Set("Retry-After", "10")
		http.Error(w, "service unavailable; see the server log", http.StatusServiceUnavailable)
		return
	}
	defer done()
	h.endpoint.ServeHTTP(w, r)
}

var errTooManyCallers = errors.New("too many callers (limit: http.max_callers)")

// enter returns the tenant of a caller, which stays open until done is called.
func (hs *tenants) enter(c httpauth.Caller) (h *tenant, done func(), err error) {
	hs.mu.Lock()
	if hs.closed {
		hs.mu.Unlock()
		return nil, nil, errors.New("toolgate is ending")
	}
	h, ok := hs.open[c.Name]
	if !ok {
		if len(hs.open) >= hs.max && !hs.makeRoom() {
			hs.mu.Unlock()
			return nil, nil, errTooManyCallers
		}
		h = &tenant{ready: make(chan struct{})}
		hs.open[c.Name] = h
		overrides := hs.config.Tokens[c.Token].Overrides
		if c.OAuth {
			overrides = hs.config.OAuth.Overrides
		}
		go h.start(hs.base.forCaller(c, overrides, hs.config), c, hs.opts) // ends when ready is closed
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

// makeRoom closes the tenant that has been idle for longest; hs.mu is held.
func (hs *tenants) makeRoom() bool {
	var name string
	for n, h := range hs.open {
		if h.idle() && (name == "" || h.used.Before(hs.open[name].used)) {
			name = n
		}
	}
	if name == "" {
		return false
	}
	hs.remove(name)
	return true
}

// idle reports whether the tenant has neither requests nor sessions; tenants.mu is held.
func (h *tenant) idle() bool {
	select {
	case <-h.ready:
		return h.using == 0 && (h.err != nil || h.endpoint.Sessions() == 0)
	default:
		return false
	}
}

// remove closes a tenant; hs.mu is held.
func (hs *tenants) remove(name string) {
	h := hs.open[name]
	delete(hs.open, name)
	hs.ends.Go(h.close)
}

// started reports whether the tenant is open and serves its caller.
func (h *tenant) started() bool {
	select {
	case <-h.ready:
		return h.err == nil
	default:
		return false
	}
}

// start opens the tenant with the settings of its caller.
func (h *tenant) start(base *Options, c httpauth.Caller, o server.EndpointOptions) {
	defer close(h.ready)
	if h.app, h.err = base.Open(); h.err != nil {
		return
	}
	h.unwatch = base.WatchConfig(h.app)
	o.Caller = c.Name
	h.endpoint = h.app.Server.NewEndpoint(o)
	h.app.Downstreams.Begin() // there is no first answer to wait for
	h.app.Log.Debug("a caller has come", "caller", c.Name, "workspace", h.app.Policy.Workspace)
}

func (h *tenant) close() {
	<-h.ready
	if h.err != nil {
		return
	}
	h.endpoint.Close()
	h.unwatch()
	h.app.Close()
}

// sweep closes tenants that have been idle for the session TTL.
func (hs *tenants) sweep() {
	tick := time.NewTicker(min(hs.opts.SessionTTL/2+time.Millisecond, time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-hs.stop:
			return
		case now := <-tick.C:
			hs.mu.Lock()
			for name, h := range hs.open {
				if h.idle() && now.Sub(h.used) >= hs.opts.SessionTTL {
					hs.remove(name)
				}
			}
			hs.mu.Unlock()
		}
	}
}

// update applies c to new tenants. It closes those whose token was removed or changed, and those
// from which a new workspace is not hidden.
func (hs *tenants) update(c config.HTTP) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	old := hs.config
	hs.config = c
	before := hs.base.workspaces(old)
	isKnown := func(dir string) bool { return slices.Contains(before, dir) }
	added := slices.ContainsFunc(hs.base.workspaces(c), func(dir string) bool { return !isKnown(dir) })
	for name := range hs.open {
		token, ok := strings.CutPrefix(name, "token:")
		if added {
			hs.remove(name)
			continue
		}
		if !ok || token == "default" {
			continue
		}
		was, is := old.Tokens[token], c.Tokens[token]
		if !reflect.DeepEqual(was, is) {
			hs.remove(name)
		}
	}
}

// apps returns the gates of the callers that are connected.
func (hs *tenants) apps() []*App {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	var list []*App
	for _, h := range hs.open {
		if h.started() {
			list = append(list, h.app)
		}
	}
	slices.SortFunc(list, func(a, b *App) int { return strings.Compare(a.caller, b.caller) })
	return list
}

// sessions returns the number of sessions of all callers.
func (hs *tenants) sessions() (n float64) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, h := range hs.open {
		if h.started() {
			n += float64(h.endpoint.Sessions())
		}
	}
	return n
}

func (hs *tenants) count() float64 {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return float64(len(hs.open))
}

// drain refuses new requests, waits for those in progress until ctx ends, and closes all tenants.
func (hs *tenants) drain(ctx context.Context) {
	hs.mu.Lock()
	hs.closed = true
	all := slices.Collect(maps.Values(hs.open))
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

// workspaces returns the workspaces of all callers that h allows, resolved as far as they exist.
func (o *Options) workspaces(h config.HTTP) []string {
	dirs := []string{h.OAuth.Workspace}
	for _, t := range h.Tokens {
		dirs = append(dirs, t.Workspace)
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return dir == "" }) // the same as o.Dir
	var list []string
	for _, dir := range append(dirs, o.Dir) {
		real, noRoots, err := workspace(dir)
		if err != nil { // hidden, too, once it exists
			real, err = filepath.Abs(dir)
		}
		if err == nil && noRoots == "" {
			list = append(list, filepath.ToSlash(real))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// hideOthers hides the other callers' workspaces and, with private /tmps, the folder that holds those
// and what patches replaced. A workspace inside another one stays visible.
func (o *Options) hideOthers(s *Settings, pol *policy.Policy) {
	if s.privateTmp {
		pol.Hidden = append(pol.Hidden, s.WorkDir)
	}
	own := filepath.ToSlash(pol.Workspace)
	for _, other := range o.others {
		if other == own {
			continue
		}
		pol.Others = append(pol.Others, other)
		writable := pol.Mode == policy.WorkspaceWrite && slices.Contains(pol.WritableRoots, pol.Workspace)
		if policy.Below(own, other) && !writable {
			pol.Paths.Readable = append(slices.Clip(pol.Paths.Readable), pol.Workspace)
		}
	}
	pol.Hidden = append(pol.Hidden, pol.Others...)
	slices.Sort(pol.Hidden)
	pol.Hidden = slices.Compact(pol.Hidden)
}

// forCaller returns the options for one of the callers that h allows, whose overrides win over the
// command line.
func (o *Options) forCaller(c httpauth.Caller, v config.Overrides, h config.HTTP) *Options {
	q := *o
	q.Caller = c.Name
	q.others = o.workspaces(h)
	if v.Workspace != "" {
		q.Dir, q.AddDirs = v.Workspace, nil
	}
	q.Approval = cmp.Or(v.ApprovalPolicy, o.Approval)
	if v.SandboxMode != "" {
		q.Sandbox, q.Profile = v.SandboxMode, ""
	}
	if v.Permissions != "" {
		q.Sandbox, q.Profile = "", v.Permissions
	}
	if v.Servers != nil {
		q.OnlyServers = v.Servers
	}
	return &q
}

// recoverCallers recovers the unfinished patches in the workspaces of all callers, before any of
// them connects. Errors show when the caller does.
func (o *Options) recoverCallers(c config.HTTP) {
	of := map[string]config.Overrides{"token:default": {}, "http.oauth": c.OAuth.Overrides}
	for name, t := range c.Tokens {
		of["token:"+name] = t.Overrides
	}
	for name, v := range of {
		q := o.forCaller(httpauth.Caller{Name: name}, v, c)
		q.AnswersFirst = true // no downstream server starts
		if s, err := q.Load(); err != nil || !s.unfinishedPatches() {
			continue
		}
		if a, err := q.Open(); err == nil { // this recovers them
			a.Close()
		}
	}
}

// checkCallers validates the settings of all callers before any of them connects.
func (o *Options) checkCallers(c config.HTTP) error {
	check := func(what string, v config.Overrides) error {
		s, err := o.forCaller(httpauth.Caller{Name: what}, v, c).Load()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if len(s.Policy.Others) > 0 && (s.Policy.Mode == policy.DangerFullAccess || !CanConfine()) {
			s.Log.Warn("no sandbox keeps this caller's commands from the workspaces and temporary files of the others",
				"caller", what)
		}
		if v.Workspace != "" && s.NoRoots != "" {
			return fmt.Errorf("%s: workspace: %s", what, s.NoRoots)
		}
		return nil
	}
	for name, t := range c.Tokens {
		if err := check("http.tokens."+name, t.Overrides); err != nil {
			return err
		}
	}
	if c.OAuth.Enabled() {
		return check("http.oauth", c.OAuth.Overrides)
	}
	return nil
}
