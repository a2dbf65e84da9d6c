package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// wrapperOf returns the grammar of the wrapper called name. The one of env is
// used by [finder.env].
func wrapperOf(name string) (wrapper, bool) {
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || name == "ld.so" {
		return loader, true
	}
	if gnu, ok := strings.CutPrefix(name, "g"); ok && gnuNames[gnu] {
		g, ok := wrappers()[gnu]
		return g, ok
	}
	g, ok := wrappers()[name]
	return g, ok && name != "env"
}

// gnuNames are the wrappers that Homebrew installs with the prefix g.
var gnuNames = map[string]bool{"timeout": true, "nice": true, "nohup": true, "stdbuf": true, "xargs": true,
	"chroot": true, "time": true}

// loader is the dynamic loader, which runs a program.
var loader = wrapper{
	options: "library-path= preload= audit= argv0= inhibit-cache inhibit-rpath= list verify glibc-hwcaps-prepend= " +
		"glibc-hwcaps-mask= list-diagnostics list-tunables",
	noCommand: "list verify",
}

// wrapped follows a wrapper to the command it starts.
func (f *finder) wrapped(sc scope, name string, g wrapper, words []word, i int) {
	o := g.parse(words[1:])
	for names := range strings.FieldsSeq(g.noCommand) {
		if _, ok := o.get(names); ok {
			return
		}
	}
	in := sc.in(name)
	in.assigns = slices.Clip(in.assigns)
	in.elsewhere = in.elsewhere || g.elsewhere
	if o.unknown != "" {
		f.opaque(sc, texts(words), "option %s of %s is not known here", o.unknown, name)
		if len(o.rest) > 1 {
			f.call(in.reinterpreted(o.unknown+" with a value"), o.rest[1:])
		}
	}
	if text, ok := o.get(g.script); ok {
		f.script(in, text, syntax.LangBash, nil)
	}
	rest := f.assignments(&in, g, o.rest)
	changesVars := len(rest) < len(o.rest)
	if name == "setarch" && len(rest) > 0 && !isArch(rest[0].text) {
		g.operands = 0
	}
	if len(rest) <= g.operands {
		if _, ok := o.get(g.script); !ok {
			f.suspectAll(sc, name, words, i)
		}
		return
	}
	rest = rest[g.operands:]
	if g.operands > 0 && g.script != "" && len(rest) > 1 && rest[0].text == "-c" { // flock FILE -c 'script'
		f.script(in, rest[1], syntax.LangBash, nil)
		return
	}
	if g.through && o.unknown == "" && !changesVars {
		f.markThrough(i)
	}
	f.wrappedCommand(sc, in, g, o, rest)
}

// assignments analyzes NAME=value before the command, and returns the words after them.
func (f *finder) assignments(in *scope, g wrapper, words []word) []word {
	for g.assigns && len(words) > 0 && isAssign(words[0]) {
		name, _, _ := strings.Cut(words[0].text, "=")
		f.variable(*in, name, cutWord(words[0], len(name)+1))
		in.assigns = append(in.assigns, words[0].text)
		words = words[1:]
	}
	return words
}

// wrappedCommand analyzes the words after a wrapper's options and operands.
func (f *finder) wrappedCommand(sc, in scope, g wrapper, o options, words []word) {
	if program, ok := o.get("entrypoint"); ok {
		f.suspect(sc.Parent-1, append([]word{program}, words...))
	}
	if g.extraArgs {
		words = f.xargs(sc, o, words)
	}
	if _, asWords := o.get("x exec"); g.joined && !asWords { // watch -x starts its words as they are
		f.script(in, concat(words, " "), syntax.LangBash, nil)
		return
	}
	f.call(in, words)
}

// xargs returns the command that xargs starts, with holes for its input.
func (f *finder) xargs(sc scope, o options, rest []word) []word {
	var texts []string
	if sc.stdin.kind == inputText && !sc.stdin.word.hole {
		texts = append(texts, sc.stdin.word.text)
	}
	replace, ok := o.get("I i replace J")
	if !ok {
		input := word{text: "…", hole: true, many: true, script: unknownVar, guesses: texts}
		return append(slices.Clip(rest), input)
	}
	if replace.text == "" {
		replace.text = "{}"
	}
	return withHoles(rest, replace.text, texts)
}

// withHoles returns words with a hole for each mark.
func withHoles(words []word, mark string, guesses []string) []word {
	out := slices.Clone(words)
	for i, w := range out {
		before, after, ok := strings.Cut(w.text, mark)
		if !ok || w.hole {
			continue
		}
		out[i] = word{text: w.text, pos: w.pos, hole: true, prefix: before,
			script: before + unknownVar + strings.ReplaceAll(after, mark, unknownVar)}
		for _, g := range guesses {
			out[i].guesses = append(out[i].guesses, strings.ReplaceAll(w.text, mark, strings.TrimSpace(g)))
		}
	}
	return out
}

// isAssign reports whether env and the like take a word as NAME=value. The name need
// not be one that a shell accepts, and can be empty.
func isAssign(w word) bool { return strings.Contains(w.text, "=") }

// isArch reports whether name can be the architecture that setarch may be given first.
func isArch(name string) bool {
	return hasPrefix(name, "linux", "x86", "i386", "i686", "arm", "aarch", "ppc", "s390", "mips", "riscv", "uname")
}

// env follows env, whose option -S is a line of further arguments.
func (f *finder) env(sc scope, words []word, i int) {
	g := wrappers()["env"]
	o := g.parse(words[1:])
	if dir, ok := o.get("P"); ok { // BSD: the search path
		f.blockAllow(sc, dir.text, "env looks for programs in another place")
	}
	line, ok := o.get("S split-string")
	if !ok {
		if len(o.rest) > 0 && o.rest[0].text == "-" {
			words = append([]word{words[0]}, o.rest[1:]...)
		}
		f.wrapped(sc, "env", g, words, i)
		return
	}
	if line.hole {
		f.opaque(sc, line.text, "the arguments given to env -S are not known before it runs")
	}
	f.noteScript(sc, line.code()) // -S has escapes of its own
	split, err := Split(strings.NewReplacer("\r", " ", "\v", " ", "\f", " ").Replace(line.code()))
	if err != nil {
		f.opaque(sc, line.text, "the arguments given to env -S cannot be read: %v", err)
		return
	}
	again := []word{words[0]}
	for _, s := range split {
		again = append(again, word{text: s, pos: line.pos, hole: strings.Contains(s, "${"), script: s})
	}
	rest := o.rest
	if p := line.pos; p > 0 && p < len(words) && words[p].pos == p {
		rest = words[p+1:] // also what looks like an option of env
	}
	f.env(sc.in("env -S"), append(again, rest...), -1)
}

// subcommand follows programs with a subcommand that starts others.
func (f *finder) subcommand(sc scope, name string, subs map[string]wrapper, words []word, i int) {
	for n := 1; n < min(len(words), 6); n++ {
		sub := words[n].text
		g, ok := subs[sub]
		if !ok {
			continue
		}
		rest := words[n:]
		if end := slices.IndexFunc(rest, isDashes); end > 0 && g.operands == 0 && !g.elsewhere {
			f.call(sc.in(name+" "+sub), rest[end+1:])
			return
		}
		if name == "nix" {
			if end := slices.IndexFunc(rest,
				func(w word) bool { return w.text == "-c" || w.text == "--command" }); end > 0 {
				f.call(sc.in(name+" "+sub), rest[end+1:])
			}
			return
		}
		f.wrapped(sc, name+" "+sub, g, rest, i)
		return
	}
}
