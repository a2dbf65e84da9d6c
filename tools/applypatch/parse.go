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
	return &SyntaxError{line, "the first line must be '" + beginMarker +
		"', or the text a unified diff; begin with one of them"}
}

// startsDiff reports whether a unified diff begins at the first of lines.
func startsDiff(lines []string) bool {
	if strings.HasPrefix(lines[0], "diff --git ") {
		return true
	}
	return len(lines) > 1 && strings.HasPrefix(lines[0], "--- ") && strings.HasPrefix(lines[1], "+++ ")
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

// withoutCR returns lines without trailing carriage returns.
func withoutCR(lines []string) []string {
	cut := make([]string, len(lines))
	for i, line := range lines {
		cut[i] = strings.TrimRight(line, "\r")
	}
	return cut
}
