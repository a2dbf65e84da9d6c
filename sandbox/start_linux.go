package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"toolgate/internal/bytestring"
)

// Descriptors of the first process beside the standard ones.
const (
	configFd = 3 + iota
	reportFd
	firstExtraFd
)

// Start starts the program and returns once it runs inside the sandbox. If
// setting up fails, nothing is left running. The error wraps [ErrUnsupported] if
// the system refused the sandbox itself.
func (c *Cmd) Start() error {
	cfg, err := c.initConfig()
	if err != nil {
		return err
	}
	return c.launch(cfg)
}

// initConfig returns what the first process of c needs to know.
func (c *Cmd) initConfig() (initConfig, error) {
	if err := c.check(); err != nil {
		return initConfig{}, err
	}
	dir := c.Dir
	if !filepath.IsAbs(dir) {
		var err error
		if dir, err = filepath.Abs(dir); err != nil {
			return initConfig{}, fmt.Errorf("working folder: %w", err)
		}
	}
	cfg := initConfig{
		Plan: c.plan, Args: c.Args, Env: c.Env, Dir: dir, Extra: len(c.ExtraFiles), AllowRescan: c.AllowRescan,
		Rlimits: c.Rlimits,
	}
	self, err := os.Executable()
	if c.Args[0] == "" || err == nil && c.Args[0] == self {
		cfg.Self = true
		cfg.Args = slices.Clone(c.Args)
		cfg.Args[0] = self
	}
	for _, s := range slices.Concat(cfg.Args, cfg.Env, []string{dir}) {
		if strings.ContainsRune(s, 0) {
			return initConfig{}, errors.New("sandbox: an argument or variable contains a zero byte")
		}
	}
	return cfg, nil
}

// launch starts the first process, sends it cfg and waits for its first report.
func (c *Cmd) launch(cfg initConfig) error {
	if !mainCalled {
		// The first process is this binary again. Without Main it would not set
		// up a sandbox.
		return errors.New("sandbox: Main was not called at the start of main")
	}
	configR, configW, err := os.Pipe()
	if err != nil {
		return err
	}
	reportR, reportW, err := os.Pipe()
	if err != nil {
		configR.Close()
		configW.Close()
		return err
	}
	c.link = &link{lifeline: configW, reports: json.NewDecoder(reportR), file: reportR}
	c.setupInner(configR, reportW)
	opened := []*os.File{configR, reportW}
	var listener *os.File // receives the proxy's listener
	if cfg.Plan.proxied() {
		var inside *os.File
		if listener, inside, err = listenerSocketpair(); err != nil {
			c.link.closeLifeline()
			return errors.Join(err, configR.Close(), reportR.Close(), reportW.Close())
		}
		defer listener.Close()
		cfg.ListenerFd = 3 + len(c.inner.ExtraFiles)
		c.inner.ExtraFiles = append(c.inner.ExtraFiles, inside)
		opened = append(opened, inside)
	}
	files, err := c.useLevel(&cfg)
	opened = append(opened, files...)
	if err == nil {
		if err = c.inner.Start(); err != nil && cfg.Plan.Level != None {
			err = fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
	}
	for _, f := range opened {
		f.Close()
	}
	if err != nil {
		c.link.closeLifeline()
		reportR.Close()
		return fmt.Errorf("starting the sandbox: %w", err)
	}
	send := json.NewEncoder(configW)
	send.Encode(bytestring.Escape(cfg)) // if this fails, no report arrives
	if cfg.Prescan {
		send.Encode(bytestring.Escape(prescanShared(cfg.Plan)))
	}
	err = c.awaitSetup()
	if err == nil && listener != nil {
		c.listener, err = receiveListener(listener)
	}
	if err != nil {
		c.link.closeLifeline()
		c.inner.Wait()
		reportR.Close()
	}
	return err
}

// setupInner describes the first process, which reads its config from config
// and writes its reports to report.
func (c *Cmd) setupInner(config, report *os.File) {
	c.inner.Path = "/proc/self/exe"
	c.inner.Args = []string{"toolgate", initName}
	c.inner.Env = initEnv
	c.inner.Dir = "/"
	c.setStdio()
	c.inner.ExtraFiles = append([]*os.File{config, report}, c.ExtraFiles...)
	c.inner.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.Cgroup != nil {
		c.inner.SysProcAttr.UseCgroupFD, c.inner.SysProcAttr.CgroupFD = true, int(c.Cgroup.Fd())
	}
}

// useLevel makes the first process start at the level of cfg's plan. It returns
// the files to close once the process has started.
func (c *Cmd) useLevel(cfg *initConfig) (files []*os.File, err error) {
	switch cfg.Plan.Level {
	case Full:
		cfg.Prescan = cfg.Plan.needsPrescan()
		cfg.AllIDs = useNamespaces(c.inner.SysProcAttr, cfg.Plan.Profile.Network)
	case Bwrap:
		return c.useBwrap(cfg)
	}
	return nil, nil
}

// awaitSetup waits for the first report, which says whether the program runs.
func (c *Cmd) awaitSetup() error {
	r, err := c.link.nextReport()
	if err != nil {
		return fmt.Errorf("starting the sandbox: %w: its first process ended before it was set up", ErrUnsupported)
	}
	c.notes.Store(&r.Notes)
	switch {
	case r.Error == "":
		return nil
	case r.Denied:
		return fmt.Errorf("starting the sandbox: %w: %s", ErrUnsupported, r.Error)
	}
	return fmt.Errorf("starting the sandbox: %s", r.Error)
}

// Wait waits for the program and everything it started to end, and for its
// output to be copied. The error is an [*ExitError] if the program ran and did
// not exit with 0.
func (c *Cmd) Wait() error {
	if c.link == nil {
		return errors.New("sandbox: not started")
	}
	c.awaitExit()
	rep, rerr := c.link.lastReport()
	err := c.inner.Wait()
	c.link.file.Close()
	if c.listener != nil {
		c.listener.Close() // nothing is left that could connect
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err // copying the output
	}
	return rep.exitError(rerr)
}

// awaitExit waits until the first process has exited, without reaping it, so that
// its id is not reused. If something else killed it, closing the lifeline ends what
// it left behind.
func (c *Cmd) awaitExit() {
	for unix.Waitid(unix.P_PID, c.Pid(), nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	c.link.closeLifeline()
}

// WaitEnded is [Cmd.Wait] for a caller that is about to exit. It returns when the
// program and everything it started have ended, and leaves tearing down the
// sandbox to the kernel. If output has to be copied, it is the same as Wait.
func (c *Cmd) WaitEnded() error {
	for _, std := range []any{c.Stdin, c.Stdout, c.Stderr} {
		if _, isFile := std.(*os.File); std != nil && !isFile {
			return c.Wait()
		}
	}
	if c.link == nil {
		return errors.New("sandbox: not started")
	}
	go c.awaitExit() // ends with the first process
	rep, rerr := c.link.lastReport()
	return rep.exitError(rerr)
}

// Kill kills everything in the sandbox. The caller must still call Wait.
func (c *Cmd) Kill() error {
	if c.link == nil {
		return errors.New("sandbox: not started")
	}
	c.link.closeLifeline()
	return nil
}

// initEnv is the environment of the first process, which needs little memory and
// few threads.
var initEnv = []string{"GOGC=off", "GOMAXPROCS=2"}
