package shell

import (
	"slices"
	"strings"
	"sync"
)

// A Part is a piece of the text that a program may run: a word without quotes.
type Part struct {
	Text    string
	Unknown bool // the word is not known before the command runs
	Many    bool // for an unknown word: it can be a whole command
}

// Suspects returns the parts of what the command may run in addition to the commands
// that are listed. These are the arguments of a program that is not known to treat
// them as data, the text on its standard input, and the variables set for it.
func (c Command) Suspects() []Part {
	var parts []Part
	for _, w := range c.suspects {
		switch {
		case !w.hole:
			parts = append(parts, partsOf(w.text)...)
		case !w.glob:
			parts = append(parts, partsOf(w.prefix)...)
			parts = append(parts, Part{Unknown: true, Many: w.many && w.prefix == ""})
		}
	}
	for _, a := range c.Assigns {
		if _, value, _ := strings.Cut(a, "="); !slices.Contains(onlyRead, ProgramName(c.Argv[0])) {
			parts = append(parts, partsOf(value)...)
		}
	}
	return parts
}

// partsOf splits a text where any language may separate words. Quotes may separate
// words, or join them as in g""it.
func partsOf(text string) []Part {
	if i := strings.IndexAny(text, `'"\`); i >= 0 {
		joined := strings.NewReplacer(`'`, "", `"`, "", `\`, "").Replace(text)
		return append(split(text), split(joined)...)
	}
	return split(text)
}

func split(text string) []Part {
	var parts []Part
	for field := range strings.FieldsFuncSeq(text, separates) {
		parts = append(parts, Part{Text: field})
	}
	return parts
}

func separates(r rune) bool { return r <= ' ' || strings.ContainsRune("'\"\\`$=,;|&<>(){}[]!*?#", r) }

// Begins reports whether the part is word, or the first part of it.
func (p Part) Begins(word string) bool {
	rest, ok := strings.CutPrefix(word, p.Text)
	return ok && (rest == "" || separates(rune(rest[0])))
}

// suspect sets the words that command i may run. Without words, all that it may run
// is listed.
func (f *finder) suspect(i int, words []word) {
	if i >= 0 {
		f.found.Commands[i].suspects = words
	}
}

// suspectAll has a program that is not known run any of its arguments or its input.
func (f *finder) suspectAll(sc scope, name string, words []word, i int) {
	all := words[1:]
	if sc.stdin.kind == inputText {
		all = append(slices.Clip(all), sc.stdin.word)
	}
	f.suspect(i, all)
	for n := 1; n < len(words)-1; n++ {
		if !strings.HasPrefix(words[n+1].text, "-") {
			continue
		}
		_, runsCode := interpreters()[languageName(ProgramName(words[n].text))]
		if runsCode || isShell(words[n].text) {
			f.call(sc.reinterpreted(name), words[n:])
			return
		}
	}
}

// takesData reports whether the arguments of a program called name are data, or the
// commands in them are found by name and option.
func takesData(name string) bool {
	return slices.Contains(onlyRead, name) || readOnlyIf[name] != nil || dataPrograms()[name]
}

// dataPrograms are the programs that start no command named by their arguments, other
// than those that [dispatch] finds. Only programs whose arguments are often ordinary
// words need to be here.
var dataPrograms = sync.OnceValue(func() map[string]bool {
	return byName(map[string]bool{
		"true false : exit return break continue shift wait fg bg umask ulimit type times getopts pushd popd " +
			"dirs unset unalias shopt logout caller disown help sleep yes": true,
		"rm grm cp gcp mv gmv ln dd chmod chown chgrp chattr setfacl truncate shred kill pkill killall": true,
		"mkdir rmdir touch install mktemp mkfifo link unlink sync tac csplit fmt pr ptx shuf tsort expand unexpand " +
			"b2sum cksum sum sha224sum sha384sum shasum md5 base32 basenc pathchk printenv uptime users who groups " +
			"logname hostname hostid tty arch lsof locate updatedb file tree ps pgrep pidof free top vmstat lsblk " +
			"findmnt mountpoint column hexdump hd xxd look cal logger more less whereis whatis apropos " +
			"patch diff3 sdiff colordiff delta bat batcat jq yq gron xmllint xmlstarlet csvcut eza exa lsd ag ack " +
			"zgrep zcat bzcat xzcat gzip gunzip bzip2 xz zstd unzip 7z open xdg-open pbcopy pbpaste clear reset " +
			"tput stty figlet notify-send say Get-ChildItem Get-Content Select-String": true,
		"tar gtar bsdtar rsync scp split man zip cpio restic":                                                 true,
		"curl wget http ping dig nslookup host whois ip ss netstat ifconfig":                                  true,
		"apt apt-get apt-cache aptitude dpkg dnf yum rpm zypper pacman apk brew port winget":                  true,
		"npm yarn pip pip3 uv poetry pipenv conda mamba gem bundle composer rustup go":                        true,
		"svn hg jj gh glab tsc eslint prettier stylelint ruff black isort mypy flake8 pylint gofmt goimports": true,
		"golangci-lint rustfmt clang-format ar nm objdump strings":                                            true,
		"kubectl oc helm docker podman nerdctl terraform tofu aws gcloud az systemctl journalctl service":     true,
		"tldr codespell aspell shellcheck shfmt hadolint yamllint":                                            true,
	})
})
