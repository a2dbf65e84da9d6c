// Package app composes toolgate: from options and the config file it makes a policy, tools, backends and a server.
//
//	o := app.Options{Dir: dir, Stderr: os.Stderr}
//	a, err := o.Open()
//	defer a.Close()
//	err = a.Server.ServeStdio(ctx, os.Stdin, os.Stdout)
package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"toolgate/aggregator"
	"toolgate/aggregator/schema"
	"toolgate/internal/console"
	"toolgate/internal/gate"
	"toolgate/internal/limits"
	"toolgate/policy"
	"toolgate/server"
	"toolgate/tools/applypatch"
)

// An App is a composed gate with its server and backends. The caller closes it.
type App struct {
	*Settings
	Server      *server.Server
	Gate        *gate.Gate
	Workers     *aggregator.Workers
	Downstreams *aggregator.Downstreams
	Tools       ToolSettings
	Self        string // program that workers run, "" is this one

	removeTmp func()
	session   string // names the folder of this process below the workers' private folder
	caller    string // over HTTP: the caller that this gate belongs to
	observers *observers
	outputs   *console.Outputs // results kept for the console; nil without one

	console     sync.Once // starts the console, or keeps it from starting after Close
	stopConsole func()    // nil when it does not run
}

// afterGreeting is how long downstream servers wait to start after the first answer, because the
// client now asks for the lists, which come from the saved catalogs.
const afterGreeting = 150 * time.Millisecond

// Open composes an App. Downstream servers start after the first answer if AnswersFirst is set, else at once.
func (o *Options) Open() (*App, error) {
	if _, err := depth(); err != nil {
		return nil, err
	}
	s, err := o.Load()
	if err != nil {
		return nil, err
	}
	limits.Delegated() // before a process is started
	offered, err := s.builtins()
	if err != nil {
		return nil, err
	}
	removeTmp, err := s.MakePrivateTmp()
	if err != nil {
		return nil, err
	}
	a := &App{Settings: s, Tools: offered, caller: o.Caller, session: strings.ToLower(rand.Text()[:12])}
	a.removeTmp = removeTmp
	a.Workers = aggregator.NewWorkers(a.launch, s.Log)
	words, builtin := o.front(s, offered)
	a.Downstreams = s.newDownstreams(o.AnswersFirst)
	g := &gate.Gate{Policy: s.Policy, Run: a.run, Snapshot: a.snapshot}
	a.Gate = g
	if a.outputs = o.Outputs; a.outputs == nil && s.Config.Console.Enabled {
		a.outputs = &console.Outputs{}
	}
	if a.observers, err = s.observe(g); err != nil {
		removeTmp()
		return nil, err
	}
	a.observers.tell = o.OnEvent
	g.AddRule = s.Rules.Keep
	if waiting, err := s.ApprovalQueue(); err != nil {
		s.Log.Warn("no approval queue", "err", err)
	} else {
		waiting.Format = server.Message
		waiting.Wait = o.approvalWait(s)
		g.Queue = waiting.Ask
		if a.outputs != nil { // a console shows it
			g.AskInParallel = waiting.AskInParallel
		}
	}
	schemas := schema.Profile(s.Config.MCP.SchemaProfile)
	if schemas == "auto" {
		schemas = "" // chosen by the client's name
	}
	a.Server = server.New(server.Options{
		Version:      Version(),
		Instructions: words,
		Catalog:      builtin,
		Outside:      a.outside,
		Redirect: func(a policy.Action) (string, json.RawMessage, bool) {
			args, ok := applypatch.FromCommand(a)
			return "apply_patch", args, ok
		},
		TempDir:     os.TempDir(),
		Gate:        g,
		Downstreams: a.Downstreams,
		Schemas:     schemas,
		Listed:      offered.Listed,
		Log:         s.Log,
		Answered: func() {
			go a.Downstreams.Tools() // the client asks for them next; ends with that
			time.AfterFunc(afterGreeting, a.Downstreams.Begin)
		},
		Opened: func(caller string) {
			a.console.Do(a.startConsole)
			a.Workers.Warm(context.Background(), caller, s.Policy.Profile())
		},
	})
	a.recover()
	return a, nil
}

// run sends a call to the backend that has its tool, and keeps the result for the console. It is a [gate.RunFunc].
func (a *App) run(ctx context.Context, c gate.Call, f policy.Profile) (out gate.Outcome, err error) {
	if c.Action.Server != "" {
		out, err = a.Downstreams.Run(ctx, c, f)
	} else {
		out, err = a.Workers.Run(ctx, c, f)
	}
	if err == nil && a.outputs != nil {
		a.outputs.Keep(c.ID, out.Result)
	}
	return out, err
}

// approvalWait returns how long a call waits in the approval queue: 0 for the default, negative for
// not at all. A call on the command line does not wait: the user can approve and repeat it.
func (o *Options) approvalWait(s *Settings) time.Duration {
	switch w := s.Config.ApprovalWait; {
	case o.OneCall:
		return -1
	case w == nil:
		return 0
	case *w <= 0:
		return -1
	default:
		return time.Duration(*w * float64(time.Second))
	}
}

// outside reports whether a session runs outside the sandbox although a new command would run inside it.
func (a *App) outside(caller, session string) bool {
	f, ok := a.Workers.SessionProfile(caller, session)
	return ok && f.Mode == policy.DangerFullAccess && a.Policy.Mode != policy.DangerFullAccess
}

// Close stops the backends and closes the record.
func (a *App) Close() {
	a.console.Do(func() {})
	if a.stopConsole != nil {
		a.stopConsole()
	}
	var ends sync.WaitGroup
	ends.Go(a.Workers.Close)
	ends.Go(a.Downstreams.Close)
	ends.Wait()
	a.removeTmp()
	a.observers.close(a.Log)
}

// silence is how long a client may send nothing before the downstream servers are started anyway.
const silence = 2 * time.Second

// ServeStdio serves one client on in and out until in ends.
func (o *Options) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	o.AnswersFirst = true
	a, err := o.Open()
	if err != nil {
		return err
	}
	defer a.Close()
	if a.NoRoots != "" {
		a.Log.Warn("nothing is writable; start with -C FOLDER", "why", a.NoRoots)
	}
	defer o.WatchConfig(a)()
	defer time.AfterFunc(silence, a.Downstreams.Begin).Stop()
	return a.Server.ServeStdio(ctx, in, out)
}
