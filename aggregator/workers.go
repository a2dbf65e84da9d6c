package aggregator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"toolgate/internal/bytestring"
	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// A Process is a started backend that speaks MCP on its standard streams.
type Process struct {
	In     io.WriteCloser  // its stdin; closing it asks the process to end
	Out    io.Reader       // its stdout
	Err    io.Reader       // its stderr, may be nil
	Level  string          // sandbox level it runs at
	Wait   func() error    // returns once it has ended; called once
	Kill   func() error    // ends it and everything it started, at once
	Rescan func() error    // updates the sandbox for new files, see [sandbox.Cmd.Rescan]; may be nil
	Notes  func() []string // see [sandbox.Cmd.Notes]; may be nil
	Term   func() error    // asks it and what it started to end; may be nil

	// Enter is called before each call of a worker, and leave after it, which returns
	// the hosts that were used meanwhile. It may be nil.
	Enter func(context.Context, gate.Call) (leave func() []policy.HostUse)
}

// exitGrace is the usual time between the steps of stopping a process.
const exitGrace = 2 * time.Second

// end closes the process's stdin and takes the steps, each after grace, until it has
// exited. It returns when it has.
func (p *Process) end(exited <-chan struct{}, grace time.Duration, steps ...func() error) {
	p.In.Close()
	for _, step := range steps {
		select {
		case <-exited:
			return
		case <-time.After(grace):
		}
		if step != nil {
			step()
		}
	}
	<-exited
}

// A LaunchFunc starts a worker confined to a profile.
type LaunchFunc func(policy.Profile) (*Process, error)

// Workers keeps the workers that run the built-in tools: one for each caller and
// profile, started at the first call and again after it has died. Close stops them all.
// It may be used concurrently.
type Workers struct {
	launch LaunchFunc
	log    *slog.Logger

	mu       sync.Mutex
	running  map[string]*worker
	sessions map[string]*worker // that run the sessions of callers
	retired  []*worker          // replaced, but still in use
	ending   sync.WaitGroup
	closed   bool
}

// NewWorkers returns an empty set whose workers are started by launch.
func NewWorkers(launch LaunchFunc, log *slog.Logger) *Workers {
	return &Workers{
		launch:   launch,
		log:      log,
		running:  map[string]*worker{},
		sessions: map[string]*worker{},
	}
}

// A worker is one running worker process.
type worker struct {
	key     string // in Workers.running
	caller  string
	profile policy.Profile

	ready chan struct{} // closed when link or err is set
	link  *stdioLink
	proc  *Process
	err   error
	ended chan struct{} // closed when the process has been waited for

	// Guarded by the lock of Workers.
	calls   int             // under way
	open    map[string]bool // sessions that it left running
	retired bool            // to be stopped when idle
}

// call runs a call on the worker for its caller and profile f and returns the
// CallToolResult's bytes. If the worker has died before it got the request, a new one is
// started; if it dies during the call, that is an error. ran holds the level and the hosts.
// The caller must release wk, which is nil with an error.
func (w *Workers) call(ctx context.Context, c gate.Call, f policy.Profile) (
	res json.RawMessage, ran gate.Outcome, wk *worker, err error,
) {
	for try := 0; ; try++ {
		if wk, err = w.acquire(ctx, c, f); err != nil {
			return nil, ran, nil, err
		}
		res, ran, err = wk.run(ctx, c)
		if err == nil {
			return res, ran, wk, nil
		}
		w.release(wk)
		if !errors.Is(err, ErrClosed) {
			return res, ran, nil, err
		}
		w.drop(wk)
		if errors.Is(err, errNotSent) && try == 0 {
			continue
		}
		return nil, ran, nil, fmt.Errorf("the worker ended while it ran this call (%w); what the call had done by "+
			"then is unknown; check before you repeat it, the next call starts a new worker", wk.cause())
	}
}

// run runs one call.
func (wk *worker) run(ctx context.Context, c gate.Call) (res json.RawMessage, ran gate.Outcome, err error) {
	ran.Level = wk.proc.Level
	if wk.proc.Notes != nil {
		ran.Notes = wk.proc.Notes()
	}
	if wk.proc.Enter != nil {
		leave := wk.proc.Enter(ctx, c)
		defer func() { ran.Hosts = leave() }()
	}
	r := &request{method: "tools/call", body: toolCall(c.Action.Tool, c.Arguments)}
	r.Progress = c.Progress
	res, err = wk.link.do(ctx, r)
	return res, ran, err
}

// Warm starts the worker for caller and profile unless it runs, so that the first call
// need not wait for it. That call reports any failure.
func (w *Workers) Warm(ctx context.Context, caller string, f policy.Profile) {
	if _, _, err := w.get(ctx, caller, f); err != nil {
		w.log.Debug("worker not started ahead of time", "err", err)
	}
}

// cause returns why the worker ended. It waits a moment for the process to exit.
func (wk *worker) cause() error {
	select {
	case <-wk.ended:
		return cmp.Or(wk.err, errors.New("exit status 0"))
	case <-time.After(time.Second):
		return errors.New("its output ended")
	}
}

// get returns the worker for caller and profile, and whether it has started it.
// Concurrent callers get the same worker.
func (w *Workers) get(ctx context.Context, caller string, f policy.Profile) (wk *worker, started bool, err error) {
	profile, _ := json.Marshal(bytestring.Escape(f)) // strings and slices of them always marshal
	k := caller + "\x00" + string(profile)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil, false, errors.New("toolgate is ending")
	}
	wk, ok := w.running[k]
	if !ok {
		wk = &worker{
			key:     k,
			caller:  caller,
			profile: f,
			ready:   make(chan struct{}),
			ended:   make(chan struct{}),
			open:    map[string]bool{},
		}
		w.running[k] = wk
		go w.start(wk) // ends when the worker has ended
	}
	w.mu.Unlock()
	select {
	case <-wk.ready:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	if wk.link == nil {
		w.drop(wk)
		return nil, false, fmt.Errorf("starting the worker: %w", wk.err)
	}
	return wk, !ok, nil
}

// drop forgets wk, so that the next call starts another.
func (w *Workers) drop(wk *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[wk.key] == wk {
		delete(w.running, wk.key)
	}
}

func (w *Workers) start(wk *worker) {
	defer close(wk.ended)
	proc, err := w.launch(wk.profile)
	if err != nil {
		wk.err = err
		close(wk.ready)
		return
	}
	wk.proc = proc
	if proc.Err != nil {
		go logLines(w.log, "worker says", proc.Err) // ends with the worker's stderr
	}
	link := newStdioLink(proc.Out, proc.In, nil)
	if err := handshake(link); err != nil {
		proc.Kill()
		wk.err = errors.Join(err, proc.Wait())
		close(wk.ready)
		return
	}
	wk.link = link
	w.log.Debug("worker started", "caller", wk.caller, "profile", wk.profile.String(), "level", proc.Level)
	close(wk.ready)
	wk.err = proc.Wait()
	link.Close(errors.New("the worker ended"))
	w.drop(wk)
	w.log.Debug("worker ended", "caller", wk.caller, "err", wk.err)
}

// handshake opens the MCP session. There is nothing to negotiate with our own program.
func handshake(l link) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := l.do(ctx, &request{method: "initialize", body: rawjson.Object{
		{Key: "protocolVersion", Value: rawjson.Quote(sessionVersion)},
		{Key: "capabilities", Value: json.RawMessage("{}")},
		{Key: "clientInfo", Value: json.RawMessage(`{"name":"toolgate","version":"1"}`)},
	}})
	if err != nil {
		return err
	}
	return l.send(envelope{Method: "notifications/initialized", Params: json.RawMessage("{}")})
}

// Close stops all workers and waits for them: it closes their stdin, and kills those that
// have not exited within two seconds.
func (w *Workers) Close() {
	w.mu.Lock()
	w.closed = true
	all := append(slices.Collect(maps.Values(w.running)), w.retired...)
	w.mu.Unlock()
	for _, wk := range all {
		w.ending.Go(wk.end)
	}
	w.ending.Wait()
}

func (wk *worker) end() {
	<-wk.ready
	if wk.link != nil {
		wk.proc.end(wk.ended, exitGrace, wk.proc.Kill)
	}
}
