package shell

import (
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/tools"
)

// A page is the content of one answer about a command.
type page struct {
	process  *process
	session  *session // nil if the answer is complete
	ended    *session // a running one that was evicted for this one, or nil
	finished bool     // the command has ended
	chunk    chunk
	text     string // the output, without its middle if it is too long
	cut      bool
	denied   *tools.Denial  // what the sandbox refused, or nil
	hosts    []tools.Denial // refused hosts
}

// page returns the output of p since the last answer about s, which is nil for the
// first answer. A command that is still running, or whose output does not fit,
// becomes a session.
func (h *host) page(p *process, s *session, budget int) page {
	limit := budget * tools.BytesPerToken
	g := page{process: p, session: s, finished: p.hasEnded()}
	total, lines := p.out.size()
	g.chunk = chunk{0, total, lines}
	if s == nil && (!g.finished || total > int64(limit)) {
		var out *session
		if g.session, out = h.sessions.keep(p); out != nil {
			if !out.hasEnded() {
				g.ended = out
			}
			h.ending.Go(func() { // ends with the command
				h.end(out.process)
				out.out.close()
			})
		}
	}
	if g.session != nil {
		g.chunk = h.sessions.take(g.session, g.finished)
	}
	g.text, g.cut = p.out.text(g.chunk.from, g.chunk.to, limit, g.howToRead)
	if g.finished {
		g.denied, g.hosts = h.denied(p, g.text)
	} else {
		g.hosts = p.unreportedHosts(p.refused())
	}
	if g.session == nil {
		p.out.close()
	}
	return g
}

// howToRead tells the model how to read the bytes that were cut at offset.
func (g page) howToRead(offset int64) string {
	if g.session == nil {
		return ""
	}
	return fmt.Sprintf("read_output with session_id %d and offset %d returns them", g.session.id, offset)
}

// result returns the result with head before the output and note at its start.
func (g page) result(head, note string) *mcp.CallToolResult {
	var b strings.Builder
	b.WriteString(head)
	if g.cut {
		fmt.Fprintf(&b, "Total output lines: %d\n", g.chunk.lines)
	}
	if g.ended != nil {
		fmt.Fprintf(&b, "Session ID %d (%s) was ended, because there are more than %d sessions\n",
			g.ended.id, g.ended.title(), maxSessions)
	}
	b.WriteString("Output:\n")
	b.WriteString(note)
	b.WriteString(g.text)
	appendLine(&b, hostLines(g.hosts, g.denied))
	if g.finished {
		appendLine(&b, limitLine(g.process, g.text))
		appendLine(&b, leftoverLine(g.process.leftovers))
		appendLine(&b, g.process.host.options.deniedLine(g.denied))
		appendLine(&b, patchLine(g.process, g.text))
	}
	res := tools.Text(b.String())
	if g.denied != nil {
		tools.MarkDenied(res, g.denied)
	}
	if g.session != nil && !g.finished {
		tools.MarkSession(res, fmt.Sprint(g.session.id))
	}
	return res
}

// appendLine appends line, unless it is empty, on a line of its own.
func appendLine(b *strings.Builder, line string) {
	if line == "" {
		return
	}
	if !strings.HasSuffix(b.String(), "\n") {
		b.WriteByte('\n')
	}
	b.WriteString(line)
}

// sessionAnswer returns the answer about a command that may still be running, in the
// format of Codex's exec_command. waited is a line about the result of waiting.
func (h *host) sessionAnswer(p *process, s *session, budget int, started time.Time, waited string) *mcp.CallToolResult {
	g := h.page(p, s, budget)
	var b strings.Builder
	fmt.Fprintf(&b, "Wall time: %.4f seconds\n", time.Since(started).Seconds())
	if g.finished {
		fmt.Fprintf(&b, "Process exited with code %d\n", p.code)
	} else {
		fmt.Fprintf(&b, "Process running with session ID %d\n", g.session.id)
	}
	b.WriteString(waited)
	fmt.Fprintf(&b, "Original token count: %d\n", tools.Tokens(g.chunk.to-g.chunk.from))
	note := ""
	if g.finished && p.timedOut.Load() {
		note = timeoutNote(p.timeout)
	}
	return g.result(b.String(), note)
}
