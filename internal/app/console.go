package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/internal/approvals"
	"toolgate/internal/console"
	"toolgate/internal/gate"
	"toolgate/internal/lazyregexp"
	"toolgate/policy/rules"
)

// ConsolesDir returns the folder in which running consoles announce themselves. No tool can read it.
func (s *Settings) ConsolesDir() string { return filepath.Join(s.StateDir, "consoles") }

// startConsole starts the console if the config enables it. It is called when the client has
// opened its session, because nothing may delay the first answer.
func (a *App) startConsole() {
	if !a.Config.Console.Enabled || a.caller != "" {
		return // over HTTP there is one for all callers
	}
	gate := func() []*App { return []*App{a} }
	about := console.About{Workspace: a.Policy.Workspace}
	c := a.Settings.consoleOf(gate, console.Options{About: about, Outputs: a.outputs})
	url, stop, err := c.Serve(a.Config.Console.Address, a.ConsolesDir())
	if err != nil {
		a.Log.Error("console not started", "err", err)
		return
	}
	a.stopConsole = stop
	a.Log.Info("console started; `toolgate console` prints a link", "url", url)
}

// NewConsole returns a console without a gate: it shows the approval queue, the
// calls of every gate of the user, and the rules.
func (s *Settings) NewConsole() (*console.Console, error) {
	if _, err := s.ApprovalQueue(); err != nil {
		return nil, err
	}
	return s.consoleOf(nil, console.Options{}), nil
}

// ApprovalQueue opens the approval queue of the user.
func (s *Settings) ApprovalQueue() (*approvals.Queue, error) {
	return approvals.Open(filepath.Join(s.StateDir, "approvals"))
}

// consoleOf completes o and returns a console of the gates that exist at the time of each request.
// Gates is nil for a console without any.
func (s *Settings) consoleOf(gates func() []*App, o console.Options) *console.Console {
	o.About.Version, o.About.PID, o.About.Started = Version(), os.Getpid(), time.Now()
	o.Record, o.Log = s.StateDir, s.Log
	var err error
	if o.Approvals, err = s.ApprovalQueue(); err != nil {
		s.Log.Warn("no approval queue in the console", "err", err)
	}
	if gates == nil {
		gates = func() []*App { return nil }
	} else {
		o.Servers, o.Sessions = consoleServers{s.StateDir, gates}, consoleSessions{gates}
	}
	o.Rules = consoleRules{s.Rules, gates}
	return console.New(o)
}

// consoleRules gives the console the rule files.
type consoleRules struct {
	store *RuleStore
	gates func() []*App
}

func (c consoleRules) Files() ([]console.RuleFile, error) {
	names, err := RuleFiles(c.store.dir)
	if err != nil {
		return nil, err
	}
	var list []console.RuleFile
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f := console.RuleFile{Name: filepath.Base(name), Text: string(text), Kept: filepath.Base(name) == KeptRules}
		if _, err := rules.Parse(filepath.Base(name), text); err != nil {
			f.Fault = err.Error()
		}
		list = append(list, f)
	}
	return list, nil
}

func (c consoleRules) Remove(line int, text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("which rule?")
	}
	_, err := c.store.Remove(line, text)
	return err
}

func (c consoleRules) Remembered() (list []gate.SessionApproval) {
	for _, a := range c.gates() {
		list = append(list, a.Gate.Remembered()...)
	}
	return list
}

func (c consoleRules) Forget(m gate.SessionApproval) error {
	for _, a := range c.gates() {
		if a.Gate.Forget(m) {
			return nil
		}
	}
	return errors.New("that answer is no longer remembered")
}

// consoleServers gives the console the downstream servers. The names of those of callers over HTTP
// begin with the caller.
type consoleServers struct {
	stateDir string
	gates    func() []*App
}

func (c consoleServers) List() []console.Server {
	var list []console.Server
	for _, a := range c.gates() {
		for _, st := range a.Downstreams.Status() {
			s := console.Server{
				Name: a.serverKey(st.Name), State: string(st.State), Error: st.Error, Tools: st.Tools,
				Faults: st.Faults, Level: st.Level, Version: st.Server,
			}
			for _, f := range st.Faults {
				if strings.Contains(f, "changed: run toolgate mcp review") {
					s.Changed++
				}
			}
			list = append(list, s)
		}
	}
	return list
}

// serverKey returns the name of a server on the page.
func (a *App) serverKey(name string) string {
	if a.caller == "" {
		return name
	}
	return a.caller + " " + name
}

// find returns a server by its key. A name from a request does not become a path unless it is a configured one.
func (c consoleServers) find(key string) (*App, string, error) {
	for _, a := range c.gates() {
		for _, name := range a.Downstreams.Names() {
			if a.serverKey(name) == key {
				return a, name, nil
			}
		}
	}
	return nil, "", fmt.Errorf("no server %s", strconv.Quote(key))
}

func (c consoleServers) Tools(key string) ([]console.ServerTool, string, error) {
	_, name, err := c.find(key)
	if err != nil {
		return nil, "", err
	}
	reviews, err := aggregator.ReviewServer(c.stateDir, name)
	if errors.Is(err, aggregator.ErrNeverStarted) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	var list []console.ServerTool
	for _, r := range reviews {
		list = append(list, console.ServerTool{
			Name: r.Tool, Changed: r.Changed, Flags: r.Flags, Before: r.Before, Now: r.Now,
		})
	}
	return list, digestOf(reviews), nil
}

func (c consoleServers) Accept(key, seen string) error {
	_, name, err := c.find(key)
	if err != nil {
		return err
	}
	reviews, err := aggregator.ReviewServer(c.stateDir, name)
	if err != nil {
		return err
	}
	if digestOf(reviews) != seen {
		return errors.New("its tools have changed again; reload and review them")
	}
	if err := aggregator.AcceptReview(c.stateDir, name, reviews); err != nil {
		return err
	}
	for _, a := range c.gates() { // what is trusted is the user's, whoever calls
		a.Downstreams.ReloadPins()
	}
	return nil
}

func (c consoleServers) Restart(key string) error {
	a, name, err := c.find(key)
	if err != nil {
		return err
	}
	return a.Downstreams.Restart(name)
}

// consoleSessions gives the console the command sessions of the workers.
type consoleSessions struct{ gates func() []*App }

// sessionLine is a line of list_sessions.
var sessionLine = lazyregexp.New(
	`^session ID (\d+): (running|exited with code -?\d+), started (.+?) ago, \d+ bytes unread: (.*)$`)

// peekTime bounds how long a worker may take to answer the console.
const peekTime = 2 * time.Second

func (c consoleSessions) List(ctx context.Context) []console.Session {
	var list []console.Session
	for _, a := range c.gates() {
		for _, w := range a.Workers.Running() {
			text, err := a.peek(ctx, w.ID, "list_sessions", struct{}{})
			if err != nil {
				continue // it is ending, or the config leaves the tool out
			}
			for line := range strings.SplitSeq(text, "\n") {
				if m := sessionLine.FindStringSubmatch(line); m != nil {
					list = append(list, console.Session{
						Worker: w.ID, Caller: w.Caller, Mode: w.Profile.Mode.String(), Level: w.Level,
						ID: m[1], State: m[2], Age: m[3], Command: m[4],
					})
				}
			}
		}
	}
	return list
}

// outputHead matches the first line of a result of read_output, notKept the second if a part of the output was dropped.
var (
	outputHead = lazyregexp.New(`^Bytes (\d+) to (\d+) of (\d+)`)
	notKept    = lazyregexp.New(`(?m)^Not kept: the bytes from here to (\d+)$`)
)

func (c consoleSessions) Output(ctx context.Context, worker, id string, from int64) (console.Output, error) {
	var o console.Output
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return o, errors.New("no such session")
	}
	gates := c.gates()
	i := slices.IndexFunc(gates, func(a *App) bool {
		return slices.ContainsFunc(a.Workers.Running(), func(r aggregator.Running) bool { return r.ID == worker })
	})
	if i < 0 {
		return o, errors.New("this worker has ended")
	}
	text, err := gates[i].peek(ctx, worker, "read_output", map[string]int64{"session_id": n, "offset": from})
	if err != nil {
		return o, err
	}
	head, output, ok := strings.Cut(text, "Output:\n")
	m := outputHead.FindStringSubmatch(head)
	if !ok || m == nil {
		return o, errors.New("bug: unexpected answer of the worker")
	}
	for i, p := range []*int64{&o.From, &o.To, &o.Total} {
		if *p, err = strconv.ParseInt(m[i+1], 10, 64); err != nil {
			return o, err
		}
	}
	if m := notKept.FindStringSubmatch(head); m != nil {
		next, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil || next <= o.From {
			return o, errors.New("bug: unexpected answer of the worker")
		}
		o.Lost, o.To = next-o.From, next
	}
	o.Text = output
	return o, nil
}

// peek calls a tool of a worker and returns the text of the result.
func (a *App) peek(ctx context.Context, worker, tool string, args any) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, peekTime)
	defer cancel()
	b, err := json.Marshal(args)
	if err != nil {
		return "", err
	}
	raw, err := a.Workers.Peek(ctx, worker, tool, b)
	if err != nil {
		return "", err
	}
	var res mcp.CallToolResult
	if err := json.Unmarshal(raw, &res); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, part := range res.Content {
		if t, ok := part.(*mcp.TextContent); ok {
			io.WriteString(&text, t.Text)
		}
	}
	if res.IsError {
		return "", errors.New(text.String())
	}
	return text.String(), nil
}
