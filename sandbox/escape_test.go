//go:build linux

package sandbox_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/policy"
	"toolgate/sandbox"
)

// An attempt is one way out of the sandbox. It is made once unconfined, which
// shows that it works at all, and once at each level, which must stop it.
type attempt struct {
	name string

	// try is made inside. It returns nil when it got what it wanted, as far
	// as it can tell.
	try func(f *field) error

	// happened looks from outside whether it worked. Without it, try's own
	// word is taken.
	happened func(f *field) bool

	// open names the levels that do not stop it, with the reason.
	open map[sandbox.Level]string

	// partly says, by level, for whom it is not stopped all the same.
	partly map[sandbox.Level]partly

	// alone, when not "", says why there is no control; needs, what the
	// control needs that not every user or system has.
	alone, needs string

	// own is set for an attempt on the process that starts it, or on its end:
	// it is made in a sandbox of its own, in its starter's session, and
	// looked at when the sandbox has ended.
	own bool
}

// A partly is where a level does not stop what it stops elsewhere.
type partly struct {
	why   string
	holds func() bool
}

// A field is what an attempt has around it. It is made anew for each.
type field struct {
	Attempt string

	Base    string // holds all the others
	Root    string // the workspace, the one writable root
	Outside string
	Victim  string // a file outside, with the text "old"
	Hidden  string // a hidden folder with the file "key"
	Away    string // a name in Outside that is not taken

	DirFd  int    // inherited by accident: Outside
	FileFd int    // inherited by accident: Victim, writable
	Other  string // a hand-made program: a socket by i386's system call
	Bomb   string // another: forks until it may not

	*Host

	died bool // the process that started the attempt, by it
	tty  int  // the terminal that is standard input of some attempts
}

// A Host is the part of a field that lives as long as the test.
type Host struct {
	Pid    int    // a process outside, of the same user
	TCP    string // address that a host process listens on
	UDP    string
	Stream string // unix socket paths
	Dgram  string
	Name   string // of an abstract unix socket
	Shm    int    // System V shared memory
	Sem    int    // and a semaphore
	Msg    int    // and a queue of messages
	Queue  string // of messages, as in POSIX

	Bus     string // unix sockets with the names that programs look for
	Agent   string
	Runtime string // folder with the socket of systemd
	Display string
	Screen  string // abstract

	got chan string // what the sockets received
}

const nowhere = "secret-of-the-host"

func newHost(t *testing.T) *Host {
	t.Helper()
	dir, err := os.MkdirTemp("", "toolgate")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	display := fmt.Sprintf("/tmp/.X11-unix/X%d", 1000+os.Getpid())
	h := &Host{
		Stream: dir + "/stream", Dgram: dir + "/dgram", Name: "@" + dir, Queue: filepath.Base(dir),
		Bus: dir + "/run/bus", Agent: dir + "/ssh/agent.1", Runtime: dir + "/run", Display: display, Screen: "@" + display,
		got: make(chan string, 100),
	}
	for _, path := range []string{h.Bus, h.Agent, h.Runtime + "/systemd/private", h.Display} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	}
	// As the system makes it: others may use it too. An error means that it is
	// not ours, and was there.
	_ = os.Chmod(filepath.Dir(display), 0o777|os.ModeSticky)
	t.Cleanup(func() { os.Remove(filepath.Dir(display)) }) // if it is empty
	h.startVictim(t)
	h.share(t)
	h.listen(t)
	return h
}

// share makes what processes share by number or name.
func (h *Host) share(t *testing.T) {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	require.NoError(t, err)
	h.Shm = id
	t.Cleanup(func() { unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	sem, _, errno := unix.Syscall(unix.SYS_SEMGET, unix.IPC_PRIVATE, 1, unix.IPC_CREAT|0o600)
	require.Zero(t, errno)
	h.Sem = int(sem)
	t.Cleanup(func() { unix.Syscall6(unix.SYS_SEMCTL, sem, 0, unix.IPC_RMID, 0, 0, 0) })
	msg, _, errno := unix.Syscall(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o600, 0)
	require.Zero(t, errno)
	h.Msg = int(msg)
	t.Cleanup(func() { unix.Syscall(unix.SYS_MSGCTL, msg, unix.IPC_RMID, 0) })
	fd, err := openQueue(h.Queue, unix.O_CREAT|unix.O_RDWR)
	require.NoError(t, err)
	unix.Close(fd)
	name := append([]byte(h.Queue), 0)
	t.Cleanup(func() { raw(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(&name[0])), 0, 0) })
}

// openQueue opens a queue of messages, as in POSIX.
func openQueue(name string, flags uintptr) (int, error) {
	path := append([]byte(name), 0)
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&path[0])), flags, 0o600, 0, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func newField(t *testing.T, h *Host, base string) *field {
	t.Helper()
	f := &field{
		Base: base, Root: base + "/root", Outside: base + "/outside", Hidden: base + "/hidden",
		Victim: base + "/outside/victim", Away: base + "/outside/new",
		Host: h,
	}
	write(t, f.Victim, "old")
	write(t, f.Outside+"/home/.bashrc", "old")
	write(t, f.Hidden+"/key", nowhere)
	write(t, f.Root+"/file", "old")
	write(t, f.Root+"/n1/file", "old")
	write(t, f.Root+"/.git/config", "old")
	f.Other = f.Root + "/other"
	require.NoError(t, os.WriteFile(f.Other, otherProgram(), 0o755))
	f.Bomb = f.Root + "/bomb"
	require.NoError(t, os.WriteFile(f.Bomb, bombProgram(), 0o755))
	f.leak(t)
	return f
}

// plant puts into the root what later runs outside the sandbox.
func (f *field) plant(t *testing.T) {
	t.Helper()
	for _, repo := range []string{"", "/n1", "/n1/n2/n3/n4"} {
		write(t, f.Root+repo+"/.git/hooks/pre-commit", "old")
		write(t, f.Root+repo+"/.git/config", "old")
		write(t, f.Root+repo+"/file", "old")
	}
	for _, file := range []string{
		".codex/config.toml", ".claude/settings.json", "n1/.claude/agents/a.md", ".mcp.json", ".vscode/tasks.json", ".envrc", "n1/.mcp.json",
		"gitdirs/tree/hooks/pre-commit", "linked/real.git/hooks/pre-commit", "Makefile", ".bashrc", "folded/.GIT/hooks/pre-commit",
	} {
		write(t, f.Root+"/"+file, "old")
	}
	write(t, f.Root+"/tree/.git", "gitdir: ../gitdirs/tree\n")
	require.NoError(t, os.Symlink("real.git", f.Root+"/linked/.git"))
}

func (h *Host) startVictim(t *testing.T) {
	victim := exec.Command("/proc/self/exe", "op", "wait")
	victim.Env = []string{"MARK=" + nowhere}
	victim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, victim.Start())
	h.Pid = victim.Process.Pid
	t.Cleanup(func() { victim.Process.Kill(); victim.Wait() })
}

func (h *Host) listen(t *testing.T) {
	accept := func(l net.Listener, err error) net.Listener {
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		go func() { // ends with l
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				said := make([]byte, 100)
				n, _ := c.Read(said) // or the other side has ended
				c.Close()
				h.got <- string(said[:n])
			}
		}()
		return l
	}
	receive := func(c net.PacketConn, err error) net.PacketConn {
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		go func() { // ends with c
			b := make([]byte, 100)
			for {
				n, _, err := c.ReadFrom(b)
				if err != nil {
					return
				}
				h.got <- string(b[:n])
			}
		}()
		return c
	}
	h.TCP = accept(net.Listen("tcp", "127.0.0.1:0")).Addr().String()
	for _, path := range h.streams() {
		accept(net.Listen("unix", path))
	}
	h.UDP = receive(net.ListenPacket("udp", "127.0.0.1:0")).LocalAddr().String()
	receive(net.ListenPacket("unixgram", h.Dgram))
}

// streams are the unix sockets that take connections.
func (h *Host) streams() []string {
	return []string{h.Stream, h.Name, h.Bus, h.Agent, h.Runtime + "/systemd/private", h.Display, h.Screen}
}

// received reports whether a host socket got something since it was asked
// last. The attempt has ended by now, so what it sent is under way at most: to
// each socket goes a mark, which comes after it.
func (h *Host) received() bool {
	sockets := [][2]string{{"udp", h.UDP}, {"unixgram", h.Dgram}, {"tcp", h.TCP}}
	for _, path := range h.streams() {
		sockets = append(sockets, [2]string{"unix", path})
	}
	for _, to := range sockets {
		c, err := net.Dial(to[0], to[1])
		if err != nil {
			return false
		}
		c.Write([]byte("mark"))
		c.Close()
	}
	other := false
	for marks := 0; marks < len(sockets); {
		if <-h.got == "mark" {
			marks++
		} else {
			other = true
		}
	}
	return other
}

// leak opens descriptors that a careless parent would pass on.
func (f *field) leak(t *testing.T) {
	var err error
	f.DirFd, err = unix.Open(f.Outside, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	f.FileFd, err = unix.Open(f.Victim, unix.O_WRONLY|unix.O_APPEND, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(f.DirFd); unix.Close(f.FileFd) })
}

func (f *field) victimChanged() bool {
	text, err := os.ReadFile(f.Victim)
	return err != nil || string(text) != "old"
}

func (f *field) awayExists() bool {
	_, err := os.Lstat(f.Away)
	return err == nil
}

func (f *field) modeChanged() bool {
	st, err := os.Stat(f.Victim)
	return err != nil || st.Mode().Perm() != 0o644
}

// changed returns whether the file at path, below Root, is other than "old".
func changed(path string) func(*field) bool {
	return func(f *field) bool {
		text, err := os.ReadFile(f.Root + path)
		return err != nil || string(text) != "old"
	}
}

// changed2 is changed for a file that may be at either path.
func changed2(a, b string) func(*field) bool {
	return func(f *field) bool { return changed(a)(f) && changed(b)(f) }
}

// madeInRoot returns whether path, below Root, exists.
func madeInRoot(path string) func(*field) bool {
	return func(f *field) bool {
		_, err := os.Lstat(f.Root + path)
		return err == nil
	}
}

func init() {
	ops["escape"] = func(args []string) error {
		var f field
		if err := json.Unmarshal([]byte(args[1]), &f); err != nil {
			unix.Exit(250)
		}
		return attemptNamed(args[0]).try(&f)
	}
	// escapes makes the attempts that it is given on stdin, each in a process
	// of its own: with a Spawner inside a sandbox, plainly outside.
	ops["escapes"] = func([]string) error {
		start := (*exec.Cmd).Start
		if plan, ok := sandbox.Current(); ok {
			s, err := sandbox.NewSpawner(plan)
			if err != nil {
				return err
			}
			start = s.Start
		}
		for in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout); ; {
			var f field
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
				cmd.Stdin = os.NewFile(ttyFd, "tty")
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
			if err := out.Encode(ending{cmd.ProcessState.ExitCode(), said.String()}); err != nil {
				return err
			}
		}
	}
}

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

// An ending is how the process of an attempt ended.
type ending struct {
	Code int
	Said string
}

// An outcome is how an attempt went.
type outcome struct {
	escaped bool
	errno   string // what the attempt saw
}

// judge looks at an attempt that has ended.
func (a attempt) judge(f *field, e ending) outcome {
	o := outcome{escaped: e.Code == 0, errno: "ok"}
	switch {
	case e.Code == 251:
		o.errno = strings.TrimSpace(e.Said)
	case e.Code != 0:
		o.errno = unix.ErrnoName(syscall.Errno(e.Code))
	}
	if a.happened != nil {
		o.escaped = a.happened(f)
	}
	return o
}

// A ground is where attempts are made: a sandbox, or none.
type ground struct {
	fields map[string]*field
	in     *json.Encoder
	out    *json.Decoder
	end    func() error // ends it, with everything in it
}

// newGround starts a process that makes the attempts of list at level, each
// that is looked at from outside in a field of its own.
func newGround(t *testing.T, h *Host, level sandbox.Level, change func(*sandbox.System), list []attempt) *ground {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	g := &ground{fields: map[string]*field{}}
	p := policy.Profile{Mode: policy.WorkspaceWrite, ReadOnlySubpaths: sandbox.Protected(false)}
	tty, name := openTerminal(t)
	field := func(name string) *field {
		f := newField(t, h, base+"/"+name)
		f.tty = int(tty.Fd())
		p.WritableRoots = append(p.WritableRoots, f.Root)
		p.Hidden = append(p.Hidden, f.Hidden)
		return f
	}
	shared := field("shared")
	for _, a := range list {
		g.fields[a.name] = shared
		if a.happened != nil {
			f := field(a.name)
			g.fields[a.name] = f
			if family, _, _ := strings.Cut(a.name, "."); family == "git" || family == "persist" {
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
		cmd.Env = []string{"SECRET=" + nowhere}
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = inR, outW, os.Stderr, []*os.File{tty}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		require.NoError(t, cmd.Start())
		wait = cmd.Wait
	} else {
		plan := at(t, level, p)
		if change != nil {
			s := sandbox.Probe()
			change(&s)
			plan, err = sandbox.NewPlan(p, s)
			require.NoError(t, err)
			require.Equal(t, level, plan.Level)
		}
		if plan.Processes > 0 {
			require.Equal(t, 16384, plan.Processes)
			plan = plan.Holding(fewProcesses)
		}
		cmd := plan.Command("", "op", "escapes")
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

// openTerminal returns the terminal end of a new pair.
func openTerminal(t *testing.T) (*os.File, string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	name := fmt.Sprintf("/dev/pts/%d", n)
	tty, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { tty.Close() })
	return tty, name
}

// try makes the attempt.
func (g *ground) try(t *testing.T, a attempt) outcome {
	t.Helper()
	f := g.fields[a.name]
	f.Attempt = a.name
	require.NoError(t, g.in.Encode(f))
	var e ending
	err := g.out.Decode(&e)
	if a.own {
		f.died = err != nil
		g.end()
	} else {
		require.NoError(t, err)
	}
	require.NotEqual(t, 250, e.Code, e.Said)
	return a.judge(f, e)
}

func (f *field) String() string {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return string(text)
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
		g := newGround(t, h, level, change, shared)
		for _, a := range shared {
			t.Run(a.name, func(t *testing.T) { look(t, a, g.try(t, a)) })
		}
		require.NoError(t, g.end())
		for _, a := range own {
			t.Run(a.name, func(t *testing.T) { look(t, a, newGround(t, h, level, change, []attempt{a}).try(t, a)) })
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
	// Landlock lies over the mounts, and could hide a hole in them.
	t.Run("full without landlock", func(t *testing.T) {
		at(t, sandbox.Full, func(s *sandbox.System) { s.Landlock, s.ABI = sandbox.Support{Why: "left out"}, 0 })
	})
}

// The attempts of file systems.

func byDesign(why string) map[sandbox.Level]string {
	return map[sandbox.Level]string{sandbox.Full: why, sandbox.Bwrap: why, sandbox.Landlock: why}
}

func landlockOnly(why string) map[sandbox.Level]string {
	return map[sandbox.Level]string{sandbox.Landlock: why}
}

const (
	metadata  = "Landlock does not govern mode, owner, times and attributes"
	noCarving = "Landlock cannot take back what it allowed above"
	noMasks   = "hiding takes mounts"
	noPids    = "there is no pid namespace"
)

func openFor(flags int) func(path string) error {
	return func(path string) error {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o644)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

var openWrite = openFor(unix.O_WRONLY)

// putTwo writes to path by way of the writer fd.
func putIn(fd int, err error) error {
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte("new"))
	return err
}

var fileAttempts = []attempt{
	{name: "fs.write_outside",
		try:      func(f *field) error { return os.WriteFile(f.Away, nil, 0o644) },
		happened: (*field).awayExists},
	{name: "fs.append_outside",
		try:      func(f *field) error { return appendTo(f.Victim) },
		happened: (*field).victimChanged},
	{name: "fs.write_via_symlink",
		try: func(f *field) error {
			if err := os.Symlink(f.Victim, f.Root+"/l"); err != nil {
				return err
			}
			return appendTo(f.Root + "/l")
		},
		happened: (*field).victimChanged},
	{name: "fs.create_via_dangling_symlink",
		try: func(f *field) error {
			if err := os.Symlink(f.Away, f.Root+"/l"); err != nil {
				return err
			}
			return os.WriteFile(f.Root+"/l", nil, 0o644)
		},
		happened: (*field).awayExists},
	{name: "fs.write_via_dir_symlink",
		try: func(f *field) error {
			if err := os.Symlink(f.Outside, f.Root+"/l"); err != nil {
				return err
			}
			return os.WriteFile(f.Root+"/l/new", nil, 0o644)
		},
		happened: (*field).awayExists},
	{name: "fs.write_via_dotdot",
		try:      func(f *field) error { return os.WriteFile(f.Root+"/n1/../../outside/new", nil, 0o644) },
		happened: (*field).awayExists},
	{name: "fs.hardlink_into_root_and_write",
		try: func(f *field) error {
			if err := unix.Link(f.Victim, f.Root+"/l"); err != nil {
				return err
			}
			return appendTo(f.Root + "/l")
		},
		happened: (*field).victimChanged},
	{name: "fs.hardlink_by_descriptor",
		try: func(f *field) error {
			fd, err := unix.Open(f.Victim, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			if err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, f.Root+"/l", unix.AT_SYMLINK_FOLLOW); err != nil {
				return err
			}
			return appendTo(f.Root + "/l")
		},
		happened: (*field).victimChanged},
	{name: "fs.rename_into_root",
		try:      func(f *field) error { return unix.Rename(f.Victim, f.Root+"/taken") },
		happened: (*field).victimChanged},
	{name: "fs.rename_out_of_root",
		try:      func(f *field) error { return unix.Rename(f.Root+"/file", f.Away) },
		happened: (*field).awayExists},
	{name: "fs.exchange",
		try: func(f *field) error {
			return unix.Renameat2(unix.AT_FDCWD, f.Root+"/n1/file", unix.AT_FDCWD, f.Victim, unix.RENAME_EXCHANGE)
		},
		happened: func(f *field) bool {
			return changed("/n1/file")(f) || sameFile(f.Victim, f.Root+"/n1/file") || moved(f)
		}},
	{name: "fs.symlink_outside",
		try:      func(f *field) error { return os.Symlink("x", f.Away) },
		happened: (*field).awayExists},
	{name: "fs.mkdir_outside",
		try:      func(f *field) error { return os.Mkdir(f.Away, 0o755) },
		happened: (*field).awayExists},
	{name: "fs.fifo_outside",
		try:      func(f *field) error { return unix.Mkfifo(f.Away, 0o644) },
		happened: (*field).awayExists},
	{name: "fs.tmpfile_linked_outside",
		try: func(f *field) error {
			fd, err := unix.Open(f.Root, unix.O_TMPFILE|unix.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, f.Away, unix.AT_SYMLINK_FOLLOW)
		},
		happened: (*field).awayExists},
	{name: "fs.write_via_proc_self_root",
		try:      func(f *field) error { return os.WriteFile("/proc/self/root"+f.Away, nil, 0o644) },
		happened: (*field).awayExists},
	{name: "fs.write_via_proc_1_root", needs: "root",
		try:      func(f *field) error { return os.WriteFile("/proc/1/root"+f.Away, nil, 0o644) },
		happened: (*field).awayExists},
	{name: "fs.write_via_victim_root",
		try:      func(f *field) error { return os.WriteFile(fmt.Sprintf("/proc/%d/root%s", f.Pid, f.Away), nil, 0o644) },
		happened: (*field).awayExists},
	{name: "fs.write_via_victim_cwd",
		try: func(f *field) error {
			back := strings.Repeat("../", 20)
			return os.WriteFile(fmt.Sprintf("/proc/%d/cwd/%s%s", f.Pid, back, f.Away), nil, 0o644)
		},
		happened: (*field).awayExists},
	{name: "fs.create_via_passed_folder",
		try: func(f *field) error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			dir, err := unix.Open(f.Outside, unix.O_PATH|unix.O_DIRECTORY, 0)
			if err != nil {
				return err
			}
			if err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(dir), nil, 0); err != nil {
				return err
			}
			control := make([]byte, 100)
			_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), control, 0)
			if err != nil {
				return err
			}
			msgs, err := unix.ParseSocketControlMessage(control[:n])
			if err != nil {
				return err
			}
			fds, err := unix.ParseUnixRights(&msgs[0])
			if err != nil {
				return err
			}
			return putIn(unix.Openat(fds[0], "new", unix.O_CREAT|unix.O_WRONLY, 0o644))
		},
		happened: (*field).awayExists},
	{name: "fs.truncate_outside",
		try:      func(f *field) error { return os.Truncate(f.Victim, 0) },
		happened: (*field).victimChanged},
	{name: "fs.open_truncating",
		try:      func(f *field) error { return openFor(unix.O_RDONLY | unix.O_TRUNC)(f.Victim) },
		happened: (*field).victimChanged},
	{name: "fs.unlink_outside",
		try:      func(f *field) error { return unix.Unlink(f.Victim) },
		happened: (*field).victimChanged},
	{name: "fs.chmod_outside", open: landlockOnly(metadata),
		try:      func(f *field) error { return unix.Chmod(f.Victim, 0o777) },
		happened: (*field).modeChanged},
	{name: "fs.chmod_via_readonly_descriptor", open: landlockOnly(metadata),
		try: func(f *field) error {
			fd, err := unix.Open(f.Victim, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return unix.Fchmod(fd, 0o777)
		},
		happened: (*field).modeChanged},
	{name: "fs.chown_outside", needs: "root",
		try: func(f *field) error { return unix.Chown(f.Victim, 12, 12) },
		happened: func(f *field) bool {
			var st unix.Stat_t
			return unix.Stat(f.Victim, &st) == nil && st.Uid == 12
		}},
	{name: "fs.utime_outside", open: landlockOnly(metadata),
		try: func(f *field) error { return os.Chtimes(f.Victim, time.Unix(1, 0), time.Unix(1, 0)) },
		happened: func(f *field) bool {
			st, err := os.Stat(f.Victim)
			return err == nil && st.ModTime().Unix() == 1
		}},
	{name: "fs.xattr_outside", needs: "a file system with attributes", open: landlockOnly(metadata),
		try: func(f *field) error { return unix.Setxattr(f.Victim, "user.mark", []byte("x"), 0) },
		happened: func(f *field) bool {
			_, err := unix.Getxattr(f.Victim, "user.mark", make([]byte, 10))
			return err == nil
		}},
	{name: "fs.flags_via_readonly_descriptor", needs: "a file system with flags", open: landlockOnly(metadata),
		try: func(f *field) error {
			fd, err := unix.Open(f.Victim, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
			if err != nil {
				return err
			}
			return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|0x40)
		}},
	{name: "fs.reopen_descriptor_for_writing",
		try: func(f *field) error {
			fd, err := unix.Open(f.Victim, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return appendTo(fmt.Sprintf("/proc/self/fd/%d", fd))
		},
		happened: (*field).victimChanged},
	{name: "fs.open_by_handle", needs: "root",
		try: func(f *field) error {
			h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, f.Victim, 0)
			if err != nil {
				return err
			}
			dir, err := unix.Open(f.Root, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			if err != nil {
				return err
			}
			return putIn(unix.OpenByHandleAt(dir, h, unix.O_WRONLY))
		},
		happened: (*field).victimChanged},
	{name: "fs.make_device", needs: "root",
		try: func(f *field) error {
			if err := unix.Mknod(f.Root+"/mem", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1))); err != nil {
				return err
			}
			return openFor(unix.O_RDONLY)(f.Root + "/mem")
		},
		happened: madeInRoot("/mem")},
	{name: "fs.open_memory_device", needs: "root and the device", try: func(f *field) error { return openFor(unix.O_RDONLY)("/dev/mem") }},
	{name: "fs.open_kernel_log", needs: "root", try: func(f *field) error { return openWrite("/dev/kmsg") }},
	{name: "fs.open_disk", needs: "root and a disk", try: func(f *field) error { return openFirst("/sys/block/*", "/dev/", openFor(unix.O_RDONLY)) }},
	{name: "fs.create_in_program_folder", needs: "root",
		try: func(f *field) error {
			path := fmt.Sprintf("/usr/local/bin/toolgate-test-%d", f.Pid)
			fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
			if err == nil {
				unix.Close(fd)
				os.Remove(path)
			}
			return err
		}},
	{name: "fs.read_hidden",
		try: func(f *field) error { return readSecret(f.Hidden + "/key") }},
	{name: "fs.list_hidden", open: landlockOnly(noMasks),
		try: func(f *field) error { _, err := os.ReadDir(f.Hidden); return err }},
	{name: "fs.read_hidden_via_victim_root",
		try: func(f *field) error { return readSecret(fmt.Sprintf("/proc/%d/root%s/key", f.Pid, f.Hidden)) }},
	{name: "fs.write_tmp",
		try: func(f *field) error {
			path := fmt.Sprintf("/tmp/toolgate-test-%d", f.Pid)
			fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
			if err == nil {
				unix.Close(fd)
				os.Remove(path)
			}
			return err
		}},
	{name: "fs.set_user_id_trap",
		try: func(f *field) error { return unix.Chmod(f.Root+"/file", 0o4755) },
		happened: func(f *field) bool {
			st, err := os.Stat(f.Root + "/file")
			return err == nil && st.Mode()&os.ModeSetuid != 0
		}},
	{name: "fs.set_user_id_trap_at_birth",
		try: func(f *field) error {
			fd, err := unix.Open(f.Root+"/trap", unix.O_CREAT|unix.O_WRONLY, 0o4755)
			if err == nil {
				unix.Close(fd)
			}
			return err
		},
		happened: func(f *field) bool {
			st, err := os.Stat(f.Root + "/trap")
			return err == nil && st.Mode()&os.ModeSetuid != 0
		}},
	{name: "fs.set_user_id_trap_unnamed",
		try: func(f *field) error {
			fd, err := unix.Open(f.Root, unix.O_TMPFILE|unix.O_WRONLY, 0o4755)
			if err != nil {
				return err
			}
			return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, f.Root+"/trap", unix.AT_SYMLINK_FOLLOW)
		},
		happened: func(f *field) bool {
			st, err := os.Stat(f.Root + "/trap")
			return err == nil && st.Mode()&os.ModeSetuid != 0
		}},
	{name: "fs.capability_trap", needs: "root and a file system with attributes",
		try: func(f *field) error {
			var every [20]byte // version 2, effective, every capability
			every[0], every[3] = 1, 2
			copy(every[4:], "\xff\xff\xff\xff")
			return unix.Setxattr(f.Root+"/file", "security.capability", every[:], 0)
		},
		happened: func(f *field) bool {
			_, err := unix.Getxattr(f.Root+"/file", "security.capability", make([]byte, 100))
			return err == nil
		}},
	{name: "fs.fifo_in_root", open: byDesign("a file of the workspace like any other"),
		try:      func(f *field) error { return unix.Mkfifo(f.Root+"/fifo", 0o644) },
		happened: madeInRoot("/fifo")},
	{name: "fs.watch_all", needs: "root",
		try: func(f *field) error { _, err := unix.FanotifyInit(0x200, 0); return err }},
	{name: "fs.watch_outside", open: byDesign("what can be read can be watched"),
		try: func(f *field) error {
			fd, err := unix.InotifyInit1(0)
			if err != nil {
				return err
			}
			_, err = unix.InotifyAddWatch(fd, f.Outside, unix.IN_ALL_EVENTS)
			return err
		}},
	{name: "fs.watch_hidden", open: landlockOnly(noMasks),
		try: func(f *field) error {
			fd, err := unix.InotifyInit1(0)
			if err != nil {
				return err
			}
			_, err = unix.InotifyAddWatch(fd, f.Hidden, unix.IN_ALL_EVENTS)
			return err
		}},
	{name: "fs.read_outside", open: byDesign("what the user may read can be read, unless it is hidden"),
		try: func(f *field) error { _, err := os.ReadFile(f.Victim); return err }},
	{name: "fs.read_passwords", needs: "root", open: byDesign("what the user may read can be read, unless it is hidden"),
		try: func(f *field) error { _, err := os.ReadFile("/etc/shadow"); return err }},

	// Repositories: what is written there runs outside, with the next git
	// command of the user.
	{name: "git.write_hook", open: landlockOnly(noCarving),
		try: func(f *field) error { return appendTo(f.Root + "/.git/hooks/pre-commit") }, happened: changed("/.git/hooks/pre-commit")},
	{name: "git.replace_hook", open: landlockOnly(noCarving),
		try:      func(f *field) error { return unix.Rename(f.Root+"/file", f.Root+"/.git/hooks/post-checkout") },
		happened: madeInRoot("/.git/hooks/post-checkout")},
	{name: "git.append_config", open: landlockOnly(noCarving),
		try: func(f *field) error { return appendTo(f.Root + "/.git/config") }, happened: changed("/.git/config")},
	{name: "git.rename_away", open: landlockOnly(noCarving),
		try:      func(f *field) error { return unix.Rename(f.Root+"/.git", f.Root+"/gone") },
		happened: madeInRoot("/gone")},
	{name: "git.exchange", open: landlockOnly(noCarving),
		try: func(f *field) error {
			return unix.Renameat2(unix.AT_FDCWD, f.Root+"/n1", unix.AT_FDCWD, f.Root+"/.git", unix.RENAME_EXCHANGE)
		},
		happened: madeInRoot("/.git/.git")},
	{name: "git.write_hook_via_symlink", open: landlockOnly(noCarving),
		try: func(f *field) error {
			if err := os.Symlink(".git", f.Root+"/l"); err != nil {
				return err
			}
			return appendTo(f.Root + "/l/hooks/pre-commit")
		}, happened: changed("/.git/hooks/pre-commit")},
	{name: "git.write_hook_case_folded", needs: "a file system that folds case", open: landlockOnly(noCarving),
		try: func(f *field) error { return appendTo(f.Root + "/.GIT/hooks/pre-commit") }, happened: changed("/.git/hooks/pre-commit")},
	{name: "git.write_hook_in_other_case", open: landlockOnly(noCarving), // a repository where case is folded
		try: func(f *field) error { return appendTo(f.Root + "/folded/.GIT/hooks/pre-commit") }, happened: changed("/folded/.GIT/hooks/pre-commit")},
	{name: "git.nested_hook", open: landlockOnly(noCarving),
		try: func(f *field) error { return appendTo(f.Root + "/n1/.git/hooks/pre-commit") }, happened: changed("/n1/.git/hooks/pre-commit")},
	{name: "git.deeply_nested_hook", open: landlockOnly(noCarving),
		try: func(f *field) error { return appendTo(f.Root + "/n1/n2/n3/n4/.git/hooks/pre-commit") }, happened: changed("/n1/n2/n3/n4/.git/hooks/pre-commit")},
	{name: "git.nested_rename_away", open: landlockOnly(noCarving),
		try:      func(f *field) error { return unix.Rename(f.Root+"/n1/.git", f.Root+"/n1/gone") },
		happened: madeInRoot("/n1/gone")},
	{name: "git.moved_nested_hook", open: landlockOnly(noCarving),
		try: func(f *field) error {
			if err := unix.Rename(f.Root+"/n1", f.Root+"/m1"); err != nil {
				return err
			}
			return appendTo(f.Root + "/m1/.git/hooks/pre-commit")
		}, happened: changed2("/n1/.git/hooks/pre-commit", "/m1/.git/hooks/pre-commit")},
	{name: "git.worktree_pointer", open: landlockOnly(noCarving),
		try: func(f *field) error { return os.WriteFile(f.Root+"/tree/.git", []byte("gitdir: /elsewhere"), 0o644) },
		happened: func(f *field) bool {
			text, err := os.ReadFile(f.Root + "/tree/.git")
			return err != nil || string(text) != "gitdir: ../gitdirs/tree\n"
		}},
	{name: "git.worktree_pointer_replaced", open: landlockOnly(noCarving),
		try: func(f *field) error { return unix.Rename(f.Root+"/file", f.Root+"/tree/.git") },
		happened: func(f *field) bool {
			text, err := os.ReadFile(f.Root + "/tree/.git")
			return err != nil || string(text) != "gitdir: ../gitdirs/tree\n"
		}},
	{name: "git.worktree_hook", open: landlockOnly(noCarving),
		try: func(f *field) error { return appendTo(f.Root + "/gitdirs/tree/hooks/pre-commit") }, happened: changed("/gitdirs/tree/hooks/pre-commit")},
	{name: "git.symlinked_hook", open: landlockOnly(noCarving),
		try: func(f *field) error { return appendTo(f.Root + "/linked/.git/hooks/pre-commit") }, happened: changed("/linked/real.git/hooks/pre-commit")},
	{name: "git.symlink_replaced", open: landlockOnly(noCarving),
		try: func(f *field) error {
			if err := unix.Unlink(f.Root + "/linked/.git"); err != nil {
				return err
			}
			return os.Mkdir(f.Root+"/linked/.git", 0o755)
		},
		happened: func(f *field) bool {
			to, err := os.Readlink(f.Root + "/linked/.git")
			return err != nil || to != "real.git"
		}},
	{name: "git.new_repository", open: byDesign("git clone and git init are ordinary work; a new repository is the model's own"),
		try: func(f *field) error { return os.MkdirAll(f.Root+"/new/.git/hooks", 0o755) }, happened: madeInRoot("/new/.git/hooks")},
	{name: "persist.claude_settings", open: landlockOnly(noCarving),
		try: func(f *field) error { return appendTo(f.Root + "/.claude/settings.json") }, happened: changed("/.claude/settings.json")},
	{name: "persist.claude_settings_that_were_missing", open: landlockOnly(noCarving),
		try: func(f *field) error { return os.WriteFile(f.Root+"/n1/.claude/settings.json", nil, 0o644) }, happened: madeInRoot("/n1/.claude/settings.json")},
	{name: "persist.mcp_config", open: landlockOnly(noCarving),
		try: func(f *field) error { return appendTo(f.Root + "/.mcp.json") }, happened: changed("/.mcp.json")},
	{name: "persist.nested_mcp_config", open: landlockOnly(noCarving),
		try: func(f *field) error { return os.Remove(f.Root + "/n1/.mcp.json") }, happened: changed("/n1/.mcp.json")},
	{name: "persist.editor_tasks", open: landlockOnly(noCarving),
		try: func(f *field) error { return appendTo(f.Root + "/.vscode/tasks.json") }, happened: changed("/.vscode/tasks.json")},
	{name: "persist.direnv", open: landlockOnly(noCarving),
		try: func(f *field) error { return appendTo(f.Root + "/.envrc") }, happened: changed("/.envrc")},
	{name: "persist.makefile", open: byDesign("the workspace's own programs are what the work is about"),
		try: func(f *field) error { return appendTo(f.Root + "/Makefile") }, happened: changed("/Makefile")},
	{name: "persist.shell_start_at_home",
		try: func(f *field) error { return appendTo(f.Outside + "/home/.bashrc") }, happened: changed("/../outside/home/.bashrc")},
	{name: "persist.shell_start_in_root", open: byDesign("a shell reads it in the home folder only, and that is never a writable root"),
		try: func(f *field) error { return appendTo(f.Root + "/.bashrc") }, happened: changed("/.bashrc")},
	{name: "persist.codex_config", open: landlockOnly(noCarving),
		try: func(f *field) error { return appendTo(f.Root + "/.codex/config.toml") }, happened: changed("/.codex/config.toml")},

	// What the process was given without being meant to have it.
	{name: "fd.write_inherited_file",
		try: func(f *field) error { return putIn(f.FileFd, nil) }, happened: (*field).victimChanged},
	{name: "fd.create_in_inherited_folder",
		try: func(f *field) error {
			fd, err := unix.Openat(f.DirFd, "new", unix.O_CREAT|unix.O_WRONLY, 0o644)
			return putIn(fd, err)
		}, happened: (*field).awayExists},
	{name: "fd.any_above_standard",
		try: func(f *field) error {
			for fd := 3; fd < 200; fd++ {
				var st unix.Stat_t
				if unix.Fstat(fd, &st) != nil {
					continue
				}
				if path, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); strings.HasPrefix(path, f.Base) {
					return nil
				}
			}
			return unix.EBADF
		}},
	{name: "env.secret",
		try: func(f *field) error {
			if os.Getenv("SECRET") == "" {
				return unix.ENOENT
			}
			return nil
		}},

	// Other processes.
	{name: "proc.see_host_process", open: landlockOnly(noPids),
		try: func(f *field) error {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", f.Pid))
			if err == nil && !strings.Contains(string(text), "op\x00wait") {
				return unix.ESRCH
			}
			return err
		}},
	{name: "proc.read_environment",
		try: func(f *field) error { return readSecret(fmt.Sprintf("/proc/%d/environ", f.Pid)) }},
	{name: "proc.read_any_environment",
		try: func(f *field) error {
			return openFirst("/proc/[0-9]*", "/proc/", func(dir string) error { return readSecret(dir + "/environ") })
		}},
	{name: "proc.read_memory",
		try: func(f *field) error { return openFor(unix.O_RDONLY)(fmt.Sprintf("/proc/%d/mem", f.Pid)) }},
	{name: "proc.signal", try: func(f *field) error { return unix.Kill(f.Pid, 0) }},
	{name: "proc.signal_by_descriptor",
		try: func(f *field) error {
			fd, err := unix.PidfdOpen(f.Pid, 0)
			if err != nil {
				return err
			}
			return unix.PidfdSendSignal(fd, 0, nil, 0)
		}},
	{name: "proc.signal_group", try: func(f *field) error { return unix.Kill(-f.Pid, 0) }},
	{name: "proc.signal_parent", needs: "a parent in sight",
		try: func(f *field) error {
			if os.Getppid() == 0 {
				return unix.ESRCH
			}
			return unix.Kill(os.Getppid(), 0)
		}},
	{name: "proc.trace",
		try: func(f *field) error { return raw(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(f.Pid), 0) }},
	{name: "proc.trace_parent", needs: "a parent that can be traced",
		try: func(f *field) error {
			return raw(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(os.Getppid()), 0)
		}},
	{name: "proc.trace_own_child",
		try: func(f *field) error {
			runtime.LockOSThread()
			return raw(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0)
		}},
	{name: "proc.have_killed_first", try: func(f *field) error { return openWrite(fmt.Sprintf("/proc/%d/oom_score_adj", f.Pid)) }},
	{name: "proc.process_vm_readv", try: func(f *field) error { return reachByName("process_vm_readv", f.Pid) }},
	{name: "proc.limit", try: func(f *field) error { return reachByName("limit", f.Pid) }},
	{name: "proc.priority",
		try: func(f *field) error {
			return unix.Setpriority(unix.PRIO_PROCESS, f.Pid, 19) // up, which anybody may
		}},
	{name: "proc.take_descriptor",
		try: func(f *field) error {
			fd, err := unix.PidfdOpen(f.Pid, 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(fd, 0, 0)
			return err
		}},
	{name: "proc.enter_namespace", needs: "root",
		try: func(f *field) error {
			fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", f.Pid), unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, 0)
		}},
	{name: "proc.core_pattern", needs: "root",
		try: func(f *field) error {
			const file = "/proc/sys/kernel/core_pattern"
			same, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			return os.WriteFile(file, same, 0)
		}},
	{name: "proc.sysrq", needs: "root", try: func(f *field) error { return openWrite("/proc/sysrq-trigger") }},
	{name: "proc.drop_caches", needs: "root", try: func(f *field) error { return openWrite("/proc/sys/vm/drop_caches") }},
	{name: "proc.irq", needs: "root", try: func(f *field) error { return openWrite("/proc/irq/default_smp_affinity") }},
	{name: "sys.uevent", needs: "root",
		try: func(f *field) error {
			return openFirst("/sys/class/mem/null/uevent", "/sys/class/mem/null/", openWrite)
		}},
	{name: "sys.cgroup", needs: "root and control groups",
		try: func(f *field) error {
			for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"} {
				if openWrite(dir+"/cgroup.procs") == nil {
					return nil
				}
			}
			return unix.EACCES
		}},

	// The network, and sockets that are not.
	{name: "net.tcp_connect", try: func(f *field) error { return dial("tcp", f.TCP) }, happened: (*field).heard},
	{name: "net.mptcp_connect", needs: "MPTCP",
		try: func(f *field) error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
			if err != nil {
				return err
			}
			return unix.Connect(fd, inet(f.TCP))
		}, happened: (*field).heard},
	{name: "net.tcp_fast_open",
		try: func(f *field) error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, inet(f.TCP))
		}, happened: (*field).heard},
	{name: "net.udp_send", try: func(f *field) error { return dial("udp", f.UDP) }, happened: (*field).heard},
	{name: "net.tcp_listen",
		try: func(f *field) error { _, err := net.Listen("tcp", "127.0.0.1:0"); return err }},
	{name: "net.unix_connect", try: func(f *field) error { return dial("unix", f.Stream) }, happened: (*field).heard},
	{name: "net.unix_connect_via_symlink",
		try: func(f *field) error {
			if err := os.Symlink(f.Stream, f.Root+"/s"); err != nil {
				return err
			}
			return dial("unix", f.Root+"/s")
		}, happened: (*field).heard},
	{name: "net.unix_abstract", try: func(f *field) error { return dial("unix", f.Name) }, happened: (*field).heard},
	{name: "net.unix_datagram", try: func(f *field) error { return dial("unixgram", f.Dgram) }, happened: (*field).heard},
	{name: "net.unix_datagram_from_pair",
		try: func(f *field) error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			return unix.Sendmsg(pair[0], []byte("x"), nil, &unix.SockaddrUnix{Name: f.Dgram}, 0)
		}, happened: (*field).heard},
	{name: "net.unix_datagram_from_pair_sendto",
		try: func(f *field) error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			return unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: f.Dgram})
		}, happened: (*field).heard},
	{name: "net.unix_seqpacket_pair_names_peer", needs: "a kernel that heeds the name",
		try: func(f *field) error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
			if err != nil {
				return err
			}
			return unix.Sendmsg(pair[0], []byte("x"), nil, &unix.SockaddrUnix{Name: f.Dgram}, 0)
		}, happened: (*field).heard},
	{name: "net.unix_listen_in_root",
		try: func(f *field) error { _, err := net.Listen("unix", f.Root+"/own"); return err }},
	{name: "net.vsock", needs: "vsock", try: socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
	{name: "net.netlink_route", try: socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)},
	{name: "net.netlink_audit", needs: "audit", try: socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT)},
	{name: "net.packet", needs: "root", try: socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
	{name: "net.raw", needs: "root", try: socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
	{name: "net.ping", needs: "a group that may ping", try: socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)},
	{name: "net.crypto", try: socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
	{name: "net.bluetooth", needs: "root", try: socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 0)},
	{name: "net.io_uring", needs: "io_uring",
		try: func(f *field) error {
			var params [120]byte
			return raw(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
		}},

	// System calls by other names.
	{name: "abi.i386_socket", needs: "i386 system calls",
		try: func(f *field) error { return runOther(f.Other) }},
	{name: "abi.x32_socket", // answered, where the kernel has none, by its own list of calls
		try: func(f *field) error {
			return reached(raw(0x40000000|unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0))
		}},

	// Namespaces and mounts.
	{name: "ns.unshare_user", needs: "user namespaces",
		try: func(f *field) error { return cloneInto(unix.CLONE_NEWUSER) }},
	{name: "ns.clone3_user", needs: "user namespaces",
		try: func(f *field) error {
			args := struct{ flags, pidfd, childTid, parentTid, exit, stack, stackSize, tls uint64 }{flags: unix.CLONE_NEWUSER, exit: uint64(unix.SIGCHLD)}
			pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
			if errno != 0 {
				return errno
			}
			if pid == 0 {
				unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
			return nil
		}},
	{name: "ns.unshare_mount", needs: "root", try: func(f *field) error { return cloneInto(unix.CLONE_NEWNS) }},
	{name: "ns.unshare_net", needs: "root", try: func(f *field) error { return cloneInto(unix.CLONE_NEWNET) }},
	{name: "ns.unmount_protected", alone: "it is the sandbox's own mount",
		try: func(f *field) error { return unix.Unmount(f.Root+"/.git", unix.MNT_DETACH) }},
	{name: "ns.unmount_mask", alone: "it is the sandbox's own mount",
		try: func(f *field) error { return unix.Unmount(f.Hidden, unix.MNT_DETACH) }},
	{name: "ns.remount_writable", alone: "it is the sandbox's own mount",
		try: func(f *field) error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
	{name: "ns.bind_over_protected", alone: "it is the sandbox's own mount",
		try: func(f *field) error { return unix.Mount(f.Root+"/n1", f.Root+"/.git", "", unix.MS_BIND, "") }},
	{name: "ns.open_tree", needs: "root",
		try: func(f *field) error {
			_, err := unix.OpenTree(unix.AT_FDCWD, f.Root, unix.OPEN_TREE_CLONE)
			return err
		}},
	{name: "ns.new_file_system", needs: "root", try: func(f *field) error { _, err := unix.Fsopen("tmpfs", 0); return err }},
	{name: "ns.chroot", needs: "root", try: func(f *field) error { return unix.Chroot(f.Root) }},

	// Privileges and the larger doors of the kernel.
	{name: "priv.set_user", needs: "root", try: func(f *field) error { return raw(unix.SYS_SETUID, 12, 0, 0) }},
	{name: "priv.capabilities", needs: "root",
		try: func(f *field) error {
			status, err := os.ReadFile("/proc/self/status")
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(status)) {
				name, set, _ := strings.Cut(line, ":")
				if !strings.HasPrefix(name, "Cap") || strings.Trim(set, "\t\n0") == "" {
					continue
				}
				// Others than root cannot shrink the bounding set, and with
				// no_new_privs nothing comes out of it.
				if name != "CapBnd" || os.Geteuid() == 0 {
					return nil
				}
			}
			return unix.EPERM
		}},
	{name: "priv.new_privileges",
		try: func(f *field) error {
			if v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || v != 0 {
				return unix.EPERM
			}
			return nil
		}},
	{name: "priv.bpf", needs: "bpf",
		try: func(f *field) error {
			attr := struct{ kind, key, value, max uint32 }{2, 4, 4, 1} // an array map
			return raw(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		}},
	{name: "priv.perf", needs: "perf events",
		try: func(f *field) error {
			_, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}, 0, -1, -1, 0)
			return err
		}},
	{name: "priv.userfaultfd", needs: "root and userfaultfd", try: func(f *field) error { return raw(unix.SYS_USERFAULTFD, 0, 0, 0) }},
	{name: "priv.keyring", needs: "keyrings",
		try: func(f *field) error {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
			return err
		}},
	{name: "priv.module", needs: "root and modules",
		try: func(f *field) error {
			err := reached(raw(unix.SYS_FINIT_MODULE, ^uintptr(0), 0, 0))
			if err == unix.EBADF || err == unix.ENOEXEC {
				return nil // it was let in, only there is no module
			}
			return err
		}},
	{name: "priv.core_dump", needs: "a limit that allows it",
		try: func(f *field) error {
			var lim unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_CORE, &lim); err != nil {
				return err
			}
			lim.Cur = lim.Max
			if lim.Max == 0 {
				return unix.EPERM
			}
			return unix.Setrlimit(unix.RLIMIT_CORE, &lim)
		}},
	{name: "priv.run_from_memory", open: byDesign("whatever may be written in a writable root may be run; so may this"),
		try: func(f *field) error {
			fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC)
			if err != nil {
				return err
			}
			text, err := os.ReadFile("/bin/true")
			if err != nil {
				return err
			}
			if _, err := unix.Write(fd, text); err != nil {
				return err
			}
			return exec.Command(fmt.Sprintf("/proc/self/fd/%d", fd)).Run()
		}},

	// Memory that processes share, and terminals.
	{name: "ipc.shared_memory",
		try: func(f *field) error {
			_, err := unix.SysvShmAttach(f.Shm, 0, 0)
			return err
		}},
	{name: "ipc.shared_memory_by_number",
		try: func(f *field) error {
			_, err := unix.SysvShmCtl(f.Shm, unix.IPC_STAT, new(unix.SysvShmDesc))
			return err
		}},
	{name: "ipc.semaphore",
		try: func(f *field) error { return raw(unix.SYS_SEMCTL, uintptr(f.Sem), 0, getSemaphore) }},
	{name: "ipc.message_queue",
		try: func(f *field) error {
			var status [256]byte
			return raw(unix.SYS_MSGCTL, uintptr(f.Msg), unix.IPC_STAT, uintptr(unsafe.Pointer(&status[0])))
		}},
	{name: "ipc.posix_queue",
		try: func(f *field) error { _, err := openQueue(f.Queue, unix.O_RDWR); return err }},
	{name: "ipc.dev_shm",
		try: func(f *field) error {
			fd, err := unix.Open(fmt.Sprintf("/dev/shm/toolgate-test-%d", f.Pid), unix.O_CREAT|unix.O_WRONLY, 0o600)
			return putIn(fd, err)
		},
		happened: func(f *field) bool {
			path := fmt.Sprintf("/dev/shm/toolgate-test-%d", f.Pid)
			defer os.Remove(path)
			_, err := os.Stat(path)
			return err == nil
		}},
	{name: "tty.type_into_standard_input", needs: "a kernel that still types into terminals",
		try:      func(f *field) error { return typeInto(0) },
		happened: (*field).typed},
	{name: "tty.type_into_controlling", needs: "a kernel that still types into terminals",
		try: func(f *field) error {
			fd, err := unix.Open("/dev/tty", unix.O_RDWR, 0)
			if err != nil {
				return err
			}
			return typeInto(fd)
		},
		happened: (*field).typed},
	{name: "tty.type_into_own", needs: "a kernel that still types into terminals",
		try: func(f *field) error {
			fd, err := ownTerminal()
			if err != nil {
				return err
			}
			return typeInto(fd)
		}},
	{name: "tty.paste_into_own", needs: "a console",
		try: func(f *field) error {
			fd, err := ownTerminal()
			if err != nil {
				return err
			}
			c := byte(2)
			return raw(unix.SYS_IOCTL, uintptr(fd), 0x541c, uintptr(unsafe.Pointer(&c)))
		}},
}

// getSemaphore is GETVAL.
const getSemaphore = 12

// typeInto types a line into the terminal fd.
func typeInto(fd int) error {
	for _, c := range []byte("x\n") {
		if err := raw(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&c))); err != nil {
			return err
		}
	}
	return nil
}

// typed reports whether there is something to read from the terminal, and
// takes it away.
func (f *field) typed() bool {
	n, err := unix.IoctlGetInt(f.tty, unix.TIOCINQ)
	unix.IoctlSetInt(f.tty, unix.TCFLSH, unix.TCIFLUSH)
	return err == nil && n > 0
}

// reached is err, but nil when a call got as far as the kernel's own lists,
// on which there is nothing of the kind: no filter stopped it.
func reached(err error) error {
	if err == unix.ENOSYS || err == unix.EAFNOSUPPORT {
		return nil
	}
	return err
}

// heard reports whether a socket of the host received something.
func (f *field) heard() bool { return f.received() }

// reachByName does one of the reaches to the process pid.
func reachByName(name string, pid int) error {
	for _, r := range reaches {
		if r.name == name {
			return r.try(pid, pid)
		}
	}
	return fmt.Errorf("no reach %q", name)
}

func dial(network, addr string) error { return dialSay(network, addr, "x") }

// dialSay connects to addr and says text.
func dialSay(network, addr, text string) error {
	c, err := net.Dial(network, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte(text))
	return err
}

// inet returns the IPv4 address addr for a system call.
func inet(addr string) unix.Sockaddr {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		panic(err)
	}
	return &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())}
}

func socket(family, kind, proto int) func(*field) error {
	return func(*field) error {
		_, err := unix.Socket(family, kind, proto)
		return reached(err)
	}
}

// cloneInto starts a process in new namespaces.
func cloneInto(flags uintptr) error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	return cmd.Run()
}

// ownTerminal returns the terminal end of a new pair.
func ownTerminal() (int, error) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	_, err = unix.Setsid()
	if err != nil && err != unix.EPERM {
		return -1, err
	}
	return fd, unix.IoctlSetInt(fd, unix.TIOCSCTTY, 0)
}

// otherProgram is a 64-bit program that makes a socket by the system call of
// i386, and exits with the error number, or 0.
func otherProgram() []byte {
	code := []byte{
		0xb8, 0x67, 0x01, 0x00, 0x00, // mov eax, 359: socket
		0xbb, 0x02, 0x00, 0x00, 0x00, // mov ebx, AF_INET
		0xb9, 0x01, 0x00, 0x00, 0x00, // mov ecx, SOCK_STREAM
		0x31, 0xd2, // xor edx, edx
		0xcd, 0x80, // int 0x80
		0x31, 0xff, // xor edi, edi
		0x85, 0xc0, // test eax, eax
		0x79, 0x04, // jns +4
		0x89, 0xc7, // mov edi, eax
		0xf7, 0xdf, // neg edi
		0xb8, 0x3c, 0x00, 0x00, 0x00, // mov eax, 60: exit
		0x0f, 0x05, // syscall
	}
	return elf(code)
}

// fewProcesses is how many the sandbox of the attempts holds. The usual limit
// would take as many to reach, of a user who may be running other tests.
const fewProcesses = 1024

// bombProgram forks children that end and are never waited for, more than
// that, and exits with the error number, or 0.
func bombProgram() []byte {
	return elf([]byte{
		0xbb, 0xdc, 0x05, 0x00, 0x00, // mov ebx, 1500
		0xb8, 0x39, 0x00, 0x00, 0x00, // again: mov eax, 57: fork
		0x0f, 0x05, // syscall
		0x31, 0xff, // xor edi, edi
		0x85, 0xc0, // test eax, eax
		0x74, 0x0c, // jz end
		0x78, 0x06, // js error
		0xff, 0xcb, // dec ebx
		0x75, 0xed, // jnz again
		0xeb, 0x04, // jmp end
		0x89, 0xc7, // error: mov edi, eax
		0xf7, 0xdf, // neg edi
		0xb8, 0x3c, 0x00, 0x00, 0x00, // end: mov eax, 60: exit
		0x0f, 0x05, // syscall
	})
}

// elf returns the 64-bit program of the machine code.
func elf(code []byte) []byte {
	const base, header = 0x400000, 64 + 56
	b := make([]byte, header, header+len(code))
	copy(b, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(b[16:], 2)  // executable
	le.PutUint16(b[18:], 62) // x86-64
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[24:], base+header) // entry
	le.PutUint64(b[32:], 64)          // program headers
	le.PutUint16(b[52:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 1)
	ph := b[64:]
	le.PutUint32(ph, 1)     // load
	le.PutUint32(ph[4:], 5) // read, execute
	le.PutUint64(ph[16:], base)
	le.PutUint64(ph[24:], base)
	le.PutUint64(ph[32:], uint64(header+len(code)))
	le.PutUint64(ph[40:], uint64(header+len(code)))
	le.PutUint64(ph[48:], 0x1000)
	return append(b, code...)
}

func runOther(path string) error {
	err := exec.Command(path).Run()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() > 0 {
		return syscall.Errno(exit.ExitCode())
	}
	return err
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// moved reports whether Victim is another file than it was: the one it was
// is open for writing here.
func moved(f *field) bool {
	var was, is unix.Stat_t
	return unix.Fstat(f.FileFd, &was) == nil && unix.Stat(f.Victim, &is) == nil && was.Ino != is.Ino
}

// readSecret is nil when path can be read and holds what it should.
func readSecret(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), nowhere) {
		return unix.ENODATA
	}
	return nil
}

// openFirst opens, in the folder dir, the first thing named as a match of
// pattern.
func openFirst(pattern, dir string, open func(string) error) error {
	names, _ := filepath.Glob(pattern)
	err := error(unix.ENOENT)
	for _, name := range names {
		if err = open(dir + filepath.Base(name)); err == nil {
			return nil
		}
	}
	return err
}
