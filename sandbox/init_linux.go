package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
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

	"toolgate/internal/bytestring"
)

// initName is the argument that identifies the first process of a sandbox.
// Starting it by hand only confines the caller.
const initName = "toolgate-sandbox-init"

// planVar is the environment variable that passes the plan to this executable
// when it runs inside.
const planVar = "TOOLGATE_SANDBOX"

var (
	mainCalled bool
	current    *Plan // the plan of this process, set once by Main
)

// Main lets this executable start sandboxes. It must be the first call in main
// and in TestMain. In the first process of a sandbox it sets up the sandbox, runs
// the program, reaps processes and never returns. Otherwise it returns at once.
//
// In a program that runs inside, Main also sets close-on-exec on the descriptors
// it was given and keeps other processes from reading its memory.
func Main() {
	mainCalled = true
	if len(os.Args) == 2 && os.Args[1] == initName {
		runInit()
	}
	if text, ok := os.LookupEnv(planVar); ok {
		os.Unsetenv(planVar)
		adoptPlan(text)
	}
}

// init sets the name that top and ps show for a process that was started by an
// uninformative path such as /proc/self/exe. That is the name of the main thread, on
// which Main may no longer run.
func init() {
	name := ""
	if _, ok := os.LookupEnv(planVar); ok {
		name = "toolgate\x00"
	}
	if len(os.Args) == 2 && os.Args[1] == initName {
		name = "toolgate-init\x00"
	}
	if name != "" {
		unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(unsafe.StringData(name))), 0, 0, 0)
	}
}

// Current returns the plan that this process is confined to. It returns false
// unless the process was started by a [Cmd] from the same executable and really
// is confined.
func Current() (Plan, bool) {
	if current == nil {
		return Plan{}, false
	}
	return *current, true
}

// adoptPlan sets the plan that this process was started with as its current one.
func adoptPlan(text string) {
	var plan Plan
	err := json.Unmarshal([]byte(text), &plan)
	plan = bytestring.Unescape(plan)
	if err != nil || plan.Digest == "" || plan.seal().Digest != plan.Digest {
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

// closeOnExec sets close-on-exec on every descriptor but the standard ones.
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

// runInit is the first process of a sandbox: pid 1 of its pid namespace or,
// without one, a supervisor beside the program.
func runInit() {
	// Per-thread settings are made on one thread.
	runtime.LockOSThread()
	send := reportWriter(os.NewFile(reportFd, "report"))
	cfg, requests, err := readInitConfig()
	pid := 0
	if err == nil {
		pid, err = setup(&cfg, send)
	}
	if err != nil {
		if pid != 0 && !cfg.Plan.namespaces() {
			killDescendants()
		}
		_, refused := errors.AsType[*setupError](err)
		send(report{Error: err.Error(), Denied: refused})
		unix.Exit(1)
	}
	send(report{Notes: cfg.Notes})
	releaseStdio()
	if cfg.AllowRescan && cfg.Plan.confined() {
		go newRescanner(cfg).serve(requests, send) // ends with the process
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
	send(r)
	unix.Exit(0)
}

// setup sets up the sandbox and starts the program in it. It returns the
// program's id, also with an error if the program was started. For a probe, it
// reports success and exits.
func setup(cfg *initConfig, send func(report)) (pid int, err error) {
	if err := prepare(cfg); err != nil {
		return 0, err
	}
	if cfg.ListenerFd > 0 {
		if err := sendListener(cfg.ListenerFd); err != nil {
			return 0, err
		}
	}
	if cfg.Probe {
		send(report{})
		unix.Exit(0)
	}
	pid, notes, err := startConfined(*cfg)
	cfg.Notes = append(cfg.Notes, notes...)
	if err == nil && cfg.Plan.confined() && !cfg.Plan.namespaces() {
		// Without namespaces, these are the user's capabilities. In namespaces
		// they are worth nothing outside, and rescans need some.
		err = step("dropping capabilities", dropCapabilitiesElsewhere())
	}
	return pid, err
}

// releaseStdio replaces the standard streams of this process with /dev/null, so
// that readers of the program's output see EOF when the program ends.
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

// killNamespace kills every other process of this pid namespace, of which this is
// pid 1, and returns when none is left. The kernel would do the same when this
// process exits, but the parent would then also wait for the unmounting.
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

// A setupError is a setup step that the system refused.
type setupError struct {
	step string
	err  error
}

func (e *setupError) Error() string { return e.step + ": " + e.err.Error() }
func (e *setupError) Unwrap() error { return e.err }

// step returns err as a [setupError] of the named step, or nil if err is nil.
func step(name string, err error) error {
	if err == nil {
		return nil
	}
	return &setupError{name, err}
}

// readInitConfig reads the config. From then on it ends the sandbox when the
// starting process ends.
//
// After the config, the lifeline carries the result of the prescan, if any, and
// then rescan requests.
func readInitConfig() (cfg initConfig, requests chan struct{}, err error) {
	requests = make(chan struct{}, 1) // each is answered before the next is sent
	if err := closeOnExec(); err != nil {
		return initConfig{}, requests, step("close_range", err)
	}
	lifeline := json.NewDecoder(os.NewFile(configFd, "config"))
	if err = lifeline.Decode(&cfg); err != nil {
		return cfg, requests, fmt.Errorf("reading the sandbox config: %w", err)
	}
	cfg = bytestring.Unescape(cfg)
	end := func() {
		if !cfg.Plan.namespaces() {
			killDescendants()
		}
		unix.Exit(1) // when pid 1 exits, the kernel kills the whole namespace
	}
	if !cfg.Plan.namespaces() {
		// Orphans are reparented to this process, so that it can kill them.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return cfg, requests, step("subreaper", err)
		}
		// A signal to this process ends the whole sandbox. With a pid namespace
		// that needs no handler: pid 1 dies, and the kernel kills the rest.
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
		go func() { // ends with the process
			<-signals
			end()
		}()
	}
	prescanned := make(chan *scanResult, 1)
	if cfg.Prescan {
		cfg.prescanned = prescanned
	}
	go func() { // ends with the process
		if cfg.Prescan {
			var f *scanResult
			if lifeline.Decode(&f) != nil {
				end()
			}
			prescanned <- bytestring.Unescape(f)
		}
		for {
			var request string
			if lifeline.Decode(&request) != nil {
				end()
			}
			requests <- struct{}{}
		}
	}()
	return cfg, requests, nil
}

// prepare gives this process the file system view of the program and completes
// cfg with what is known only inside.
func prepare(cfg *initConfig) error {
	if !cfg.Plan.confined() {
		return nil
	}
	var err error
	if cfg.resolved, err = cfg.Plan.resolve(); err != nil {
		return err
	}
	if cfg.Self {
		// The path may not be visible once the mounts are in place.
		if cfg.exe, err = openSelf(cfg.Plan); err != nil {
			return step("opening the executable", err)
		}
	}
	switch cfg.Plan.Level {
	case Full:
		cfg.pins, cfg.Notes, err = setupMounts(cfg.resolved, cfg.prescanned)
	case Bwrap:
		var notes []string
		notes, err = verifyMounts(cfg.Overrides)
		cfg.Notes = append(cfg.Notes, notes...)
	}
	return err
}

// openSelf opens the current executable. At level full it does so through a
// read-only mount, provided the executable is still at its path: a program can
// reopen its own executable through the mount that it was started from.
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
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_SYMLINK_NOFOLLOW
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, flags)
	if err != nil {
		return fd, nil
	}
	id := idOf(st)
	if id.check(tree) != nil || setMountAttr(tree, unix.MOUNT_ATTR_RDONLY|plainMount, 0) != nil {
		unix.Close(tree)
		return fd, nil
	}
	unix.Close(fd)
	return tree, nil
}

// resolve returns p with symlinks in its paths resolved. At level landlock, patterns
// are also replaced by the paths they match.
func (p Plan) resolve() (Plan, error) {
	var err error
	if p.Profile.WritableRoots, err = realRoots(p.Profile.WritableRoots); err != nil {
		return p, err
	}
	p.Profile.SharedRoots = realNames(p.Profile.SharedRoots)
	p.Profile.Hidden = withRealNames(p.Profile.Hidden)
	paths := &p.Profile.Paths
	paths.Denied = withRealNames(paths.Denied)
	if p.Level != Landlock {
		return p, nil
	}
	matched, err := findGlobs(paths.DeniedGlobs, paths.GlobDepth)
	if err != nil {
		return p, err
	}
	paths.Denied = sorted(slices.Concat(paths.Denied, matched))
	paths.Readable = realNames(paths.Readable)
	return p, nil
}

// startConfined starts the program from a thread that is confined to the plan.
// Notes say what could not be protected.
//
// The thread is not the main one, which represents the whole process: in the
// program's own Landlock domain, the program could signal it.
func startConfined(cfg initConfig) (pid int, notes []string, err error) {
	done := make(chan struct{})
	go func() {
		// The thread is never unlocked and never ends: because of Pdeathsig,
		// the program would be killed with it.
		runtime.LockOSThread()
		lowerRlimits(cfg.Rlimits)
		if cfg.Plan.Level == Landlock { // with namespaces, see limitNamespaces
			os.WriteFile("/proc/self/oom_score_adj", []byte("300"), 0)
		}
		if notes, err = pinSymlinks(cfg.Overrides); err == nil {
			err = confine(cfg)
		}
		if err == nil {
			pid, err = startProgram(cfg)
		}
		close(done)
		select {}
	}()
	<-done
	return pid, notes, err
}

// startProgram starts the program as a child of this process, in its own
// session.
func startProgram(cfg initConfig) (pid int, err error) {
	program := "/proc/self/exe"
	env := cfg.Env
	if cfg.Self {
		if cfg.exe != 0 {
			program = fmt.Sprintf("/proc/self/fd/%d", cfg.exe)
		}
		text, err := json.Marshal(bytestring.Escape(cfg.Plan))
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

// startError returns err with the working folder or the program that caused it.
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

// confine restricts this thread, and what it starts, to the plan.
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
		// This opens the roots, so it comes before dropping capabilities.
		if err := domain(plan, cfg.Self, listFolder).enter(); err != nil {
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

// realRoots returns roots with symlinks resolved. Each must be a folder.
func realRoots(roots []string) ([]string, error) {
	var real []string
	for _, root := range roots {
		path, err := filepath.EvalSymlinks(root)
		if err != nil {
			return nil, fmt.Errorf("writable root %s: %w", root, errors.Unwrap(err))
		}
		// A symlink that a sandbox can create could point to any folder.
		if path != root && slices.ContainsFunc(roots, func(r string) bool { return r != root && isBelow(root, r) }) {
			return nil, fmt.Errorf("writable root %s: leads to %s by a symlink in another writable root; "+
				"name the folder itself", root, path)
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

// realNames returns paths with symlinks resolved. It leaves out paths that do not
// exist.
func realNames(paths []string) []string {
	var real []string
	for _, path := range paths {
		if name, err := filepath.EvalSymlinks(path); err == nil {
			real = append(real, name)
		}
	}
	return real
}

// withRealNames returns paths together with their resolved forms.
func withRealNames(paths []string) []string {
	return sorted(slices.Concat(paths, realNames(paths)))
}

// lookPath finds the program called name as a shell in dir with env would, but
// ignores relative folders in PATH.
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
			continue // programs of the workspace are named with a slash
		}
		file := filepath.Join(folder, name)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: program not found in PATH", name)
}

// reap waits for the program and reaps every other child of this process.
func reap(program int) unix.WaitStatus {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return unix.WaitStatus(unix.SIGKILL) // reaped by killDescendants
		case pid == program && (status.Exited() || status.Signaled()):
			return status
		}
	}
}
