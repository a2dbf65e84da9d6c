package applypatch

import (
	"strconv"
	"strings"

	"github.com/sourcegraph/go-diff/diff"

	"toolgate/internal/lazyregexp"
)

const (
	// gitLine begins the first line of a file in git's format.
	gitLine = "diff --git "

	// devNull is the name that a diff gives to a file that does not exist.
	devNull = "/dev/null"
)

// A unifiedParser splits a diff into files and hunks by the counts in the hunk
// headers, as git does. This handles lines such as "--- x" inside a hunk. It
// tolerates wrong counts, which are common in diffs that models write.
type unifiedParser struct {
	lineReader
	// crlf is set if the diff itself has CRLF line endings, so that a carriage
	// return says nothing about the file.
	crlf bool
	ops  []FileOp
}

// parseUnified parses lines, the first of which begins a file.
func parseUnified(lines []string, first int) (*Patch, error) {
	p := &unifiedParser{lineReader: lineReader{lines: lines, first: first}}
	if p.crlf = strings.HasSuffix(lines[0], "\r"); p.crlf {
		p.lines = withoutCR(lines)
	}
	for p.more() {
		if !startsDiff(p.lines[p.next:]) {
			if err := p.skipBetween(); err != nil {
				return nil, err
			}
			continue
		}
		op, err := p.file()
		if err != nil {
			return nil, err
		}
		p.ops = append(p.ops, op)
	}
	return &Patch{Format: Unified, Ops: p.ops}, nil
}

// skipBetween skips a line between two files. A line that looks like part of a
// hunk is an error, because it would be lost.
func (p *unifiedParser) skipBetween() error {
	line := p.line()
	above := ""
	if p.next > 0 {
		above = p.lines[p.next-1]
	}
	switch {
	case isFileHeader(line):
		return p.errorf("%q stands below a unified diff; write all files in one form: "+
			"'*** Update File: PATH', or '--- a/PATH' and '+++ b/PATH'", short(line))
	case !strings.HasPrefix(line, "@@") && !strings.HasPrefix(line, "+"):
	case strings.TrimSpace(above) != "" && len(p.ops) > 0:
		return p.errorf("%q belongs to no hunk, because the line above it, %q, has no ' ', '-' or '+' before it",
			short(line), short(above))
	default:
		return p.errorf("%q belongs to no file; begin each file with '--- a/PATH' and '+++ b/PATH'", short(line))
	}
	p.next++
	return nil
}

func (p *unifiedParser) file() (FileOp, error) {
	op := FileOp{Line: p.number()}
	h, err := p.headers()
	if err != nil {
		return op, err
	}
	for p.more() && strings.HasPrefix(p.line(), "@@") {
		hunk, err := p.hunk()
		if err != nil {
			return op, err
		}
		op.Hunks = append(op.Hunks, hunk)
		op.Unique = op.Unique || hunk.OldStart == 0 && hunk.NewStart == 0
	}
	return op, h.fill(&op)
}

// A diffHeader holds what precedes the hunks of a file.
type diffHeader struct {
	git              bool   // it has a "diff --git" line
	oldName, newName string // without prefixes such as a/ and b/
	from, to         string // of a rename or copy
	copied           bool
	newFile, deleted bool
	mode             string // the new mode
	binary           bool
}

// headers parses up to the first hunk. The names are those of a rename, else
// those of the --- and +++ lines, else those of the "diff --git" line.
func (p *unifiedParser) headers() (diffHeader, error) {
	var h diffHeader
	head := p.line()
	if h.git = strings.HasPrefix(head, gitLine); h.git {
		for p.next++; p.more() && h.extended(p.line()); p.next++ {
			continue
		}
	}
	named := hasNames(p.lines[p.next:])
	if named {
		names := strings.Join(withoutTimestamps(p.lines[p.next:p.next+2]), "\n") + "\n"
		if fd, err := diff.ParseFileDiff([]byte(names)); err == nil {
			h.oldName, h.newName = withoutPrefixes(fd.OrigName, fd.NewName)
		}
		p.next += 2
	}
	switch {
	case h.binary:
		return h, p.errorf("binary changes cannot be applied; leave that file out")
	case h.from != "":
		h.oldName, h.newName = h.from, h.to
		return h, nil
	case !named:
		h.oldName, h.newName = withoutPrefixes(gitNames(strings.TrimSuffix(head, "\r")))
	}
	if h.oldName == "" || h.newName == "" {
		return h, p.errorf("no file name could be read from %q; write '--- a/PATH' and '+++ b/PATH'", short(head))
	}
	return h, nil
}

func hasNames(lines []string) bool {
	return len(lines) > 1 && strings.HasPrefix(lines[0], "--- ") && strings.HasPrefix(lines[1], "+++ ")
}

// extended parses one of git's extended header lines, which are between
// "diff --git" and "---". It reports false for any other line.
func (h *diffHeader) extended(line string) bool {
	for prefix, read := range map[string]func(string){
		"new file mode ":     func(v string) { h.newFile, h.mode = true, v },
		"deleted file mode ": func(string) { h.deleted = true },
		"old mode ":          func(string) {},
		"new mode ":          func(v string) { h.mode = v },
		"rename from ":       func(v string) { h.from = unquote(v) },
		"rename to ":         func(v string) { h.to = unquote(v) },
		"copy from ":         func(v string) { h.from = unquote(v) },
		"copy to ":           func(v string) { h.to, h.copied = unquote(v), true },
		"similarity index ":  func(string) {},
		"dissimilarity ":     func(string) {},
		"index ":             h.index,
		"GIT binary patch":   func(string) { h.binary = true },
		"Binary files ":      func(string) { h.binary = true },
	} {
		if v, ok := strings.CutPrefix(line, prefix); ok {
			read(strings.TrimSuffix(v, "\r"))
			return true
		}
	}
	return false
}

// index parses the mode at the end of an index line, which is there if the mode
// does not change. Only the mode of a link or submodule is of interest.
func (h *diffHeader) index(v string) {
	if _, mode, ok := strings.Cut(v, " "); ok && !strings.HasPrefix(mode, "100") {
		h.mode = mode
	}
}

// gitNames returns the two names in a line "diff --git a/x b/x". Unquoted names
// with spaces can be separated only if they are equal except for their prefixes;
// otherwise gitNames returns empty names.
func gitNames(line string) (oldName, newName string) {
	rest := strings.TrimPrefix(line, gitLine)
	if first, err := strconv.QuotedPrefix(rest); err == nil && strings.HasPrefix(rest, `"`) {
		return unquote(first), unquote(strings.TrimPrefix(rest[len(first):], " "))
	}
	if first, second, ok := strings.Cut(rest, " "); ok && !strings.Contains(second, " ") {
		return first, second
	}
	if first, second, ok := strings.Cut(rest, ` "`); ok && strings.HasSuffix(second, `"`) {
		return first, unquote(`"` + second)
	}
	half := len(rest) / 2
	if len(rest)%2 == 1 && rest[half] == ' ' {
		first, second := withoutPrefixes(rest[:half], rest[half+1:])
		if first == second {
			return rest[:half], rest[half+1:]
		}
	}
	return "", ""
}

// withoutTimestamps removes what follows a tab in the --- and +++ lines: go-diff
// rejects dates in unknown formats.
func withoutTimestamps(lines []string) []string {
	var cut []string
	for _, line := range lines {
		line, _, _ = strings.Cut(line, "\t")
		cut = append(cut, line)
	}
	return cut
}

// headerNames returns the names in the --- and +++ lines at the start of lines, as
// far as they can be told where a hunk may go on.
func headerNames(lines []string) (oldName, newName string) {
	names := withoutTimestamps(lines[:2])
	return withoutPrefixes(unquote(strings.TrimSpace(names[0][4:])), unquote(strings.TrimSpace(names[1][4:])))
}

// prefixes are the pairs of prefixes that git writes before the names of a file.
var prefixes = [][2]string{{"a/", "b/"}, {"i/", "w/"}, {"c/", "i/"}, {"c/", "w/"}, {"o/", "w/"}, {"b/", "a/"}}

// withoutPrefixes strips git's prefixes if both names have theirs, or if only one does
// and they are the same else.
func withoutPrefixes(oldName, newName string) (string, string) {
	for _, pre := range prefixes {
		o, okOld := strings.CutPrefix(oldName, pre[0])
		n, okNew := strings.CutPrefix(newName, pre[1])
		if (okOld || oldName == devNull) && (okNew || newName == devNull) {
			return o, n
		}
	}
	if newName == "b/"+oldName {
		return oldName, oldName
	}
	if oldName == "a/"+newName {
		return newName, newName
	}
	return oldName, newName
}

func (h *diffHeader) fill(op *FileOp) error {
	if h.mode != "" {
		mode, err := strconv.ParseUint(h.mode, 8, 32)
		if err != nil || mode&0o170000 != 0o100000 {
			return syntaxError(op.Line, "mode %s is not that of a regular file; "+
				"links and submodules cannot be patched, use the shell", h.mode)
		}
		op.Exec = ExecOff
		if mode&0o111 != 0 {
			op.Exec = ExecOn
		}
	}
	op.Kind, op.Path = Update, h.oldName
	switch {
	case h.newFile || h.oldName == devNull:
		op.Kind, op.Path = Add, h.newName
		if op.Exec == ExecOff {
			op.Exec = ExecKeep
		}
	case h.deleted || h.newName == devNull:
		op.Kind = Delete
	default:
		if h.newName != h.oldName {
			op.MoveTo = h.newName
		}
		op.Copy = h.copied
	}
	// Without hunks, only git's extended headers can describe a change.
	changes := op.Kind != Update || op.MoveTo != "" || op.Exec != ExecKeep
	if len(op.Hunks) == 0 && !(h.git && changes) {
		const format = "the diff of %s has no hunks; give it at least one '@@ -LINE,COUNT +LINE,COUNT @@'"
		return syntaxError(op.Line, format, op.Path)
	}
	if op.Kind == Add {
		return checkAdd(op)
	}
	return nil
}

// checkAdd returns an error unless a new file has one hunk of added lines.
func checkAdd(op *FileOp) error {
	if len(op.Hunks) > 1 {
		return syntaxError(op.Line, "the new file %s has %d hunks; give it one", op.Path, len(op.Hunks))
	}
	for _, hunk := range op.Hunks {
		for _, l := range hunk.Lines {
			if l.Op != '+' {
				return syntaxError(op.Line, "the new file %s has a line that does not begin with '+': %q",
					op.Path, short(string(l.Op)+l.Text))
			}
		}
	}
	return nil
}

// unquote returns a name without the quotes and escapes that git writes.
func unquote(name string) string {
	if s, err := strconv.Unquote(name); err == nil && strings.HasPrefix(name, `"`) {
		return s
	}
	return name
}

// hunkHeader matches the first line of a hunk. The counts are optional.
var hunkHeader = lazyregexp.New(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

func (p *unifiedParser) hunk() (Hunk, error) {
	h := Hunk{Line: p.number()}
	head := strings.TrimSuffix(p.line(), "\r")
	m := hunkHeader.FindStringSubmatch(head)
	if m == nil && strings.ContainsAny(head, "0123456789") && strings.HasPrefix(head, "@@ -") {
		return h, p.errorf("%q is no hunk header; write '@@ -LINE,COUNT +LINE,COUNT @@'", short(head))
	}
	p.next++
	var left lineCounts
	var body []string
	if m == nil {
		text := strings.Trim(strings.TrimPrefix(head, "@@"), " ")
		if strings.Trim(text, "@. …") != "" && text[0] != '-' {
			h.Context = []string{text}
		}
	} else {
		h.OldStart, h.NewStart = number(m[1], 0), number(m[3], 0)
		left = lineCounts{number(m[2], 1), number(m[4], 1)}
		body = p.counted(left)
	}
	if body == nil {
		var err error
		if body, err = p.untilNext(left); err != nil {
			return h, err
		}
	}
	p.next += len(body)
	for _, line := range body {
		p.addLine(&h, line)
	}
	if len(h.Lines) == 0 {
		return h, emptyHunk(&h)
	}
	return h, nil
}

// number parses digits; an empty string is def.
func number(digits string, def int) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return def
	}
	return n
}

// lineCounts are the numbers of old and new lines that a hunk still has.
type lineCounts struct{ old, new int }

func (c *lineCounts) take(op byte) {
	if op == ' ' || op == '-' {
		c.old--
	}
	if op == ' ' || op == '+' {
		c.new--
	}
}

// counted returns the lines of a hunk by its counts, or nil if no hunk can end
// there, which means that the counts are wrong.
func (p *unifiedParser) counted(left lineCounts) []string {
	i := p.next
	for ; i < len(p.lines) && (left.old > 0 || left.new > 0); i++ {
		op := lineOp(p.lines[i])
		if op == 0 {
			return nil
		}
		left.take(op)
	}
	if i < len(p.lines) && lineOp(p.lines[i]) == '\\' {
		i++
	}
	if left != (lineCounts{}) || !p.canEndAt(i) {
		return nil
	}
	return p.lines[p.next:i]
}

func (p *unifiedParser) canEndAt(i int) bool {
	return i >= len(p.lines) || lineOp(p.lines[i]) == 0 || p.fileAt(i) || p.lines[i] == "" || p.lines[i] == "-- "
}

// fileAt reports whether line i can begin a file: a "diff --git" line, or two
// names followed by a hunk. Without a hunk they are lines of the current one.
func (p *unifiedParser) fileAt(i int) bool {
	l := p.lines[i:]
	return startsDiff(l) && (strings.HasPrefix(l[0], gitLine) || len(l) > 2 && strings.HasPrefix(l[2], "@@"))
}

// untilNext returns the lines up to the next hunk or file, for a hunk whose
// header has wrong counts or none. Trailing blank lines are not part of the
// hunk. File names that could also be a removed and an added line are an error.
func (p *unifiedParser) untilNext(left lineCounts) ([]string, error) {
	i := p.next
	for ; i < len(p.lines) && lineOp(p.lines[i]) != 0 && !p.fileAt(i); i++ {
		left.take(lineOp(p.lines[i]))
	}
	if i < len(p.lines) && p.fileAt(i) && !p.surelyNames(i, left.old > 0 && left.new > 0) {
		return nil, syntaxError(p.first+i, "%q may be a removed line or begin a file; "+
			"correct the counts in '@@ -LINE,COUNT +LINE,COUNT @@' above", short(p.lines[i]))
	}
	for i > p.next && p.lines[i-1] == "" {
		i--
	}
	return p.lines[p.next:i], nil
}

// surelyNames reports whether line i begins a file beyond doubt: it is not a
// move, and it either has prefixes or is outside the hunk by the counts.
func (p *unifiedParser) surelyNames(i int, inside bool) bool {
	l := p.lines[i:]
	if strings.HasPrefix(l[0], gitLine) {
		return true
	}
	oldName, newName := headerNames(l)
	prefixed := strings.HasPrefix(l[0], "--- a/") || strings.HasPrefix(l[1], "+++ b/")
	return (oldName == newName || oldName == devNull || newName == devNull) && (prefixed || !inside)
}

// lineOp returns the operation of a line in a hunk, or 0 if it is not such a
// line. An empty line is an empty context line that lost its space.
func lineOp(line string) byte {
	if line == "" || line == "\r" {
		return ' '
	}
	switch line[0] {
	case ' ', '-', '+', '\\':
		return line[0]
	}
	return 0
}

func (p *unifiedParser) addLine(h *Hunk, line string) {
	op := lineOp(line)
	if op != '\\' {
		l := Line{Op: op, Text: strings.TrimPrefix(line, string(op))}
		if text, ok := strings.CutSuffix(l.Text, "\r"); ok {
			l.Text, l.End = text, "\r\n"
		} else if !p.crlf {
			l.End = "\n"
		}
		h.Lines = append(h.Lines, l)
	} else if len(h.Lines) > 0 { // "\ No newline at end of file" is about the line before
		l := &h.Lines[len(h.Lines)-1]
		if l.End == "\r\n" {
			l.Text += "\r"
		}
		l.End = NoNewline
	}
}
