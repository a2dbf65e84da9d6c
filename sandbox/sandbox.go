// Package sandbox enforces a [policy.Profile]. It probes what this system can
// enforce, makes a plan, and starts processes that the kernel confines to the
// plan.
//
//	func main() {
//		sandbox.Main() // first, in every binary that starts sandboxes
//		…
//		plan, err := sandbox.NewPlan(profile, sandbox.Probe())
//		cmd := plan.Command("", "worker") // "" is this very binary
//		cmd.Stdin, cmd.Stdout = …
//		err = cmd.Start() // returns once the program runs inside, or why it cannot
//		err = cmd.Wait()
//	}
//
// Inside, [Current] returns the plan of the process. A [Spawner] starts commands
// that are restricted a second time, so that they cannot signal, trace or read
// the process that started them.
//
// Everything that a [Cmd] starts ends with it. The sandbox also ends when the
// process that started it ends, even by SIGKILL.
//
// # Levels
//
// At level [Full] the process gets its own user, mount, pid, ipc, net and uts
// namespaces: a read-only view of the file system with mount overrides for the
// writable roots, read-only mounts for protected paths below them, tmpfs masks
// over hidden paths, a fresh /proc and a private /dev. It has no capabilities;
// Landlock and seccomp apply on top. Level [Bwrap] is the same through
// bubblewrap, for systems where only that program may create user namespaces.
// Level [Landlock] has no namespaces: Landlock restricts writes, seccomp
// restricts the network, and [Plan.Unenforced] lists what they cannot do. Level
// [None] confines nothing.
//
// # Limits
//
// The kernel is shared, so a kernel vulnerability is a way out. Data that can be
// read can also be sent over whatever network the profile allows. A file that
// another program of the user runs later, such as a Makefile in a writable root,
// can be changed.
package sandbox

import (
	"errors"
	"fmt"
	"slices"
)

// ErrUnsupported is wrapped by errors for profiles that this system cannot
// enforce. The text says what is missing.
var ErrUnsupported = errors.New("sandbox unsupported on this system")

// ErrStale is wrapped by errors of [Cmd.Rescan] when only a new process would
// enforce the profile for the files as they are now.
var ErrStale = errors.New("the sandbox is older than what it is to protect")

// ErrEnded is the error of operations that need a running process.
var ErrEnded = errors.New("sandbox: it has ended")

// A Level is how a process is confined. The zero value is no confinement.
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
	i := slices.Index(levelNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("unknown sandbox level %q", text)
	}
	*l = Level(i)
	return nil
}

// A Support says whether this system offers a feature and, if not, why. The zero
// value means that it does not.
type Support struct {
	OK  bool   `json:"ok"`
	Why string `json:"why,omitempty"` // why not
}

// A System describes what this kernel and this user can enforce. The zero value
// can enforce nothing. Use [Probe] to get the current one, or build one to plan
// for another system.
type System struct {
	OS         string  `json:"os"`
	Root       bool    `json:"root"`       // the user is uid 0
	Namespaces Support `json:"namespaces"` // own user, mount, pid, ipc, net and uts namespaces, with mounts
	Bwrap      Support `json:"bwrap"`      // the same through bubblewrap
	BwrapPath  string  `json:"bwrap_path,omitempty"`
	Seccomp    Support `json:"seccomp"`      // system call filters
	Landlock   Support `json:"landlock"`     // Landlock, of any ABI
	ABI        int     `json:"landlock_abi"` // Landlock's ABI, 0 without
	PidLimit   bool    `json:"pid_limit"`    // each pid namespace can limit its processes (Linux 6.14)
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

// Why returns the reasons, one per feature, that keep this system from a better
// level.
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

// A Denial is an operation that the sandbox, and not the file's own permissions,
// refused to a command.
type Denial struct {
	Op   string // "write", "network"
	Path string // the path to be written; "" for the network
	Why  string
}
