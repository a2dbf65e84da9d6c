package sandbox_test

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/policy"
	"toolgate/sandbox"
)

// The attempts are data: each file of testdata/escape holds one area.
//
//	attempt fs.write_via_symlink
//		needs root
//		open landlock: hiding takes mounts
//		try symlink $VICTIM $ROOT/l
//		try append $ROOT/l
//		effect changed $VICTIM
//
// An attempt is one way out of the sandbox. It is made once unconfined, which
// shows that it works at all, and once at each level, which must stop it.
//
//   - try is an operation of [escapeOps]. All are run in order, inside, until
//     one fails. $NAME is a variable of [fixture.variables].
//   - effect is a check of [escapeEffects], made from outside. Without it, the
//     attempt escaped when no operation failed.
//   - open names a level, or all, that does not stop it, with the reason.
//   - partly names a level, a condition of [escapeConditions] under which that
//     level does not stop it, and the text for the document.
//   - needs says what the control needs that not every user or system has.
//   - alone says why there is no control.
//   - own is for an attempt on the process that starts it, or on its end. It is
//     made in a sandbox of its own, in its starter's session, and judged when
//     the sandbox has ended.
//
//go:embed testdata/escape
var escapeFiles embed.FS

// attempts are all of them, in the order of the document.
var attempts = parseAttempts(
	"files", "repositories", "processes", "network", "kernel", "daemons", "limits", "lifetime",
)

// An attempt is one entry of a file in testdata/escape.
type attempt struct {
	name   string
	tries  [][]string // operations with their arguments
	effect []string   // check with its arguments, nil without

	open   map[sandbox.Level]string
	partly map[sandbox.Level]partly

	alone, needs string
	own          bool
}

// A partly is a condition under which a level does not stop an attempt that it
// stops elsewhere.
type partly struct {
	why   string
	holds func() bool
}

// escapeConditions are the conditions of partly.
var escapeConditions = map[string]func() bool{"root": isRoot, "no_pid_limit": noPidLimit}

// parseAttempts reads the named files of testdata/escape. It panics on an entry
// that it does not understand.
func parseAttempts(files ...string) []attempt {
	var list []attempt
	for _, file := range files {
		text, err := escapeFiles.ReadFile("testdata/escape/" + file + ".txt")
		if err != nil {
			panic(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			key, rest, _ := strings.Cut(line, " ")
			switch {
			case line == "" || strings.HasPrefix(line, "#"):
			case key == "attempt":
				list = append(list, attempt{
					name: rest, open: map[sandbox.Level]string{}, partly: map[sandbox.Level]partly{},
				})
			default:
				if err := list[len(list)-1].set(key, rest); err != nil {
					panic(fmt.Sprintf("%s.txt: %s: %q: %v", file, list[len(list)-1].name, line, err))
				}
			}
		}
	}
	return list
}

// set applies one line of an attempt.
func (a *attempt) set(key, rest string) error {
	head, text, _ := strings.Cut(rest, ": ")
	words := strings.Fields(rest)
	switch key {
	case "needs":
		a.needs = rest
	case "alone":
		a.alone = rest
	case "own":
		a.own = true
	case "open":
		levels, err := parseLevels(head)
		if err != nil {
			return err
		}
		for _, level := range levels {
			a.open[level] = text
		}
	case "partly":
		name, condition, _ := strings.Cut(head, " ")
		levels, err := parseLevels(name)
		if err != nil || escapeConditions[condition] == nil {
			return fmt.Errorf("unknown level or condition %q", head)
		}
		for _, level := range levels {
			a.partly[level] = partly{text, escapeConditions[condition]}
		}
	case "try":
		a.tries = append(a.tries, words)
		if _, ok := escapeOps[words[0]]; !ok {
			return fmt.Errorf("unknown operation %q", words[0])
		}
	case "effect":
		a.effect = words
		if _, ok := escapeEffects[words[0]]; !ok {
			return fmt.Errorf("unknown effect %q", words[0])
		}
	default:
		return fmt.Errorf("unknown key %q", key)
	}
	return nil
}

// parseLevels returns the level named name, or every level for "all".
func parseLevels(name string) ([]sandbox.Level, error) {
	if name == "all" {
		return []sandbox.Level{sandbox.Full, sandbox.Bwrap, sandbox.Landlock}, nil
	}
	var level sandbox.Level
	err := level.UnmarshalText([]byte(name))
	return []sandbox.Level{level}, err
}

// try makes the attempt inside. It returns nil when it got what it wanted, as
// far as it can tell.
func (a attempt) try(f *fixture) error {
	for _, op := range a.tries {
		if err := escapeOps[op[0]](f.expand(op[1:])...); err != nil {
			return err
		}
	}
	return nil
}

func init() {
	ops["escape"] = func(args []string) error {
		var f fixture
		if err := json.Unmarshal([]byte(args[1]), &f); err != nil {
			unix.Exit(notTried)
		}
		defer func() {
			if r := recover(); r != nil {
				fmt.Fprintln(os.Stderr, r)
				unix.Exit(notTried)
			}
		}()
		return attemptNamed(args[0]).try(&f)
	}
	// escapes makes the attempts that it reads from stdin, each in a process of
	// its own, which a Spawner starts if this process is in a sandbox.
	ops["escapes"] = func([]string) error {
		start := (*exec.Cmd).Start
		if plan, ok := sandbox.Current(); ok {
			s, err := sandbox.NewSpawner(plan)
			if err != nil {
				return err
			}
			start = s.Start
		}
		tty := os.NewFile(ttyFd, "tty") // a file for each attempt would be closed with the first that is collected
		for in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout); ; {
			var f fixture
			if err := in.Decode(&f); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			cmd := exec.Command("/proc/self/exe", "op", "escape", f.Attempt, f.String())
			cmd.Dir = f.Root
			cmd.Env = os.Environ()
			a := attemptNamed(f.Attempt)
			switch {
			case strings.HasPrefix(a.name, "tty."):
				cmd.Stdin = tty
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			case !a.own:
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			}
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := start(cmd); err != nil {
				return err
			}
			cmd.Wait()
			if err := out.Encode(exitReport{cmd.ProcessState.ExitCode(), said.String()}); err != nil {
				return err
			}
		}
	}
}

// notTried is the exit code of a process that could not make its attempt.
const notTried = 250

// ttyFd is where a process that makes attempts finds a terminal.
const ttyFd = 3

func attemptNamed(name string) attempt {
	for _, a := range attempts {
		if a.name == name {
			return a
		}
	}
	panic("no attempt " + name)
}

// An exitReport is how the process of an attempt ended.
type exitReport struct {
	Code int
	Said string
}

// An outcome is how an attempt went.
type outcome struct {
	escaped bool
	errno   string // what the attempt saw
}

// judge looks at an attempt that has ended.
func (a attempt) judge(f *fixture, e exitReport) outcome {
	o := outcome{escaped: e.Code == 0, errno: "ok"}
	switch {
	case e.Code == 251:
		o.errno = strings.TrimSpace(e.Said)
	case e.Code != 0:
		o.errno = unix.ErrnoName(syscall.Errno(e.Code))
	}
	if a.effect != nil {
		o.escaped = escapeEffects[a.effect[0]](f, f.expand(a.effect[1:])...)
	}
	return o
}

// A runner is where attempts are made: a sandbox, or none.
type runner struct {
	fields map[string]*fixture
	in     *json.Encoder
	out    *json.Decoder
	end    func() error // ends it, with everything in it
}

// newRunner starts a process that makes the attempts of list at level. Each attempt
// with an effect gets a fixture of its own.
func newRunner(t *testing.T, h *Host, level sandbox.Level, change func(*sandbox.System), list []attempt) *runner {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	g := &runner{fields: map[string]*fixture{}}
	p := policy.Profile{Mode: policy.WorkspaceWrite, ReadOnlySubpaths: sandbox.Protected(false)}
	tty, name := openTerminal(t)
	field := func(name string) *fixture {
		f := newFixture(t, h, base+"/"+name)
		f.tty = int(tty.Fd())
		p.WritableRoots = append(p.WritableRoots, f.Root)
		p.Hidden = append(p.Hidden, f.Hidden)
		return f
	}
	shared := field("shared")
	for _, a := range list {
		g.fields[a.name] = shared
		if a.effect != nil {
			f := field(a.name)
			g.fields[a.name] = f
			if area, _, _ := strings.Cut(a.name, "."); area == "git" || area == "persist" {
				f.plant(t)
			}
		}
	}
	inR, inW, err := os.Pipe()
	require.NoError(t, err)
	outR, outW, err := os.Pipe()
	require.NoError(t, err)
	g.in, g.out = json.NewEncoder(inW), json.NewDecoder(outR)
	var wait func() error
	if level == sandbox.None {
		cmd := exec.Command("/proc/self/exe", "op", "escapes")
		cmd.Env = []string{"SECRET=" + secret}
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = inR, outW, os.Stderr, []*os.File{tty}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		require.NoError(t, cmd.Start())
		wait = cmd.Wait
	} else {
		cmd := planOfAttempts(t, level, change, p).Command("", "op", "escapes")
		cmd.Dir = base
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = inR, outW, os.Stderr, []*os.File{tty}
		require.NoError(t, cmd.Start(), name)
		wait = cmd.Wait
	}
	inR.Close()
	outW.Close()
	g.end = sync.OnceValue(func() error {
		inW.Close()
		defer outR.Close()
		return wait()
	})
	t.Cleanup(func() { g.end() })
	return g
}

// planOfAttempts returns the plan for p at level, with fewer processes, on a system
// that change has changed.
func planOfAttempts(t *testing.T, level sandbox.Level, change func(*sandbox.System), p policy.Profile) sandbox.Plan {
	t.Helper()
	plan := at(t, level, p)
	if change != nil {
		s := sandbox.Probe()
		change(&s)
		var err error
		plan, err = sandbox.NewPlan(p, s)
		require.NoError(t, err)
		require.Equal(t, level, plan.Level)
	}
	if plan.Processes > 0 {
		require.Equal(t, 16384, plan.Processes)
		plan = plan.Holding(fewProcesses)
	}
	return plan
}

// try makes the attempt.
func (g *runner) try(t *testing.T, a attempt) outcome {
	t.Helper()
	f := g.fields[a.name]
	f.Attempt = a.name
	require.NoError(t, g.in.Encode(f))
	var e exitReport
	err := g.out.Decode(&e)
	if a.own {
		f.died = err != nil
		g.end()
	} else {
		require.NoError(t, err)
	}
	require.NotEqual(t, notTried, e.Code, e.Said)
	return a.judge(f, e)
}

// TestEscape makes every attempt, unconfined and, as a command of a worker, at
// every level.
func TestEscape(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	control := map[string]outcome{}
	make := func(t *testing.T, level sandbox.Level, change func(*sandbox.System), look func(t *testing.T, a attempt, o outcome)) {
		var shared, own []attempt
		for _, a := range attempts {
			switch {
			case level == sandbox.None && a.alone != "":
			case a.own:
				own = append(own, a)
			default:
				shared = append(shared, a)
			}
		}
		g := newRunner(t, h, level, change, shared)
		for _, a := range shared {
			t.Run(a.name, func(t *testing.T) { look(t, a, g.try(t, a)) })
		}
		require.NoError(t, g.end())
		for _, a := range own {
			t.Run(a.name, func(t *testing.T) { look(t, a, newRunner(t, h, level, change, []attempt{a}).try(t, a)) })
		}
	}
	t.Run("control", func(t *testing.T) {
		make(t, sandbox.None, nil, func(t *testing.T, a attempt, o outcome) {
			control[a.name] = o
			if !o.escaped {
				require.NotEmpty(t, a.needs, "it does not work unconfined either: %s", o.errno)
				t.Skipf("unconfined it needs %s: %s", a.needs, o.errno)
			}
		})
	})
	at := func(t *testing.T, level sandbox.Level, change func(*sandbox.System)) {
		make(t, level, change, func(t *testing.T, a attempt, o outcome) {
			if why := a.open[level]; why != "" {
				if control[a.name].escaped {
					require.True(t, o.escaped, "documented as open (%s), but %s", why, o.errno)
				}
				return
			}
			if p, ok := a.partly[level]; ok && o.escaped && p.holds() {
				t.Skipf("%v does not stop it %s", level, p.why)
			}
			require.False(t, o.escaped, "%v does not stop it: %s", level, o.errno)
		})
	}
	eachLevel(t, func(t *testing.T, level sandbox.Level) { at(t, level, nil) })
	// Landlock applies on top of the mounts, and could hide a hole in them.
	t.Run("full without landlock", func(t *testing.T) {
		at(t, sandbox.Full, func(s *sandbox.System) { s.Landlock, s.ABI = sandbox.Support{Why: "left out"}, 0 })
	})
}

func isRoot() bool { return os.Geteuid() == 0 }

// noPidLimit reports whether root's processes are not limited, because the kernel
// has no limit per pid namespace.
func noPidLimit() bool { return isRoot() && !sandbox.Probe().PidLimit }
