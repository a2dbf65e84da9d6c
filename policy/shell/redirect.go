package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// An input is the standard input of a command.
type input struct {
	kind inputKind
	word word     // the text, for inputText
	from []string // the programs that write to the pipe, for inputPipe
	file word     // for inputFile
}

type inputKind int

const (
	inputNone inputKind = iota // the call's own input, which is empty
	inputText                  // a heredoc, a here-string, an echo
	inputPipe                  // what other commands print
	inputFile                  // a file
)

// redirect analyzes one redirection.
func (f *finder) redirect(sc *scope, r *syntax.Redirect) {
	f.substitutionsIn(*sc, r.Word)
	w := f.word(*sc, r.Word)
	in := sc.stdin
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		in = input{kind: inputText, word: f.heredoc(*sc, r)}
	case syntax.WordHdoc:
		in = input{kind: inputText, word: w}
	case syntax.RdrIn:
		in = input{kind: inputFile, file: w}
		if w.proc != nil {
			in = f.outputOf(*sc, w.proc.Stmts)
		} else if text, ok := f.fileText(w); ok {
			in = input{kind: inputText, word: text}
		}
	case syntax.DplIn:
		f.duplicate(*sc, r)
		if in.kind == inputNone { // <&3 reads from a descriptor opened elsewhere
			in = input{kind: inputPipe, from: []string{"<&" + w.text}}
		}
	case syntax.DplOut:
		f.duplicate(*sc, r)
		if w.hole || !isDescriptor(w.text) {
			f.write(sc, w, false)
		}
	case syntax.AppOut, syntax.AppClob, syntax.AppAll, syntax.AppAllClob:
		f.write(sc, w, true)
	default:
		f.write(sc, w, false)
	}
	if r.N == nil || r.N.Value == "0" {
		sc.stdin = in
	}
}

// writesText remembers the text that a statement such as cat > file <<EOF writes.
func (f *finder) writesText(sc scope, s *syntax.Stmt) {
	for _, r := range s.Redirs {
		switch r.Op {
		case syntax.RdrOut, syntax.RdrClob, syntax.AppOut, syntax.AppClob:
			if r.N == nil || r.N.Value == "1" {
				f.writtenFile(f.word(sc, r.Word), f.output(sc, s), r.Op == syntax.AppOut || r.Op == syntax.AppClob)
			}
		}
	}
}

// isDescriptor reports whether the operand of >& is a descriptor.
func isDescriptor(s string) bool {
	s = strings.TrimSuffix(s, "-")
	return strings.Trim(s, "0123456789") == "" || s == "p"
}

// write adds a file that a redirection opens for writing.
func (f *finder) write(sc *scope, w word, more bool) {
	harmless := []string{"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"}
	if !w.hole && (slices.Contains(harmless, w.text) || strings.HasPrefix(w.text, "/dev/fd/")) {
		return
	}
	if w.proc != nil { // > >(tee …): its command is analyzed already
		return
	}
	sc.writes = append(sc.writes, w.text)
	f.found.Writes = append(f.found.Writes, Write{Target: w.text, Known: !w.hole, Append: more, Path: sc.path})
}

// heredoc returns the text of a heredoc after expansions.
func (f *finder) heredoc(sc scope, r *syntax.Redirect) word {
	if r.Hdoc == nil {
		return word{}
	}
	quoted := slices.ContainsFunc(r.Word.Parts, func(p syntax.WordPart) bool {
		lit, ok := p.(*syntax.Lit)
		return !ok || strings.Contains(lit.Value, `\`)
	})
	b := builder{f: f, sc: sc, single: true, started: true}
	for _, p := range r.Hdoc.Parts {
		switch lit, ok := p.(*syntax.Lit); {
		case ok && quoted:
			b.add(lit.Value)
		case ok:
			b.add(unescape(lit.Value, "$`\\"))
		default:
			f.substitutionsIn(sc, p)
			b.expansion(p, true)
		}
	}
	b.end()
	delimiter := f.word(sc, r.Word).text
	if strings.Contains("\n"+strings.ReplaceAll(b.out[0].text, "\t", ""), "\n"+delimiter) {
		f.opaque(sc, delimiter, "inside $( ), bash can end a here-document at a line that begins with %s", delimiter)
	}
	return b.out[0]
}
