package applypatch

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/sourcegraph/go-diff/diff"

	"toolgate/internal/lazyregexp"
)

// devNull is the name that a diff gives to a file that does not exist.
const devNull = "/dev/null"

// A unifiedParser splits a diff into files and hunks by the counts in the hunk
// headers, as git does, and parses each piece with go-diff. Splitting first
// handles lines such as "--- x" inside a hunk and tolerates wrong counts, which
// are common in diffs that models write.
type unifiedParser struct {
	lines []string
	first int
	next  int
	// crlf is set if the diff itself has CRLF line endings, so that a carriage
	// return says nothing about the file.
	crlf bool
	ops  []FileOp
}

// parseUnified parses lines, the first of which begins a file.
func parseUnified(lines []string, first int) (*Patch, error) {
	p := &unifiedParser{lines: lines, first: first}
	if p.crlf = strings.HasSuffix(lines[0], "\r"); p.crlf {
		p.lines = withoutCR(lines)
	}
	for p.next < len(p.lines) {
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
	line := p.lines[p.next]
	if strings.HasPrefix(line, "@@") || strings.HasPrefix(line, "+") {
		return p.errorf("%q belongs to no file; begin each file with '--- a/PATH' and '+++ b/PATH'", short(line))
	}
	p.next++
	return nil
}

// file parses one file: extended headers, names and hunks.
func (p *unifiedParser) file() (FileOp, error) {
	op := FileOp{Line: p.first + p.next}
	h, err := p.headers()
	if err != nil {
		return op, err
	}
	for p.next < len(p.lines) && strings.HasPrefix(p.lines[p.next], "@@") {
		hunk, err := p.hunk()
		if err != nil {
			return op, err
		}
		op.Hunks = append(op.Hunks, hunk)
	}
	if err := h.fill(&op); err != nil {
		return op, err
	}
	return op, nil
}

// A diffHeader holds what precedes the hunks of a file.
type diffHeader struct {
	oldName, newName   string // from the --- and +++ lines, or from "diff --git"
	renameTo, copyTo   string
	renameFrom         string
	newFile, deleted   bool
	mode               string // the new mode
	binary, hasGitLine bool
}

// headers parses up to the first hunk.
func (p *unifiedParser) headers() (diffHeader, error) {
	var h diffHeader
	start := p.next
	if strings.HasPrefix(p.lines[p.next], "diff --git ") {
		h.hasGitLine = true
		p.next++
		for p.next < len(p.lines) && p.extended(&h) {
			p.next++
		}
	}
	if hasNames(p.lines[p.next:]) {
		p.next += 2
	}
	if h.binary {
		return h, p.errorf("binary changes cannot be applied; leave that file out")
	}
	return h, p.names(&h, p.lines[start:p.next])
}

// hasNames reports whether lines begins with a --- and a +++ line.
func hasNames(lines []string) bool {
	return len(lines) > 1 && strings.HasPrefix(lines[0], "--- ") && strings.HasPrefix(lines[1], "+++ ")
}

// extended parses one of git's extended header lines, which are between
// "diff --git" and "---". It reports false for any other line.
func (p *unifiedParser) extended(h *diffHeader) bool {
	line := p.lines[p.next]
	for prefix, read := range map[string]func(string){
		"new file mode ":     func(v string) { h.newFile, h.mode = true, v },
		"deleted file mode ": func(string) { h.deleted = true },
		"old mode ":          func(string) {},
		"new mode ":          func(v string) { h.mode = v },
		"rename from ":       func(v string) { h.renameFrom = unquote(v) },
		"rename to ":         func(v string) { h.renameTo = unquote(v) },
		"copy from ":         func(v string) { h.renameFrom = unquote(v) },
		"copy to ":           func(v string) { h.copyTo = unquote(v) },
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

// names sets the two names of the file, without prefixes such as a/ and b/:
// those of a rename, else those of the --- and +++ lines, which go-diff parses,
// else those of the "diff --git" line.
func (p *unifiedParser) names(h *diffHeader, header []string) error {
	if h.renameFrom != "" {
		h.oldName, h.newName = h.renameFrom, h.renameTo+h.copyTo
		return nil
	}
	if n := len(header); n >= 2 && hasNames(header[n-2:]) {
		text := strings.Join(cutTimestamps(header[n-2:]), "\n") + "\n"
		if fd, err := diff.ParseFileDiff([]byte(text)); err == nil {
			h.oldName, h.newName = fd.OrigName, fd.NewName
		}
	} else {
		h.oldName, h.newName = gitNames(strings.TrimSuffix(header[0], "\r"))
	}
	h.oldName, h.newName = withoutPrefixes(h.oldName, h.newName)
	if h.oldName == "" || h.newName == "" {
		return p.errorf("no file name could be read from %q; write '--- a/PATH' and '+++ b/PATH'", short(header[0]))
	}
	return nil
}

// gitNames returns the two names in a line "diff --git a/x b/x". Unquoted names
// with spaces can be separated only if they are equal except for their prefixes;
// otherwise gitNames returns empty names.
func gitNames(line string) (oldName, newName string) {
	rest := strings.TrimPrefix(line, "diff --git ")
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

// cutTimestamps removes what follows a tab in the --- and +++ lines: go-diff
// rejects dates in unknown formats.
func cutTimestamps(header []string) []string {
	cut := make([]string, len(header))
	for i, line := range header {
		if strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ ") {
			line, _, _ = strings.Cut(line, "\t")
		}
		cut[i] = line
	}
	return cut
}

// headerNames returns the names in the --- and +++ lines at the start of lines.
func headerNames(lines []string) (oldName, newName string) {
	names := cutTimestamps(lines[:2])
	return withoutPrefixes(unquote(strings.TrimSpace(names[0][4:])), unquote(strings.TrimSpace(names[1][4:])))
}

// prefixes are the pairs of prefixes that git writes before the names of a file.
var prefixes = [][2]string{{"a/", "b/"}, {"i/", "w/"}, {"c/", "i/"}, {"c/", "w/"}, {"o/", "w/"}, {"b/", "a/"}}

// withoutPrefixes strips git's prefixes if both names have theirs.
func withoutPrefixes(oldName, newName string) (string, string) {
	for _, pre := range prefixes {
		o, okOld := strings.CutPrefix(oldName, pre[0])
		n, okNew := strings.CutPrefix(newName, pre[1])
		switch {
		case okOld && okNew:
			return o, n
		case okOld && newName == devNull:
			return o, newName
		case okNew && oldName == devNull:
			return oldName, n
		}
	}
	return oldName, newName
}

// fill sets the fields of op that follow from the header.
func (h *diffHeader) fill(op *FileOp) error {
	fault := func(format string, args ...any) error {
		return &SyntaxError{op.Line, fmt.Sprintf(format, args...)}
	}
	if h.mode != "" {
		mode, err := strconv.ParseUint(h.mode, 8, 32)
		if err != nil || mode&0o170000 != 0o100000 {
			return fault("mode %s is not that of a regular file; "+
				"links and submodules cannot be patched, use the shell", h.mode)
		}
		op.Exec = execOf(fs.FileMode(mode))
	}
	switch {
	case h.newFile || h.oldName == devNull:
		op.Kind, op.Path = Add, h.newName
		if op.Exec == ExecOff {
			op.Exec = ExecKeep
		}
	case h.deleted || h.newName == devNull:
		op.Kind, op.Path = Delete, h.oldName
	default:
		op.Kind, op.Path = Update, h.oldName
		if h.newName != h.oldName {
			op.MoveTo = h.newName
		}
		op.Copy = h.copyTo != ""
	}
	// Without hunks, only git's extended headers can describe a change.
	changes := op.Kind != Update || op.MoveTo != "" || op.Exec != ExecKeep
	if len(op.Hunks) == 0 && !(h.hasGitLine && changes) {
		return fault("the diff of %s has no hunks; give it at least one '@@ -LINE,COUNT +LINE,COUNT @@'", op.Path)
	}
	if op.Kind == Add {
		return h.checkAdd(op, fault)
	}
	return nil
}

// checkAdd returns an error unless a new file has one hunk of added lines.
func (h *diffHeader) checkAdd(op *FileOp, fault func(string, ...any) error) error {
	if len(op.Hunks) > 1 {
		return fault("the new file %s has %d hunks; give it one", op.Path, len(op.Hunks))
	}
	for _, hunk := range op.Hunks {
		for _, l := range hunk.Lines {
			if l.Op != '+' {
				return fault("the new file %s has a line that does not begin with '+': %q",
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

// hunk parses one hunk.
func (p *unifiedParser) hunk() (Hunk, error) {
	h := Hunk{Line: p.first + p.next}
	head := strings.TrimSuffix(p.lines[p.next], "\r")
	m := hunkHeader.FindStringSubmatch(head)
	if m == nil && strings.ContainsAny(head, "0123456789") && strings.HasPrefix(head, "@@ -") {
		return h, p.errorf("%q is no hunk header; write '@@ -LINE,COUNT +LINE,COUNT @@'", short(head))
	}
	p.next++
	var body []string
	var oldLines, newLines int
	if m != nil {
		h.OldStart, h.NewStart = number(m[1], 0), number(m[3], 0)
		oldLines, newLines = number(m[2], 1), number(m[4], 1)
		body = p.counted(oldLines, newLines)
	}
	if body == nil {
		var err error
		if body, err = p.untilNext(oldLines, newLines); err != nil {
			return h, err
		}
	}
	p.next += len(body)
	if len(body) == 0 {
		return h, &SyntaxError{h.Line, "the hunk has no lines; give it lines that begin with ' ', '-' or '+'"}
	}
	return h, p.body(&h, body)
}

// number parses digits; an empty string is def.
func number(digits string, def int) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return def
	}
	return n
}

// counted returns the lines of a hunk by its counts of old and new lines, or nil
// if no hunk can end there, which means that the counts are wrong.
func (p *unifiedParser) counted(oldLines, newLines int) []string {
	i := p.next
	for ; i < len(p.lines) && (oldLines > 0 || newLines > 0); i++ {
		switch lineOp(p.lines[i]) {
		case ' ':
			oldLines--
			newLines--
		case '-':
			oldLines--
		case '+':
			newLines--
		case '\\':
		default:
			return nil
		}
	}
	if i < len(p.lines) && lineOp(p.lines[i]) == '\\' {
		i++
	}
	if oldLines != 0 || newLines != 0 || !p.canEndAt(i) {
		return nil
	}
	return p.lines[p.next:i]
}

// canEndAt reports whether a hunk may end before line i.
func (p *unifiedParser) canEndAt(i int) bool {
	if i >= len(p.lines) || strings.HasPrefix(p.lines[i], "@@") || p.fileAt(i) {
		return true
	}
	op := lineOp(p.lines[i])
	return p.lines[i] == "" || p.lines[i] == "-- " || op == 0
}

// fileAt reports whether line i can begin a file: a "diff --git" line, or two
// names followed by a hunk. Without a hunk they are lines of the current one.
func (p *unifiedParser) fileAt(i int) bool {
	l := p.lines[i:]
	return startsDiff(l) && (strings.HasPrefix(l[0], "diff --git ") || len(l) > 2 && strings.HasPrefix(l[2], "@@"))
}

// untilNext returns the lines up to the next hunk or file, for a hunk whose
// header has wrong counts or none. Trailing blank lines are not part of the
// hunk. File names that could also be a removed and an added line are an error.
func (p *unifiedParser) untilNext(oldLines, newLines int) ([]string, error) {
	i := p.next
	for ; i < len(p.lines) && lineOp(p.lines[i]) != 0 && !p.fileAt(i); i++ {
		switch lineOp(p.lines[i]) {
		case ' ':
			oldLines--
			newLines--
		case '-':
			oldLines--
		case '+':
			newLines--
		}
	}
	if i < len(p.lines) && p.fileAt(i) && !p.surelyNames(i, oldLines > 0 && newLines > 0) {
		return nil, &SyntaxError{p.first + i, fmt.Sprintf("%q may be a removed line or begin a file; "+
			"correct the counts in '@@ -LINE,COUNT +LINE,COUNT @@' above", short(p.lines[i]))}
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
	if strings.HasPrefix(l[0], "diff --git ") {
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

// body parses the lines of a hunk with go-diff.
func (p *unifiedParser) body(h *Hunk, lines []string) error {
	noNewline := map[int]bool{} // by index of the line before
	var kept []string
	for _, line := range lines {
		if lineOp(line) == '\\' {
			noNewline[len(kept)-1] = true
			continue
		}
		if line == "" || line == "\r" {
			line = " " + line
		}
		kept = append(kept, line)
	}
	if len(kept) == 0 {
		return &SyntaxError{h.Line, "the hunk has no lines; give it lines that begin with ' ', '-' or '+'"}
	}
	text := "@@ -1 +1 @@\n" + strings.Join(kept, "\n") + "\n"
	hunks, err := diff.ParseHunksOptions([]byte(text), diff.ParseOptions{KeepCR: true})
	if err != nil || len(hunks) != 1 {
		return &SyntaxError{h.Line, fmt.Sprintf("the hunk cannot be read: %v", err)}
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(hunks[0].Body), "\n"), "\n") {
		h.Lines = append(h.Lines, p.bodyLine(line, noNewline[i]))
	}
	return nil
}

// bodyLine parses one line of a hunk.
func (p *unifiedParser) bodyLine(line string, noNewline bool) Line {
	l := Line{Op: line[0]}
	line = line[1:]
	l.Text = line
	if text, ok := strings.CutSuffix(line, "\r"); ok && !noNewline {
		l.Text, l.End = text, "\r\n"
	} else if !p.crlf {
		l.End = "\n"
	}
	if noNewline {
		l.End = NoNewline
	}
	return l
}

func (p *unifiedParser) errorf(format string, args ...any) error {
	return &SyntaxError{p.first + p.next, fmt.Sprintf(format, args...)}
}
