package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// optionCommands analyzes the options by which common programs start another.
func (f *finder) optionCommands(sc scope, name string, words []word) {
	names := commandOptions[name]
	isGit := strings.HasPrefix(name, "git ")
	if names == "" && name != "ssh" && !isGit {
		return
	}
	in := sc.in(name)
	for i := 1; i < len(words); i++ {
		if isGit {
			f.gitTransport(in, words[i])
		}
		for opt := range strings.FieldsSeq(names) {
			if value, ok := optionValue(words, i, opt, name != "tar"); ok {
				f.script(in, value, syntax.LangBash, nil)
			}
		}
		switch {
		case name == "ssh", name == "scp", name == "sftp":
			f.sshOption(in, words, i)
		case name == "tar", name == "gtar", name == "bsdtar":
			f.tarCheckpoint(in, words[i])
		case name == "git clone" && (words[i].text == "-c" || words[i].text == "--config") && i+1 < len(words):
			f.gitConfig(sc, words[i+1], map[string]word{})
		}
	}
}

// optionValue returns the value of the option opt if words[i] is that option:
// the next word, what follows --name=, or with attached what follows -x.
func optionValue(words []word, i int, opt string, attached bool) (word, bool) {
	w := words[i]
	switch {
	case w.text == opt && i+1 < len(words):
		return words[i+1], true
	case len(opt) > 2 && strings.HasPrefix(w.text, opt+"="):
		return cutWord(w, len(opt)+1), true
	case attached && len(opt) == 2 && len(w.text) > 2 && strings.HasPrefix(w.text, opt):
		return cutWord(w, 2), true
	}
	return word{}, false
}

// tarCheckpoint analyzes --checkpoint-action=exec=command.
func (f *finder) tarCheckpoint(sc scope, w word) {
	option := strings.HasPrefix(w.text, "--checkpoint-action") && strings.Contains(w.text, "=exec=")
	if option || strings.HasPrefix(w.text, "exec=") {
		f.script(sc, cutWord(w, strings.Index(w.text, "exec=")+len("exec=")), syntax.LangBash, nil)
	}
}

const tarOptions = "-I -F --to-command --use-compress-program --info-script --new-volume-script " +
	"--rsh-command --rmt-command"

// commandOptions are the options whose value is a command.
var commandOptions = map[string]string{
	"tar":       tarOptions,
	"gtar":      tarOptions,
	"bsdtar":    "--use-compress-program",
	"rsync":     "-e --rsh",
	"sort":      "--compress-program",
	"split":     "--filter",
	"rg":        "--pre --hostname-bin",
	"man":       "-P --pager -H --html",
	"zip":       "-TT --unzip-command",
	"scp":       "-S",
	"sftp":      "-S",
	"fzf":       "--preview --bind",
	"nodemon":   "-x --exec",
	"watchexec": "-x",
	"go":        "-exec -toolexec -vettool",
	"vagrant":   "-c --command",
	"gcloud":    "--command",
	"pip":       "--editor",
	"wget":      "--use-askpass",
	"restic":    "--password-command",
	"cpio":      "--rsh-command",

	"git rebase":     "-x --exec",
	"git grep":       "-O --open-files-in-pager",
	"git difftool":   "-x --extcmd",
	"git clone":      "-u --upload-pack",
	"git fetch":      "--upload-pack",
	"git pull":       "--upload-pack",
	"git fetch-pack": "--upload-pack --exec",
	"git ls-remote":  "--upload-pack --exec",
	"git push":       "--receive-pack --exec",
	"git send-pack":  "--receive-pack --exec",
	"git archive":    "--exec",
	"git filter-branch": "--setup --subdirectory-filter --env-filter --tree-filter --index-filter --parent-filter " +
		"--msg-filter --commit-filter --tag-name-filter",
	"git send-email": "--to-cmd --cc-cmd --sendmail-cmd --header-cmd",
	"git daemon":     "--access-hook",
}

// sshOption analyzes -o Name=command, also behind other letters as in -vo.
func (f *finder) sshOption(sc scope, words []word, i int) {
	w := words[i]
	at := strings.IndexByte(w.text, 'o') + 1
	if !strings.HasPrefix(w.text, "-") || at == 0 {
		return
	}
	if w = cutWord(w, at); w.text == "" && i+1 < len(words) {
		w = words[i+1]
	}
	end := strings.IndexAny(w.text, "= \t")
	if end < 0 {
		return
	}
	switch name := strings.ToLower(w.text[:end]); name {
	case "proxycommand", "localcommand", "knownhostscommand", "remotecommand", "xauthlocation":
		f.script(sc.in("-o "+name), cutWord(w, end+1), syntax.LangBash, nil)
	}
}

// An option is one option of a command line.
type option struct {
	name  string // without dashes
	value word
}

// options is a parsed command line.
type options struct {
	list    []option
	rest    []word // the words after the options
	unknown string // the first option that is not in the grammar
}

// get returns the value of the last option that has one of the names.
func (o options) get(names string) (word, bool) {
	values := o.all(names)
	if len(values) == 0 {
		return word{}, false
	}
	return values[len(values)-1], true
}

// all returns the values of all options that have one of the names.
func (o options) all(names string) []word {
	var values []word
	for _, opt := range o.list {
		if slices.Contains(strings.Fields(names), opt.name) {
			values = append(values, opt.value)
		}
	}
	return values
}

// parse splits args into options and other words.
func (g wrapper) parse(args []word) options {
	var o options
	var operands []word
	for len(args) > 0 {
		w := args[0]
		start := w.text
		if w.hole {
			start = w.prefix
		}
		switch {
		case start == "--" && !w.hole:
			o.rest = append(operands, args[1:]...)
			return o
		case strings.HasPrefix(start, "--"):
			args = g.longOption(&o, args)
		case strings.HasPrefix(start, "-") && (len(start) > 1 || w.hole):
			args = g.shortOptions(&o, args)
		case g.permute && start != "":
			operands = append(operands, w)
			args = args[1:]
		default:
			o.rest = append(operands, args...)
			return o
		}
	}
	o.rest = operands
	return o
}

// longOption parses --name, --name=value or --name value and returns the rest of
// args. GNU programs accept abbreviated names.
func (g wrapper) longOption(o *options, args []word) []word {
	name, value, attached := strings.Cut(strings.TrimPrefix(args[0].text, "--"), "=")
	match := ""
	for l := range strings.FieldsSeq(g.options) {
		full := strings.TrimRight(l, "=")
		if strings.HasPrefix(full, "-") {
			continue // the short ones
		}
		if full == name {
			match = l
			break
		}
		if match == "" && strings.HasPrefix(full, name) {
			match = l
		}
	}
	rest := args[1:]
	if match == "" {
		if o.unknown == "" && !attached {
			o.unknown = "--" + name
		}
		return rest
	}
	full := strings.TrimRight(match, "=")
	opt := option{name: full, value: word{text: value}}
	if attached {
		opt.value = cutWord(args[0], len(args[0].text)-len(value))
	}
	for range len(match) - len(full) {
		if attached || len(rest) == 0 {
			break
		}
		opt.value, rest = rest[0], rest[1:]
	}
	o.list = append(o.list, opt)
	return rest
}

// cutWord returns w without its first n bytes.
func cutWord(w word, n int) word {
	if !w.hole {
		return word{text: w.text[n:], pos: w.pos}
	}
	out := word{text: w.text[min(n, len(w.text)):], hole: true, many: w.many, script: unknownVar, pos: w.pos}
	if len(w.prefix) >= n {
		out.prefix = w.prefix[n:]
		out.script = w.script[min(n, len(w.script)):]
	}
	return out
}

// shortOptions parses a cluster such as -xzf file and returns the rest of args.
func (g wrapper) shortOptions(o *options, args []word) []word {
	cluster, rest := args[0].text, args[1:]
	short := ""
	if strings.HasPrefix(g.options, "-") {
		short, _, _ = strings.Cut(g.options[1:], " ")
	}
	for i := 1; i < len(cluster); i++ {
		name := cluster[i : i+1]
		_, after, known := strings.Cut(short, name)
		opt := option{name: name}
		switch {
		case !known || name == ":":
			if o.unknown == "" {
				o.unknown = "-" + name
			}
			return rest
		case !strings.HasPrefix(after, ":"):
			o.list = append(o.list, opt)
			continue
		case i+1 < len(cluster) || strings.HasPrefix(after, "::"):
			opt.value = cutWord(args[0], i+1)
		case len(rest) == 0:
			return rest
		default:
			opt.value, rest = rest[0], rest[1:]
		}
		o.list = append(o.list, opt)
		return rest
	}
	return rest
}
