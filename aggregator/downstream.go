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

	"toolgate/internal/stdio"
	"toolgate/policy"
)

// A Spec is what the config says of one downstream server.
type Spec struct {
	Name   string
	Digest string // of the config's entry: when it changes, a saved catalogue is stale

	Launch func() (*Process, error) // starts a server on stdio; nil for one over HTTP
	HTTP   *HTTP                    // reaches a server over HTTP; nil for one on stdio

	Prefix     *string // of its tools' names; nil: mcp__NAME__
	NameBudget int     // 0: DefaultNameBudget
	Verbatim   bool    // names and schemas are published as they are
	SchemaMax  int     // bytes of a tool's input schema; 0: no limit

	Lazy     bool          // started at the first use
	IdleStop time.Duration // ended when unused for so long; 0: never
	Required bool          // a first listing waits for it
	Connect  bool          // and only until it is connected, not until it has listed its tools

	StartupTimeout time.Duration              // of handshake and first listing
	ToolTimeout    func(string) time.Duration // of a call without a sign of life

	Published func(tool string) bool // by raw name; nil: all
	Approval  func(tool string) policy.ToolApproval
	Trusted   bool
	Profile   policy.Profile        // what its process may touch
	Limit     func(tool string) int // tokens of a result, 0: none
}

// A State is where a downstream server is in its life.
type State string

const (
	Stopped     State = "stopped"  // nobody needs it now
	Starting    State = "starting" // a process or connection is being opened
	Ready       State = "ready"
	Backoff     State = "backoff" // it failed and is tried again later
	Failed      State = "failed"  // it failed in a way that trying again does not mend
	LoginNeeded State = "login needed"
)

// A Status says how a downstream server is.
type Status struct {
	Name   string   `json:"name"`
	State  State    `json:"state"`
	Error  string   `json:"error,omitempty"` // why it does not run
	Tools  int      `json:"tools"`           // published
	Faults []string `json:"faults,omitempty"`
	Level  string   `json:"level,omitempty"` // sandbox level of its process
	Server string   `json:"version,omitempty"`
}

// A Downstream is one server from the config. One goroutine, run, owns its
// process or connection; everybody else asks for the session it has open.
type Downstream struct {
	spec    Spec
	profile string // digest of the profile it is held to
	set     *Downstreams
	log     *slog.Logger

	wake    chan struct{} // wanted has grown
	ctx     context.Context
	cancel  context.CancelCauseFunc
	stopped chan struct{} // closed when run has returned

	mu       sync.Mutex
	state    State
	session  *session      // when Ready
	err      error         // of the last attempt or run
	attempts int           // finished ones
	failed   error         // how the last of them ended
	wanted   int           // attempts that somebody needs: more than there were mean another
	changed  chan struct{} // closed and made anew with every change of the above
	users    int           // calls under way
	lastUse  time.Time
	saved    *Catalog      // nil: never seen
	listed   chan struct{} // closed when the catalogue is known, or will not be soon
	listOnce sync.Once

	published *publishedServer // under the set's lock; nil: to be made
}

// errShutdown is why everything stops at the end of the program.
var errShutdown = errors.New("toolgate is ending")

// A permanentError is a failure that trying again does not mend.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

const (
	firstBackoff = 250 * time.Millisecond
	maxBackoff   = time.Minute
	stableAfter  = 10 * time.Second // a run so long forgets earlier failures
	wakeAfter    = time.Second      // a call may cut a back-off of which so much has passed
	wakeAfterRun = time.Second / 10 // the same, where the server had been running
)

func newDownstream(set *Downstreams, spec Spec) *Downstream {
	d := &Downstream{
		spec:    spec,
		profile: spec.Profile.Digest(),
		set:     set,
		log:     set.log.With("downstream", spec.Name),
		wake:    make(chan struct{}, 1),
		stopped: make(chan struct{}),
		state:   Stopped,
		changed: make(chan struct{}),
		listed:  make(chan struct{}),
	}
	d.ctx, d.cancel = context.WithCancelCause(set.ctx)
	saved, err := loadCatalog(d.file(), spec.Digest)
	if err != nil {
		d.log.Warn("saved catalogue not read", "err", err)
	}
	if saved != nil {
		d.saved = saved
		d.markListed()
	}
	return d
}

func (d *Downstream) file() string { return catalogFile(d.set.opts.StateDir, d.spec.Name) }

// markListed says that nobody need wait for the catalogue any longer.
func (d *Downstream) markListed() { d.listOnce.Do(func() { close(d.listed) }) }

// set changes the state under d.mu and tells who waits.
func (d *Downstream) setState(state State, s *session, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state, d.session, d.err = state, s, err
	d.lastUse = time.Now()
	close(d.changed)
	d.changed = make(chan struct{})
}

// run owns the server until the context ends: it starts it, waits for its end
// and starts it again.
func (d *Downstream) run() {
	defer close(d.stopped)
	defer d.markListed()
	select {
	case <-d.set.startable:
	case <-d.ctx.Done():
	}
	wanted := !d.spec.Lazy || d.catalogUnknown()
	failures := 0
	for d.ctx.Err() == nil {
		if !wanted {
			d.setState(Stopped, nil, d.lastErr())
			if !d.waitWanted() {
				break
			}
		}
		d.setState(Starting, nil, nil)
		began := time.Now()
		s, err := d.start(d.ctx)
		d.recordAttempt(err)
		soonest := wakeAfter
		if err == nil {
			soonest = wakeAfterRun
			wanted, err = d.serve(s)
			if time.Since(began) > stableAfter {
				failures = 0
			}
			if err == nil { // ended because nobody used it
				continue
			}
			if failures++; failures == 1 && wanted && d.ctx.Err() == nil {
				d.log.Warn("downstream closed, starting it again", "err", err)
				continue // at once: whoever calls next must not wait
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

func (d *Downstream) catalogUnknown() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.saved == nil
}

// requestAttempt says that another attempt is needed, unless there has been one since
// that after so many.
func (d *Downstream) requestAttempt() {
	d.mu.Lock()
	d.wanted = max(d.wanted, d.attempts+1)
	d.mu.Unlock()
	d.signal()
}

func (d *Downstream) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// isWanted reports whether somebody needs an attempt that there was not yet. A
// signal alone does not say so: it may have come before the last attempt, for
// that one.
func (d *Downstream) isWanted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wanted > d.attempts
}

// waitWanted waits until somebody needs the server, and reports false when
// the end came first.
func (d *Downstream) waitWanted() bool {
	for !d.isWanted() {
		select {
		case <-d.wake:
		case <-d.ctx.Done():
			return false
		}
	}
	return true
}

// waitRetry waits until somebody needs a server that failed for good, or has
// logged in.
func (d *Downstream) waitRetry() {
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	var login chan struct{}
	if d.spec.HTTP != nil && d.spec.HTTP.Tokens != nil {
		login = make(chan struct{})
		go func() { // ends with ctx
			d.spec.HTTP.Tokens.Changed(ctx)
			close(login)
		}()
	}
	for !d.isWanted() {
		select {
		case <-d.wake:
		case <-login:
			return
		case <-d.ctx.Done():
			return
		}
	}
}

// recordAttempt notes how a start ended.
func (d *Downstream) recordAttempt(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attempts++
	d.failed = err
}

func (d *Downstream) lastErr() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// afterFailure waits until the server may be tried again, or the end. From
// soonest on a call may cut the wait.
func (d *Downstream) afterFailure(err error, failures int, soonest time.Duration) {
	if _, ok := errors.AsType[permanentError](err); ok {
		d.log.Error("downstream failed", "err", err)
		state := Failed
		if isLoginError(err) {
			state = LoginNeeded
		}
		d.setState(state, nil, err)
		d.markListed()
		d.waitRetry()
		return
	}
	wait := backoff(failures)
	d.log.Warn("downstream not running", "err", err, "again_in", wait.Round(time.Millisecond))
	d.setState(Backoff, nil, err)
	d.markListed() // and why, for who asks now
	timer := time.NewTimer(wait)
	defer timer.Stop()
	cuttable := time.NewTimer(min(wait, soonest))
	defer cuttable.Stop()
	var wake chan struct{}
	for {
		select {
		case <-timer.C:
			return
		case <-cuttable.C:
			wake = d.wake
		case <-wake:
		case <-d.ctx.Done():
			return
		}
		if wake != nil && d.isWanted() {
			return
		}
	}
}

// backoff returns how long to wait after so many failures in a row: doubling,
// up to a ceiling, with a third of chance in it, so that servers which fell
// together do not come back together.
func backoff(failures int) time.Duration {
	wait := maxBackoff
	if failures < 9 {
		wait = min(firstBackoff<<failures, maxBackoff)
	}
	return wait - time.Duration(rand.Int64N(int64(wait)/3))
}

// start opens a session.
func (d *Downstream) start(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.spec.StartupTimeout, fmt.Errorf("no handshake within %v", d.spec.StartupTimeout))
	defer cancel()
	s := &session{d: d, exited: make(chan struct{}), relist: make(chan struct{}, 1), pending: map[*request]*activeRequest{}}
	if d.spec.HTTP != nil {
		if err := s.connectHTTP(ctx); err != nil {
			close(s.exited)
			return nil, err
		}
		close(s.exited)
		return s, nil
	}
	proc, err := d.spec.Launch()
	if err != nil {
		close(s.exited)
		return nil, err
	}
	s.proc = proc
	conn := newConn(proc.Out, proc.In, stdio.Limits{Line: maxMessage}, s.handlers())
	s.link = conn
	if proc.Err != nil {
		go logLines(d.log, proc.Err) // ends with the process's stderr
	}
	go func() { // ends with the process
		s.waitErr = proc.Wait()
		select {
		case <-conn.Done(): // all it wrote has been read
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

func logLines(log *slog.Logger, r io.Reader) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		log.Info("downstream says", "line", s.Text())
	}
	io.Copy(io.Discard, r) // a line too long for the scanner must not block the server
}

// maxMessage is the longest message that a downstream server may send over
// stdio, in bytes.
const maxMessage = 80 << 20

func (d *Downstream) endError(err error) error {
	if err == nil {
		return errors.New("its process ended by itself")
	}
	return fmt.Errorf("its process ended: %w", err)
}

// serve keeps the session until it ends. It returns nil when it ended because
// nobody used it, and whether the server is to be started again at once.
func (d *Downstream) serve(s *session) (wanted bool, err error) {
	d.log.Debug("downstream ready", "version", s.version)
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
	idle := time.NewTicker(d.idleCheck())
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
				s.close(errors.New("nobody used it"))
				return false, nil
			}
		case <-d.ctx.Done():
			s.close(errShutdown)
			return false, errShutdown
		}
	}
}

func (d *Downstream) idleCheck() time.Duration {
	if d.spec.IdleStop == 0 {
		return time.Hour
	}
	return max(d.spec.IdleStop/4, time.Millisecond)
}

func (d *Downstream) inUse() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.users > 0
}

// stopIdle takes the session away when it has been idle for long enough.
func (d *Downstream) stopIdle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.spec.IdleStop == 0 || d.users > 0 || d.set.tasks.hasRunning(d.spec.Name) || time.Since(d.lastUse) < d.spec.IdleStop {
		return false
	}
	d.state, d.session = Stopped, nil
	return true
}

// keepCatalog lists what the server offers, and again when it changes.
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

// Times of listing again.
const (
	minPoll   = 5 * time.Second // however short a server's ttl is
	retryList = 30 * time.Second
)

// list asks for the catalogue and returns when to ask again, 0 for when the
// server says so.
func (d *Downstream) list(ctx context.Context, s *session) time.Duration {
	lctx, cancel := context.WithTimeoutCause(ctx, d.spec.StartupTimeout, fmt.Errorf("no listing within %v", d.spec.StartupTimeout))
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

// setCatalog makes c the catalogue, saves it and tells the set what changed.
func (d *Downstream) setCatalog(c *Catalog) {
	d.pinNew(c)
	d.mu.Lock()
	before := d.saved
	d.saved = c
	d.mu.Unlock()
	if change := compare(before, c); change != (Change{}) {
		if err := c.save(d.file()); err != nil {
			d.log.Warn("catalogue not saved", "err", err)
		}
		d.set.republish(change)
	}
	d.markListed()
}

// markLost says that s turned out to have ended.
func (d *Downstream) markLost(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session == s {
		d.state, d.session = Starting, nil
	}
}

// acquire returns the open session, starting the server when it does not run. It
// waits for one attempt at most. The caller must call release.
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
		// Not the state alone tells: by now the next attempt may be under way.
		over := d.attempts > seen && (d.failed != nil || d.state == Backoff || d.state == Failed || d.state == LoginNeeded)
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

// A LostError says that a downstream server ended, or was ended, while it
// worked on a request. What it had done by then is not known.
type LostError struct {
	Server string
	Cause  error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the server %s ended while it worked on this (%v); what it had done by then is unknown; check before you repeat it, the server is being started again", e.Server, e.Cause)
}

func (e *LostError) Unwrap() error { return e.Cause }

// A TimeoutError says that a downstream server gave no sign of life for too
// long.
type TimeoutError struct {
	Server string
	After  time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("the server %s gave no answer within %v; it was told to stop, but what it has done is unknown", e.Server, e.After)
}

// do sends r and returns the result. A request that the server cannot have
// received, or that may safely be done twice, is repeated once with a new
// session when the old one has ended.
func (d *Downstream) do(ctx context.Context, r *request, timeout time.Duration, repeatable bool) (json.RawMessage, error) {
	for try := 0; ; try++ {
		s, err := d.acquire(ctx)
		if err != nil {
			return nil, err
		}
		attempt := *r
		res, err := d.callWithTimeout(ctx, s, &attempt, timeout)
		d.release()
		if errors.Is(err, errRequestLost) && ctx.Err() == nil {
			if try == 0 && repeatable {
				continue
			}
			return nil, &LostError{Server: d.spec.Name, Cause: err}
		}
		if errors.Is(err, errNotSent) && !errors.Is(err, ErrClosed) { // over HTTP: nobody is there
			s.link.Close(err)
		} else if err == nil || !errors.Is(err, ErrClosed) || ctx.Err() != nil {
			return res, err
		}
		d.markLost(s)
		if try == 0 && (repeatable || errors.Is(err, errNotSent)) {
			continue
		}
		return nil, &LostError{Server: d.spec.Name, Cause: err}
	}
}

// pingTimeout is how long a server that let a call time out may take to show
// that it is alive.
const pingTimeout = 5 * time.Second

// callWithTimeout makes the call and gives it up when the server shows no sign of life
// for timeout. Progress is such a sign, and time that a question to the client
// takes does not count.
func (d *Downstream) callWithTimeout(ctx context.Context, s *session, r *request, timeout time.Duration) (json.RawMessage, error) {
	if timeout <= 0 {
		return s.call(ctx, r)
	}
	late := &TimeoutError{Server: d.spec.Name, After: timeout}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := newIdleTimer(timeout, func() { cancel(late) })
	defer timer.stop()
	if progress := r.progress; progress != nil {
		r.progress = func(p json.RawMessage) {
			timer.restart()
			progress(p)
		}
	}
	if client := r.client; client != nil {
		r.client = func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			timer.hold()
			defer timer.resume()
			return client(ctx, method, params)
		}
	}
	res, err := s.call(ctx, r)
	if err != nil && context.Cause(ctx) == error(late) {
		go d.checkAlive(s) // ends within pingTimeout
		return nil, late
	}
	return res, err
}

// checkAlive ends a session whose server does not even answer a ping.
func (d *Downstream) checkAlive(s *session) {
	if s.stateless {
		return // there is no ping any more, and no session to lose
	}
	ctx, cancel := context.WithTimeout(d.ctx, pingTimeout)
	defer cancel()
	_, err := s.link.do(ctx, &request{method: "ping"})
	if err != nil && ctx.Err() != nil && d.ctx.Err() == nil {
		d.log.Warn("downstream hangs, starting it again")
		d.markLost(s)
		s.link.Close(errors.New("it gave no answer to a ping"))
	}
}

// currentSession returns the session that is open now, nil when there is none.
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
