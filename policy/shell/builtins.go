package shell

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func (f *finder) eval(sc scope, words []word, i int) {
	rest := withoutDashes(words[1:])
	if len(rest) == 0 {
		return
	}
	text := concat(rest, " ")
	f.script(sc.in("eval"), text, syntax.LangBash, sc.args)
	if !text.hole && len(sc.assigns) == 0 {
		f.markThrough(i)
	}
}

// withoutDashes returns words without a -- at their start.
func withoutDashes(words []word) []word {
	if len(words) > 0 && isDashes(words[0]) {
		return words[1:]
	}
	return words
}

// sourceFile follows source to the text that it reads, if that is in the call.
func (f *finder) sourceFile(sc scope, name string, words []word) {
	if len(words) < 2 {
		return
	}
	switch w := words[1]; {
	case w.proc != nil:
		f.procScript(sc, w, name, syntax.LangBash, words[1:])
	case isStdin(w):
		f.stdinScript(sc, name, syntax.LangBash, words[1:], -1)
	default:
		f.scriptFile(sc, w)
		if text, ok := f.fileText(w); ok {
			f.script(sc.in(name+" "+w.text), text, syntax.LangBash, nil)
		}
	}
}

func (f *finder) trap(sc scope, words []word) {
	rest := withoutDashes(words[1:])
	if len(rest) < 2 || strings.HasPrefix(rest[0].text, "-") {
		return
	}
	f.script(sc.in("trap"), rest[0], syntax.LangBash, sc.args)
}

func (f *finder) alias(sc scope, words []word) {
	for _, w := range words[1:] {
		name, value, ok := strings.Cut(w.text, "=")
		if !ok {
			continue
		}
		f.alsoCalled(name, value)
		if strings.Contains(value, "<<") {
			f.opaque(sc, w.text, "a here-document in an alias is read from what follows the alias")
		}
		f.script(sc.in("alias "+name), cutWord(w, len(name)+1), syntax.LangBash, nil)
	}
}

// builtinOption follows the builtins that take a command as the value of an
// option.
func (f *finder) builtinOption(sc scope, name string, words []word) {
	g := map[string]wrapper{
		"complete":  {options: "-abcdefgjksuvprDEIo:A:G:W:F:C:X:P:S:", script: "C"},
		"compgen":   {options: "-abcdefgjksuvo:A:G:W:F:C:X:P:S:V:", script: "C"},
		"mapfile":   {options: "-td:n:O:s:u:C:c:", script: "C"},
		"readarray": {options: "-td:n:O:s:u:C:c:", script: "C"},
		"bind":      {options: "-lpsvPSVXm:q:u:r:f:x:", script: "x"},
		"enable":    {options: "-adnpsf:"},
		"hash":      {options: "-ldtrp:"},
	}[name]
	o := g.parse(words[1:])
	if text, ok := o.get(g.script); ok {
		if name == "bind" {
			_, command, _ := strings.Cut(text.text, ":")
			text.text = strings.Trim(strings.TrimSpace(command), `"'`)
		}
		f.script(sc.in(name), text, syntax.LangBash, nil)
	}
	if text, ok := o.get("W"); ok {
		f.expanded(sc.in(name), text.code())
	}
	if _, ok := o.get("f"); ok && name == "enable" {
		f.opaque(sc, texts(words), "enable loads code into the shell")
	}
	if w, ok := o.get("p"); ok && name == "hash" {
		f.opaque(sc, texts(words), "hash makes a name stand for %s", w.text)
		for _, n := range o.rest {
			f.alsoCalled(n.text, w.text)
		}
	}
}

// set remembers the positional parameters that a script sets.
func (f *finder) set(sc scope, words []word) {
	o := wrapper{options: "-abefhkmnptuvxBCEHPTo:"}.parse(words[1:])
	name, _ := o.get("o")
	if _, keyword := o.get("k"); keyword || name.hole || name.text == "keyword" {
		f.opaque(sc, texts(words), "after set -k, arguments with = are variables")
	}
	i := slices.IndexFunc(words[1:], func(w word) bool { return isDashes(w) || !hasPrefix(w.text, "-", "+") })
	if i < 0 {
		return
	}
	list := withoutDashes(words[1+i:])
	f.remember("@", concat(list, " "), false)
	for n, w := range list {
		f.remember(strconv.Itoa(n+1), w, false)
	}
}
