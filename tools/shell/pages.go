package shell

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

var listDef = tools.Def{
	Name:        "list_sessions",
	Title:       "List sessions",
	Description: "Lists running sessions, and ended ones whose output is kept.",
	ReadOnly:    true,
	Idempotent:  true,
}

type listInput struct{}

func describeList(listInput) (policy.Action, error) { return policy.Action{}, nil }

func (h *host) runList(context.Context, listInput) (*mcp.CallToolResult, error) {
	all := h.sessions.all()
	if len(all) == 0 {
		return tools.Text("no sessions\n"), nil
	}
	var b strings.Builder
	for _, s := range all {
		from, to := h.sessions.unread(s)
		state := "running"
		if s.hasEnded() {
			state = fmt.Sprintf("exited with code %d", s.code)
		}
		fmt.Fprintf(&b, "session ID %d: %s, started %s ago, %d bytes unread: %s\n",
			s.id, state, age(time.Since(s.started)), to-from, s.title())
	}
	return tools.Text(b.String()), nil
}

func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// title returns the command as one short line.
func (p *process) title() string {
	const most = 120
	text := strings.Join(strings.Fields(p.text), " ")
	if len(text) > most {
		text = tools.Cut(text, most) + "..."
	}
	return text
}

var readDef = tools.Def{
	Name:        "read_output",
	Title:       "Read kept output",
	Description: "Returns any part of the output of a session, or of a command whose answer was cut.",
	ReadOnly:    true,
	Idempotent:  true,
}

type readInput struct {
	SessionID int64 `json:"session_id" jsonschema:"from an answer"`
	Offset    int64 `json:"offset,omitempty" jsonschema:"in bytes; negative: from the end"`
	Limit     int64 `json:"limit,omitempty" jsonschema:"in bytes"`
}

func describeRead(in readInput) (policy.Action, error) {
	if in.Limit < 0 {
		return policy.Action{}, fmt.Errorf("limit is %d; give a positive number of bytes, or leave it out", in.Limit)
	}
	return policy.Action{Session: fmt.Sprint(in.SessionID)}, nil
}

func (h *host) runRead(_ context.Context, in readInput) (*mcp.CallToolResult, error) {
	s, err := h.sessions.find(in.SessionID)
	if err != nil {
		return nil, err
	}
	most := int64(h.options.budget() * tools.BytesPerToken)
	if in.Limit > 0 {
		most = min(in.Limit, most)
	}
	total, _ := s.out.size()
	from := in.Offset
	if from < 0 {
		from = max(0, total+from)
	}
	if from > total {
		return nil, fmt.Errorf("offset %d is past the end; the output has %d bytes", in.Offset, total)
	}
	from, page := wholePage(from, s.out.read(from, min(from+most, total)))
	to := from + int64(len(page))
	var b strings.Builder
	fmt.Fprintf(&b, "Bytes %d to %d of %d", from, to, total)
	if !s.hasEnded() {
		b.WriteString(" so far")
	}
	b.WriteByte('\n')
	if len(page) == 0 && from < total {
		fmt.Fprintf(&b, "Not kept: the bytes from here to %d\n", s.out.nextKept(from))
	} else if to < total {
		fmt.Fprintf(&b, "Next offset: %d\n", to)
	}
	b.WriteString("Output:\n")
	b.WriteString(readable(page))
	return tools.Text(b.String()), nil
}

// wholePage returns page, which begins at from, without incomplete characters at its
// ends, and the offset at which the result begins.
func wholePage(from int64, page []byte) (int64, []byte) {
	for range utf8.UTFMax - 1 {
		if from == 0 || len(page) == 0 || utf8.RuneStart(page[0]) {
			break
		}
		page = page[1:]
		from++
	}
	if whole := tools.WholeRunes(page); len(whole) > 0 {
		page = whole
	}
	return from, page
}
