package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Watch records what the sandbox refused to one command and its descendants.
//
// The kernel notifies it of each call that would change a file or reach the
// network, before the call is carried out. The Watch lets the call continue, to be
// allowed or refused by mounts and Landlock, and only then finds out what they say
// about that path. It decides nothing, so a path that is changed meanwhile affects
// the report but not the sandbox.
type Watch struct {
	roots []string // writable roots; nil where mounts tell them apart

	mu      sync.Mutex
	denials []Denial
}

// maxDenials is the limit of recorded denials per command.
const maxDenials = 50

// StartWatched is like [Spawner.Start] and returns a watch on the command. On
// kernels without notifications the watch stays empty. Pdeathsig in
// cmd.SysProcAttr must not be set, because the thread that starts the command
// ends.
func (s *Spawner) StartWatched(cmd *exec.Cmd) (*Watch, error) {
	if !s.plan.confined() || !canWatch() {
		return &Watch{}, s.Start(cmd)
	}
	ownGroup(cmd)
	var t *watcher
	select {
	case t = <-s.spare:
	default:
		var err error
		if t, err = s.newWatcher(); err != nil {
			return nil, err
		}
	}
	go s.prepareWatcher() // ends when the watcher is ready
	t.cmds <- cmd
	if err := <-t.errs; err != nil {
		return nil, err
	}
	return t.watch, nil
}

// A watcher is a restricted thread that waits for the one command it will start.
type watcher struct {
	watch *Watch
	cmds  chan *exec.Cmd // closed if there is no command for it
	errs  chan error     // one error when the thread is restricted, one when the command has started
}

// newWatcher returns a watcher when its thread is restricted.
func (s *Spawner) newWatcher() (*watcher, error) {
	t := &watcher{watch: &Watch{}, cmds: make(chan *exec.Cmd), errs: make(chan error)}
	if !s.plan.namespaces() {
		t.watch.roots = s.plan.Profile.WritableRoots
	}
	go offMainThread(func() { // ends when the command has started
		listener, err := s.restrictWatched()
		t.errs <- err
		if err != nil {
			return
		}
		// Ends with the last watched process, this thread included.
		go t.watch.listen(listener)
		if cmd, ok := <-t.cmds; ok {
			t.errs <- cmd.Start()
		}
	})
	return t, <-t.errs
}

// prepareWatcher makes the spare watcher in advance, because that takes as long as
// starting a command.
func (s *Spawner) prepareWatcher() {
	t, err := s.newWatcher()
	if err != nil {
		return // the next command finds out why
	}
	select {
	case s.spare <- t:
	default:
		close(t.cmds) // there is one already
	}
}

// Denials returns the refusals so far, in order and without duplicates. A command
// may have succeeded in spite of them.
func (w *Watch) Denials() []Denial {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.denials)
}

// add records d. The caller holds the lock.
func (w *Watch) add(d Denial) {
	if len(w.denials) < maxDenials && !slices.Contains(w.denials, d) {
		w.denials = append(w.denials, d)
	}
}

// A watchedCall is a system call that changes files by name.
type watchedCall struct {
	when  []cond
	paths []watchedPath
}

// A watchedPath is a path argument of a watched call.
type watchedPath struct {
	dir      int // index of the argument with the folder's descriptor, -1 for none
	path     int // index of the argument with the path
	requires precondition
	// entry is set if the call creates, moves or removes the name itself, and
	// not the file it leads to.
	entry bool
	// flags is the index of the argument that decides the precondition, if any.
	flags int
}

// A precondition is a requirement on the path of a call. If it is not met, the
// call fails by itself, whatever the sandbox says.
type precondition int

const (
	anyState     precondition = iota
	absent                    // the call creates it
	present                   // the call changes it
	openPresent               // unless the flags have O_CREAT
	renameAbsent              // if the flags have RENAME_NOREPLACE
)

// of returns the precondition for the given flags of the call.
func (k precondition) of(flags uint64) precondition {
	switch {
	case k == openPresent && flags&unix.O_CREAT == 0:
		return present
	case k == renameAbsent && flags&unix.RENAME_NOREPLACE != 0:
		return absent
	case k == openPresent || k == renameAbsent:
		return anyState
	}
	return k
}

// openForWriting are the flags of an open that may change something.
const openForWriting = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC

var watchedCalls = map[uint32]watchedCall{
	unix.SYS_OPENAT:    {when: []cond{bits(2, openForWriting)}, paths: []watchedPath{{0, 1, openPresent, false, 2}}},
	unix.SYS_MKDIRAT:   {paths: []watchedPath{{0, 1, absent, true, 0}}},
	unix.SYS_MKNODAT:   {paths: []watchedPath{{0, 1, absent, true, 0}}},
	unix.SYS_UNLINKAT:  {paths: []watchedPath{{0, 1, present, true, 0}}},
	unix.SYS_RENAMEAT2: {paths: []watchedPath{{0, 1, present, true, 0}, {2, 3, renameAbsent, true, 4}}},
	unix.SYS_LINKAT:    {paths: []watchedPath{{2, 3, absent, true, 0}}},
	unix.SYS_SYMLINKAT: {paths: []watchedPath{{1, 2, absent, true, 0}}},
	unix.SYS_FCHMODAT:  {paths: []watchedPath{{0, 1, present, false, 0}}},
	unix.SYS_FCHOWNAT:  {paths: []watchedPath{{0, 1, present, false, 0}}},
	unix.SYS_UTIMENSAT: {when: []cond{{arg: 1, op: nonZero}}, paths: []watchedPath{{0, 1, present, false, 0}}},
	unix.SYS_TRUNCATE:  {paths: []watchedPath{{-1, 0, present, false, 0}}},
}

const retNotify action = unix.SECCOMP_RET_USER_NOTIF

// socketWatchRules notify of sockets, which the watch then refuses. They come
// before the rules that refuse sockets outright.
var socketWatchRules = []rule{
	{calls: []uint32{unix.SYS_SOCKET},
		when: []cond{{arg: 0, op: oneOf, vals: []uint32{unix.AF_INET, unix.AF_INET6}}}, do: retNotify,
		why: "says that the network was needed"},
}

// pathWatchRules notify of the watched calls. They come after the rules that
// refuse some of them.
func pathWatchRules() []rule {
	var rules []rule
	for _, calls := range []map[uint32]watchedCall{watchedCalls, legacyWatchedCalls} {
		for nr, c := range calls {
			rules = append(rules, rule{
				calls: []uint32{nr}, when: c.when, do: retNotify,
				why: "says which path was to be written",
			})
		}
	}
	return rules
}

// canWatch reports whether the kernel can send notifications of calls and let
// them continue.
var canWatch = sync.OnceValue(func() bool { return probeAction(unix.SECCOMP_RET_USER_NOTIF) == nil })

// A notification is struct seccomp_notif: a call that waits for an answer.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// An answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// listen answers the notifications of fd until no watched process is left.
func (w *Watch) listen(fd int) {
	defer awaitFirst(fd).Close()
	// Since Linux 6.6 both sides can run synchronously on one processor, as each
	// only waits for the other. On older kernels this fails, and has no effect.
	unix.Syscall(unix.SYS_IOCTL, uintptr(fd),
		unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	for {
		wait := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(wait, -1); err == unix.EINTR {
			continue
		} else if err != nil || wait[0].Revents&unix.POLLIN == 0 {
			return
		}
		var n notification
		if err := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
			if err == unix.ENOENT || err == unix.EINTR {
				continue // the process was killed while it waited
			}
			return
		}
		w.answer(fd, n)
	}
}

// awaitFirst waits for the first event on fd and returns fd as a file. It waits in
// the network poller: many commands change nothing, and a thread that blocks in
// the kernel for each of them would delay other goroutines.
func awaitFirst(fd int) *os.File {
	unix.SetNonblock(fd, true) // only while waiting
	f := os.NewFile(uintptr(fd), "seccomp listener")
	conn, err := f.SyscallConn()
	if err != nil {
		return f
	}
	// If this fails, listen waits instead.
	conn.Read(func(fd uintptr) bool {
		now := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(now, 0)
		return n != 0 || err != nil && err != unix.EINTR
	})
	unix.SetNonblock(fd, false)
	return f
}

func ioctl(fd int, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// answer lets the call n continue, or refuses a socket, and records what the
// sandbox does with it. It holds the lock meanwhile, so that Denials, called after
// the process has ended, sees the result.
func (w *Watch) answer(fd int, n notification) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := answer{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if n.nr == unix.SYS_SOCKET {
		a.flags, a.errno = 0, -int32(unix.EPERM)
		ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a))
		w.add(Denial{Op: "network", Why: "the network is off"})
		return
	}
	// Read its memory and folders while it waits, and the rest afterwards.
	targets := n.targets()
	ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a))
	for _, t := range targets {
		if why := w.refusal(t); why != "" {
			w.add(Denial{Op: "write", Path: t.path, Why: why})
		}
	}
}

// A target is an absolute path that a call would change.
type target struct {
	path  string
	entry bool
}

// targets returns the paths that the call n would change. It returns none if the
// call fails by itself.
func (n notification) targets() []target {
	call, ok := watchedCalls[uint32(n.nr)]
	if !ok {
		call = legacyWatchedCalls[uint32(n.nr)]
	}
	var targets []target
	for _, p := range call.paths {
		path, err := readString(int(n.pid), n.args[p.path])
		if err != nil || path == "" {
			continue
		}
		if !filepath.IsAbs(path) {
			folder := "cwd"
			if p.dir >= 0 && int32(n.args[p.dir]) != unix.AT_FDCWD {
				folder = fmt.Sprintf("fd/%d", int32(n.args[p.dir]))
			}
			dir, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", n.pid, folder))
			if err != nil || !filepath.IsAbs(dir) {
				continue
			}
			path = dir + "/" + path
		}
		var st unix.Stat_t
		there := unix.Lstat(path, &st) == nil
		need := p.requires.of(n.args[p.flags])
		if need == absent && there || need == present && !there {
			return nil
		}
		targets = append(targets, target{path, p.entry})
	}
	return targets
}

// readString reads the string at address in the memory of the process pid.
func readString(pid int, address uint64) (string, error) {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return "", err
	}
	defer mem.Close()
	// Read page by page: the next page may not be mapped.
	var text []byte
	for len(text) < unix.PathMax {
		page := make([]byte, 4096-address%4096)
		got, err := mem.ReadAt(page, int64(address))
		if end := bytes.IndexByte(page[:got], 0); end >= 0 {
			return string(append(text, page[:end]...)), nil
		}
		if err != nil {
			return "", err
		}
		text = append(text, page...)
		address += uint64(len(page))
	}
	return "", errors.New("not a path")
}

// refusal returns why the sandbox refuses to change t, or "" if it does not, or if
// the file's own permissions refuse it anyway. This process is confined to the
// same plan, so it can ask the kernel.
func (w *Watch) refusal(t target) string {
	path := t.path
	if strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/dev/") && !isBelow(path, "/dev/shm") {
		return ""
	}
	folder := filepath.Dir(strings.TrimRight(path, "/"))
	if t.entry {
		// A protected file is a mount of its own in a writable folder.
		if unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_SYMLINK_NOFOLLOW) == unix.EROFS {
			return isReadOnly
		}
		return w.writeRefusal(folder)
	}
	if err := unix.Access(path, unix.W_OK); err == unix.ENOENT {
		return w.writeRefusal(folder)
	}
	return w.writeRefusal(path)
}

const (
	isReadOnly = "it is read-only in the sandbox"
	isOutside  = "it is outside the writable roots"
)

// writeRefusal returns why the sandbox refuses to write path, which exists, or "".
func (w *Watch) writeRefusal(path string) string {
	err := unix.Access(path, unix.W_OK)
	switch {
	case err == unix.EROFS:
		return isReadOnly
	case err == nil && w.roots != nil && !w.belowRoots(path):
		return isOutside
	}
	return ""
}

// belowRoots reports whether path, which exists, is below a writable root.
func (w *Watch) belowRoots(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return true // unknown: report nothing
	}
	return isBelowAny(real, w.roots)
}
