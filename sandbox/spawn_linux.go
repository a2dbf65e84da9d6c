package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"toolgate/policy"
)

// A Spawner starts commands that are confined to a plan and cannot signal, trace
// or read the process that starts them.
//
// A command is forked from a restricted operating system thread and inherits the
// restrictions, so starting it costs no more than a plain start.
type Spawner struct {
	plan    Plan
	ruleset int // descriptor of the commands' Landlock ruleset, -1 for none
	cgroup  *os.File

	plain, watched []bpfInstr // see filters

	jobs  chan spawnJob
	spare chan *watcher // holds one for the next watched command
}

type spawnJob struct {
	cmd *exec.Cmd
	err chan error
}

// NewSpawner returns a Spawner for commands confined to p, which is the plan of
// this process or a narrower one. The Spawner lasts as long as the process.
func NewSpawner(p Plan) (*Spawner, error) { return NewSpawnerIn(p, nil) }

// NewSpawnerIn is [NewSpawner] for commands in another control group than this process:
// cgroup is the group's file cgroup.threads, open for writing, or nil.
func NewSpawnerIn(p Plan, cgroup *os.File) (*Spawner, error) {
	if p.Digest == "" {
		return nil, errors.New("sandbox: plan was not made by NewPlan")
	}
	s := &Spawner{plan: p, ruleset: -1, cgroup: cgroup, jobs: make(chan spawnJob), spare: make(chan *watcher, 1)}
	if !p.confined() {
		return s, nil
	}
	s.plain, s.watched = filters(p, current != nil && current.Digest == p.Digest)
	if p.ABI > 0 {
		seen := p
		var err error
		if seen.Profile.WritableRoots, err = realRoots(p.Profile.WritableRoots); err != nil {
			return nil, err
		}
		if current != nil && current.Level == Landlock {
			// This whole process cannot read them already, and may not even list
			// the folders that contain them.
			seen.Profile.Hidden, seen.Profile.Paths.Denied = nil, nil
		}
		if s.ruleset, err = domain(seen, false, listFolder).ruleset(); err != nil {
			return nil, err
		}
	}
	ready := make(chan error)
	go offMainThread(func() { // ends with the process
		_, err := s.restrict(s.plain, 0)
		ready <- err
		if err != nil {
			return
		}
		for job := range s.jobs {
			job.err <- job.cmd.Start()
		}
	})
	if err := <-ready; err != nil {
		unix.Close(s.ruleset)
		return nil, err
	}
	return s, nil
}

// Start is cmd.Start, with the command and all its descendants confined to the
// plan. The thread outlives every command, so Pdeathsig in cmd.SysProcAttr refers
// to the end of this process. Start may be called concurrently; commands are
// started one at a time.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	if !s.plan.confined() {
		return cmd.Start()
	}
	ownGroup(cmd)
	job := spawnJob{cmd, make(chan error)}
	s.jobs <- job
	return <-job.err
}

// ownGroup puts cmd into its own process group, unless it gets its own session or
// group already: kill with pid 0 signals the caller's whole group, and no filter
// can tell which one that is.
func ownGroup(cmd *exec.Cmd) {
	attr := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr
	}
	if attr.Setsid || attr.Setpgid || attr.Foreground {
		return
	}
	attr.Setpgid = true
	cmd.SysProcAttr = &attr
}

// offMainThread runs f on an operating system thread of its own and returns when f
// has. The thread ends with f. It is not the main thread, which represents the
// process in /proc and for kill.
func offMainThread(f func()) {
	// Never unlocked, so that the thread ends with the goroutine.
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		f()
		return
	}
	// While the main thread is locked here, another goroutine runs on another one.
	done := make(chan struct{})
	go func() {
		defer close(done)
		offMainThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

// filters returns the filters of commands and of watched commands, except for the
// thread id, because assembling a filter takes as long as installing it. Held says
// that this process has the worker filter of p, which applies to each command too;
// its rules are left out, because the kernel compiles every filter row by row.
func filters(p Plan, held bool) (plain, watched []bpfInstr) {
	rules := workerRules(os.Getpid(), someThread)
	if held {
		rules = append(rules, beyondWorkerRules(p)...)
	} else {
		rules = append(rules, filterRules(p)...)
	}
	plain = assemble(auditArch, rules)
	if p.Profile.Network == policy.NetworkNone {
		rules = slices.Concat(socketWatchRules, rules)
	}
	return plain, assemble(auditArch, append(rules, pathWatchRules()...))
}

// someThread is the placeholder for the thread id in a filter. It is greater than
// any id that Linux assigns.
const someThread = 1<<31 - 1

// forThread returns prog with someThread replaced by tid.
func forThread(prog []bpfInstr, tid int) []bpfInstr {
	prog = slices.Clone(prog)
	for i := range prog {
		if prog[i].Code == bpfJeq && prog[i].K == someThread {
			prog[i].K = uint32(tid)
		}
	}
	return prog
}

// restrictWatched is restrict for a watched command, with a listener for its
// notifications.
func (s *Spawner) restrictWatched() (listener int, err error) {
	const listen = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	// Do not restart a pending call for each signal: some programs send
	// themselves hundreds a second.
	listener, err = s.restrict(s.watched, listen|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errors.Is(err, unix.EINVAL) { // Linux before 5.19
		listener, err = s.restrict(s.watched, listen)
	}
	return listener, err
}

// restrict confines this thread to the plan with filter, and keeps it from reaching
// the process it belongs to.
func (s *Spawner) restrict(filter []bpfInstr, flags uintptr) (fd int, err error) {
	if s.cgroup != nil {
		if _, err := s.cgroup.WriteString("0"); err != nil { // this thread
			return -1, err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("no_new_privs: %w", err)
	}
	if s.ruleset >= 0 {
		if err := enterRuleset(s.ruleset); err != nil {
			return -1, err
		}
	}
	return installFilter(forThread(filter, unix.Gettid()), flags)
}

// workerRules keep a command from reaching the process that started it. Landlock
// does most of that, but the thread that starts commands is in the same Landlock
// domain as they are.
func workerRules(pid, tid int) []rule {
	const everyone = -1
	all := int32(everyone)
	worker := []uint32{uint32(pid), uint32(tid), uint32(-pid), uint32(all)}
	firstArg := []cond{{arg: 0, op: oneOf, vals: worker}}
	secondArg := []cond{{arg: 1, op: oneOf, vals: worker}}
	return []rule{
		{calls: []uint32{
			unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL,
			unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_OPEN,
		},
			when: firstArg, do: eperm,
			why: "signals the worker"},
		{calls: []uint32{unix.SYS_TGKILL, unix.SYS_RT_TGSIGQUEUEINFO}, when: secondArg, do: eperm,
			why: "signals the worker"},
		{calls: []uint32{unix.SYS_PIDFD_SEND_SIGNAL}, do: enosys,
			why: "an open folder of /proc names a process too; programs fall back to kill"},
		{calls: []uint32{unix.SYS_FCNTL}, when: []cond{{arg: 1, op: oneOf, vals: []uint32{unix.F_SETSIG}}}, do: eperm,
			why: "with F_SETOWN, has the kernel send the worker any signal"},
		{calls: []uint32{unix.SYS_PRLIMIT64}, when: []cond{{arg: 0, op: nonZero}, {arg: 2, op: nonZero}}, do: eperm,
			why: "a limit of no processor time ends the worker"},
		{calls: schedulerCalls,
			when: firstArg, do: eperm,
			why: "slows the worker down"},
		{calls: []uint32{unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET}, when: secondArg, do: eperm,
			why: "slows the worker down"},
		{calls: []uint32{unix.SYS_SETPRIORITY},
			when: []cond{{arg: 0, op: oneOf, vals: []uint32{unix.PRIO_USER}}}, do: eperm,
			why: "slows the worker down, which is the same user's"},
	}
}
