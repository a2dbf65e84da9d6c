package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// initName is how the first process of a sandbox is told from a normal start.
// Whoever starts it by hand only confines himself.
const initName = "toolgate-sandbox-init"

// planVar carries the plan into this binary when it is run inside.
const planVar = "TOOLGATE_SANDBOX"

var (
	mainCalled bool
	current    *Plan // what this process is held to, set once by Main
)

// Main makes this binary able to start sandboxes. It must be the first thing
// in main, and in TestMain: when the process is the first one of a sandbox,
// it sets the sandbox up, runs the program, reaps, and never returns.
// Otherwise it returns at once.
//
// In a program that runs inside, Main also closes what it was handed to the
// programs it will start, and keeps other processes from reading its memory.
func Main() {
	mainCalled = true
	if len(os.Args) == 1 && os.Args[0] == initName {
		runInit()
	}
	if text, ok := os.LookupEnv(planVar); ok {
		os.Unsetenv(planVar)
		enterWorker(text)
	}
}

// Current returns the plan that this process is held to. It is false in a
// process that was not started as this very binary by a [Cmd], or that says
// so but is not confined.
func Current() (Plan, bool) {
	if current == nil {
		return Plan{}, false
	}
	return *current, true
}

// enterWorker takes over the plan that this process was started with.
func enterWorker(text string) {
	var plan Plan
	if json.Unmarshal([]byte(text), &plan) != nil || plan.Digest == "" || plan.seal().Digest != plan.Digest {
		return
	}
	if plan.confined() {
		if !filtered() {
			return
		}
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	closeOnExec()
	current = &plan
}

// filtered reports whether this thread has no_new_privs and a seccomp filter.
func filtered() bool {
	noNewPrivs, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || noNewPrivs != 1 {
		return false
	}
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	return err == nil && mode == unix.SECCOMP_MODE_FILTER
}

// closeOnExec keeps every descriptor but the standard ones from programs that
// this process will start.
func closeOnExec() error {
	return unix.CloseRange(3, ^uint(0)>>33, unix.CLOSE_RANGE_CLOEXEC)
}

// runInit is the first process of a sandbox: pid 1 of its pid namespace, or,
// without one, a supervisor beside the program.
func runInit() {
	// What is set per thread, and dies with it, stays on this one.
	runtime.LockOSThread()
	reports := os.NewFile(reportFd, "report")
	tell := func(r report) {
		line, _ := json.Marshal(r)
		reports.Write(append(line, '\n'))
	}
	pid, plan, err := startProgram()
	if err == errProbed {
		tell(report{})
		os.Exit(0)
	}
	if err != nil {
		_, refused := errors.AsType[*setupError](err)
		tell(report{Error: err.Error(), Denied: refused})
		os.Exit(1)
	}
	tell(report{})
	status := reap(pid)
	if plan.Level != Full {
		killDescendants()
	}
	r := report{Code: status.ExitStatus()}
	if status.Signaled() {
		r = report{Signal: int(status.Signal())}
	}
	tell(r)
	os.Exit(0)
}

// A setupError is a step of the set-up that the system refused.
type setupError struct {
	step string
	err  error
}

func (e *setupError) Error() string { return e.step + ": " + e.err.Error() }
func (e *setupError) Unwrap() error { return e.err }

// step returns err as a fault of the named step, or nil.
func step(name string, err error) error {
	if err == nil {
		return nil
	}
	return &setupError{name, err}
}

// errProbed ends the first process of a sandbox that is set up only to see
// whether it can be.
var errProbed = errors.New("probed")

// startProgram sets the sandbox up and starts the program in it.
func startProgram() (pid int, plan Plan, err error) {
	if err := closeOnExec(); err != nil {
		return 0, plan, step("close_range", err)
	}
	lifeline := os.NewFile(orderFd, "order")
	o, err := readOrder(lifeline)
	if err != nil {
		return 0, plan, fmt.Errorf("reading the order: %w", err)
	}
	plan = o.Plan
	if plan.Level != Full {
		// Orphans come to this process, so that it can find and end them.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return 0, plan, step("subreaper", err)
		}
	}
	// Ends with the process: the lifeline carries nothing more.
	go func() {
		io.Copy(io.Discard, lifeline)
		if plan.Level != Full {
			killDescendants()
		}
		os.Exit(1) // of pid 1: the kernel ends the whole namespace
	}()

	program := "/proc/self/exe"
	if o.Self {
		exe, err := unix.Open(program, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0, plan, step("own binary", err)
		}
		program = fmt.Sprintf("/proc/self/fd/%d", exe)
	}
	if err := confine(o); err != nil {
		return 0, plan, err
	}
	if o.Probe {
		return 0, plan, errProbed
	}
	if !o.Self {
		if program, err = lookPath(o.Args[0], o.Dir, o.Env); err != nil {
			return 0, plan, err
		}
	}
	env := o.Env
	if o.Self {
		text, err := json.Marshal(plan)
		if err != nil {
			return 0, plan, err
		}
		env = append(env, planVar+"="+string(text))
	}
	files := []uintptr{0, 1, 2}
	for i := range o.Extra {
		files = append(files, uintptr(firstExtraFd+i))
	}
	pid, err = syscall.ForkExec(program, o.Args, &syscall.ProcAttr{
		Dir: o.Dir, Env: env, Files: files,
		// This thread lives as long as the process, so this is the death of
		// the process.
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, plan, startError(o, program, err)
	}
	return pid, plan, nil
}

// startError says whether the folder or the program was at fault.
func startError(o order, program string, err error) error {
	var st unix.Stat_t
	if serr := unix.Stat(o.Dir, &st); serr != nil {
		return fmt.Errorf("working folder %s: %w", o.Dir, serr)
	}
	if o.Self {
		program = o.Args[0]
	}
	return fmt.Errorf("%s: %w", program, err)
}

// confine holds this thread, and what it starts, to the plan.
func confine(o order) error {
	plan := o.Plan
	if !plan.confined() {
		return nil
	}
	roots, err := realRoots(plan.Profile.WritableRoots)
	if err != nil {
		return err
	}
	plan.Profile.WritableRoots = roots
	keep := uint64(0)
	if plan.Level == Full {
		if err := setupMounts(plan); err != nil {
			return err
		}
	}
	if os.Geteuid() == 0 && (o.Wide || plan.Level == Landlock) {
		keep = ownerCapabilities(plan.Profile.WritableRoots)
	}
	if plan.ABI > 0 {
		// Landlock opens the roots, which may take a capability.
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return step("no_new_privs", err)
		}
		if err := domain(plan).enter(); err != nil {
			return step("restricting file access", err)
		}
	}
	if err := dropCapabilities(keep); err != nil {
		return step("dropping capabilities", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return step("dumpable", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return step("no_new_privs", err)
	}
	return step("filtering system calls", filterThread(filterRules(plan)))
}

// realRoots returns the folders that roots are once symlinks are followed.
func realRoots(roots []string) ([]string, error) {
	var real []string
	for _, root := range roots {
		path, err := filepath.EvalSymlinks(root)
		if err != nil {
			return nil, fmt.Errorf("writable root %s: %w", root, errors.Unwrap(err))
		}
		if st, err := os.Stat(path); err != nil || !st.IsDir() {
			return nil, fmt.Errorf("writable root %s: not a folder", root)
		}
		if err := checkRoot(path); err != nil {
			return nil, err
		}
		real = append(real, path)
	}
	return sorted(real), nil
}

// lookPath finds the program named name as a shell in dir with env would.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	path := ""
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
		}
	}
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			continue // a program of the workspace is named with a slash
		}
		file := filepath.Join(folder, name)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: program not found in PATH", name)
}

// reap waits for the program and buries every other process that was left to
// this one.
func reap(program int) unix.WaitStatus {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0 // the program is always there to wait for
		case pid == program && (status.Exited() || status.Signaled()):
			return status
		}
	}
}
