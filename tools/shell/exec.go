package shell

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

var execDef = tools.Def{
	Name:  "exec_command",
	Title: "Run a command in a session",
	Description: "Runs a shell script and returns its output, or, when it still runs after yield_time_ms, " +
		"the output so far and a session ID for write_stdin: for servers, watchers, REPLs and terminals.",
	Destructive: true,
	OpenWorld:   true,
}

type execInput struct {
	Cmd             string `json:"cmd" jsonschema:"shell script to run"`
	Workdir         string `json:"workdir,omitempty" jsonschema:"default the workspace; better than cd"`
	TTY             bool   `json:"tty,omitempty" jsonschema:"with a terminal, and stdin for write_stdin"`
	Rows            int    `json:"rows,omitempty"`
	Cols            int    `json:"cols,omitempty"`
	WaitFor         string `json:"wait_for,omitempty" jsonschema:"answer once a line matches this regular expression"`
	YieldTimeMS     *int64 `json:"yield_time_ms,omitempty" jsonschema:"answer after this time; default 10000, with wait_for 25000"`
	TimeoutMS       int64  `json:"timeout_ms,omitempty" jsonschema:"end it after this time, also as a session"`
	MaxOutputTokens *int   `json:"max_output_tokens,omitempty" jsonschema:"of the answer, default 10000"`
	Shell           string `json:"shell,omitempty" jsonschema:"bash (default), sh, zsh, pwsh, cmd"`
	Login           bool   `json:"login,omitempty" jsonschema:"read the user's profile"`
	escalation
}

func describeExec(in execInput) (policy.Action, error) {
	shell, err := shellName(in.Shell)
	if err != nil {
		return policy.Action{}, err
	}
	argv, err := script(shell, in.Login, in.Cmd)
	if err != nil {
		return policy.Action{}, err
	}
	if err := checkTimeout(in.TimeoutMS); err != nil {
		return policy.Action{}, err
	}
	if err := checkWaiting(in.Rows, in.Cols, in.YieldTimeMS, in.MaxOutputTokens, in.WaitFor); err != nil {
		return policy.Action{}, err
	}
	return in.action(argv, in.Workdir)
}

// checkWaiting checks the arguments that exec_command and write_stdin share.
func checkWaiting(rows, cols int, yield *int64, budget *int, waitFor string) error {
	if _, err := sizeOf(rows, cols); err != nil {
		return err
	}
	if yield != nil && *yield < 0 {
		return fmt.Errorf("yield_time_ms is %d; give a number of milliseconds that is not negative", *yield)
	}
	if budget != nil && *budget < 0 {
		return fmt.Errorf("max_output_tokens is %d; give a number that is not negative", *budget)
	}
	_, err := newMatcher(waitFor, 0)
	return err
}

func (h *host) runExec(ctx context.Context, call *tools.Call, in execInput) (*mcp.CallToolResult, error) {
	size, _ := sizeOf(in.Rows, in.Cols)
	l := launch{
		dir:      in.Workdir,
		env:      h.plainEnv(),
		timeout:  timeout(in.TimeoutMS),
		terminal: in.TTY,
		size:     size,
		text:     in.Cmd,
	}
	if in.TTY {
		l.env = h.terminalEnv()
	}
	shell, err := findShell(in.Shell, l.env)
	if err != nil {
		return nil, err
	}
	if l.argv, err = script(shell, in.Login, in.Cmd); err != nil {
		return nil, err
	}
	p, err := h.run(l)
	if err != nil {
		return nil, err
	}
	until, _ := newMatcher(in.WaitFor, 0)
	what := p.await(ctx, call, in.yield(), until)
	if what == cancelled && h.end(p) {
		p.out.close()
		return tools.Text(fmt.Sprintf("Wall time: %.4f seconds\nthe call was cancelled and the command ended\n",
			time.Since(p.started).Seconds())), nil
	}
	return h.sessionAnswer(p, nil, h.budget(in.MaxOutputTokens), p.started, waited(in.WaitFor, what)), nil
}

func (in execInput) yield() time.Duration {
	usual := 10 * time.Second
	if in.WaitFor != "" {
		usual = defaultYield
	}
	return clamp(in.YieldTimeMS, usual, 250*time.Millisecond, 30*time.Second)
}

// clamp returns ms milliseconds limited to the range from least to most, or fallback
// if ms is nil.
func clamp(ms *int64, fallback, least, most time.Duration) time.Duration {
	if ms == nil {
		return fallback
	}
	return max(least, time.Duration(min(*ms, most.Milliseconds()))*time.Millisecond)
}

// budget returns the maximum output of an answer in tokens.
func (h *host) budget(asked *int) int {
	if asked == nil {
		return h.options.budget()
	}
	return min(*asked, h.options.budget())
}
