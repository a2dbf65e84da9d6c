package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// A Spawner starts commands that are held to a plan and cannot reach the
// process that starts them: neither signal it, nor trace it, nor read it.
//
// It keeps an operating system thread of its own on which the restrictions
// lie. A command is forked from that thread and inherits them, which costs no
// more than a plain start.
type Spawner struct {
	direct bool // nothing to restrict

	jobs  chan spawnJob
	ended chan struct{} // closed when the thread has gone

	closing sync.Once
	stop    chan struct{} // closed by Close
}

type spawnJob struct {
	cmd *exec.Cmd
	err chan error
}

// NewSpawner returns a Spawner for commands held to p, which is the plan of
// this process or a narrower one. Close ends it.
func NewSpawner(p Plan) (*Spawner, error) {
	if p.Digest == "" {
		return nil, errors.New("sandbox: plan was not made by NewPlan")
	}
	s := &Spawner{
		direct: !p.confined(),
		jobs:   make(chan spawnJob),
		ended:  make(chan struct{}),
		stop:   make(chan struct{}),
	}
	if s.direct {
		close(s.ended)
		return s, nil
	}
	ready := make(chan error)
	go s.serve(p, ready) // ends with Close
	if err := <-ready; err != nil {
		return nil, err
	}
	return s, nil
}

// Start is cmd.Start, with the command held to the plan. Its descendants are
// too, whatever they do. The thread outlives every command, so Pdeathsig in
// cmd.SysProcAttr means the end of this process or Close. Start may be called
// concurrently; commands are started one at a time.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	if s.direct {
		return cmd.Start()
	}
	job := spawnJob{cmd, make(chan error, 1)}
	select {
	case s.jobs <- job:
		return <-job.err
	case <-s.ended:
		return errors.New("sandbox: the spawner is closed")
	}
}

// Close ends the spawner and waits for its thread. Commands that run go on.
func (s *Spawner) Close() error {
	s.closing.Do(func() { close(s.stop) })
	<-s.ended
	return nil
}

// serve restricts its thread and starts commands from it.
func (s *Spawner) serve(p Plan, ready chan<- error) {
	// Never unlocked: the thread ends with this goroutine.
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The main thread stands for the process in /proc and for kill. While
		// it is held here, a further goroutine gets another thread.
		go s.serve(p, ready)
		<-s.ended
		runtime.UnlockOSThread()
		return
	}
	defer close(s.ended)
	if err := restrictThread(p); err != nil {
		ready <- err
		return
	}
	ready <- nil
	for {
		select {
		case job := <-s.jobs:
			job.err <- job.cmd.Start()
		case <-s.stop:
			return
		}
	}
}

// restrictThread holds this thread to p, and off the process it belongs to.
func restrictThread(p Plan) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if p.ABI > 0 {
		if err := domain(p, listFolder).enter(); err != nil {
			return err
		}
	}
	return filterThread(append(filterRules(p), workerRules(os.Getpid(), unix.Gettid())...))
}

// workerRules keep a command off the process that started it. Landlock does
// most of that, but the thread that starts commands is in the commands' own
// domain: to Landlock it is one of them.
func workerRules(pid, tid int) []rule {
	worker := []uint32{uint32(pid), uint32(tid), uint32(-pid)}
	firstArg := []cond{{arg: 0, op: oneOf, vals: worker}}
	secondArg := []cond{{arg: 1, op: oneOf, vals: worker}}
	return []rule{
		{calls: []uint32{unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_OPEN}, when: firstArg, do: eperm,
			why: "signals the worker"},
		{calls: []uint32{unix.SYS_TGKILL, unix.SYS_RT_TGSIGQUEUEINFO}, when: secondArg, do: eperm,
			why: "signals the worker"},
		{calls: []uint32{unix.SYS_PIDFD_SEND_SIGNAL}, do: enosys,
			why: "an open folder of /proc names a process too; programs fall back to kill"},
		{calls: []uint32{unix.SYS_PRLIMIT64}, when: []cond{{arg: 0, op: nonZero}, {arg: 2, op: nonZero}}, do: eperm,
			why: "a limit of no processor time ends the worker"},
		{calls: []uint32{unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETAFFINITY}, when: firstArg, do: eperm,
			why: "slows the worker down"},
		{calls: []uint32{unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET}, when: secondArg, do: eperm,
			why: "slows the worker down"},
	}
}
