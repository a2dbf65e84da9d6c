// Package sandbox enforces a [policy.Profile]: it finds out what this system
// can enforce, plans it, and starts processes that are held to the plan by the
// kernel.
//
//	func main() {
//		sandbox.Main() // first, in every binary that starts sandboxes
//		…
//		plan, err := sandbox.NewPlan(profile, sandbox.Probe())
//		cmd := plan.Command("", "worker") // "" is this very binary
//		cmd.Stdin, cmd.Stdout = …
//		err = cmd.Start() // returns once the program runs inside, or says why it cannot
//		err = cmd.Wait()
//	}
//
// Inside, [Current] returns the plan the process is held to, and a [Spawner]
// starts commands that are held to it once more, so that they can neither
// signal, trace nor read the process that started them.
//
// Everything that a [Cmd] starts ends with it, and ends when the process that
// started it ends, even by SIGKILL.
//
// # Levels
//
// At level [Full] the process gets its own user, mount, pid, ipc, net and uts
// namespaces: a read-only view of the file system with the writable roots
// carved out, protected paths below them read-only, hidden paths masked, a
// fresh /proc, a private /dev; no capabilities; Landlock and seccomp on top.
// Level [Bwrap] is the same through bubblewrap, where only that program may
// make user namespaces. At level [Landlock] there are no namespaces: Landlock
// holds writes and seccomp the network, and what they cannot do stands in
// [Plan.Unenforced]. Level [None] confines nothing.
//
// # Limits
//
// The kernel is shared: a fault in it is a way out. What may be read may be
// told, through whatever network the profile has. A file that another program
// of the user will run, such as a Makefile in a writable root, can be changed.
package sandbox

import (
	"errors"
	"fmt"
)

// ErrUnsupported is what an error wraps when this system cannot enforce a
// profile. The text says what is missing.
var ErrUnsupported = errors.New("sandbox unsupported on this system")

// ErrStale is what an error wraps when there is something that a process would
// be held to if it were started now, and that this one is not.
var ErrStale = errors.New("the sandbox is older than what it is to protect")

// ErrEnded is the error for what can only be done while the process runs.
var ErrEnded = errors.New("sandbox: it has ended")

// A Level is how a process is confined. The zero value is not at all.
type Level int

const (
	None     Level = iota // not confined
	Landlock              // Landlock and seccomp only
	Bwrap                 // namespaces made by bubblewrap, Landlock, seccomp
	Full                  // own namespaces, Landlock, seccomp
)

var levelNames = [...]string{None: "none", Landlock: "landlock", Bwrap: "bwrap", Full: "full"}

func (l Level) String() string {
	if l < 0 || int(l) >= len(levelNames) {
		return fmt.Sprintf("level(%d)", int(l))
	}
	return levelNames[l]
}

// MarshalText returns the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads a level's name.
func (l *Level) UnmarshalText(text []byte) error {
	for i, name := range levelNames {
		if name == string(text) {
			*l = Level(i)
			return nil
		}
	}
	return fmt.Errorf("unknown sandbox level %q", text)
}

// A Support says whether this system offers something and, when it does not,
// why. The zero value does not.
type Support struct {
	OK  bool   `json:"ok"`
	Why string `json:"why,omitempty"` // why not
}

// A System is what this kernel and this user can enforce. The zero value can
// enforce nothing. Make one with [Probe], or by hand for a plan of another
// system.
type System struct {
	OS         string  `json:"os"`
	Root       bool    `json:"root"`       // the user is uid 0
	Namespaces Support `json:"namespaces"` // own user, mount, pid, ipc, net and uts namespaces, with mounts
	Bwrap      Support `json:"bwrap"`      // the same through bubblewrap
	BwrapPath  string  `json:"bwrap_path,omitempty"`
	Seccomp    Support `json:"seccomp"`      // system call filters
	Landlock   Support `json:"landlock"`     // Landlock, of any ABI
	ABI        int     `json:"landlock_abi"` // Landlock's ABI, 0 without
}

// Level returns the best level that this system can enforce.
func (s System) Level() Level {
	switch {
	case s.OS != "linux" || !s.Seccomp.OK:
		return None
	case s.Namespaces.OK:
		return Full
	case s.Bwrap.OK:
		return Bwrap
	case s.Landlock.OK:
		return Landlock
	}
	return None
}

// Why returns, line by line, what keeps this system from a better level.
func (s System) Why() []string {
	var why []string
	for _, part := range []struct {
		name string
		Support
	}{
		{"namespaces", s.Namespaces},
		{"bubblewrap", s.Bwrap},
		{"seccomp", s.Seccomp},
		{"landlock", s.Landlock},
	} {
		if !part.OK {
			why = append(why, part.name+": "+part.Why)
		}
	}
	return why
}
