package applypatch

import (
	"slices"
	"strings"
)

// Parse parses a patch of either format, which it detects from the text. A text that
// is plainly meant as a patch but is none is rewritten first; [Patch.Notes] says how.
// Every error is a [*SyntaxError].
func Parse(text string) (*Patch, error) { return parseSource(newSource(text)) }

// parse parses s as it is.
func (s source) parse() (*Patch, error) {
	lines, first := trimBlank(s.lines, s.first)
	for i, line := range lines {
		switch {
		case i == 0 && isMarker(line, beginMarker):
			return parseCodex(withoutCR(lines), first)
		case startsDiff(lines[i:]):
			return parseUnified(lines[i:], first+i)
		case strings.HasPrefix(line, "***") || heredoc.MatchString(line) || command.MatchString(line):
			// A header without Begin Patch, so Codex's format was intended, or a
			// command, which may say where the patch is to be applied.
			return nil, noPatch(first+i, s)
		}
	}
	return nil, noPatch(0, s)
}

// noPatch returns the error for a text that is no patch, with the form to write.
func noPatch(line int, s source) error {
	const form = "'" + beginMarker + "', then '*** Update File: PATH', '@@', lines that begin with " +
		"' ' (context), '-' (removed) or '+' (added), and at last '" + endMarker + "'"
	text := s.text()
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	switch {
	case len(s.lines) < 3 && has(`\n`):
		return syntaxError(line, `it holds literal \n in place of line breaks; send real ones: %s`, form)
	case has("old_string", "old_str", "SEARCH", "<<<<<<<", "ORIGINAL"):
		return syntaxError(line, "replacements of strings are no patch; write %s", form)
	case has("\n***************\n"):
		return syntaxError(line, "context diffs are not read; write a unified diff, or %s", form)
	}
	const format = "it is neither in Codex's format nor a unified diff ('--- a/PATH', '+++ b/PATH'); write %s"
	return syntaxError(line, format, form)
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
