package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"toolgate/internal/lazyregexp"
)

// makeTool analyzes the variables and text on the command line of make.
func (f *finder) makeTool(sc scope, name string, words []word) {
	in := sc.in(name)
	for i, w := range words[1:] {
		t := w.text
		key, value, ok := strings.Cut(t, "=")
		key = strings.TrimRight(key, ":?+!")
		switch {
		case strings.HasPrefix(t, "--eval") || t == "-E":
			f.opaque(sc, texts(words), "make evaluates a text as a Makefile")
			f.makeText(in, t)
			if i+2 < len(words) {
				f.makeText(in, words[i+2].text)
			}
		case ok && (key == "SHELL" || key == ".SHELLFLAGS" || key == "MAKE"):
			f.script(in.in(key+"="), cutWord(w, len(t)-len(value)), syntax.LangBash, nil)
			f.blockAllow(sc, t, "make runs its recipes with another shell")
		case ok:
			f.makeText(in, t)
		case (t == "-f" || t == "--file" || t == "--makefile") && i+2 < len(words) && isStdin(words[i+2]),
			t == "-f-", t == "--file=-":
			f.opaque(sc, texts(words), "make reads its Makefile from standard input")
			if sc.stdin.kind == inputText {
				f.makeText(in, sc.stdin.word.code())
				f.recipes(in, sc.stdin.word.code())
			}
		}
	}
}

var makeShell = lazyregexp.New(`\$[({]shell\s+([^()]*(?:\([^()]*\)[^()]*)*)[)}]`)

// makeText analyzes $(shell …) and NAME!=… in the text of a Makefile.
func (f *finder) makeText(sc scope, text string) {
	for _, m := range makeShell.FindAllStringSubmatch(text, -1) {
		f.source(sc.in("$(shell )"), strings.ReplaceAll(m[1], "$$", "$"), syntax.LangPOSIX, nil)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if _, command, ok := strings.Cut(line, "!="); ok {
			f.source(sc.in("!="), strings.ReplaceAll(command, "$$", "$"), syntax.LangPOSIX, nil)
		}
	}
}

// recipes analyzes the recipe lines of a Makefile.
func (f *finder) recipes(sc scope, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		recipe, ok := strings.CutPrefix(line, "\t")
		if !ok {
			_, recipe, ok = strings.Cut(line, ";")
		}
		if ok {
			f.source(sc, strings.TrimLeft(recipe, "@-+ "), syntax.LangPOSIX, nil)
		}
	}
}

// awk analyzes awk programs, which can start commands.
func (f *finder) awk(sc scope, name string, words []word) {
	g := wrapper{options: "-hVcCtSOPrbnNIksf:F:v:E:i:e:l:L:D:W:p:o: file= field-separator= assign= source= exec= " +
		"include= load="}
	o := g.parse(words[1:])
	var programs []word
	file, isFile := o.get("f file E exec")
	switch {
	case file.proc != nil:
		programs = append(programs, f.outputOf(sc, file.proc.Stmts).word)
	case isFile && isStdin(file):
		programs = append(programs, sc.stdin.word)
	}
	if !isFile && len(o.rest) > 0 {
		programs = append(programs, o.rest[0])
	}
	for _, p := range append(programs, o.all("e source")...) {
		if p.hole {
			f.opaque(sc, p.text, "the %s program is not known before it runs", name)
		}
		sc.Word = p.pos
		bare := awkBare(p.text)
		if awkStarts.MatchString(bare) {
			f.opaque(sc, p.text, "the %s program can start commands", name)
			f.code(sc.in(name), p.text)
		}
		if awkWrites.MatchString(bare) {
			f.blockAllow(sc, p.text, "the %s program can write files", name)
		}
	}
}

var (
	awkStarts = lazyregexp.New(`\bsystem\s*\(|\|&|(^|[^|])\|([^|]|$)|@\w+\s*\(|@load`)
	awkWrites = lazyregexp.New(`\bprintf?\b[^;}\n]*>`)
)

// awkBare returns an awk program without the contents of strings, regular expressions
// and comments.
func awkBare(s string) string {
	var b strings.Builder
	last := byte('(') // the last character that is not white space
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"', c == '/' && strings.IndexByte("(,{};!~&|=\n", last) >= 0:
			rest := afterDelimiter(s[i+1:], c)
			i = len(s) - len(rest) - 1
			b.WriteString("\"\"")
		case c == '#':
			end := strings.IndexByte(s[i:], '\n')
			if end < 0 {
				return b.String()
			}
			i += end - 1
		default:
			b.WriteByte(c)
		}
		if c != ' ' && c != '\t' {
			last = c
		}
	}
	return b.String()
}

// sed analyzes sed programs: the e command and the e flag run commands.
func (f *finder) sed(sc scope, name string, words []word) {
	g := wrapper{options: "-nErsuzbe:f:l:i:: expression= file= quiet silent regexp-extended separate unbuffered " +
		"null-data in-place line-length= sandbox posix debug follow-symlinks binary"}
	o := g.parse(words[1:])
	if _, ok := o.get("sandbox"); ok {
		return
	}
	programs := o.all("e expression")
	if _, ok := o.get("e expression f file"); !ok && len(o.rest) > 0 {
		programs = append(programs, o.rest[0])
	}
	for _, p := range programs {
		if p.hole {
			continue
		}
		if script, runs := sedRuns(p.text); runs {
			sc.Word = p.pos
			f.opaque(sc, p.text, "the sed program runs commands")
			f.source(sc.in("sed"), script, syntax.LangPOSIX, nil)
		}
	}
}

// sedRuns reports whether a sed program has an e command or an s with the e flag, and
// returns the text that it runs, as far as it is known.
func sedRuns(program string) (string, bool) {
	s := program
	for s != "" {
		s = strings.TrimLeft(s, " \t\n;{}")
		s = sedAddress(s)
		s = strings.TrimLeft(s, " \t!")
		if s == "" {
			break
		}
		switch s[0] {
		case 'e':
			line, _, _ := strings.Cut(s[1:], "\n")
			return line, true
		case 's', 'y':
			var replacement string
			kind := s[0]
			replacement, s = sedReplacement(s[1:])
			flags := len(s) - len(strings.TrimLeft(s, "gpiImMe0123456789"))
			if kind == 's' && strings.Contains(s[:flags], "e") {
				return replacement, true
			}
			s = s[flags:]
			if strings.HasPrefix(s, "w") {
				_, s, _ = strings.Cut(s, "\n") // a file name
			}
		case 'a', 'i', 'c', 'r', 'R', 'w', 'W', 'b', 't', 'T', ':', '#':
			line := ""
			line, s, _ = strings.Cut(s, "\n")
			for strings.HasSuffix(line, `\`) { // the text continues
				line, s, _ = strings.Cut(s, "\n")
			}
		default:
			s = s[1:]
		}
	}
	return "", false
}

// sedAddress cuts the addresses off a sed command.
func sedAddress(s string) string {
	for s != "" {
		switch c := s[0]; {
		case c >= '0' && c <= '9', c == '$', c == ',', c == '~', c == '+':
			s = s[1:]
		case c == '/':
			s = afterDelimiter(s[1:], '/')
			s = strings.TrimLeft(s, "IM")
		case c == '\\' && len(s) > 1:
			s = afterDelimiter(s[2:], s[1])
			s = strings.TrimLeft(s, "IM")
		default:
			return s
		}
	}
	return s
}

// afterDelimiter returns what follows the next delimiter.
func afterDelimiter(s string, d byte) string {
	i := unescapedIndex(s, d)
	if i < 0 {
		return ""
	}
	return s[i+1:]
}

// sedReplacement returns the replacement in /pattern/replacement/flags, and the flags.
func sedReplacement(s string) (replacement, flags string) {
	if s == "" {
		return "", ""
	}
	after := afterDelimiter(s[1:], s[0])
	flags = afterDelimiter(after, s[0])
	return strings.TrimSuffix(after[:len(after)-len(flags)], string(s[0])), flags
}

// editor analyzes the commands on the command line of an editor.
func (f *finder) editor(sc scope, name string, words []word) {
	for i, w := range words[1:] {
		var text string
		switch t := w.text; {
		case (t == "-c" || t == "--cmd" || t == "--eval" || t == "-eval" || t == "-S" || t == "--execute") &&
			i+2 < len(words):
			text = words[i+2].text
		case strings.HasPrefix(t, "+") && strings.Trim(t[1:], "0123456789") != "" && !strings.HasPrefix(t, "+/"):
			text = t[1:]
		case strings.HasPrefix(t, "--eval="):
			text = t[len("--eval="):]
		default:
			continue
		}
		f.opaque(sc, text, "%s runs commands of its own language", name)
		f.afterExclamation(sc.in(name), text)
		f.code(sc.in(name), text)
	}
	if sc.stdin.kind == inputText {
		f.afterExclamation(sc.in(name), sc.stdin.word.code())
	}
}

// shellEscapes analyzes the shell escapes of interactive programs.
func (f *finder) shellEscapes(sc scope, name string, words []word) {
	in := sc.in(name)
	list := textsOf(words[1:])
	if sc.stdin.kind == inputText {
		list = append(list, strings.Split(sc.stdin.word.code(), "\n")...)
	}
	escapes := []string{".shell ", ".system ", `\! `, `\!`, "shell ", "!", "system ", "platform shell "}
	for _, t := range list {
		trimmed := strings.TrimSpace(t)
		for _, escape := range escapes {
			if rest, ok := strings.CutPrefix(trimmed, escape); ok && rest != "" {
				f.opaque(sc, t, "%s runs commands of its own language", name)
				f.source(in, rest, syntax.LangBash, nil)
				break
			}
		}
	}
}

// afterExclamation analyzes the text that an editor passes to the shell with !.
func (f *finder) afterExclamation(sc scope, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if _, script, ok := strings.Cut(line, "!"); ok && script != "" {
			f.source(sc, script, syntax.LangBash, nil)
		}
	}
}
