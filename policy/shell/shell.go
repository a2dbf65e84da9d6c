// Package shell finds the commands that a call runs: through wrappers such as
// sudo, in scripts given to shells, and in the options of programs that run
// others.
//
//	found := shell.Find([]string{"bash", "-lc", "sudo git push"})
//	// found.Commands lists bash, sudo and git push;
//	// found.Opaque lists what could not be analyzed
//
// What it finds is evidence, not proof: shells differ. [Found.NotPlain] reports
// whether the scripts leave room for doubt.
package shell

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Found is the result of [Find].
type Found struct {
	// Commands are in the order of the text, a wrapper before the command
	// that it wraps.
	Commands []Command `json:"commands"`
	// Opaque lists the parts that could not be analyzed.
	Opaque []Opaque `json:"opaque,omitempty"`
	// Writes are the files that redirections open for writing, without
	// /dev/null and the standard streams.
	Writes []Write `json:"writes,omitempty"`

	ScriptFiles ScriptFiles `json:"-"`

	scripts []string // the texts given to shells on this machine
}

// A Command is one simple command: a program or builtin with its arguments.
type Command struct {
	// Argv has quotes removed and escapes resolved. An argument whose value is
	// unknown is given as it is written, and listed in Holes.
	Argv  []string `json:"argv"`
	Holes []Hole   `json:"holes,omitempty"`
	// Path says how the command was reached, outermost first, such as
	// "bash -c > $( ) > xargs". It is "" for the call's own argv.
	Path string `json:"path,omitempty"`
	// Assigns are the variables set for this command alone, as NAME=value.
	Assigns []string `json:"assigns,omitempty"`
	// Writes are the targets of its redirections and of those around it.
	Writes []string `json:"writes,omitempty"`
	// Through is set for a command that only starts the commands listed after
	// it, such as `bash -c` with a script that was analyzed completely.
	Through bool `json:"through,omitempty"`
	// Derived is set for an alternative reading of a command: `git push` for
	// `git -C dir push`, or a variable replaced by a value assigned to it.
	// Restricting rules apply to it; an allow does not need to cover it.
	Derived bool `json:"derived,omitempty"`

	// Elsewhere is set for a command that runs on another machine or in a
	// container.
	Elsewhere bool `json:"elsewhere,omitempty"`

	suspects []word // see [Command.Suspects]
	danger   string // why it is destructive where it stands, such as at the end of a pipe
	Origin
}

// An Origin identifies the command in whose words something was found.
type Origin struct {
	Parent int `json:"-"` // its index in Found.Commands plus one; 0 for none
	Word   int `json:"-"` // index of the first word that belongs to the find
}

// A Hole is an argument that is not known before the command runs.
type Hole struct {
	Index  int    `json:"index"`            // in Argv
	Prefix string `json:"prefix,omitempty"` // what it begins with
	Many   bool   `json:"many,omitempty"`   // it can become any number of arguments, including none
	// Glob is set if the hole is a file name pattern, or words in braces: the values
	// are names of files, or these words.
	Glob bool `json:"glob,omitempty"`
}

// Opaque is a part of a call that cannot be analyzed.
type Opaque struct {
	Reason string `json:"reason"`
	Source string `json:"source,omitempty"` // the text in question, as one line of limited length
	Path   string `json:"path,omitempty"`
	// NoAllow is set if the part hides no command, but changes what the commands
	// do, such as a variable by which programs load other code.
	NoAllow bool `json:"no_allow,omitempty"`

	Origin
}

// A Write is a file that a redirection opens for writing.
type Write struct {
	Target string `json:"target"`
	Known  bool   `json:"known"` // Target is the path itself, not an expression
	Append bool   `json:"append,omitempty"`
	Path   string `json:"path,omitempty"`
}

// Find returns every simple command that argv would run: argv itself, and the
// commands inside it, through wrappers such as sudo or xargs and in scripts
// given to shells.
//
// It analyzes text only. A file that a command runs, such as a script or a
// Makefile, is neither read nor opaque: rules judge the command that runs it.
// Data contains no commands: comments, quoted arguments, heredocs given to cat.
func Find(argv []string) (found Found) {
	f := newFinder()
	defer func() {
		if p := recover(); p != nil {
			// A bug in the parser must neither crash the gate nor let a script pass.
			f.opaque(scope{}, Join(argv), "bug: reading it failed: %v", p)
			found = f.found
		}
	}()
	f.call(scope{}, wordsOf(argv))
	return f.found
}

// String returns [Join] of the command's words.
func (c Command) String() string { return Join(c.Argv) }

// Join returns argv as one line, quoted where a shell needs it.
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

// Hole returns the hole at index i of Argv, if there is one.
func (c Command) Hole(i int) (Hole, bool) {
	for _, h := range c.Holes {
		if h.Index == i {
			return h, true
		}
	}
	return Hole{}, false
}

// ProgramName returns the name of a program: the last element of its path,
// without the suffix that Windows adds.
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
