// Package cli is the command line: one file a command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"toolgate/internal/app"
	"toolgate/internal/config"
	"toolgate/internal/printable"
	"toolgate/sandbox"
)

// Exit codes. Scripts rely on them.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitTool    = 3 // call: the tool answered with an error
	exitRefused = 4 // call: the policy or the user said no
)

// Run runs the command line and returns the exit code.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// A client that has closed its end must be noticed as a failed write, so that everything ends
	// in order. SIGPIPE would kill this process at once.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	raw := streams{stdout, stderr}
	stdout, stderr = printable.Writer(stdout), printable.Writer(stderr)
	p := &program{Options: app.Options{Stderr: stderr}, stdin: stdin, stdout: stdout, stderr: stderr, raw: raw}
	root := p.rootCommand()
	if len(args) > 0 && args[0] == "sandbox" {
		root.AddCommand(p.sandboxCommand()) // a command that is to start at once waits for no others
	} else {
		p.addCommands(root)
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	code := p.exitCode(err)
	if _, quiet := errors.AsType[exitStatus](err); err != nil && !quiet {
		report(stderr, err)
	}
	return code
}

// An exitStatus ends the program with a code and without a further message.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// A usageError is an error in what the user wrote: a *[policy.ValueError], an *[app.DirectoryError]
// or a *[server.UnknownToolError].
type usageError interface {
	error
	Hint() string
}

// exitCode returns the code for the error of a command. An error before any command ran is a usage error.
func (p *program) exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if e, ok := errors.AsType[exitStatus](err); ok {
		return int(e)
	}
	if !p.started {
		return exitUsage
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if e, ok := errors.AsType[*config.Error](err); ok && e.File == "-c" {
		return exitUsage
	}
	return exitFailed
}

// report prints the error and, if there is one, a hint.
func report(w io.Writer, err error) {
	fmt.Fprintf(w, "toolgate: error: %v\n", err)
	if hint := hintFor(err); hint != "" {
		fmt.Fprintf(w, "toolgate: hint: %s\n", hint)
	}
}

func hintFor(err error) string {
	if e, ok := errors.AsType[*config.Error](err); ok {
		return e.Hint
	}
	if e, ok := errors.AsType[usageError](err); ok {
		return e.Hint()
	}
	if errors.Is(err, errNoConsole) {
		return "set enabled = true in [console] of the config and restart the client, " +
			"or run `toolgate console --serve`"
	}
	if errors.Is(err, sandbox.ErrUnsupported) {
		return "`toolgate doctor` says what is missing and how to get it"
	}
	return ""
}
