package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

var execDef = tools.Def{
	Name:  "exec_command",
	Title: "Run a command in a session",
	Description: "Runs a shell script and returns its output, or, when it still runs after yield_time_ms, what it has printed so far and a session ID: " +
		"for servers, watchers, REPLs and everything long. Go on with write_stdin. Programs that need a terminal get one with tty true.",
	Destructive: true,
	OpenWorld:   true,
}

type execInput struct {
	Cmd             string `json:"cmd" jsonschema:"shell script to run"`
	Workdir         string `json:"workdir,omitempty" jsonschema:"folder to run in, default the workspace; prefer it to cd"`
	TTY             bool   `json:"tty,omitempty" jsonschema:"give the command a terminal, and keep its stdin open for write_stdin; default false: stdin is empty"`
	Rows            int    `json:"rows,omitempty" jsonschema:"rows of the terminal, default 24"`
	Cols            int    `json:"cols,omitempty" jsonschema:"columns of the terminal, default 80"`
	WaitFor         string `json:"wait_for,omitempty" jsonschema:"answer as soon as a line is printed that matches this regular expression (RE2), such as the line with which a server says that it listens"`
	YieldTimeMS     *int64 `json:"yield_time_ms,omitempty" jsonschema:"how long to wait for the end before answering, 250 to 30000, default 10000, with wait_for 25000"`
	MaxOutputTokens *int   `json:"max_output_tokens,omitempty" jsonschema:"most output to return; the middle is cut from more"`
	Shell           string `json:"shell,omitempty" jsonschema:"bash, zsh, sh, powershell or cmd; default bash, or sh where there is no bash"`
	Login           bool   `json:"login,omitempty" jsonschema:"read the user's profile first, which takes time; default false"`
	escalation
}

func describeExec(in execInput) (policy.Action, error) {
	argv, err := script(shellName(in.Shell), in.Login, in.Cmd)
	if err != nil {
		return policy.Action{}, err
	}
	if _, err := sizeOf(in.Rows, in.Cols); err != nil {
		return policy.Action{}, err
	}
	if err := checkNumbers(in.YieldTimeMS, in.MaxOutputTokens); err != nil {
		return policy.Action{}, err
	}
	if _, err := newMatcher(in.WaitFor, 0); err != nil {
		return policy.Action{}, err
	}
	return in.action(argv, in.Workdir)
}

func checkNumbers(yield *int64, budget *int) error {
	if yield != nil && *yield < 0 {
		return fmt.Errorf("yield_time_ms is %d; give a number of milliseconds that is not negative", *yield)
	}
	if budget != nil && *budget < 0 {
		return fmt.Errorf("max_output_tokens is %d; give a number that is not negative", *budget)
	}
	return nil
}

func (h *host) runExec(ctx context.Context, call *tools.Call, in execInput) (*mcp.CallToolResult, error) {
	action, err := describeExec(in)
	if err != nil {
		return nil, err
	}
	size, _ := sizeOf(in.Rows, in.Cols)
	l := launch{
		argv:     action.Command,
		dir:      in.Workdir,
		env:      h.plainEnv(),
		terminal: in.TTY,
		size:     size,
		text:     in.Cmd,
	}
	if in.TTY {
		l.env = h.terminalEnv()
	}
	if l.argv[0], err = findShell(in.Shell, l); err != nil {
		return nil, err
	}
	p, err := h.run(l)
	if err != nil {
		return nil, err
	}
	until, _ := newMatcher(in.WaitFor, 0)
	what := p.await(ctx, call, in.yield(), until)
	if what == cancelled {
		h.end(p, grace)
		p.out.close()
		return tools.Text(fmt.Sprintf("Wall time: %.4f seconds\nthe call was cancelled and the command ended\n", time.Since(p.started).Seconds())), nil
	}
	return h.answer(answer{process: p, budget: h.budget(in.MaxOutputTokens), started: p.started, waited: waited(in.WaitFor, what)}), nil
}

func (in execInput) yield() time.Duration {
	usual := 10 * time.Second
	if in.WaitFor != "" {
		usual = defaultYield
	}
	return clamp(in.YieldTimeMS, usual, 250*time.Millisecond, 30*time.Second)
}

// clamp returns ms milliseconds, or fallback when it is nil, within bounds.
func clamp(ms *int64, fallback, least, most time.Duration) time.Duration {
	if ms == nil {
		return fallback
	}
	if *ms > most.Milliseconds() {
		return most
	}
	return max(least, time.Duration(*ms)*time.Millisecond)
}

// budget returns how many tokens of output an answer holds.
func (h *host) budget(asked *int) int {
	if asked == nil {
		return h.options.budget()
	}
	return min(*asked, h.options.budget())
}

// An answer is what a call about a session says.
type answer struct {
	process *process
	session *session // nil while the process is no session
	budget  int      // tokens
	started time.Time
	waited  string // how waiting for something went, "" when nothing was waited for
}

// answer returns the result that tells a, in the order of Codex's lines. A
// process that still runs, or whose output does not fit, becomes a session.
func (h *host) answer(a answer) *mcp.CallToolResult {
	p, s := a.process, a.session
	finished := p.hasEnded()
	total, lines := p.out.size()
	part := chunk{0, total, lines}
	var evicted *session
	if s == nil && (!finished || total > int64(a.budget)*tools.BytesPerToken) {
		s, evicted = h.sessions.keep(p)
		h.evict(evicted)
	}
	if s != nil {
		part = h.sessions.take(s, finished)
	}
	text, cut := p.out.text(part.from, part.to, a.budget*tools.BytesPerToken, howToRead(s))
	var b strings.Builder
	fmt.Fprintf(&b, "Wall time: %.4f seconds\n", time.Since(a.started).Seconds())
	if finished {
		fmt.Fprintf(&b, "Process exited with code %d\n", p.code)
	} else {
		fmt.Fprintf(&b, "Process running with session ID %d\n", s.id)
	}
	b.WriteString(a.waited)
	fmt.Fprintf(&b, "Original token count: %d\n", tools.Tokens(part.to-part.from))
	if cut {
		fmt.Fprintf(&b, "Total output lines: %d\n", part.lines)
	}
	b.WriteString(endedNote(evicted))
	b.WriteString("Output:\n")
	b.WriteString(text)
	var d *tools.Denial
	if finished {
		appendLine(&b, leftBehind(p.left))
		d = h.denied(p, text)
		appendLine(&b, deniedLine(d))
	}
	res := tools.Text(b.String())
	if d != nil {
		tools.MarkDenied(res, d)
	}
	if s != nil && !finished {
		tools.MarkSession(res, s.idText())
	}
	if finished && s == nil {
		p.out.close()
	}
	return res
}

// howToRead tells the model how to get what was cut out of an answer.
func howToRead(s *session) func(offset int64) string {
	return func(offset int64) string {
		if s == nil {
			return ""
		}
		return fmt.Sprintf("read_output with session_id %d and offset %d returns them", s.id, offset)
	}
}

func endedNote(s *session) string {
	if s == nil || s.hasEnded() {
		return ""
	}
	return fmt.Sprintf("Session ID %d (%s) was ended, because there are more than %d sessions\n", s.id, s.title(), maxSessions)
}

// appendLine adds a line, on a line of its own.
func appendLine(b *strings.Builder, line string) {
	if line == "" {
		return
	}
	if s := b.String(); !strings.HasSuffix(s, "\n") {
		b.WriteByte('\n')
	}
	b.WriteString(line)
}

// evict gives up a session that left the table.
func (h *host) evict(s *session) {
	if s == nil {
		return
	}
	h.ending.Go(func() { // ends with the command
		h.end(s.process, grace)
		s.out.close()
	})
}

var stdinDef = tools.Def{
	Name:  "write_stdin",
	Title: "Write to a session",
	Description: "Writes to a session that exec_command or shell left running, waits, and returns what it printed since the last answer. " +
		"With neither chars nor keys it only waits. Do not poll in a loop: give wait_for. " +
		"keys [\"ctrl-c\"] or chars \"\\u0003\" interrupts any session; other input needs one started with tty true.",
	Destructive: true,
	OpenWorld:   true,
}

type stdinInput struct {
	SessionID       sessionArgument `json:"session_id" jsonschema:"the session ID of an earlier answer"`
	Chars           string          `json:"chars,omitempty" jsonschema:"text to type, sent as it is; end a line with \\n"`
	Keys            []string        `json:"keys,omitempty" jsonschema:"keys to press after chars, by name: enter, tab, escape, up, down, left, right, ctrl-c, alt-f, f1 ..."`
	WaitFor         string          `json:"wait_for,omitempty" jsonschema:"answer as soon as a line printed from now on matches this regular expression (RE2), or, given the word exit, when the command ends"`
	YieldTimeMS     *int64          `json:"yield_time_ms,omitempty" jsonschema:"how long to wait before answering: default 250 after input, 5000 without, 25000 with wait_for; at most 30000 after input, else 300000"`
	MaxOutputTokens *int            `json:"max_output_tokens,omitempty" jsonschema:"most output to return; the middle is cut from more"`
	Rows            int             `json:"rows,omitempty" jsonschema:"new number of rows of the terminal; give cols too"`
	Cols            int             `json:"cols,omitempty" jsonschema:"new number of columns of the terminal; give rows too"`
	Kill            bool            `json:"kill,omitempty" jsonschema:"end the command and everything it started"`
}

// input returns what is typed.
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
	if _, err := sizeOf(in.Rows, in.Cols); err != nil {
		return policy.Action{}, err
	}
	if err := checkNumbers(in.YieldTimeMS, in.MaxOutputTokens); err != nil {
		return policy.Action{}, err
	}
	if _, err := newMatcher(in.WaitFor, 0); err != nil {
		return policy.Action{}, err
	}
	return policy.Action{
		Session:  fmt.Sprint(int64(in.SessionID)),
		Preview:  text,
		ReadOnly: text == "" && !in.Kill && in.Rows == 0,
	}, nil
}

func (h *host) runStdin(ctx context.Context, call *tools.Call, in stdinInput) (*mcp.CallToolResult, error) {
	started := time.Now()
	if _, err := describeStdin(in); err != nil {
		return nil, err
	}
	s, err := h.sessions.find(in.SessionID)
	if err != nil {
		return nil, err
	}
	text, _ := in.input(s.keys.application.Load())
	until, err := in.matcher(h, s, text)
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
		if h.sessions.endTold(s) {
			return nil, fmt.Errorf("session %d has exited with code %d; start a new one with exec_command", s.id, s.code)
		}
		note = "The input was not sent: the command has ended\n"
	} else if text != "" {
		if err := s.typeText(text); err != nil {
			return nil, err
		}
	}
	if in.Kill {
		h.end(s.process, grace)
	}
	what := s.await(ctx, call, in.yield(text), until)
	if what == cancelled {
		// Nobody reads this; what was printed is for the next call.
		return tools.Text("the call was cancelled; the session goes on\n"), nil
	}
	note += waited(in.WaitFor, what)
	return h.answer(answer{process: s.process, session: s, budget: h.budget(in.MaxOutputTokens), started: started, waited: note}), nil
}

// matcher returns what looks for the expression of wait_for: in what the model
// has not seen, or, after input, in what is printed from then on.
func (in stdinInput) matcher(h *host, s *session, text string) (*matcher, error) {
	from, total := h.sessions.unread(s)
	if text != "" {
		from = total
	}
	return newMatcher(in.WaitFor, from)
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

// waited says in a line how waiting for something went.
func waited(waitFor string, what outcome) string {
	switch {
	case waitFor == "":
		return ""
	case what == matched:
		return fmt.Sprintf("Waited for: %q, which was printed\n", waitFor)
	case what == expired && waitFor == "exit":
		return "Waited for: exit, which has not come yet\n"
	case what == expired:
		return fmt.Sprintf("Waited for: %q, which was not printed yet\n", waitFor)
	case what == ended && waitFor != "exit":
		return fmt.Sprintf("Waited for: %q, which was not printed before the end\n", waitFor)
	}
	return ""
}

// typeText gives text to the session's command.
func (s *session) typeText(text string) error {
	if s.terminal == nil {
		if text != interrupt {
			return errors.New("stdin is closed for this session; run exec_command again with tty true to keep it open, or interrupt with keys [\"ctrl-c\"]")
		}
		return interruptGroup(s.process)
	}
	s.typing.Lock()
	defer s.typing.Unlock()
	s.terminal.SetWriteDeadline(time.Now().Add(typingLimit))
	n, err := s.terminal.WriteString(text)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the program took %d of %d bytes and reads no more now; send the rest later", n, len(text))
	}
	if err != nil && !s.hasEnded() {
		return fmt.Errorf("writing to the terminal: %s", reason(err))
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
