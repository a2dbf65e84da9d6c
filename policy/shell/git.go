package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// gitGlobals are the options before the subcommand of git.
var gitGlobals = wrapper{
	options: "-pPvhC:c: paginate no-pager no-replace-objects bare literal-pathspecs glob-pathspecs " +
		"noglob-pathspecs icase-pathspecs no-optional-locks no-lazy-fetch no-advice version help html-path man-path " +
		"info-path exec-path git-dir= work-tree= namespace= super-prefix= config-env= list-cmds= attr-source=",
}

// git follows the commands that git's configuration and options start.
func (f *finder) git(sc scope, words []word) {
	o := gitGlobals.parse(words[1:])
	aliases := map[string]word{}
	for _, opt := range o.list {
		switch opt.name {
		case "c":
			f.gitConfig(sc, opt.value, aliases)
		case "config-env":
			f.opaque(sc, opt.value.text, "git takes a setting from the environment")
		case "exec-path":
			if opt.value.text != "" {
				f.blockAllow(sc, texts(words), "git runs its programs from %s", opt.value.text)
			}
		}
	}
	if len(o.rest) == 0 {
		return
	}
	if len(o.rest) < len(words)-1 {
		again := append([]word{words[0]}, o.rest...)
		f.emit(sc.reinterpreted("git"), again)
	}
	if a, ok := aliases[o.rest[0].text]; ok {
		f.gitAlias(sc, a, o.rest[1:])
	}
	sub := o.rest[0].text
	f.optionCommands(sc, "git "+sub, o.rest)
	in := sc.in("git " + sub)
	switch {
	case sub == "bisect" && len(o.rest) > 2 && o.rest[1].text == "run":
		f.call(in, o.rest[2:])
	case sub == "for-each-repo":
		f.suspect(sc.Parent-1, words) // it runs git with its arguments
	case sub == "submodule":
		f.foreach(in, o.rest[1:])
	case sub == "config":
		f.gitSet(sc, o.rest[1:])
	}
}

// gitConfig analyzes one -c name=value.
func (f *finder) gitConfig(sc scope, w word, aliases map[string]word) {
	key, _, ok := strings.Cut(w.text, "=")
	if !ok {
		return
	}
	value := cutWord(w, len(key)+1)
	key = strings.ToLower(key)
	if name, ok := strings.CutPrefix(key, "alias."); ok {
		aliases[name] = value
		f.gitAlias(sc, value, nil)
		return
	}
	switch {
	case gitCommandKey(key):
		value.text, value.script = strings.TrimPrefix(value.text, "!"), strings.TrimPrefix(value.script, "!")
		if value.hole || value.text != "" && value.text != "true" && value.text != "false" {
			f.script(sc.in("git "+key), value, syntax.LangBash, nil)
		}
	case key == "core.hookspath", key == "include.path", strings.HasPrefix(key, "includeif."),
		key == "init.templatedir", key == "core.worktree", key == "core.attributesfile":
		f.blockAllow(sc, w.text, "git takes code from %s", value.text)
	}
}

// gitAlias analyzes an alias: !script, or words for git.
func (f *finder) gitAlias(sc scope, value word, rest []word) {
	if script, ok := strings.CutPrefix(value.text, "!"); ok {
		value.text, value.script = script, strings.TrimPrefix(value.script, "!")
		f.script(sc.in("git alias"), value, syntax.LangBash, append([]word{{text: "git"}}, rest...))
		return
	}
	split, err := Split(value.text)
	if err != nil {
		return
	}
	again := []word{{text: "git"}}
	for _, s := range split {
		again = append(again, word{text: s})
	}
	f.call(sc.reinterpreted("git alias"), append(again, rest...))
}

// gitCommandKey reports whether the value of a git setting is a command.
func gitCommandKey(key string) bool {
	switch key {
	case "core.pager", "core.editor", "core.sshcommand", "core.fsmonitor", "core.askpass", "core.gitproxy",
		"core.alternaterefscommand",
		"diff.external", "sequence.editor", "interactive.difffilter", "gpg.program", "gpg.ssh.program",
		"gpg.x509.program", "gpg.ssh.defaultkeycommand",
		"uploadpack.packobjectshook", "credential.helper", "sendemail.smtpserver", "sendemail.tocmd",
		"sendemail.cccmd", "web.browser", "help.browser", "man.viewer", "instaweb.httpd", "browser.path":
		return true
	}
	section, rest, _ := strings.Cut(key, ".")
	name := rest[strings.LastIndexByte(rest, '.')+1:]
	sections := []string{"diff", "merge", "filter", "difftool", "mergetool", "credential", "browser", "man", "remote",
		"trailer", "guitool", "hook"}
	names := []string{"command", "textconv", "driver", "clean", "smudge", "process", "cmd", "helper", "receivepack",
		"uploadpack", "path", "vcs"}
	return section == "pager" || slices.Contains(sections, section) && slices.Contains(names, name)
}

// gitTransport analyzes a URL such as ext::command.
func (f *finder) gitTransport(sc scope, w word) {
	before, _, ok := strings.Cut(w.text, "ext::")
	if ok && (before == "" || strings.HasSuffix(before, "=")) {
		f.script(sc, cutWord(w, len(before)+len("ext::")), syntax.LangBash, nil)
	}
}

// foreach follows git submodule foreach.
func (f *finder) foreach(sc scope, words []word) {
	i := slices.IndexFunc(words, func(w word) bool { return w.text == "foreach" })
	if i < 0 {
		return
	}
	words = words[i+1:]
	command := slices.IndexFunc(words, func(w word) bool { return !strings.HasPrefix(w.text, "-") })
	if command >= 0 {
		f.script(sc, concat(words[command:], " "), syntax.LangBash, nil)
	}
}

// gitSet analyzes the setting that git config writes.
func (f *finder) gitSet(sc scope, words []word) {
	plain := slices.DeleteFunc(slices.Clone(words), func(w word) bool {
		return strings.HasPrefix(w.text, "-") || w.text == "set" || w.text == "add"
	})
	if len(plain) < 2 {
		return
	}
	key, value := plain[len(plain)-2], plain[len(plain)-1]
	f.gitConfig(sc, concat([]word{key, {text: "="}, value}, ""), map[string]word{})
}
