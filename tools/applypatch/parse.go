package applypatch

import (
	"strings"

	"toolgate/internal/lazyregexp"
)

// Parse parses a patch of either format, which it detects from the text. It
// strips a Markdown fence or a shell heredoc around the patch. Every error is a
// [*SyntaxError].
func Parse(text string) (*Patch, error) {
	lines := strings.Split(text, "\n")
	lines, first := unwrap(lines)
	for i, line := range lines {
		switch {
		case isMarker(line, beginMarker) && (i == 0 || strings.HasPrefix(line, "***")):
			// Below the first line, an indented marker may be a quote.
			return parseCodex(withoutCR(lines[i:]), first+i)
		case startsDiff(lines[i:]):
			return parseUnified(lines[i:], first+i)
		case strings.HasPrefix(line, "***"):
			// A header without Begin Patch: Codex's format was intended.
			return nil, noPatch(first + i)
		}
	}
	return nil, noPatch(0)
}

func noPatch(line int) error {
	const format = "the first line must be '%s', or the text a unified diff; begin with one of them"
	return syntaxError(line, format, beginMarker)
}

// startsDiff reports whether a unified diff begins at the first of lines.
func startsDiff(lines []string) bool {
	return strings.HasPrefix(lines[0], gitLine) || hasNames(lines)
}

// A lineReader reads the lines of a patch one by one.
type lineReader struct {
	lines []string
	first int // line number of lines[0] in the original text
	next  int // index of the next line
}

func (r *lineReader) more() bool   { return r.next < len(r.lines) }
func (r *lineReader) line() string { return r.lines[r.next] }
func (r *lineReader) number() int  { return r.first + r.next }

// text returns the first line that is not blank from index i on, or "".
func (r *lineReader) text(i int) string {
	for _, line := range r.lines[i:] {
		if strings.TrimSpace(line) != "" {
			return line
		}
	}
	return ""
}

func (r *lineReader) errorf(format string, args ...any) error {
	return syntaxError(r.number(), format, args...)
}

var (
	fence   = lazyregexp.New("^(```+|~~~+)[ \t]*[\\w+-]*$")
	heredoc = lazyregexp.New(`^(?:(?:apply_patch|applypatch|cat)\s*)?<<-?\s*(?:'([\w-]+)'|"([\w-]+)"|([\w-]+))` +
		`(?:\s*\|\s*(?:apply_patch|applypatch))?$`)
)

// unwrap strips blank lines, Markdown fences and heredocs. It returns the
// remaining lines and the line number of the first one.
func unwrap(lines []string) ([]string, int) {
	first := 1
	for {
		lines, first = trimBlank(lines, first)
		if len(lines) < 2 {
			return lines, first
		}
		head, last := strings.TrimSpace(lines[0]), strings.TrimSpace(lines[len(lines)-1])
		closing := ""
		if m := fence.FindStringSubmatch(head); m != nil {
			closing = m[1]
		} else if m := heredoc.FindStringSubmatch(head); m != nil {
			closing = m[1] + m[2] + m[3]
		}
		if closing == "" || last != closing {
			return lines, first
		}
		lines, first = lines[1:len(lines)-1], first+1
	}
}

// trimBlank removes blank lines at both ends. A last line of a single space is
// kept: it is an empty context line of a diff.
func trimBlank(lines []string, first int) ([]string, int) {
	for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
		lines, first = lines[1:], first+1
	}
	for len(lines) > 0 && strings.TrimRight(lines[len(lines)-1], "\r") == "" {
		lines = lines[:len(lines)-1]
	}
	return lines, first
}

func withoutCR(lines []string) []string {
	cut := make([]string, len(lines))
	for i, line := range lines {
		cut[i] = strings.TrimRight(line, "\r")
	}
	return cut
}
