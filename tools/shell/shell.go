// Package shell is the tools that run commands.
//
//	catalog := shell.Tools(shell.Options{}, nil)
//
// A command gets an empty stdin, a session and process group of its own, and
// one pipe for stdout and stderr, so that what it prints keeps its order. What
// it costs in memory does not depend on how much it prints. A command that
// runs out of time, or whose call is cancelled, is ended with everything it
// started, and what it printed so far is the answer.
//
// It confines nothing: where a command may reach is for the sandbox that the
// worker runs in, and for the function that starts it.
package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

// Tools returns the command tools: shell. They share what they keep.
//
// Start starts a command with the sandbox's layer for one command; nil means
// [exec.Cmd.Start]. Tools touches nothing before one of them runs; Close of
// any of them ends all that they left.
func Tools(o Options, start func(*exec.Cmd) error) []tools.Tool {
	if start == nil {
		start = (*exec.Cmd).Start
	}
	h := &host{options: o, start: start}
	catalog := []tools.Tool{
		tools.NewWithCall(shellDef, describeShell, h.runShell),
	}
	for i := range catalog {
		catalog[i] = tools.Closing(catalog[i], h.close)
	}
	return catalog
}

// A host runs commands and keeps what outlives a call.
type host struct {
	options Options
	start   func(*exec.Cmd) error
	ending  sync.WaitGroup // ends of what commands left behind
}

// close ends every command with all it started. It is called when the caller
// has gone, so it does not wait long.
func (h *host) close() {
	var all sync.WaitGroup
	for _, p := range kin.running() {
		if p.host == h {
			all.Go(func() { h.end(p, closeGrace) })
		}
	}
	all.Wait()
	h.ending.Wait()
}

// memory returns how many bytes of a command's output are kept in memory at
// either end: enough for the longest answer.
func (h *host) memory() int {
	return max(32<<10, h.options.budget()*tools.BytesPerToken/2)
}

// spool makes the file for an output that does not fit in memory.
func (h *host) spool() (*spool, error) { return nil, errors.New("no folder") }

var shellDef = tools.Def{
	Name:  "shell",
	Title: "Run a command",
	Description: "Runs a command in the workspace and returns its exit code and output. Give the program and its arguments as an array; " +
		`for pipes, redirections and several commands give ["bash", "-c", "..."]. ` +
		"Stdin is empty. A failing exit code is a normal answer. Processes that the command leaves running are ended with it.",
	Destructive: true,
	OpenWorld:   true,
}

type shellInput struct {
	Command   commandArgument `json:"command" jsonschema:"program and arguments"`
	Workdir   string          `json:"workdir,omitempty" jsonschema:"folder to run in, default the workspace; prefer it to cd"`
	TimeoutMS int64           `json:"timeout_ms,omitempty" jsonschema:"milliseconds after which the command and all it started are ended"`
	escalation
}

func describeShell(in shellInput) (policy.Action, error) {
	argv, err := in.Command.describe()
	if err != nil {
		return policy.Action{}, err
	}
	if in.TimeoutMS < 0 {
		return policy.Action{}, fmt.Errorf("timeout_ms is %d; give a positive number, or leave it out", in.TimeoutMS)
	}
	return in.action(argv, in.Workdir)
}

func (h *host) runShell(ctx context.Context, call *tools.Call, in shellInput) (*mcp.CallToolResult, error) {
	action, err := describeShell(in)
	if err != nil {
		return nil, err
	}
	l := launch{argv: action.Command, dir: in.Workdir, env: h.options.Environment.Apply(os.Environ())}
	if in.Command.script != "" {
		l.argv[0] = h.shellFor(l)
	}
	p, err := h.run(l)
	if err != nil {
		return nil, err
	}
	defer p.out.close()
	limit := time.Duration(in.TimeoutMS) * time.Millisecond
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	note := ""
	select {
	case <-p.done:
	case <-late:
		h.end(p, grace)
		p.code = timeoutExit
		note = fmt.Sprintf("command timed out after %d milliseconds\n", in.TimeoutMS)
	case <-ctx.Done():
		h.end(p, grace)
		note = "command was cancelled\n"
	}
	return tools.Text(h.shellText(p, note)), nil
}

// shellFor returns the shell for a script: bash, or sh where there is none.
func (h *host) shellFor(l launch) string {
	if _, err := lookup("bash", l.dir, l.env); err != nil {
		return "sh"
	}
	return "bash"
}

// shellText returns the answer for an ended command, with note before what it
// printed.
func (h *host) shellText(p *process, note string) string {
	total, lines := p.out.size()
	text, cut := p.out.text(0, total, h.options.budget()*tools.BytesPerToken, "")
	var s strings.Builder
	fmt.Fprintf(&s, "Exit code: %d\n", p.code)
	fmt.Fprintf(&s, "Wall time: %.1f seconds\n", p.wall.Seconds())
	if cut {
		fmt.Fprintf(&s, "Total output lines: %d\n", lines)
	}
	s.WriteString("Output:\n")
	s.WriteString(note)
	s.WriteString(text)
	if note := leftBehind(p.left); note != "" {
		if text != "" && !strings.HasSuffix(text, "\n") {
			s.WriteByte('\n')
		}
		s.WriteString(note)
	}
	return s.String()
}
