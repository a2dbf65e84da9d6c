package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"toolgate/policy"
)

// An order is what the starting process tells the first process of a sandbox.
type order struct {
	Plan  Plan     `json:"plan"`
	Self  bool     `json:"self,omitempty"` // run this very binary
	Args  []string `json:"args"`
	Env   []string `json:"env"`
	Dir   string   `json:"dir"`
	Extra int      `json:"extra,omitempty"` // number of extra files
	Wide  bool     `json:"wide,omitempty"`  // every user id is mapped
	Looks bool     `json:"looks,omitempty"` // it will be asked to look again, see [Cmd.Rescan]
	Probe bool     `json:"probe,omitempty"` // set the sandbox up and end
	Made  []made   `json:"made,omitempty"`  // what bubblewrap was asked to carve out
	Door  int      `json:"door,omitempty"`  // descriptor through which the proxy's listener goes out, 0 for none

	Early bool `json:"early,omitempty"` // what was found in the shared roots comes next

	// Found out by the first process itself.
	early <-chan finds // nil without Early
	seen  Plan         // the plan with its paths as they are on disk
	exe   int          // descriptor of this binary
	notes []string     // what could not be protected
}

// A report is what the first process tells back: one when the program runs or
// could not be started, one for each look, one when it has ended.
type report struct {
	Error  string   `json:"error,omitempty"`
	Denied bool     `json:"denied,omitempty"` // the system refused the sandbox itself
	Notes  []string `json:"notes,omitempty"`  // what could not be protected

	Looked bool   `json:"looked,omitempty"` // it is one for a look
	Stale  string `json:"stale,omitempty"`  // what only a new process would be held to

	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
}

// Descriptors of the first process beside the standard ones.
const (
	orderFd = 3 + iota
	reportFd
	firstExtraFd
)

// A link is what a started sandbox hangs on. Orders go down through it; that
// it stays open is the sign that the starting process lives.
type link struct {
	once     sync.Once
	lifeline *os.File // closed to end the sandbox
	reports  *bufio.Reader
	file     *os.File // behind reports

	asking sync.Mutex // held while a report is waited for
	ended  *report    // that of the end, when it came in place of another
}

// cut ends the sandbox.
func (l *link) cut() { l.once.Do(func() { l.lifeline.Close() }) }

// Start starts the program and returns when it runs inside the sandbox. An
// error says what could not be set up, and nothing is left running. It wraps
// [ErrUnsupported] when the system refused the sandbox itself.
func (c *Cmd) Start() error {
	o, err := c.order()
	if err != nil {
		return err
	}
	return c.launch(o)
}

// order returns the order for c.
func (c *Cmd) order() (order, error) {
	if c.link != nil {
		return order{}, errors.New("sandbox: already started")
	}
	if c.plan.Digest == "" || c.plan.seal().Digest != c.plan.Digest {
		return order{}, errors.New("sandbox: plan was not made by NewPlan")
	}
	if len(c.Args) == 0 {
		return order{}, errors.New("sandbox: no program")
	}
	dir := c.Dir
	if !filepath.IsAbs(dir) {
		var err error
		if dir, err = filepath.Abs(dir); err != nil {
			return order{}, fmt.Errorf("working folder: %w", err)
		}
	}
	o := order{Plan: c.plan, Args: c.Args, Env: c.Env, Dir: dir, Extra: len(c.ExtraFiles), Looks: c.AllowRescan}
	self, err := os.Executable()
	if c.Args[0] == "" || err == nil && c.Args[0] == self {
		o.Self = true
		o.Args = slices.Clone(c.Args)
		o.Args[0] = self
	}
	for _, s := range slices.Concat(o.Args, o.Env, []string{dir}) {
		if strings.ContainsRune(s, 0) {
			return order{}, errors.New("sandbox: an argument or variable contains a zero byte")
		}
	}
	return o, nil
}

// launch starts the first process, gives it o and waits for its first report.
func (c *Cmd) launch(o order) error {
	if !mainCalled {
		// The first process is this binary again: without Main it would do
		// everything but set a sandbox up.
		return errors.New("sandbox: Main was not called at the start of main")
	}
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return err
	}
	reportR, reportW, err := os.Pipe()
	if err != nil {
		orderR.Close()
		orderW.Close()
		return err
	}
	c.link = &link{lifeline: orderW, reports: bufio.NewReader(reportR), file: reportR}

	c.inner.Path = "/proc/self/exe"
	c.inner.Args = []string{"toolgate", initName}
	c.inner.Env = initEnv
	c.inner.Dir = "/"
	if c.Stdin != nil {
		c.inner.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		c.inner.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		c.inner.Stderr = c.Stderr
	}
	c.inner.ExtraFiles = append([]*os.File{orderR, reportW}, c.ExtraFiles...)
	c.inner.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	opened := []*os.File{orderR, reportW}
	var door *os.File
	if o.Plan.proxied() {
		var inside *os.File
		if door, inside, err = newDoor(); err != nil {
			c.link.cut()
			return errors.Join(err, orderR.Close(), reportR.Close(), reportW.Close())
		}
		defer door.Close()
		o.Door = 3 + len(c.inner.ExtraFiles)
		c.inner.ExtraFiles = append(c.inner.ExtraFiles, inside)
		opened = append(opened, inside)
	}
	switch o.Plan.Level {
	case Full:
		o.Early = o.Plan.searchesShared()
		o.Wide = useNamespaces(c.inner.SysProcAttr, o.Plan.Profile.Network)
	case Bwrap:
		var files []*os.File
		files, err = c.useBwrap(&o)
		opened = append(opened, files...)
	}
	if err == nil {
		err = c.startInner(o.Plan)
	}
	for _, f := range opened {
		f.Close()
	}
	if err != nil {
		c.link.cut()
		reportR.Close()
		return fmt.Errorf("starting the sandbox: %w", err)
	}
	writeMessage(orderW, o) // when it cannot be written, no report comes
	if o.Early {
		writeMessage(orderW, searchShared(o.Plan))
	}
	if rep, rerr := c.link.next(); rerr == nil {
		err = rep.failure()
		c.notes = append(c.notes, rep.Notes...)
	} else {
		err = fmt.Errorf("starting the sandbox: %w: its first process ended before it was set up", ErrUnsupported)
	}
	if err == nil && door != nil {
		c.listener, err = takeListener(door)
	}
	if err != nil {
		c.link.cut()
		c.inner.Wait()
		reportR.Close()
	}
	return err
}

// startInner starts the first process. What the system refuses here it
// refuses to the sandbox.
func (c *Cmd) startInner(plan Plan) error {
	err := c.inner.Start()
	if err != nil && plan.Level != None {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}

// failure returns the error that the first report tells.
func (r report) failure() error {
	if r.Error == "" {
		return nil
	}
	err := errors.New(r.Error)
	if r.Denied {
		err = fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return fmt.Errorf("starting the sandbox: %w", err)
}

// next waits for the next report.
func (l *link) next() (report, error) {
	var r report
	line, err := l.reports.ReadBytes('\n')
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(line, &r)
}

// Wait waits for the program, and for everything it started, to end, and for
// its output to be copied. The error is an [*ExitError] when the program ran
// and did not end well.
func (c *Cmd) Wait() error {
	if c.link == nil {
		return errors.New("sandbox: not started")
	}
	// Not reaped yet, so that its id stays its own. When somebody else ended
	// it, bubblewrap for one, what it leaves behind is to end now.
	for unix.Waitid(unix.P_PID, c.Pid(), nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	c.link.cut()
	rep, rerr := c.link.last()
	err := c.inner.Wait()
	c.link.file.Close()
	if c.listener != nil {
		c.listener.Close() // nobody is left to knock
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err // copying the output
	}
	return rep.ending(rerr)
}

// WaitEnded is [Cmd.Wait] for a process that ends next itself: it returns when
// the program and everything it started have ended, and leaves it to the
// kernel to take the sandbox down behind it. Where output is copied, it is Wait.
func (c *Cmd) WaitEnded() error {
	for _, std := range []any{c.Stdin, c.Stdout, c.Stderr} {
		if _, isFile := std.(*os.File); std != nil && !isFile {
			return c.Wait()
		}
	}
	if c.link == nil {
		return errors.New("sandbox: not started")
	}
	go func() { // ends with the first process
		for unix.Waitid(unix.P_PID, c.Pid(), nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		c.link.cut()
	}()
	rep, rerr := c.link.last()
	return rep.ending(rerr)
}

// ending returns the error that the last report tells, or that it did not come.
func (r report) ending(rerr error) error {
	switch {
	case rerr != nil: // it was killed before it could tell
		return &ExitError{Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL}
	case r.Signal != 0:
		return &ExitError{Code: 128 + r.Signal, Signal: syscall.Signal(r.Signal)}
	case r.Code != 0:
		return &ExitError{Code: r.Code}
	}
	return nil
}

// Kill ends everything in the sandbox at once. Wait still has to be called.
func (c *Cmd) Kill() error {
	if c.link == nil {
		return errors.New("sandbox: not started")
	}
	c.link.cut()
	return nil
}

// initEnv is the environment of the first process: it handles nothing secret,
// needs no memory to speak of and little of the scheduler.
var initEnv = []string{"GOGC=off", "GOMAXPROCS=2"}

// setupCapabilities are what the first process needs in its namespaces: to
// mount, to bound and to drop capabilities, to reach every path that is to be
// hidden, and to set limits. Without them a user other than root would lose
// all of them when this binary is executed again.
var setupCapabilities = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH,
	unix.CAP_SYS_RESOURCE,
}

// useNamespaces makes attr start a process in namespaces of its own, and
// reports whether every user id is mapped.
//
// Root maps all ids it has, or it could not write a workspace that others
// own: the kernel changes no file whose owner it cannot name. Others may map
// only themselves.
func useNamespaces(attr *syscall.SysProcAttr, network policy.Network) (wide bool) {
	attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
		syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	attr.AmbientCaps = setupCapabilities
	if network != policy.NetworkAll {
		attr.Cloneflags |= syscall.CLONE_NEWNET
	}
	if network == policy.NetworkHosts {
		attr.AmbientCaps = append(slices.Clone(setupCapabilities), unix.CAP_NET_ADMIN) // to switch loopback on
	}
	uid, gid := os.Geteuid(), os.Getegid()
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	if uid != 0 {
		return false
	}
	uids, gids := ownIDs("/proc/self/uid_map"), ownIDs("/proc/self/gid_map")
	if uids == nil || gids == nil {
		return false
	}
	attr.UidMappings, attr.GidMappings = uids, gids
	attr.GidMappingsEnableSetgroups = true
	return true
}

// ownIDs returns the identity mapping of every id that this process has.
func ownIDs(file string) []syscall.SysProcIDMap {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var ids []syscall.SysProcIDMap
	for line := range strings.Lines(string(text)) {
		var inside, outside, size int
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err != nil {
			return nil
		}
		ids = append(ids, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return ids
}
