package sandbox_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A fixture is the surroundings of an attempt. Each attempt with an effect gets
// its own.
type fixture struct {
	Attempt string

	Base    string // contains all the others
	Root    string // the workspace, the one writable root
	Outside string
	Victim  string // a file outside, with the text "old"
	Hidden  string // a hidden folder with the file "key"
	Away    string // an unused name in Outside

	DirFd  int    // inherited by accident: Outside
	FileFd int    // inherited by accident: Victim, writable
	Other  string // a program that opens a socket with the i386 system call
	Bomb   string // a program that forks until it is refused

	*Host

	died bool // the attempt killed the process that started it
	tty  int  // the terminal that is standard input of some attempts
}

// A Host is the part of a fixture that lives as long as the test.
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

	Terminal string // of another session of the user

	got chan string // what the sockets received
}

const secret = "secret-of-the-host"

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
	// The mode that the system uses, because other programs may use it too. An
	// error means that it existed and is not ours.
	_ = os.Chmod(filepath.Dir(display), 0o777|os.ModeSticky)
	t.Cleanup(func() { os.Remove(filepath.Dir(display)) }) // if it is empty
	_, h.Terminal = openTerminal(t)
	h.startVictim(t)
	h.share(t)
	h.listen(t)
	return h
}

// share creates what processes share by number or name.
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

func newFixture(t *testing.T, h *Host, base string) *fixture {
	t.Helper()
	f := &fixture{
		Base: base, Root: base + "/root", Outside: base + "/outside", Hidden: base + "/hidden",
		Victim: base + "/outside/victim", Away: base + "/outside/new",
		Host: h,
	}
	write(t, f.Victim, "old")
	write(t, f.Outside+"/home/.bashrc", "old")
	write(t, f.Hidden+"/key", secret)
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

// plant puts files into the root that later run outside the sandbox.
func (f *fixture) plant(t *testing.T) {
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
	victim.Env = []string{"MARK=" + secret}
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

// received reports whether a host socket received something since the last call.
// The attempt has ended by now, so what it sent is at most in flight: each socket
// is sent a mark, which arrives after it.
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
func (f *fixture) leak(t *testing.T) {
	var err error
	f.DirFd, err = unix.Open(f.Outside, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	f.FileFd, err = unix.Open(f.Victim, unix.O_WRONLY|unix.O_APPEND, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(f.DirFd); unix.Close(f.FileFd) })
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

func (f *fixture) String() string {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// otherProgram is a 64-bit program that opens a socket with the system call of
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

// fewProcesses is the process limit of the sandboxes that attempts are made in.
// Reaching the usual limit would take as many processes of this user, who may be
// running other tests.
const fewProcesses = 1024

// bombProgram forks more children than fewProcesses, which end and are never
// waited for, and exits with the error number, or 0.
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

// variables are the values of $NAME in testdata/escape.
func (f *fixture) variables() map[string]string {
	return map[string]string{
		"BASE": f.Base, "ROOT": f.Root, "OUTSIDE": f.Outside, "VICTIM": f.Victim, "HIDDEN": f.Hidden, "AWAY": f.Away,
		"DIR_FD": strconv.Itoa(f.DirFd), "FILE_FD": strconv.Itoa(f.FileFd), "I386": f.Other, "BOMB": f.Bomb,
		"PID": strconv.Itoa(f.Pid), "PPID": strconv.Itoa(os.Getppid()),
		"TCP": f.TCP, "UDP": f.UDP, "STREAM": f.Stream, "DGRAM": f.Dgram, "ABSTRACT": f.Name,
		"SHM": strconv.Itoa(f.Shm), "SEM": strconv.Itoa(f.Sem), "MSG": strconv.Itoa(f.Msg), "QUEUE": f.Queue,
		"BUS": f.Bus, "AGENT": f.Agent, "RUNTIME": f.Runtime, "DISPLAY": f.Display, "SCREEN": f.Screen,
		"TERMINAL": f.Terminal,
	}
}

// expand returns args with their variables replaced.
func (f *fixture) expand(args []string) []string {
	vars := f.variables()
	var list []string
	for _, arg := range args {
		list = append(list, os.Expand(arg, func(name string) string { return value(vars, name) }))
	}
	return list
}
