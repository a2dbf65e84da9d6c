// Package app composes toolgate: from options and the config file it makes a
// policy, tools, backends and a server.
//
//	o := app.Options{Dir: dir, Stderr: os.Stderr}
//	a, err := o.Open()
//	defer a.Close()
//	err = a.Server.ServeStdio(ctx, os.Stdin, os.Stdout)
package app

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"toolgate/aggregator"
	"toolgate/internal/approvals"
	"toolgate/internal/console"
	"toolgate/internal/gate"
	"toolgate/policy"
	"toolgate/server"
)

// An App is the wired program. Close it.
type App struct {
	*Settings
	Server      *server.Server
	Workers     *aggregator.Workers
	Downstreams *aggregator.Downstreams
	Tools       ToolSettings
	session     string // names this process's folder among those of workers
	Gate        *gate.Gate
	observers   *observers
	Self        string           // program to run workers with, "" is this one
	outputs     *console.Outputs // nil when no console wants them
	caller      string           // over HTTP the one whose gate this is
	page        consoleHolder
}

// afterGreeting is how long downstream servers are not started after the first
// answer, unless one is needed: the client asks for the lists now, and has
// them from what is saved.
const afterGreeting = 150 * time.Millisecond

// Open wires the program.
func (o *Options) Open() (*App, error) {
	s, err := o.Load()
	if err != nil {
		return nil, err
	}
	offered, err := s.builtins()
	if err != nil {
		return nil, err
	}
	a := &App{Settings: s, Tools: offered, caller: o.Caller, session: strings.ToLower(rand.Text()[:12])}
	a.Workers = aggregator.NewWorkers(a.launch, s.Log)
	words, builtin := o.front(s, offered)
	a.Downstreams = s.newDownstreams(builtin, o.AnswersFirst)
	g := &gate.Gate{Policy: s.Policy, Run: a.run}
	a.Gate = g
	if a.outputs = o.Outputs; a.outputs == nil && s.Config.Console.Enabled {
		a.outputs = &console.Outputs{}
	}
	if a.outputs != nil {
		g.Run = a.runAndKeep
	}
	if a.observers, err = s.observe(g); err != nil {
		return nil, err
	}
	a.observers.tell = o.OnEvent
	g.AddRule = s.Rules.Keep
	if waiting, err := approvals.Open(filepath.Join(s.StateDir, "approvals")); err != nil {
		s.Log.Warn("there is no waiting list", "err", err)
	} else {
		waiting.Words = server.Message
		waiting.Wait = o.approvalWait(s)
		g.Queue = waiting.Ask
		if a.outputs != nil { // there is a console to show it
			g.AskInParallel = waiting.Beside
		}
	}
	a.Server = server.New(server.Options{
		Version:      Version(),
		Instructions: words,
		Catalog:      builtin,
		Outside:      a.outside,
		TempDir:      os.TempDir(),
		Gate:         g,
		Downstreams:  a.Downstreams,
		Schemas:      schemaProfile(s.Config),
		Log:          s.Log,
		Answered: func() {
			go a.Downstreams.Tools() // it is about to be asked for them
			time.AfterFunc(afterGreeting, a.Downstreams.Begin)
		},
		Opened: func(caller string) {
			a.startConsole()
			a.Workers.Warm(context.Background(), caller, s.Policy.Profile())
		},
	})
	return a, nil
}

// run runs a call where its tool is. It is a [policy.RunFunc].
func (a *App) run(ctx context.Context, c gate.Call, f policy.Profile) (gate.Outcome, error) {
	if c.Action.Server != "" {
		return a.Downstreams.Run(ctx, c, f)
	}
	return a.Workers.Run(ctx, c, f)
}

// approvalWait is how long a call waits on the waiting list. On the command
// line it does not: whoever typed it is there to say yes and repeat it.
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

// outside reports whether a session runs outside the sandbox, where the
// Policy would have a new command run in it.
func (a *App) outside(caller, session string) bool {
	f, ok := a.Workers.SessionProfile(caller, session)
	return ok && f.Mode == policy.DangerFullAccess && a.Policy.Mode != policy.DangerFullAccess
}

// Close ends what is behind and the record.
func (a *App) Close() {
	a.page.close()
	var ends sync.WaitGroup
	ends.Go(a.Workers.Close)
	ends.Go(a.Downstreams.Close)
	ends.Wait()
	a.observers.close(a.Log)
}
