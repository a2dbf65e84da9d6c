package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// output returns the output of a statement: known text for an echo of literals or
// a heredoc passed on by cat, otherwise a pipe.
func (f *finder) output(sc scope, s *syntax.Stmt) input {
	pipe := input{kind: inputPipe, from: programs(s, maxPipe)}
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) == 0 {
		return pipe
	}
	name := ProgramName(unescape(c.Args[0].Lit(), ""))
	if !slices.Contains([]string{"echo", "printf", "cat", "tee"}, name) {
		return pipe
	}
	for _, r := range s.Redirs {
		quiet := newFinder() // its commands are listed already
		quiet.steps = f.steps
		quiet.redirect(&sc, r)
		f.steps = quiet.steps
	}
	words := f.words(sc, c.Args)
	switch name {
	case "echo":
		return input{kind: inputText, word: echoOutput(words[1:])}
	case "printf":
		return input{kind: inputText, word: printfOutput(words[1:])}
	}
	passesOn := len(words) == 1 || name == "cat" && len(words) == 2 && words[1].text == "-"
	if passesOn && sc.stdin.kind == inputText {
		return sc.stdin
	}
	return pipe
}

// outputOf is output for a list of statements, such as in <( ).
func (f *finder) outputOf(sc scope, list []*syntax.Stmt) input {
	if len(list) == 1 {
		return f.output(sc, list[0])
	}
	in := input{kind: inputPipe}
	for _, s := range list {
		in.from = append(in.from, programs(s, maxPipe)...)
	}
	return in
}

// maxPipe is how many programs of a pipe are followed back to its source.
const maxPipe = 8

// programs returns the names of the programs in a statement, last first, with words
// that may be programs that they start.
func programs(s *syntax.Stmt, depth int) []string {
	if depth == 0 {
		return nil
	}
	var names []string
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		for _, w := range c.Args[:min(4, len(c.Args))] {
			if lit := w.Lit(); lit != "" {
				names = append(names, ProgramName(lit))
			}
		}
	case *syntax.BinaryCmd:
		names = append(programs(c.Y, depth-1), programs(c.X, depth-1)...)
	case *syntax.Subshell:
		names = programsOf(c.Stmts, depth)
	case *syntax.Block:
		names = programsOf(c.Stmts, depth)
	}
	return names
}

func programsOf(list []*syntax.Stmt, depth int) []string {
	var names []string
	for _, s := range list[:min(4, len(list))] {
		names = append(names, programs(s, depth-1)...)
	}
	return names
}

// echoOutput returns what echo prints.
func echoOutput(args []word) word {
	escapes := false
	for len(args) > 0 && !args[0].hole && len(args[0].text) > 1 && strings.Trim(args[0].text[1:], "neE") == "" &&
		args[0].text[0] == '-' {
		escapes = escapes || strings.Contains(args[0].text, "e")
		args = args[1:]
	}
	args = slices.Clone(args)
	for i, a := range args {
		if escapes && !a.hole {
			args[i].text = ansiC(a.text)
		}
	}
	line := concat(args, " ")
	line.text += "\n"
	line.script += "\n"
	return line
}

// printfOutput returns what printf prints, for formats that pass text unchanged.
func printfOutput(args []word) word {
	args = withoutDashes(args)
	if len(args) == 0 || args[0].hole || strings.HasPrefix(args[0].text, "-v") {
		return word{text: "printf", hole: true, script: unknownVar}
	}
	format := ansiC(args[0].text)
	args = args[1:]
	var parts []word
	for len(parts) <= maxWords {
		before := len(args)
		var ok bool
		if parts, args, ok = printfOnce(parts, args, format); !ok {
			return word{text: format, hole: true, script: unknownVar}
		}
		if len(args) == 0 || len(args) == before {
			break
		}
	}
	return concat(parts, "")
}

// printfOnce applies a format once. It reports false for verbs that change text.
func printfOnce(parts, args []word, format string) ([]word, []word, bool) {
	for format != "" {
		text, rest, verb := strings.Cut(format, "%")
		parts = append(parts, word{text: text})
		if !verb {
			break
		}
		if rest == "" || !strings.Contains("%sbqdi", rest[:1]) {
			return nil, nil, false
		}
		format = rest[1:]
		switch {
		case rest[0] == '%':
			parts = append(parts, word{text: "%"})
		case len(args) > 0:
			parts, args = append(parts, args[0]), args[1:]
		}
	}
	return parts, args, true
}
