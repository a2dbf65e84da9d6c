package applypatch

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"toolgate/internal/lazyregexp"
)

// A source is the text of a patch, split into lines.
type source struct {
	lines []string
	first int               // line number of lines[0] in the text as sent
	dir   string            // the folder that its paths are relative to, "" for the working folder
	whole []string          // headers of files whose '+' lines are their whole new content
	gone  map[string][]Line // the lines of deleted files, by header
}

func newSource(text string) source { return source{lines: strings.Split(text, "\n"), first: 1} }

func (s source) text() string { return strings.Join(s.lines, "\n") }

// A leniency rewrites a text that is plainly meant as a patch but cannot be parsed. It
// reports whether it changed anything. Lines that it drops become blank where it can,
// so that line numbers stay.
type leniency struct {
	note    string // for the model, what was done
	loses   bool   // information is missing, so each hunk must fit in one place only
	wrapped bool   // it unwraps the text, which may have been wrapped in another way first
	rewrite func(source) (source, bool)
}

// leniencies are tried in this order until the text can be parsed, each on what the
// ones before it made. A text that can be parsed as it is, and changes something, is
// never rewritten.
var leniencies = []leniency{
	{"a byte order mark before it was dropped", false, true, withoutMark},
	{"it was decoded from JSON", false, true, fromJSON},
	{`its \n were read as line breaks`, false, true, fromEscapes},
	{"terminal colors were removed", false, true, withoutColors},
	{"the '>' before all lines were removed", false, true, withoutQuoteMarks},
	{"the indentation of the whole patch was removed", false, true, dedentAll},
	{"it was taken out of a shell command", false, true, fromShell},
	{"the Markdown fence and the text around it were left out", false, true, fromFence},
	{"headers were read as the ones that they resemble", false, false, spellHeaders},
	{"the text before or after it was left out", false, false, withoutProse},
	{"missing or repeated Begin Patch and End Patch lines were put right", false, false, putMarkers},
	{"the unified diff in it was applied", false, false, fromEnvelope},
	{"quotes around paths were removed", false, false, unquotePaths},
	{"SEARCH/REPLACE blocks were read as hunks", true, false, fromBlocks},
	{"headers of a unified diff were put right", true, false, putDiffHeaders},
	{"git's headers below '*** Update File' were left out", false, false, withoutGitLines},
	{"lines of a new file without '+' were taken as they are", false, false, plusNewFiles},
	{"lines below '*** Delete File' were compared with the file", false, false, dropDeleted},
	{"'...' lines were read as '@@'", true, false, fromEllipsis},
	{"lines without ' ', '-' or '+' were taken for context", true, false, signContext},
	{"the indentation of all lines of its hunks was removed", true, false, dedentHunks},
	{"the lines below a header, none of which has a sign, were taken for the whole new file", true, false, wholeFiles},
}

// parseSource parses s strictly, or else as the leniencies rewrite it. The error is that
// of the text as rewritten. If a reading has hunks of context only, one that changes
// something is its fallback.
func parseSource(s source) (*Patch, error) {
	var notes []string
	loses := false
	p, err := s.parse()
	var idle *Patch
	for i := 0; i < len(leniencies); i++ {
		if err == nil && !p.idle() {
			break
		}
		if err == nil && idle == nil {
			idle = p.read(s, notes, loses)
		}
		l := &leniencies[i]
		next, ok := l.rewrite(s)
		if !ok {
			continue
		}
		s, loses = next, loses || l.loses
		notes = append(notes, "note: "+l.note)
		p, err = s.parse()
		if l.wrapped {
			i = -1
		}
	}
	switch {
	case idle != nil && (err != nil || p.idle()):
		return idle, nil
	case err != nil:
		return nil, err
	}
	p = p.read(s, notes, loses)
	if idle != nil {
		idle.fallback = p
		return idle, nil
	}
	return p, nil
}

// read completes p, as parsed from s.
func (p *Patch) read(s source, notes []string, loses bool) *Patch {
	p.Notes, p.source = slices.Clone(notes), s
	for i := range p.Ops {
		op := &p.Ops[i]
		op.Unique = op.Unique || loses
		header := fileHeaders[op.Kind] + " " + op.Path
		op.Whole = slices.Contains(s.whole, header)
		if lines := s.gone[header]; len(lines) > 0 {
			op.Hunks = []Hunk{{Lines: lines, Line: op.Line + 1}}
		}
		op.Path, op.MoveTo = s.inDir(op.Path), s.inDir(op.MoveTo)
	}
	return p
}

func (s source) inDir(name string) string {
	if s.dir == "" || name == "" || path.IsAbs(name) {
		return name
	}
	return path.Join(s.dir, name)
}

// idle reports whether p has no line to change: it only has hunks of context.
func (p *Patch) idle() bool {
	return !slices.ContainsFunc(p.Ops, func(op FileOp) bool {
		changes := func(h Hunk) bool { return slices.ContainsFunc(h.Lines, func(l Line) bool { return l.Op != ' ' }) }
		return op.Kind != Update || op.MoveTo != "" || op.Exec != ExecKeep || slices.ContainsFunc(op.Hunks, changes)
	})
}

// edit returns s with the lines that change returns in place of each of its lines.
func (s source) edit(change func(i int, line string) string) (source, bool) {
	lines := make([]string, len(s.lines))
	for i, line := range s.lines {
		lines[i] = change(i, line)
	}
	if slices.Equal(lines, s.lines) {
		return s, false
	}
	s.lines = lines
	return s, true
}

var (
	beginLike = lazyregexp.New(`(?i)^(?:\*{1,4}[ \t]*)?begin[ _-]?patch[ \t]*[*:]*$`)
	endLike   = lazyregexp.New(`(?i)^(?:\*{1,4}[ \t]*)?end(?:[ _-]of)?[ _-]?patch[ \t]*[*:.]*$|^\*\*\* End$`)
	eofLike   = lazyregexp.New(`(?i)^\*{2,4}[ \t]*(?:end[ _-]of[ _-]file|eof)[ \t]*[*:]*$`)
	fileLike  = lazyregexp.New(`(?i)^(?:\*{3}[ \t]*(\w+?)(?:[ \t]*file)?[ \t]*:|\*{2,4}[ \t]*(\w+)[ \t]+file[ \t]*:?)` +
		`[ \t]*([^*:\s].*?)(?:[ \t]+\*+)?$`)
	moveLike = lazyregexp.New(`(?i)^\*{2,4}[ \t]*(?:move[ds]?|rename[ds]?)(?:[ \t]+(?:file[ \t]+)?to)[ \t]*:` +
		`[ \t]*(\S.*?)(?:[ \t]+\*+)?$`)
)

// verbs are the words that stand for the ones of the headers.
var verbs = map[string]Kind{
	"file":   Update,
	"update": Update, "updated": Update, "modify": Update, "edit": Update, "change": Update, "patch": Update,
	"rename": Update, "move": Update,
	"add": Add, "added": Add, "create": Add, "new": Add,
	"delete": Delete, "deleted": Delete, "remove": Delete,
}

// spelled returns the header or marker that an unpadded line is or resembles, or "".
func spelled(line string) string {
	line = strings.TrimRight(line, " \t\r")
	switch {
	case beginLike.MatchString(line):
		return beginMarker
	case endLike.MatchString(line):
		return endMarker
	case eofLike.MatchString(line):
		return eofMarker
	}
	if m := moveLike.FindStringSubmatch(line); m != nil {
		return moveHeader + " " + m[1]
	}
	if m := fileLike.FindStringSubmatch(line); m != nil {
		if kind, ok := verbs[strings.ToLower(m[1]+m[2])]; ok {
			return fileHeaders[kind] + " " + m[3]
		}
	}
	return ""
}

// spellHeaders also drops '***' alone and blank lines, where a header follows that must
// follow another line at once.
func spellHeaders(s source) (source, bool) {
	var out []string
	for _, line := range s.lines {
		to := cmp.Or(spelled(line), line)
		for len(out) > 0 && strings.HasPrefix(to, "*** ") {
			last := strings.TrimRight(out[len(out)-1], " \t\r")
			if last != "***" && (last != "" || !strings.HasPrefix(to, moveHeader)) {
				break
			}
			out = out[:len(out)-1]
		}
		if file, ok := strings.CutPrefix(to, beginMarker+" *** "); ok {
			out = append(out, beginMarker)
			to = "*** " + file
		}
		out = append(out, to)
	}
	changed := !slices.Equal(out, s.lines)
	s.lines = out
	return s, changed
}

// isFileHeader reports whether line is the header of a file operation.
func isFileHeader(line string) bool {
	return slices.ContainsFunc(fileHeaders[:], func(name string) bool { return strings.HasPrefix(line, name) })
}

var (
	command  = lazyregexp.New(`^\s*(?:\$ )?(?:cd|pushd) |\b(?:cd|pushd) \S+ *(?:&&|;)`)
	likePart = lazyregexp.New(`^(?:\*\*\*|@@|\+|--- |diff --git |<<<<<<<)`)
	tagged   = lazyregexp.New("^[^-+ ].*[\"'`>(:]\\s*\\*\\*\\* Begin Patch$")
	trailed  = lazyregexp.New("^\\*\\*\\* End Patch\\s*(?:\\\\n)?[\"'`)}\\]<,;][^+]*$")
)

// withoutProse drops the lines before the first header and after each End Patch, unless
// they may be part of the patch.
func withoutProse(s source) (source, bool) {
	inside, began, doubtful := false, false, false
	at := func(line string) (drop bool) {
		starts := line == beginMarker || isFileHeader(line)
		switch {
		case inside:
			inside = line != endMarker
			return false
		case starts:
			inside, began = true, true
			return false
		}
		doubtful = doubtful || likePart.MatchString(line) || !began && command.MatchString(line)
		return strings.TrimSpace(line) != ""
	}
	next, changed := s.edit(func(_ int, line string) string {
		trimmed := strings.TrimRight(line, " \t\r")
		switch {
		case !began && tagged.MatchString(trimmed) && !command.MatchString(trimmed):
			line, trimmed = beginMarker, beginMarker
		case inside && trailed.MatchString(trimmed):
			line, trimmed = endMarker, endMarker
		}
		if at(trimmed) {
			return ""
		}
		return line
	})
	if !began || doubtful {
		return s, false
	}
	return next, changed
}

// putMarkers makes the first line Begin Patch and the last one End Patch, and drops those
// in between. A patch that may have been cut off within its last line stays as it is.
func putMarkers(s source) (source, bool) {
	given, first := trimBlank(s.lines, s.first)
	if len(given) == 0 || given[0] != beginMarker && !isFileHeader(given[0]) {
		return s, false
	}
	var lines []string
	for i, line := range given {
		t := strings.TrimRight(line, " \t\r")
		if t != beginMarker && t != endMarker {
			lines = append(lines, line)
			continue
		}
		lines, _ = trimBlank(lines, 0) // above the marker
		next, _ := trimBlank(given[i+1:], 0)
		if t == endMarker && len(next) > 0 && !strings.HasPrefix(next[0], "***") {
			return s, false // what is below belongs to no file
		}
	}
	if given[0] != beginMarker {
		first--
	}
	last := given[len(given)-1]
	ended := strings.TrimSpace(s.lines[len(s.lines)-1]) == "" // with a line break
	switch {
	case len(lines) == 0:
		return s, false
	case strings.TrimSpace(last) == endMarker && strings.TrimSpace(lines[len(lines)-1]) == endMarker:
		lines = lines[:len(lines)-1] // it is padded
	case strings.TrimSpace(last) == endMarker:
	case len(last) > 4 && strings.HasPrefix(endMarker, last):
		lines = lines[:len(lines)-1]
	case !ended && !strings.HasPrefix(last, " ") && !strings.HasPrefix(last, "-"):
		return s, false
	}
	lines = append(append([]string{beginMarker}, lines...), endMarker)
	s.lines, s.first = lines, first
	return s, !slices.Equal(lines, given)
}

// fromEnvelope drops the markers around a unified diff.
func fromEnvelope(s source) (source, bool) {
	lines, _ := trimBlank(s.lines, 0)
	if len(lines) < 3 || lines[0] != beginMarker || slices.ContainsFunc(lines, isFileHeader) {
		return s, false
	}
	if inner, _ := trimBlank(lines[1:], 0); len(inner) < 2 || !startsDiff(inner) {
		return s, false
	}
	return s.edit(func(_ int, line string) string {
		switch strings.TrimRight(line, " \t\r") {
		case beginMarker, endMarker, eofMarker:
			return ""
		}
		return line
	})
}

func unquotePaths(s source) (source, bool) {
	return s.edit(func(_ int, line string) string {
		for _, name := range append(fileHeaders[:], moveHeader) {
			if to, ok := strings.CutPrefix(line, name); ok && strings.TrimSpace(to) != "" {
				return name + " " + barePath(strings.TrimSpace(to))
			}
		}
		return line
	})
}

// barePath returns a path without quotes, backticks, stars or brackets around it.
func barePath(p string) string {
	for _, q := range []string{"``", `""`, "''", "**", "<>", "“”"} {
		r := []rune(q)
		inner := strings.TrimSuffix(strings.TrimPrefix(p, string(r[0])), string(r[1]))
		if inner != "" && p == string(r[0])+inner+string(r[1]) {
			return barePath(inner)
		}
	}
	return p
}

var (
	searchLine  = lazyregexp.New(`^(?:<{5,9}|-{5,9}) ?(?:SEARCH|ORIGINAL)\s*>?$`)
	dividerLine = lazyregexp.New(`^={5,9}\s*$`)
	replaceLine = lazyregexp.New(`^(?:>{5,9}|\+{5,9}) ?(?:REPLACE|UPDATED)\s*$`)
	pathLine    = lazyregexp.New("^(?:[#*]+ )?(?:(?i:file|path|filename): ?)?[\"'`*]*([\\w.@+/-]*[\\w+-])[\"'`*]*:?$")
)

func hasBlock(lines []string) bool {
	return slices.ContainsFunc(withoutCR(lines), searchLine.MatchString)
}

// searchPath returns the path that a line above a SEARCH block names, or "".
func searchPath(line string) string {
	if m := pathLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil && strings.ContainsAny(m[1], "./") {
		return m[1]
	}
	return ""
}

// fromBlocks reads SEARCH/REPLACE blocks, below a header or below a line with a path.
func fromBlocks(s source) (source, bool) {
	if !hasBlock(s.lines) {
		return s, false
	}
	var out []string
	file, header, enveloped := "", "", false
	for i := 0; i < len(s.lines); i++ {
		line := strings.TrimRight(s.lines[i], " \t\r")
		switch {
		case line == beginMarker || line == endMarker:
			enveloped = true
		case isFileHeader(line):
			file, header = line, ""
		case searchPath(line) != "" && !strings.HasPrefix(line, "*** "):
			file, header = fileHeaders[Update]+" "+searchPath(line), ""
		case searchLine.MatchString(line):
			old, next, ok := until(s.lines, i+1, dividerLine)
			if !ok || file == "" {
				return s, false
			}
			replacement, end, ok := until(s.lines, next, replaceLine)
			if !ok {
				return s, false
			}
			i = end - 1
			op := file
			if len(old) == 0 { // a new file
				op = strings.Replace(file, fileHeaders[Update], fileHeaders[Add], 1)
			}
			if op != header {
				out, header = append(out, op), op
			}
			if !strings.HasPrefix(op, fileHeaders[Add]) {
				out = append(out, "@@")
			}
			out = append(append(out, signedLines("-", old)...), signedLines("+", replacement)...)
		case strings.TrimSpace(line) == "" || fence.MatchString(line):
		case enveloped || likePart.MatchString(line):
			return s, false // a part of a patch of another form
		default:
			file = ""
		}
	}
	lines := append(append([]string{beginMarker}, out...), endMarker)
	return source{lines: lines, first: s.first, dir: s.dir}, true
}

// until returns the lines from index i up to the one that matches end, and the index after it.
func until(lines []string, i int, end *lazyregexp.Regexp) (found []string, next int, ok bool) {
	for j := i; j < len(lines); j++ {
		line := strings.TrimRight(lines[j], "\r")
		if end.MatchString(line) {
			return found, j + 1, true
		}
		if searchLine.MatchString(line) || dividerLine.MatchString(line) || replaceLine.MatchString(line) {
			return nil, 0, false // a marker that is out of place, or a line of the file
		}
		found = append(found, line)
	}
	return nil, 0, false
}

func signedLines(sign string, lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = sign + line
	}
	return out
}

var diffHunk = lazyregexp.New(`^@@? -(\d+(?:,\d+)?) \+(\d+(?:,\d+)?)(?: @@?)?$`)

// putDiffHeaders completes the headers of a unified diff: the names of a file that has
// one only, or in the wrong order, and hunk headers with too few @.
func putDiffHeaders(s source) (source, bool) {
	if slices.ContainsFunc(s.lines, isFileHeader) {
		return s, false
	}
	var out []string
	at := func(i int) string { return strings.Join(s.lines[min(i, len(s.lines)):min(i+1, len(s.lines))], "") }
	for i := 0; i < len(s.lines); i++ {
		line, next := s.lines[i], at(i+1)
		name, old := strings.CutPrefix(line, "--- ")
		newName, swapped := strings.CutPrefix(line, "+++ ")
		isHunk := func(line string) bool { return strings.HasPrefix(line, "@@") || diffHunk.MatchString(line) }
		switch {
		case old && isHunk(next):
			_, bare := withoutPrefixes(name, "b/"+strings.TrimPrefix(name, "a/"))
			out = append(out, "--- a/"+bare, "+++ b/"+bare)
		case swapped && strings.HasPrefix(next, "--- ") && isHunk(at(i+2)):
			out = append(out, next, "+++ "+newName)
			i++
		default:
			out = append(out, diffHunk.ReplaceAllString(line, "@@ -$1 +$2 @@"))
		}
	}
	if slices.Equal(out, s.lines) {
		return s, false
	}
	s.lines = out
	return s, true
}

// withoutGitLines drops "diff --git", "index" and mode lines, --- and +++ between
// '*** Update File' and its first hunk.
func withoutGitLines(s source) (source, bool) {
	below := -1 // the last header, while only such lines are below it
	dropped := map[int]bool{}
	for i, line := range s.lines {
		git := strings.HasPrefix(line, gitLine) || strings.HasPrefix(line, "index ") ||
			strings.HasPrefix(line, "new file mode ")
		names := i > 0 && dropped[i-1] && (strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ "))
		switch {
		case isFileHeader(line):
			below = i
		case below >= 0 && (git || names):
			dropped[i] = true
		default:
			below = -1
		}
	}
	if len(dropped) == 0 {
		return s, false
	}
	out := make([]string, 0, len(s.lines))
	for i, line := range s.lines {
		if !dropped[i] {
			out = append(out, line)
		}
	}
	s.lines = out
	return s, true
}

// plusNewFiles puts a '+' before the lines of a new file if none has one. It drops what
// belongs to no new file: @@ lines, and the End of File marker.
func plusNewFiles(s source) (source, bool) {
	return s.sections(func(header string, body []string) []string {
		if !strings.HasPrefix(header, fileHeaders[Add]) {
			return body
		}
		body = slices.Clone(body)
		body = slices.DeleteFunc(body, func(line string) bool {
			return hunkHeader.MatchString(line) || strings.TrimSpace(line) == "@@" || line == eofMarker ||
				line == "--- "+devNull || strings.HasPrefix(line, "+++ b/") ||
				line == "+++"+strings.TrimPrefix(header, fileHeaders[Add])
		})
		has := func(prefix string) func(string) bool {
			return func(line string) bool { return strings.HasPrefix(line, prefix) }
		}
		if slices.ContainsFunc(body, has("+")) || slices.ContainsFunc(body, has("```")) {
			return body
		}
		for len(body) > 0 && strings.TrimSpace(body[len(body)-1]) == "" {
			body = body[:len(body)-1]
		}
		if margin(body) == " " {
			body = dedented(body, " ") // a wrong sign
		}
		return signedLines("+", body)
	})
}

func dedented(lines []string, margin string) []string {
	out := slices.Clone(lines)
	for i, line := range out {
		out[i] = strings.TrimPrefix(line, margin)
	}
	return out
}

// once reports whether only one line is this header.
func (s source) once(header string) bool {
	n := 0
	for _, line := range s.lines {
		if strings.TrimSpace(line) == header {
			n++
		}
	}
	return n == 1
}

// dropDeleted takes the lines with '-' below '*** Delete File' for those of the file.
func dropDeleted(s source) (source, bool) {
	gone := map[string][]Line{}
	next, ok := s.sections(func(header string, body []string) []string {
		if !strings.HasPrefix(header, fileHeaders[Delete]) || !s.once(header) {
			return body
		}
		var lines []Line
		for _, line := range body {
			text, removed := strings.CutPrefix(line, "-")
			switch {
			case removed:
				lines = append(lines, Line{Op: '-', Text: text})
			case strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "@@"):
				return body
			}
		}
		gone[header] = lines
		return nil
	})
	next.gone = gone
	return next, ok
}

// sections returns s with the lines below each file header as change returns them.
func (s source) sections(change func(header string, body []string) []string) (source, bool) {
	var out []string
	for i := 0; i < len(s.lines); {
		out = append(out, s.lines[i])
		header := strings.TrimRight(s.lines[i], " \t\r")
		i++
		if !isFileHeader(header) {
			continue
		}
		end := i
		ends := func(line string) bool {
			return isHeader(line) && !strings.HasPrefix(line, moveHeader)
		}
		for end < len(s.lines) && !ends(s.lines[end]) {
			end++
		}
		out = append(out, change(header, s.lines[i:end])...)
		i = end
	}
	if slices.Equal(out, s.lines) {
		return s, false
	}
	s.lines = out
	return s, true
}

// fromEllipsis reads a line of dots between two hunks as the beginning of the second, and
// drops an @@ below the last one.
func fromEllipsis(s source) (source, bool) {
	return s.edit(func(i int, line string) string {
		if i+1 < len(s.lines) && line == "@@" && isHeader(s.lines[i+1]) {
			return ""
		}
		if t := strings.TrimRight(line, " \r"); t == "..." || t == "…" || t == "@@ ..." || t == "@@ … @@" {
			return "@@"
		}
		return line
	})
}

// signContext puts a space before the lines of a hunk that have no sign, if others of
// that file have one.
func signContext(s source) (source, bool) {
	diffs := slices.ContainsFunc(s.lines, func(line string) bool { return strings.HasPrefix(line, "--- ") }) &&
		!slices.ContainsFunc(s.lines, isFileHeader)
	if diffs {
		return signDiff(s)
	}
	return s.sections(func(header string, body []string) []string {
		changes := func(line string) bool { return line != "" && strings.Contains("+-", line[:1]) }
		if !strings.HasPrefix(header, fileHeaders[Update]) || !slices.ContainsFunc(body, changes) {
			return body
		}
		out := slices.Clone(body)
		for i, line := range out {
			marks := strings.HasPrefix(line, "@@") || strings.HasPrefix(strings.TrimSpace(line), "***")
			if lineOp(line) == 0 && !marks {
				out[i] = " " + line
			}
		}
		return out
	})
}

// signDiff does what signContext does in the hunks of a unified diff, up to the last
// line of each hunk that has a sign.
func signDiff(s source) (source, bool) {
	last := -1 // the last line with a sign
	next := make([]int, len(s.lines))
	for i := len(s.lines) - 1; i >= 0; i-- {
		line := s.lines[i]
		switch {
		case strings.HasPrefix(line, "@@"):
			last = i // of the next hunk, so those above it belong to this one
		case startsDiff(s.lines[i:]) || strings.HasPrefix(line, "+++ "):
			last = -1
		case last < 0 && line != "" && strings.Contains("+-", line[:1]):
			last = i
		}
		next[i] = last
	}
	inHunk := false
	return s.edit(func(i int, line string) string {
		switch {
		case strings.HasPrefix(line, "@@"):
			inHunk = true
		case startsDiff(s.lines[i:]):
			inHunk = false
		case inHunk && lineOp(line) == 0 && i < next[i]:
			return " " + line
		}
		return line
	})
}

// dedentHunks removes the margin of the hunk lines of all files, unless a header would
// come of it.
func dedentHunks(s source) (source, bool) {
	var hunks []string
	s.sections(func(header string, body []string) []string {
		for _, line := range body {
			if !strings.HasPrefix(line, "@@") && !strings.HasPrefix(line, "***") {
				hunks = append(hunks, line)
			}
		}
		return body
	})
	m := margin(hunks)
	if m == "" || slices.ContainsFunc(hunks, func(line string) bool { return strings.HasPrefix(line, m+"***") }) {
		return s, false
	}
	return s.sections(func(header string, body []string) []string {
		return dedented(body, m)
	})
}

// wholeFiles takes the lines below '*** Update File' for the whole new file, if no line
// there has a sign. Whether the file is like them is checked when they are applied.
func wholeFiles(s source) (source, bool) {
	var whole []string
	next, ok := s.sections(func(header string, body []string) []string {
		marked := func(line string) bool { return line != "" && strings.Contains("+-@*\\`", line[:1]) }
		unsigned := func(line string) bool { return lineOp(line) == 0 && strings.TrimSpace(line) != "" }
		if !strings.HasPrefix(header, fileHeaders[Update]) || slices.ContainsFunc(body, marked) ||
			!slices.ContainsFunc(body, unsigned) || !s.once(header) {
			return body
		}
		whole = append(whole, header)
		for strings.TrimSpace(body[len(body)-1]) == "" {
			body = body[:len(body)-1]
		}
		return signedLines("+", body)
	})
	next.whole = whole
	return next, ok
}
