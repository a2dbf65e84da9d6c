package applypatch

import "strings"

const (
	beginMarker = "*** Begin Patch"
	endMarker   = "*** End Patch"
	moveHeader  = "*** Move to:"
	eofMarker   = "*** End of File"
	envHeader   = "*** Environment ID:"
)

// fileHeaders are the headers of the file operations.
var fileHeaders = [...]string{Update: "*** Update File:", Add: "*** Add File:", Delete: "*** Delete File:"}

// A codexParser parses the *** Begin Patch format line by line.
type codexParser struct {
	lineReader
	ops []FileOp
}

// parseCodex parses lines, the first of which is the Begin Patch marker.
func parseCodex(lines []string, first int) (*Patch, error) {
	p := &codexParser{lineReader: lineReader{lines: lines, first: first}}
	if err := p.envelope(); err != nil {
		return nil, err
	}
	if p.skipBlank(); p.more() {
		return nil, p.errorf("text after '%s': %q; leave it out, and put each file's changes above that line",
			endMarker, short(p.line()))
	}
	if len(p.ops) == 0 {
		return nil, syntaxError(0, "it names no file; put at least one '*** Add File: PATH', "+
			"'*** Delete File: PATH' or '*** Update File: PATH' between the markers")
	}
	return &Patch{Format: Codex, Ops: p.ops}, nil
}

func (p *codexParser) envelope() error {
	p.next++
	if p.more() {
		if id, ok := header(p.line(), envHeader); ok {
			if id == "" {
				return p.errorf("the environment id is empty; leave the line out")
			}
			p.next++ // there is only one environment
		}
	}
	for {
		p.skipBlank()
		if !p.more() {
			return syntaxError(0, "it ends without '%s', so it may have been cut off; "+
				"send the whole patch with that as its last line", endMarker)
		}
		if isMarker(p.line(), endMarker) {
			p.next++
			return nil
		}
		if err := p.op(); err != nil {
			return err
		}
	}
}

func (p *codexParser) op() error {
	op := FileOp{Line: p.number()}
	line := p.line()
	for kind, name := range fileHeaders {
		if path, ok := header(line, name); ok {
			op.Kind, op.Path = Kind(kind), path
		}
	}
	if op.Path == "" {
		return p.errorf("%q is not a valid file header; valid headers are "+
			"'*** Add File: PATH', '*** Delete File: PATH', '*** Update File: PATH'", short(line))
	}
	if n := len(p.ops); n > 0 && p.ops[n-1].Kind != Delete && !strings.HasPrefix(line, "***") {
		return p.errorf("%q may be a header or a line of %s; begin a header with '***', a line of a new file with '+'",
			short(line), p.ops[n-1].Path)
	}
	if bare := barePath(op.Path); bare != op.Path || strings.HasSuffix(op.Path, "*") {
		return p.errorf("write the path without quotes or stars: '%s PATH'", fileHeaders[op.Kind])
	}
	p.next++
	var err error
	switch op.Kind {
	case Add:
		err = p.addBody(&op)
	case Update:
		err = p.updateBody(&op)
	}
	if err != nil {
		return err
	}
	p.ops = append(p.ops, op)
	return nil
}

func (p *codexParser) addBody(op *FileOp) error {
	h := Hunk{Line: p.number()}
body:
	for p.more() {
		line := p.line()
		switch {
		case strings.HasPrefix(line, "+"):
			h.Lines = append(h.Lines, Line{Op: '+', Text: line[1:]})
			p.next++
		case strings.TrimSpace(line) == "" && strings.HasPrefix(p.text(p.next), "+"):
			// These are empty lines of the file that lack their '+'.
			for ; strings.TrimSpace(p.line()) == ""; p.next++ {
				h.Lines = append(h.Lines, Line{Op: '+'})
			}
		case strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "***"):
			break body
		default:
			return p.errorf("unexpected line in a new file: %q; begin every line of it with '+'", short(line))
		}
	}
	if len(h.Lines) > 0 {
		op.Hunks = []Hunk{h}
		if first := h.Lines[0].Text; first == "++ "+op.Path || first == "++ b/"+op.Path {
			return syntaxError(h.Line, "leave out %q: '%s' names the file", "+"+first, fileHeaders[Add])
		}
		if len(h.Lines) > 1 && margin(texts(h.Lines)) == " " {
			return syntaxError(h.Line, "every line of %s begins with a space; put '+' right before each line", op.Path)
		}
	}
	return nil
}

func texts(lines []Line) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.Text
	}
	return out
}

func (p *codexParser) updateBody(op *FileOp) error {
	if p.more() {
		if to, ok := strings.CutPrefix(p.line(), moveHeader); ok {
			if op.MoveTo = strings.TrimSpace(to); op.MoveTo == "" {
				return p.errorf("'%s' names no path", moveHeader)
			}
			if barePath(op.MoveTo) != op.MoveTo {
				return p.errorf("write the path without quotes: '%s PATH'", moveHeader)
			}
			p.next++
		}
	}
	for p.more() && !p.atHeader() {
		if next := p.text(p.next); p.line() == "" && (next == "" || isHeader(next)) {
			p.skipBlank()
			break
		}
		if len(op.Hunks) > 0 && strings.TrimSpace(p.line()) == "" { // below End of File
			p.next++
			continue
		}
		h, err := p.hunk(len(op.Hunks) == 0)
		if err != nil {
			return err
		}
		op.Hunks = append(op.Hunks, h)
	}
	if len(op.Hunks) == 0 && op.MoveTo == "" {
		const format = "the update of %s has no lines; give it at least one hunk of ' ', '-' and '+' lines, " +
			"or '*** Move to: PATH'"
		return syntaxError(op.Line, format, op.Path)
	}
	return nil
}

// hunk parses one hunk. Only the first hunk of a file may lack its @@ line.
func (p *codexParser) hunk(first bool) (Hunk, error) {
	h := Hunk{Line: p.number()}
	for p.more() && strings.HasPrefix(p.line(), "@@") {
		p.context(&h)
		p.next++
	}
	if h.Line == p.number() && !first {
		return h, p.errorf("unexpected line %q; begin each hunk with '@@', each line of it with ' ', '-' or '+'",
			short(p.line()))
	}
	for p.more() && !p.atHeader() {
		line := p.line()
		if strings.HasPrefix(line, "***") { // not atHeader, so it is the End of File marker
			h.EndOfFile = true
			p.next++
			break
		}
		if strings.HasPrefix(line, "@@") {
			break
		}
		op := lineOp(line)
		if op == 0 || op == '\\' {
			const format = "unexpected line in a hunk: %q; begin it with ' ' (context), '+' (added) or '-' (removed)"
			return h, p.errorf(format, short(line))
		}
		h.Lines = append(h.Lines, Line{Op: op, Text: strings.TrimPrefix(line, string(op))})
		p.next++
	}
	if len(h.Lines) == 0 {
		return h, emptyHunk(&h)
	}
	return h, nil
}

// context parses an @@ line: a line of the file, or the line numbers of a
// unified diff.
func (p *codexParser) context(h *Hunk) {
	text := strings.TrimPrefix(p.line(), "@@")
	if m := hunkHeader.FindStringSubmatch("@@ " + strings.TrimLeft(text, " ")); m != nil {
		h.OldStart, h.NewStart = number(m[1], 0), number(m[3], 0)
		return
	}
	text = strings.TrimPrefix(text, " ")
	if t := strings.TrimSpace(text); t != "" && t != "@@" && t != "... @@" {
		h.Context = append(h.Context, text)
	}
}

// atHeader reports whether the line is a header or the end of the patch. An
// indented header is a context line, except for an End Patch that is the last
// line.
func (p *codexParser) atHeader() bool {
	return isHeader(p.line()) || isMarker(p.line(), endMarker) && p.text(p.next+1) == ""
}

func isHeader(line string) bool { return strings.HasPrefix(line, "***") && !isMarker(line, eofMarker) }

func (p *codexParser) skipBlank() {
	for p.more() && strings.TrimSpace(p.line()) == "" {
		p.next++
	}
}

// header returns the text after name in line, ignoring surrounding white space.
func header(line, name string) (string, bool) {
	text, ok := strings.CutPrefix(strings.TrimSpace(line), name)
	return strings.TrimSpace(text), ok
}

// isMarker reports whether line is the marker name, with any padding.
func isMarker(line, name string) bool { return strings.TrimSpace(line) == name }

func short(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
