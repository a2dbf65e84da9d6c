// Package shell implements the tools that run commands.
//
//	catalog := shell.Tools(shell.Options{}, nil)
//
// A command has an empty stdin, its own session and process group, and one pipe
// for stdout and stderr, which keeps the order of the output. Memory use does
// not depend on the size of the output. If a command times out or its call is
// cancelled, the command and all processes that it started are ended, and the
// answer has the output so far.
//
// The package does not confine commands. That is the job of the sandbox in which
// the worker runs, and of the function that starts commands.
package shell

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/limits"
	"toolgate/policy"
	"toolgate/tools"
)

// Tools returns the command tools: shell, exec_command, write_stdin,
// list_sessions and read_output, and the aliases of shell, which are off by
// default. They share their sessions.
//
// start starts a command with the sandbox's layer for a single command; nil means
// [exec.Cmd.Start]. Tools has no side effects. Closing any of the tools ends all
// commands.
func Tools(o Options, start StartFunc) []tools.Tool {
	return newHost(o, start).tools()
}

func newHost(o Options, start StartFunc) *host {
	h := &host{options: o, start: start, confined: start != nil, closed: make(chan struct{})}
	h.sessions.sessions = map[int64]*session{}
	if start == nil {
		h.start = Plain((*exec.Cmd).Start)
	}
	h.guard.host = h
	h.limits = sync.OnceValue(o.Limits.WithDefaults)
	h.spooled.left.Store(maxSpools)
	h.plainEnv = sync.OnceValue(func() []string { return o.Environment.Apply(os.Environ(), false) })
	h.terminalEnv = sync.OnceValue(func() []string { return o.Environment.Apply(os.Environ(), true) })
	return h
}

func (h *host) tools() []tools.Tool {
	catalog := []tools.Tool{
		tools.NewWithCall(h.options.publishes(shellDef), describeShell, h.runShell),
		tools.NewWithCall(h.options.publishes(execDef), describeExec, h.runExec),
		tools.NewWithCall(stdinDef, describeStdin, h.runStdin),
		tools.New(listDef, describeList, h.runList),
		tools.New(readDef, describeRead, h.runRead),
	}
	catalog = append(catalog, h.aliases()...)
	for i := range catalog {
		catalog[i] = tools.Closing(catalog[i], h.close)
	}
	return catalog
}

// A StartFunc starts a command. Once the command has ended, refused returns what
// the sandbox refused: nil if nothing is known, and an empty slice if the command
// used the network and nothing was refused. refused is nil if commands are not
// watched.
type StartFunc func(*exec.Cmd) (refused func() []tools.Denial, err error)

// Plain returns start as a StartFunc that does not watch commands.
func Plain(start func(*exec.Cmd) error) StartFunc {
	return func(cmd *exec.Cmd) (func() []tools.Denial, error) { return nil, start(cmd) }
}

// A host runs commands and keeps the sessions that outlive a call.
type host struct {
	options  Options
	start    StartFunc
	confined bool // commands run in a sandbox
	sessions table
	spooled  quota
	guard    guard
	limits   func() limits.Limits // with defaults
	waiting  sync.WaitGroup       // running commands
	ending   sync.WaitGroup       // commands that are being ended

	// The environments of a command without and with a terminal, computed on
	// first use.
	plainEnv, terminalEnv func() []string

	closing sync.Once
	closed  chan struct{} // closed when the caller is gone
}

// close ends all commands and their processes. It is called when the caller is gone,
// so it does not wait long.
func (h *host) close() {
	h.closing.Do(func() { close(h.closed) })
	tracker.awaitStarts()
	for _, p := range tracker.running() {
		if p.host == h {
			h.ending.Go(func() { h.end(p) })
		}
	}
	h.waiting.Wait()
	h.ending.Wait()
	for _, s := range h.sessions.clear() {
		s.out.close()
	}
}

// spool creates the file for an output that does not fit in memory: on disk or, in a
// read-only sandbox, in memory.
func (h *host) spool() (*spool, error) {
	if s, err := newSpool("", maxSpool, &h.spooled); err == nil {
		return s, nil
	}
	f, err := memoryFile()
	if err != nil {
		return nil, err
	}
	return &spool{f: f, limit: maxMemorySpool, quota: &h.spooled}, nil
}

// commandNotes is the part of the descriptions that applies to every command.
const commandNotes = "Stdin is empty; what it leaves running ends with it. " +
	"Without timeout_ms, a long one becomes a session: go on with write_stdin."

var shellDef = tools.Def{
	Name:  "shell",
	Title: "Run a command",
	Description: "Runs a program and returns its exit code and output. " +
		`For pipes, redirections and several commands: ["bash", "-c", "..."]; ` +
		"for servers, REPLs and terminals: exec_command. " + commandNotes,
	Destructive: true,
	OpenWorld:   true,
}

type shellInput struct {
	Command   commandArgument `json:"command" jsonschema:"program and arguments"`
	Workdir   string          `json:"workdir,omitempty" jsonschema:"default the workspace; better than cd"`
	TimeoutMS int64           `json:"timeout_ms,omitempty" jsonschema:"end it after this time"`
	escalation
}

func describeShell(in shellInput) (policy.Action, error) {
	argv, err := in.Command.describe()
	if err != nil {
		return policy.Action{}, err
	}
	if err := checkTimeout(in.TimeoutMS); err != nil {
		return policy.Action{}, err
	}
	return in.action(argv, in.Workdir)
}

func (h *host) runShell(ctx context.Context, call *tools.Call, in shellInput) (*mcp.CallToolResult, error) {
	argv, err := in.Command.describe()
	if err != nil {
		return nil, err
	}
	l := launch{argv: argv, dir: in.Workdir, env: h.plainEnv(), text: in.Command.text()}
	if in.Command.script != "" {
		shell, err := findShell("", l.env)
		if err != nil {
			return nil, err
		}
		if l.argv, err = script(shell, in.Command.login, in.Command.script); err != nil {
			return nil, err
		}
	}
	p, err := h.run(l)
	if err != nil {
		return nil, err
	}
	limit := timeout(in.TimeoutMS)
	if limit == 0 {
		limit = h.options.yield()
	}
	what := p.await(ctx, call, limit, nil)
	if what == expired && in.TimeoutMS == 0 || what != ended && !h.end(p) {
		return h.sessionAnswer(p, nil, h.options.budget(), p.started, ""), nil
	}
	note := ""
	switch what {
	case expired:
		p.code = timeoutExit
		note = timeoutNote(limit)
	case cancelled:
		note = "the call was cancelled and the command ended\n"
	}
	head := fmt.Sprintf("Exit code: %d\nWall time: %.1f seconds\n", p.code, p.wall.Seconds()) // as Codex's shell
	return h.page(p, nil, h.options.budget()).result(head, note), nil
}

// findShell returns the shell to run a script: the one asked for, or if none is, bash, or
// else sh, or else PowerShell.
func findShell(asked string, env []string) (string, error) {
	there := func(name string) bool {
		_, err := lookup(name, env)
		return err == nil
	}
	wanted := []string{"bash", "sh", "pwsh", "powershell"}
	if asked != "" {
		name, err := shellName(asked)
		if err != nil {
			return "", err
		}
		wanted = []string{name}
	}
	if i := slices.IndexFunc(wanted, there); i >= 0 {
		return wanted[i], nil
	}
	found := slices.DeleteFunc(slices.Clone(shells), func(name string) bool { return !there(name) })
	if len(found) == 0 {
		return "", errors.New("there is no shell on PATH to run a script; " +
			"use the tool shell with the path of a program")
	}
	return "", fmt.Errorf("there is no %s here; the shells are %s", wanted[0], strings.Join(found, ", "))
}

// checkTimeout checks the argument timeout_ms.
func checkTimeout(ms int64) error {
	if ms < 0 {
		return fmt.Errorf("timeout_ms is %d; give a positive number, or leave it out", ms)
	}
	return nil
}

// timeout returns ms milliseconds, or the longest time there is.
func timeout(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// timeoutNote says that a command was ended after limit.
func timeoutNote(limit time.Duration) string {
	return fmt.Sprintf("command timed out after %d milliseconds\n", limit.Milliseconds())
}
