package shell

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Found is what [Find] sees in a call.
type Found struct {
	// Find are in the order in which they stand in the text, a wrapper
	// before what it wraps.
	Commands []Command `json:"commands"`
	// Opaque names what stays unknown.
	Opaque []Opaque `json:"opaque,omitempty"`
	// Writes are the files that redirections open for writing. /dev/null and
	// the standard streams are left out.
	Writes []Write `json:"writes,omitempty"`

	scripts []string // the texts given to shells on this machine
}

// A Command is one simple command: a program or builtin with its arguments.
type Command struct {
	// Argv has quotes removed and escapes resolved. An argument whose value
	// is not known stands there as it is written, and Holes names it.
	Argv  []string `json:"argv"`
	Holes []Hole   `json:"holes,omitempty"`
	// Path is how the command was reached, outermost first, such as
	// "bash -c > $( ) > xargs". The call's own argv has "".
	Path string `json:"path,omitempty"`
	// Assigns are the variables set for this command alone, as NAME=value.
	Assigns []string `json:"assigns,omitempty"`
	// Writes are the targets of its redirections, and of those around it.
	Writes []string `json:"writes,omitempty"`
	// Through is set for a command that does nothing but start the commands
	// that follow it, such as `bash -c` with a text that was read in full.
	Through bool `json:"through,omitempty"`
	// Derived is set for a second reading of a command: `git push` for
	// `git -C dir push`, or a variable replaced by what was assigned to it.
	// It is there to be refused; it is never needed for an allow.
	Derived bool `json:"derived,omitempty"`

	// Elsewhere is set for a command that runs on another machine or in a
	// container.
	Elsewhere bool `json:"elsewhere,omitempty"`

	danger string // why it is destructive where it stands, such as at the end of a pipe
	Origin
}

// An Origin is the command in whose words something was found.
type Origin struct {
	Parent int `json:"-"` // one more than its index in Found.Commands; 0 for none
	Word   int `json:"-"` // the first of its words that belongs to what was found
}

// A Hole is an argument that is not known before the command runs.
type Hole struct {
	Index  int    `json:"index"`            // in Argv
	Prefix string `json:"prefix,omitempty"` // what it begins with
	Many   bool   `json:"many,omitempty"`   // it can become any number of arguments, or none
	// Glob is set where the hole is a file name pattern: the names come from
	// the disk, not from another command.
	Glob bool `json:"glob,omitempty"`
}

// Opaque is a part of a call that cannot be resolved.
type Opaque struct {
	Reason string `json:"reason"`
	Source string `json:"source,omitempty"` // the text in question, cut to a line
	Path   string `json:"path,omitempty"`
	// NoAllow is set where no command is hidden, but none may be permitted
	// either: a variable changes which code the programs load.
	NoAllow bool `json:"no_allow,omitempty"`

	Origin
}

// A Write is a file that a redirection opens for writing.
type Write struct {
	Target string `json:"target"`
	Known  bool   `json:"known"` // Target is the path itself, not the text it comes from
	Append bool   `json:"append,omitempty"`
	Path   string `json:"path,omitempty"`
}

// Find returns every simple command in what argv would run: argv itself,
// and what stands inside it, through wrappers such as sudo or xargs and in
// scripts given to shells.
//
// It reads text only. A file that a command runs, a script or a Makefile, is
// not looked into and not opaque: the command that runs it is what rules
// judge. Text that is data, a comment, a quoted argument or a heredoc given to
// cat, holds no commands.
func Find(argv []string) (found Found) {
	f := finder{}
	defer func() {
		if p := recover(); p != nil {
			// A fault in the parser must not end the gate, nor let a script through.
			f.opaque(scope{}, Join(argv), "bug: reading it failed: %v", p)
			found = f.found
		}
	}()
	words := make([]word, len(argv))
	for i, a := range argv {
		words[i] = word{text: a}
	}
	f.call(scope{}, words)
	return f.found
}

// String returns argv as one line of text, quoted where a shell needs it.
func (c Command) String() string { return Join(c.Argv) }

func Join(argv []string) string {
	quoted := make([]string, len(argv))
	for i, a := range argv {
		q, err := syntax.Quote(a, syntax.LangBash)
		if err != nil {
			q = fmt.Sprintf("%q", a)
		}
		quoted[i] = q
	}
	return strings.Join(quoted, " ")
}

// hole returns the hole at index i of Argv.
func (c Command) Hole(i int) (Hole, bool) {
	for _, h := range c.Holes {
		if h.Index == i {
			return h, true
		}
	}
	return Hole{}, false
}

// programName returns what a program is known by: its file name, without the
// suffix that Windows adds.
func ProgramName(arg string) string {
	if i := strings.LastIndexAny(arg, `/\`); i >= 0 {
		arg = arg[i+1:]
	}
	for _, suffix := range []string{".exe", ".cmd", ".bat", ".com"} {
		if len(arg) > len(suffix) && strings.EqualFold(arg[len(arg)-len(suffix):], suffix) {
			return arg[:len(arg)-len(suffix)]
		}
	}
	return arg
}
