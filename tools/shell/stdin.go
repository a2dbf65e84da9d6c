package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

var stdinDef = tools.Def{
	Name:  "write_stdin",
	Title: "Write to a session",
	Description: "Writes to a running session, waits, and returns what it printed since the last answer. " +
		"Without chars and keys it only waits; use wait_for instead of polling. " +
		"keys [\"ctrl-c\"] interrupts any session; other input needs one started with tty.",
	Destructive: true,
	OpenWorld:   true,
	EditSchema:  func(s *jsonschema.Schema) { unpublish(s, "rows", "cols") },
}

type stdinInput struct {
	SessionID       int64    `json:"session_id" jsonschema:"from the answer that opened it"`
	Chars           string   `json:"chars,omitempty" jsonschema:"text to type; end a line with \\n"`
	Keys            []string `json:"keys,omitempty" jsonschema:"keys to press after chars: enter, tab, escape, up, ctrl-c, alt-f, f1 ..."`
	WaitFor         string   `json:"wait_for,omitempty" jsonschema:"answer once a new line matches this regular expression; exit: at the end"`
	YieldTimeMS     *int64   `json:"yield_time_ms,omitempty" jsonschema:"default 250 after input, 5000 without, 25000 with wait_for"`
	MaxOutputTokens *int     `json:"max_output_tokens,omitempty" jsonschema:"of the answer, default 10000"`
	Rows            int      `json:"rows,omitempty"`
	Cols            int      `json:"cols,omitempty"`
	Kill            bool     `json:"kill,omitempty" jsonschema:"end all of it"`
}

func (in stdinInput) input(application bool) (string, error) {
	keys, err := keyText(in.Keys, application)
	return in.Chars + keys, err
}

func describeStdin(in stdinInput) (policy.Action, error) {
	text, err := in.input(false)
	if err != nil {
		return policy.Action{}, err
	}
	if (in.Rows == 0) != (in.Cols == 0) {
		return policy.Action{}, errors.New("a terminal's size is rows and cols; give both")
	}
	if err := checkWaiting(in.Rows, in.Cols, in.YieldTimeMS, in.MaxOutputTokens, in.WaitFor); err != nil {
		return policy.Action{}, err
	}
	preview := text
	if in.Kill {
		preview += "\n(then it ends the session)"
	}
	return policy.Action{
		Session:  fmt.Sprint(in.SessionID),
		Preview:  preview,
		ReadOnly: text == "" && !in.Kill && in.Rows == 0,
	}, nil
}

func (h *host) runStdin(ctx context.Context, call *tools.Call, in stdinInput) (*mcp.CallToolResult, error) {
	started := time.Now()
	s, err := h.sessions.find(in.SessionID)
	if err != nil {
		return nil, err
	}
	text, _ := in.input(s.keys.application.Load())
	from, total := h.sessions.unread(s)
	if text != "" {
		from = total // wait for what is printed after the input
	}
	until, err := newMatcher(in.WaitFor, from)
	if err != nil {
		return nil, err
	}
	if in.Rows != 0 {
		if err := s.resize(terminalSize{in.Rows, in.Cols}); err != nil {
			return nil, err
		}
	}
	note := ""
	if text != "" && s.hasEnded() {
		if s.endReported.Load() {
			return nil, fmt.Errorf("session %d has exited with code %d; start a new one with exec_command",
				s.id, s.code)
		}
		note = "The input was not sent: the command has ended\n"
	} else if text != "" {
		if err := s.typeText(text); err != nil {
			return nil, err
		}
	}
	if in.Kill {
		h.end(s.process)
	}
	what := s.await(ctx, call, in.yield(text), until)
	if what == cancelled {
		// Nobody reads this; the output is for the next call.
		return tools.Text("the call was cancelled; the session goes on\n"), nil
	}
	note += waited(in.WaitFor, what)
	return h.sessionAnswer(s.process, s, h.budget(in.MaxOutputTokens), started, note), nil
}

func (in stdinInput) yield(text string) time.Duration {
	const longest = 300 * time.Second
	switch {
	case in.WaitFor != "":
		return clamp(in.YieldTimeMS, defaultYield, 250*time.Millisecond, longest)
	case text != "" || in.Rows != 0 || in.Kill:
		return clamp(in.YieldTimeMS, 250*time.Millisecond, 250*time.Millisecond, 30*time.Second)
	}
	return clamp(in.YieldTimeMS, 5*time.Second, 5*time.Second, longest)
}

// typeText writes text to the terminal of the session, or interrupts the command.
func (s *session) typeText(text string) error {
	if s.terminal == nil {
		if text != interrupt {
			return errors.New("stdin is closed for this session; run exec_command again with tty true " +
				`to keep it open, or interrupt with keys ["ctrl-c"]`)
		}
		return interruptGroup(s.process)
	}
	s.inputMu.Lock()
	defer s.inputMu.Unlock()
	s.terminal.SetWriteDeadline(time.Now().Add(inputTimeout))
	n, err := s.terminal.WriteString(text)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the program took %d of %d bytes and reads no more now; send the rest later", n, len(text))
	}
	if err != nil && !s.hasEnded() {
		return fmt.Errorf("writing to the terminal: %s", tools.Reason(err))
	}
	return nil
}

func (s *session) resize(size terminalSize) error {
	if s.terminal == nil {
		return errors.New("this session has no terminal; run exec_command again with tty true")
	}
	if err := resizeTerminal(s.terminal, size); err != nil && !s.hasEnded() {
		return fmt.Errorf("setting the size: %w", err)
	}
	return nil
}
