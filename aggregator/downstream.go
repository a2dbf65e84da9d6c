package aggregator

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"toolgate/policy"
)

// A Spec configures one downstream server.
type Spec struct {
	Name   string
	Digest string // of the config entry; a catalog saved under another digest is stale

	Launch func() (*Process, error) // starts a stdio server; nil for HTTP
	HTTP   *HTTP                    // connects to an HTTP server; nil for stdio

	Prefix     *string // of tool names; nil: mcp__NAME__
	NameBudget int     // longest tool name; 0: schema.DefaultNameBudget
	Verbatim   bool    // names and schemas are published unchanged
	SchemaMax  int     // longest input schema in bytes; 0: no limit

	Lazy     bool          // start at first use
	IdleStop time.Duration // stop after this long without use; 0: never
	Required bool          // the first listing waits for it
	Connect  bool          // with Required: wait for the connection only, not for the tools

	StartupTimeout time.Duration              // of handshake and first listing
	ToolTimeout    func(string) time.Duration // of a call without progress

	Published func(tool string) bool // by raw name; nil: all are
	Approval  func(tool string) policy.ToolApproval
	Trusted   bool
	Profile   policy.Profile        // of its process
	Limit     func(tool string) int // most tokens of a result; 0: no limit
}

// A State is the state of a downstream server.
type State string

const (
	Stopped     State = "stopped"  // not in use
	Starting    State = "starting" // process or connection being opened
	Ready       State = "ready"
	Backoff     State = "backoff" // failed, to be retried
	Failed      State = "failed"  // failed for good; retried only on request
	LoginNeeded State = "login needed"
)

// A Status describes the state of a downstream server.
type Status struct {
	Name   string   `json:"name"`
	State  State    `json:"state"`
	Error  string   `json:"error,omitempty"` // why it is not running
	Tools  int      `json:"tools"`           // number published
	Faults []string `json:"faults,omitempty"`
	Level  string   `json:"level,omitempty"` // sandbox level of its process
	Server string   `json:"version,omitempty"`
}

// A Downstream is one server from the config. One goroutine, run, owns its
// process or connection; callers acquire the open session.
type Downstream struct {
	spec    Spec
	profile string // digest of its sandbox profile
	set     *Downstreams
	log     *slog.Logger

	ctx     context.Context
	cancel  context.CancelCauseFunc
	stopped chan struct{} // closed when run has returned

	markListed func() // closes listed, at the first call

	mu       sync.Mutex
	state    State
	session  *session      // set when Ready
	err      error         // of the last attempt or session
	attempts int           // number of finished start attempts
	failed   error         // error of the last attempt
	wanted   int           // number of attempts requested; above attempts: start again
	changed  chan struct{} // closed and replaced at every change of the above
	users    int           // calls under way
	lastUse  time.Time
	saved    *Catalog      // nil: never listed
	listed   chan struct{} // closed when the catalog is known or listing has failed

	published *publishedServer // guarded by the set's mu; nil: to be built
}

// errShutdown is the cause when toolgate itself shuts down.
var errShutdown = errors.New("toolgate is shutting down")

// A permanentError is a failure that a retry cannot fix.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

const (
	firstBackoff = 250 * time.Millisecond
	maxBackoff   = time.Minute
	stableAfter  = 10 * time.Second // a session this long resets the failure count
	wakeAfter    = time.Second      // a call may end a back-off after this long
	wakeAfterRun = time.Second / 10 // the same, if the server had been running
)

func newDownstream(set *Downstreams, spec Spec) *Downstream {
	d := &Downstream{
		spec:    spec,
		profile: spec.Profile.Digest(),
		set:     set,
		log:     set.log.With("downstream", spec.Name),
		stopped: make(chan struct{}),
		state:   Stopped,
		changed: make(chan struct{}),
		listed:  make(chan struct{}),
	}
	d.markListed = sync.OnceFunc(func() { close(d.listed) })
	d.ctx, d.cancel = context.WithCancelCause(set.ctx)
	saved, err := loadCatalog(d.file(), spec.Digest)
	if err != nil {
		d.log.Warn("reading the saved catalog failed", "err", err)
	}
	if saved != nil {
		d.saved = saved
		d.markListed()
	}
	return d
}

func (d *Downstream) file() string { return catalogFile(d.set.opts.StateDir, d.spec.Name) }

// setState changes the state and wakes those who wait for a change.
func (d *Downstream) setState(state State, s *session, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state, d.session, d.err = state, s, err
	d.lastUse = time.Now()
	d.wake()
}

// wake wakes those who wait for a change. d.mu must be held.
func (d *Downstream) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// run starts the server, waits for it to end and starts it again, until d.ctx
// ends.
func (d *Downstream) run() {
	defer close(d.stopped)
	defer d.markListed()
	select {
	case <-d.set.startable:
	case <-d.ctx.Done():
	}
	wanted := !d.spec.Lazy || d.catalog() == nil
	failures := 0
	for d.ctx.Err() == nil {
		if !wanted {
			d.setState(Stopped, nil, d.err) // which only this goroutine writes
			if d.waitWanted(d.ctx); d.ctx.Err() != nil {
				break
			}
		}
		d.setState(Starting, nil, nil)
		began := time.Now()
		s, err := d.start(d.ctx)
		d.mu.Lock()
		d.attempts++
		d.failed = err
		d.mu.Unlock()
		soonest := wakeAfter
		if err == nil {
			soonest = wakeAfterRun
			wanted, err = d.serve(s)
			if time.Since(began) > stableAfter {
				failures = 0
			}
			if err == nil { // stopped because it was idle
				continue
			}
			if failures++; failures == 1 && wanted && d.ctx.Err() == nil {
				d.log.Warn("downstream closed, restarting it", "err", err)
				continue // at once, so that the next caller need not wait
			}
		} else {
			failures++
		}
		if d.ctx.Err() != nil {
			break
		}
		d.afterFailure(err, failures, soonest)
		wanted = !d.spec.Lazy || d.inUse()
	}
	d.setState(Stopped, nil, errShutdown)
}

// requestAttempt requests another start attempt, unless one is requested already.
func (d *Downstream) requestAttempt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wanted <= d.attempts {
		d.wanted = d.attempts + 1
		d.wake()
	}
}

// waitWanted waits until an attempt is requested or ctx ends.
func (d *Downstream) waitWanted(ctx context.Context) {
	for {
		d.mu.Lock()
		wanted, changed := d.wanted > d.attempts, d.changed
		d.mu.Unlock()
		if wanted {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// afterFailure waits until the server may be started again or d.ctx ends. A call
// may end the wait once soonest has passed.
func (d *Downstream) afterFailure(err error, failures int, soonest time.Duration) {
	if _, ok := errors.AsType[permanentError](err); ok {
		d.log.Error("downstream failed", "err", err)
		state := Failed
		if isLoginError(err) {
			state = LoginNeeded
		}
		d.setState(state, nil, err)
		d.markListed()
		ctx, cancel := context.WithCancel(d.ctx)
		defer cancel()
		if d.spec.HTTP != nil && d.spec.HTTP.Tokens != nil {
			go func() { // ends with ctx
				d.spec.HTTP.Tokens.Changed(ctx) // the user has logged in
				cancel()
			}()
		}
		d.waitWanted(ctx)
		return
	}
	wait := backoff(failures)
	d.log.Warn("downstream not running", "err", err, "retry_in", wait.Round(time.Millisecond))
	d.setState(Backoff, nil, err)
	d.markListed() // waiting callers get the error
	soonest = min(wait, soonest)
	select {
	case <-time.After(soonest):
	case <-d.ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, wait-soonest)
	defer cancel()
	d.waitWanted(ctx)
}

// backoff returns the delay after a number of consecutive failures. It doubles up
// to maxBackoff, with a random part of one third so that servers that failed
// together do not restart together.
func backoff(failures int) time.Duration {
	wait := maxBackoff
	if failures < 9 {
		wait = min(firstBackoff<<failures, maxBackoff)
	}
	return wait - time.Duration(rand.Int64N(int64(wait)/3))
}

// start starts the server and opens a session with it.
func (d *Downstream) start(ctx context.Context) (*session, error) {
	late := fmt.Errorf("no handshake within %v", d.spec.StartupTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, d.spec.StartupTimeout, late)
	defer cancel()
	s := &session{
		d:        d,
		exited:   make(chan struct{}),
		relist:   make(chan struct{}, 1),
		pending:  map[*request]bool{},
		logLevel: &logLevel{busy: make(chan struct{}, 1), requests: map[*request]string{}},
	}
	if d.spec.HTTP != nil {
		return s, s.connectHTTP(ctx)
	}
	proc, err := d.spec.Launch()
	if err != nil {
		return nil, err
	}
	s.proc = proc
	conn := newStdioLink(proc.Out, proc.In, s)
	s.link = conn
	if proc.Err != nil {
		go logLines(d.log, "downstream stderr", proc.Err) // ends with the process's stderr
	}
	go func() { // ends with the process
		s.waitErr = proc.Wait()
		select {
		case <-conn.Done(): // everything it wrote has been read
		case <-time.After(time.Second):
		}
		conn.Close(d.endError(s.waitErr))
		close(s.exited)
	}()
	if err := s.connect(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		s.close(errors.New("the handshake failed"))
		if errors.Is(err, ErrClosed) {
			err = d.endError(s.waitErr)
		}
		return nil, err
	}
	return s, nil
}

// logLines logs what a backend writes to stderr, line by line.
func logLines(log *slog.Logger, msg string, r io.Reader) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		log.Info(msg, "line", s.Text())
	}
	io.Copy(io.Discard, r) // a line too long for the scanner must not block the backend
}

// maxMessage is the longest message in bytes that a server may send over stdio.
const maxMessage = 80 << 20

func (d *Downstream) endError(err error) error {
	if err == nil {
		return errors.New("its process exited")
	}
	return fmt.Errorf("its process exited: %w", err)
}

// serve keeps the session open until it ends. The error is nil if the session was
// closed because it was idle. wanted reports whether to restart the server at once.
func (d *Downstream) serve(s *session) (wanted bool, err error) {
	d.log.Debug("downstream ready", "version", s.initial.Version)
	ctx, cancel := context.WithCancelCause(d.ctx)
	var work sync.WaitGroup
	work.Go(func() { d.keepCatalog(ctx, s) }) // ends with ctx
	defer func() {
		cancel(errShutdown)
		work.Wait()
	}()
	d.setState(Ready, s, nil)
	if d.spec.Connect {
		d.markListed()
	}
	work.Go(func() { d.restore(ctx, s) }) // ends with ctx
	check := time.Hour
	if d.spec.IdleStop > 0 {
		check = max(d.spec.IdleStop/4, time.Millisecond)
	}
	idle := time.NewTicker(check)
	defer idle.Stop()
	for {
		select {
		case <-s.link.Done():
			d.setState(Starting, nil, nil)
			s.close(ErrClosed)
			if s.proc != nil {
				return !d.spec.Lazy || d.inUse(), d.endError(s.waitErr)
			}
			return !d.spec.Lazy || d.inUse(), errors.New("the connection ended")
		case <-idle.C:
			if d.stopIdle() {
				d.log.Debug("downstream idle, stopped")
				s.close(errors.New("it was idle"))
				return false, nil
			}
		case <-d.ctx.Done():
			s.close(errShutdown)
			return false, errShutdown
		}
	}
}

func (d *Downstream) inUse() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.users > 0
}

// stopIdle takes the session out of use if it has been idle for IdleStop, and
// reports whether it did.
func (d *Downstream) stopIdle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	busy := d.users > 0 || d.set.tasks.hasRunning(d.spec.Name)
	if d.spec.IdleStop == 0 || busy || time.Since(d.lastUse) < d.spec.IdleStop {
		return false
	}
	d.state, d.session = Stopped, nil
	return true
}

// keepCatalog lists what the server offers, again at every change, until ctx ends.
func (d *Downstream) keepCatalog(ctx context.Context, s *session) {
	for {
		again := d.list(ctx, s)
		var timer <-chan time.Time
		if again > 0 {
			timer = time.After(again)
		}
		select {
		case <-s.relist:
		case <-timer:
		case <-ctx.Done():
			return
		}
	}
}

// Intervals between listings.
const (
	minPoll   = 5 * time.Second // even if the server's ttl is shorter
	retryList = 30 * time.Second
)

// list fetches the catalog. It returns when to list again, 0 if the server
// announces changes.
func (d *Downstream) list(ctx context.Context, s *session) time.Duration {
	late := fmt.Errorf("no listing within %v", d.spec.StartupTimeout)
	lctx, cancel := context.WithTimeoutCause(ctx, d.spec.StartupTimeout, late)
	defer cancel()
	c, ttl, err := s.catalog(lctx)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		if lctx.Err() != nil {
			err = context.Cause(lctx)
		}
		d.log.Warn("listing failed", "err", err)
		d.markListed()
		return retryList
	}
	d.setCatalog(c)
	if s.stateless {
		return max(ttl, minPoll)
	}
	return 0
}

// setCatalog replaces the catalog, saves it and publishes the changes.
func (d *Downstream) setCatalog(c *Catalog) {
	d.pinNew(c)
	d.mu.Lock()
	before := d.saved
	d.saved = c
	d.mu.Unlock()
	if change := compare(before, c); change != (Change{}) {
		if err := c.save(d.file()); err != nil {
			d.log.Warn("saving the catalog failed", "err", err)
		}
		d.set.republish(change)
	}
	d.markListed()
}

// markLost takes s out of use: it has turned out to be closed.
func (d *Downstream) markLost(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session == s {
		d.state, d.session = Starting, nil
	}
}

// acquire returns the open session and starts the server if it is not running. It
// waits for at most one start attempt. The caller must call release, unless there
// was an error.
func (d *Downstream) acquire(ctx context.Context) (*session, error) {
	d.set.Begin()
	d.mu.Lock()
	seen := d.attempts
	d.users++
	for {
		if d.session != nil {
			s := d.session
			d.mu.Unlock()
			return s, nil
		}
		// The state alone does not tell: the next attempt may already be under way.
		failed := d.failed != nil || d.state == Backoff || d.state == Failed || d.state == LoginNeeded
		over := d.attempts > seen && failed
		if over || d.ctx.Err() != nil {
			err := cmp.Or(d.err, d.failed)
			d.mu.Unlock()
			d.release()
			if d.ctx.Err() != nil {
				err = context.Cause(d.ctx)
			}
			return nil, fmt.Errorf("the server %s does not run: %w", d.spec.Name, err)
		}
		changed := d.changed
		d.mu.Unlock()
		d.requestAttempt()
		select {
		case <-changed:
		case <-d.ctx.Done():
		case <-ctx.Done():
			d.release()
			return nil, ctx.Err()
		}
		d.mu.Lock()
	}
}

func (d *Downstream) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users--
	d.lastUse = time.Now()
}

// A timeoutError reports that a downstream server made no progress on a request
// within the timeout.
type timeoutError struct {
	server  string
	timeout time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("the server %s gave no answer within %v; it was told to stop, but what it has done is unknown",
		e.server, e.timeout)
}

// do sends r and returns the result. If the session ends meanwhile, it repeats the
// request once in a new session, provided that the server cannot have received it
// or that it is repeatable.
func (d *Downstream) do(ctx context.Context, r *request) (json.RawMessage, error) {
	for try := 0; ; try++ {
		s, err := d.acquire(ctx)
		if err != nil {
			return nil, err
		}
		attempt := *r
		res, err := d.callWithTimeout(ctx, s, &attempt)
		d.release()
		switch {
		case errors.Is(err, errNotSent) && !errors.Is(err, ErrClosed): // over HTTP: the server is unreachable
			s.link.Close(err)
			d.markLost(s)
		case ctx.Err() != nil:
			return res, err
		case errors.Is(err, errRequestLost): // but the session is good
		case errors.Is(err, ErrClosed):
			d.markLost(s)
		default:
			return res, err
		}
		if try == 0 && (r.repeatable || errors.Is(err, errNotSent)) {
			continue
		}
		const format = "the server %s ended while it worked on this (%w); what it had done by then is unknown; " +
			"check before you repeat it, the server is being started again"
		return nil, fmt.Errorf(format, d.spec.Name, s.cause(err))
	}
}

// cause returns how the process of s exited, if it does within a second, or err.
func (s *session) cause(err error) error {
	if s.proc == nil {
		return err
	}
	select {
	case <-s.exited:
		return s.d.endError(s.waitErr)
	case <-time.After(time.Second):
		return err
	}
}

// pingTimeout is how long a server may take to answer a ping after a call has
// timed out.
const pingTimeout = 5 * time.Second

// callWithTimeout sends r and gives up when the server makes no progress for
// r.timeout. A progress notification restarts the clock, which stands still while
// the client answers a question.
func (d *Downstream) callWithTimeout(ctx context.Context, s *session, r *request) (json.RawMessage, error) {
	if r.timeout <= 0 {
		return s.call(ctx, r)
	}
	late := &timeoutError{d.spec.Name, r.timeout}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := newIdleTimer(r.timeout, func() { cancel(late) })
	defer timer.stop()
	if progress := r.Progress; progress != nil {
		r.Progress = func(p json.RawMessage) {
			timer.restart()
			progress(p)
		}
	}
	if client := r.Client; client != nil {
		r.Client = func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			timer.hold()
			defer timer.resume()
			return client(ctx, method, params)
		}
	}
	if inputs := r.Inputs; inputs != nil {
		r.Inputs = func(ctx context.Context, requests json.RawMessage) (json.RawMessage, error) {
			timer.hold()
			defer timer.resume()
			return inputs(ctx, requests)
		}
	}
	res, err := s.call(ctx, r)
	if err != nil && context.Cause(ctx) == error(late) {
		go d.checkAlive(s) // ends within pingTimeout
		return nil, late
	}
	return res, err
}

// checkAlive closes a session whose server does not answer a ping.
func (d *Downstream) checkAlive(s *session) {
	if s.stateless {
		return // the stateless protocol has neither ping nor session
	}
	ctx, cancel := context.WithTimeout(d.ctx, pingTimeout)
	defer cancel()
	_, err := s.link.do(ctx, &request{method: "ping"})
	if err != nil && ctx.Err() != nil && d.ctx.Err() == nil {
		d.log.Warn("downstream does not answer, restarting it")
		d.markLost(s)
		s.link.Close(errors.New("it did not answer a ping"))
	}
}

// currentSession returns the open session, nil when there is none.
func (d *Downstream) currentSession() *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.session
}

func (d *Downstream) catalog() *Catalog {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.saved
}
