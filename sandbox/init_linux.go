package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

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
	if len(os.Args) == 2 && os.Args[1] == initName {
		setProcessName("toolgate-init")
		runInit()
	}
	if text, ok := os.LookupEnv(planVar); ok {
		os.Unsetenv(planVar)
		setProcessName("toolgate")
		adoptPlan(text)
	}
}

// setProcessName sets what top and ps call this process. Both were started by a
// path that says nothing, as exe is.
func setProcessName(name string) {
	text, err := unix.ByteSliceFromString(name)
	if err != nil || unix.Gettid() != os.Getpid() { // the main thread's name is the process's
		return
	}
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&text[0])), 0, 0, 0)
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

// adoptPlan takes over the plan that this process was started with.
func adoptPlan(text string) {
	var plan Plan
	if json.Unmarshal([]byte(text), &plan) != nil || plan.Digest == "" || plan.seal().Digest != plan.Digest {
		return
	}
	if plan.confined() {
		if !isFiltered() {
			return
		}
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	closeOnExec()
	current = &plan
}

// isFiltered reports whether this thread has no_new_privs and a seccomp filter.
func isFiltered() bool {
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
	err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if err != unix.ENOSYS && err != unix.EINVAL {
		return err
	}
	// Linux before 5.11.
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range dir {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// runInit is the first process of a sandbox: pid 1 of its pid namespace, or,
// without one, a supervisor beside the program.
func runInit() {
	// What is set up per thread is set up on one thread.
	runtime.LockOSThread()
	tell := reportWriter(os.NewFile(reportFd, "report"))
	cfg, requests, err := readInitConfig()
	if err == nil {
		err = prepare(&cfg)
	}
	if err == nil && cfg.ListenerFd > 0 {
		err = sendListener(cfg.ListenerFd)
	}
	if err == nil && cfg.Probe {
		tell(report{})
		unix.Exit(0)
	}
	pid := 0
	if err == nil {
		var notes []string
		pid, notes, err = startConfined(cfg)
		cfg.notes = append(cfg.notes, notes...)
	}
	looks := cfg.AllowRescan && cfg.Plan.confined()
	if err == nil && cfg.Plan.confined() && !cfg.Plan.namespaces() {
		// Those of namespaces of one's own are good for nothing outside, and
		// some are needed to look again; these are the user's.
		err = step("dropping capabilities", dropCapabilitiesElsewhere())
	}
	if err != nil {
		if pid != 0 && !cfg.Plan.namespaces() {
			killDescendants()
		}
		_, refused := errors.AsType[*setupError](err)
		tell(report{Error: err.Error(), Denied: refused})
		unix.Exit(1)
	}
	tell(report{Notes: cfg.notes})
	releaseStdio()
	if looks {
		go newRescanner(cfg).serve(requests, tell) // ends with the process
	}
	status := reap(pid)
	if cfg.Plan.namespaces() {
		killNamespace()
	} else {
		killDescendants()
	}
	r := report{Code: status.ExitStatus()}
	if status.Signaled() {
		r = report{Signal: int(status.Signal())}
	}
	tell(r)
	unix.Exit(0)
}

// releaseStdio lets go of the program's standard streams: who reads what it
// writes sees the end of that when the program, and not this process, is done.
func releaseStdio() {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(null)
	for fd := range 3 {
		unix.Dup3(null, fd, 0)
	}
}

// killNamespace ends every other process of this pid namespace, of which this
// is the first, and returns when none is left. The kernel would do it at the
// end of this one: but then whoever waits for that waits for the mounts to be
// taken down too.
func killNamespace() {
	if os.Getpid() != 1 {
		return
	}
	for unix.Kill(-1, unix.SIGKILL) == nil {
		if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
			return
		}
	}
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

// readInitConfig reads the order and, from then on, ends everything when the
// process that gave it has ended.
//
// What comes down after the order is what was found early, and then requests
// to look again.
func readInitConfig() (cfg initConfig, requests chan struct{}, err error) {
	requests = make(chan struct{}, 1) // the next comes when one is answered
	if err := closeOnExec(); err != nil {
		return initConfig{}, requests, step("close_range", err)
	}
	lifeline := os.NewFile(configFd, "order")
	if err = readMessage(lifeline, &cfg); err != nil {
		return cfg, requests, fmt.Errorf("reading the order: %w", err)
	}
	if !cfg.Plan.namespaces() {
		// Orphans come to this process, so that it can find and end them.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return cfg, requests, step("subreaper", err)
		}
	}
	end := func() {
		if !cfg.Plan.namespaces() {
			killDescendants()
		}
		unix.Exit(1) // of pid 1: the kernel ends the whole namespace
	}
	// Both end with the process: the lifeline carries nothing more but requests
	// to look again, which come after the program has started, and who asks this
	// process to end means all of the sandbox. With a pid namespace that needs
	// no handler: a Go program ends by itself, and the kernel does the rest.
	early := make(chan scanResult, 1)
	if cfg.Prescan {
		cfg.prescanned = early
	}
	go func() {
		if cfg.Prescan {
			var f scanResult
			if readMessage(lifeline, &f) != nil {
				end()
			}
			early <- f
		}
		var request [1]byte
		for {
			if _, err := io.ReadFull(lifeline, request[:]); err != nil {
				end()
			}
			requests <- struct{}{}
		}
	}()
	if !cfg.Plan.namespaces() {
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
		go func() {
			<-asked
			end()
		}()
	}
	return cfg, requests, nil
}

// prepare changes what this process sees to what the program may see, and
// puts what is known only now into the order.
func prepare(cfg *initConfig) error {
	if !cfg.Plan.confined() {
		return nil
	}
	roots, err := realRoots(cfg.Plan.Profile.WritableRoots)
	if err != nil {
		return err
	}
	seen := cfg.Plan
	seen.Profile.WritableRoots = roots
	seen.Profile.SharedRoots = realNames(cfg.Plan.Profile.SharedRoots)
	seen.Profile.Hidden = withRealNames(cfg.Plan.Profile.Hidden)
	seen.Profile.Paths.Denied = withRealNames(cfg.Plan.Profile.Paths.Denied)
	if cfg.Plan.Level == Landlock {
		if seen, err = resolveForLandlock(seen); err != nil {
			return err
		}
	}
	cfg.resolved = seen
	if cfg.Self {
		// Its path may be out of sight once the mounts are made.
		if cfg.exe, err = openSelf(cfg.Plan); err != nil {
			return step("own binary", err)
		}
	}
	switch cfg.Plan.Level {
	case Full:
		cfg.notes, err = setupMounts(seen, cfg.prescanned)
	case Bwrap:
		err = verifyMounts(cfg.Overrides)
	}
	return err
}

// openSelf opens this binary. Where mounts can be made it is by one that is
// read-only, when the binary is still at its path: a program can open its own
// binary anew, by the mount that it was started from.
func openSelf(plan Plan) (fd int, err error) {
	const self = "/proc/self/exe"
	if fd, err = unix.Open(self, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil || plan.Level != Full {
		return fd, err
	}
	var st unix.Stat_t
	path, err := os.Readlink(self)
	if err != nil || unix.Fstat(fd, &st) != nil {
		return fd, nil
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fd, nil
	}
	id := fileID{uint64(st.Dev), st.Ino, st.Mode & unix.S_IFMT}
	if id.check(tree) != nil || setMountAttr(tree, unix.MOUNT_ATTR_RDONLY|plainMount, 0) != nil {
		unix.Close(tree)
		return fd, nil
	}
	unix.Close(fd)
	return tree, nil
}

// resolveForLandlock returns plan with the paths that its patterns match, and every
// name of what can be read, as Landlock needs them.
func resolveForLandlock(plan Plan) (Plan, error) {
	matched, err := findGlobs(plan.Profile.Paths.DeniedGlobs, plan.Profile.Paths.GlobDepth)
	if err != nil {
		return plan, err
	}
	plan.Profile.Paths.Denied = sorted(slices.Concat(plan.Profile.Paths.Denied, matched))
	plan.Profile.Paths.Readable = realNames(plan.Profile.Paths.Readable)
	return plan, nil
}

// startConfined starts the program from a thread that is held to the plan.
// Notes say what could not be protected.
//
// That thread is not the main one, which stands for the whole process: in the
// program's own Landlock domain, it could be signalled from there.
func startConfined(cfg initConfig) (pid int, notes []string, err error) {
	type started struct {
		pid   int
		notes []string
		err   error
	}
	done := make(chan started)
	go func() {
		// Never unlocked, and never ended: the end of this thread is the
		// end of the program, by Pdeathsig.
		runtime.LockOSThread()
		notes, err := pinSymlinks(cfg.Overrides)
		if err == nil {
			err = confine(cfg)
		}
		if err != nil {
			done <- started{0, nil, err}
			return
		}
		pid, err := startProgram(cfg)
		done <- started{pid, notes, err}
		select {}
	}()
	s := <-done
	return s.pid, s.notes, s.err
}

// startProgram starts the program. It is not the child of a process of the
// sandbox but of this one, in a session of its own.
func startProgram(cfg initConfig) (pid int, err error) {
	program := "/proc/self/exe"
	env := cfg.Env
	if cfg.Self {
		if cfg.exe != 0 {
			program = fmt.Sprintf("/proc/self/fd/%d", cfg.exe)
		}
		text, err := json.Marshal(cfg.Plan)
		if err != nil {
			return 0, err
		}
		env = append(env, planVar+"="+string(text))
	} else if program, err = lookPath(cfg.Args[0], cfg.Dir, cfg.Env); err != nil {
		return 0, err
	}
	files := []uintptr{0, 1, 2}
	for i := range cfg.Extra {
		files = append(files, uintptr(firstExtraFd+i))
	}
	pid, err = syscall.ForkExec(program, cfg.Args, &syscall.ProcAttr{
		Dir: cfg.Dir, Env: env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, startError(cfg, program, err)
	}
	return pid, nil
}

// startError says whether the folder or the program was at fault.
func startError(cfg initConfig, program string, err error) error {
	var st unix.Stat_t
	if serr := unix.Stat(cfg.Dir, &st); serr != nil {
		return fmt.Errorf("working folder %s: %w", cfg.Dir, serr)
	}
	if cfg.Self {
		program = cfg.Args[0]
	}
	return fmt.Errorf("%s: %w", program, err)
}

// confine holds this thread, and what it starts, to the plan.
func confine(cfg initConfig) error {
	if !cfg.Plan.confined() {
		return nil
	}
	plan := cfg.resolved
	keep := uint64(0)
	if os.Geteuid() == 0 && (cfg.AllIDs || plan.Level == Landlock) {
		keep = ownerCapabilities(plan.Profile.WritableRoots)
	}
	setLimits(plan)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return step("no_new_privs", err)
	}
	if plan.ABI > 0 {
		// Before the capabilities go: the roots are opened for it.
		if err := domain(plan, listFolder).enter(); err != nil {
			return step("restricting file access", err)
		}
	}
	if err := dropCapabilities(keep); err != nil {
		return step("dropping capabilities", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return step("dumpable", err)
	}
	rules := filterRules(plan)
	if cfg.Self {
		rules = workerFilterRules(plan)
	}
	rules = append(rules, workerRules(os.Getpid(), unix.Gettid())...)
	_, err := installFilter(assemble(auditArch, rules), 0)
	return step("filtering system calls", err)
}

// realRoots returns the folders that roots are once symlinks are followed.
func realRoots(roots []string) ([]string, error) {
	var real []string
	for _, root := range roots {
		path, err := filepath.EvalSymlinks(root)
		if err != nil {
			return nil, fmt.Errorf("writable root %s: %w", root, errors.Unwrap(err))
		}
		// A symlink that a sandbox can make would name any folder there is.
		if path != root && slices.ContainsFunc(roots, func(r string) bool { return r != root && isBelow(root, r) }) {
			return nil, fmt.Errorf("writable root %s: leads to %s by a symlink in another writable root; name the folder itself", root, path)
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

// realNames returns what paths are once symlinks are followed, without those
// that lead nowhere.
func realNames(paths []string) []string {
	var real []string
	for _, path := range paths {
		if name, err := filepath.EvalSymlinks(path); err == nil {
			real = append(real, name)
		}
	}
	return real
}

// withRealNames returns paths and what they are once symlinks are followed.
func withRealNames(paths []string) []string {
	return sorted(slices.Concat(paths, realNames(paths)))
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
			return unix.WaitStatus(unix.SIGKILL) // buried by killDescendants
		case pid == program && (status.Exited() || status.Signaled()):
			return status
		}
	}
}
