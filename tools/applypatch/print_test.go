package applypatch

import (
	"fmt"
	"strings"
)

// String returns the text of the patch in its own format. Parsing the text yields
// the same patch.
func (p *Patch) String() string {
	var b strings.Builder
	if p.Format == Unified {
		for i := range p.Ops {
			p.Ops[i].printUnified(&b)
		}
		if p.lacksLineEnds() {
			return strings.ReplaceAll(b.String(), "\n", "\r\n")
		}
		return b.String()
	}
	b.WriteString(beginMarker + "\n")
	for i := range p.Ops {
		p.Ops[i].printCodex(&b)
	}
	b.WriteString(endMarker + "\n")
	return b.String()
}

// lacksLineEnds reports whether the line endings of the file are unspecified,
// because the diff itself has CRLF line endings.
func (p *Patch) lacksLineEnds() bool {
	for _, op := range p.Ops {
		for _, h := range op.Hunks {
			for _, l := range h.Lines {
				if l.End == "" {
					return true
				}
			}
		}
	}
	return false
}

func (op *FileOp) printCodex(b *strings.Builder) {
	fmt.Fprintf(b, "%s %s\n", fileHeaders[op.Kind], op.Path)
	if op.MoveTo != "" {
		fmt.Fprintf(b, "%s %s\n", moveHeader, op.MoveTo)
	}
	for i := range op.Hunks {
		h := &op.Hunks[i]
		if op.Kind != Add && !op.Whole {
			h.printContext(b)
		}
		for _, l := range h.Lines {
			if op.Whole {
				fmt.Fprintln(b, l.Text)
				continue
			}
			fmt.Fprintf(b, "%c%s\n", l.Op, l.Text)
		}
		if h.EndOfFile {
			b.WriteString(eofMarker + "\n")
		}
	}
}

// printContext writes the @@ lines of a hunk.
func (h *Hunk) printContext(b *strings.Builder) {
	switch {
	case h.OldStart != 0 || h.NewStart != 0:
		fmt.Fprintf(b, "@@ -%d +%d @@\n", h.OldStart, h.NewStart)
	case len(h.Context) == 0:
		b.WriteString("@@\n")
	}
	for _, c := range h.Context {
		fmt.Fprintf(b, "@@ %s\n", c)
	}
}

func (op *FileOp) printUnified(b *strings.Builder) {
	from, to := op.Path, op.Path
	if op.MoveTo != "" {
		to = op.MoveTo
	}
	fmt.Fprintf(b, gitLine+"%s %s\n", quote("a/"+from), quote("b/"+to))
	mode := map[Exec]string{ExecOn: "100755", ExecOff: "100644"}[op.Exec]
	switch {
	case op.Kind == Add && mode == "":
		b.WriteString("new file mode 100644\n")
	case op.Kind == Add:
		b.WriteString("new file mode " + mode + "\n")
	case mode != "":
		b.WriteString("new mode " + mode + "\n")
	}
	switch {
	case op.Kind == Delete:
		b.WriteString("deleted file mode 100644\n")
	case op.Copy:
		fmt.Fprintf(b, "copy from %s\ncopy to %s\n", quote(from), quote(to))
	case op.MoveTo != "":
		fmt.Fprintf(b, "rename from %s\nrename to %s\n", quote(from), quote(to))
	}
	if len(op.Hunks) == 0 {
		return
	}
	fmt.Fprintf(b, "--- %s\n+++ %s\n", quote("a/"+from), quote("b/"+to))
	for i := range op.Hunks {
		op.Hunks[i].printUnified(b)
	}
}

func (h *Hunk) printUnified(b *strings.Builder) {
	if h.OldStart == 0 && h.NewStart == 0 && !h.onlyAdds() {
		b.WriteString("@@ @@\n")
	} else {
		fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", h.OldStart, len(h.oldLines()), h.NewStart, len(without(h.Lines, '-')))
	}
	for _, l := range h.Lines {
		end := "\n"
		switch l.End {
		case "\r\n":
			end = "\r\n"
		case NoNewline:
			end = "\n\\ No newline at end of file\n"
		}
		fmt.Fprintf(b, "%c%s%s", l.Op, l.Text, end)
	}
}

func (h *Hunk) onlyAdds() bool { return len(h.oldLines()) == 0 }

// quote returns a name as git writes it: in quotes if it has special characters.
func quote(name string) string {
	plain := true
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			plain = false
			b.WriteString("\\" + string(c))
		case c < ' ' || c >= 0x7f || c == ' ':
			plain = plain && c == ' '
			if c == ' ' {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "\\%03o", c)
			}
		default:
			b.WriteByte(c)
		}
	}
	if plain && !strings.HasSuffix(name, " ") && !strings.Contains(name, " ") {
		return name
	}
	return `"` + b.String() + `"`
}
