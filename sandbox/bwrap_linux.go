package sandbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolgate/policy"
)

// bwrapPaths are the paths where bubblewrap is looked up. PATH is not used: it may
// contain folders that a sandboxed program can write.
var bwrapPaths = []string{
	"/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap",
	"/run/wrappers/bin/bwrap", "/run/current-system/sw/bin/bwrap", // NixOS
}

// findBwrap returns the path of bubblewrap, or "".
func findBwrap() string {
	for _, path := range bwrapPaths {
		if unix.Access(path, unix.X_OK) == nil {
			return path
		}
	}
	return ""
}

// useBwrap makes c start the first process of cfg through bubblewrap. Bubblewrap
// makes the namespaces and mounts that the first process makes itself at level
// full; Landlock, seccomp and the rest are up to the first process at both levels.
// It returns the files to close once c runs.
func (c *Cmd) useBwrap(cfg *initConfig) (files []*os.File, err error) {
	plan, err := cfg.Plan.resolve()
	if err != nil {
		return nil, err
	}
	v, err := layout(plan, nil, scanUntilStable)
	if err != nil {
		return nil, err
	}
	args := bwrapArgs(plan, v)
	cfg.Notes = v.notes
	cfg.Overrides = v.overrides

	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	list, err := memoryFile(strings.Join(args, "\x00") + "\x00")
	if err != nil {
		self.Close()
		return nil, err
	}
	extra := len(c.inner.ExtraFiles)
	c.inner.ExtraFiles = append(c.inner.ExtraFiles, self, list)
	c.inner.Path = plan.BwrapPath
	c.inner.Args = []string{
		"bwrap", "--args", fmt.Sprint(3 + extra + 1), "--", fmt.Sprintf("/proc/self/fd/%d", 3+extra), initName,
	}
	return []*os.File{self, list}, nil
}

// bwrapArgs returns bubblewrap's arguments for the view of plan. It is pure.
//
// Bubblewrap cannot mount on a symlink, so the first process does that, and keeps
// a capability for it.
func bwrapArgs(plan Plan, v view) []string {
	args := []string{"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"}
	if plan.Profile.Network != policy.NetworkAll {
		args = append(args, "--unshare-net")
	}
	args = append(args, "--as-pid-1", "--cap-drop", "ALL")
	restricted := plan.Profile.Paths.Restricted // bubblewrap's own root is empty
	if !restricted {
		args = append(args, "--ro-bind", "/", "/")
	}
	args = append(args, "--dev", "/dev")
	if pins := v.pins(plan.Profile.WritableRoots); len(pins) > 0 {
		args = append(args, "--ro-bind", "/", "/dev/shm") // hidden by what is mounted next
		for _, p := range pins {
			args = append(args, "--ro-bind-try", p.path, "/dev/shm"+p.path)
		}
	}
	args = append(args,
		"--perms", "1777", "--size", fmt.Sprint(sharedMemory), "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
		"--proc", "/proc", "--remount-ro", "/proc",
	)
	if slices.ContainsFunc(v.overrides, mountOverride.isSymlink) {
		args = append(args, "--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP")
	}
	var masks []string
	for _, c := range v.overrides {
		switch {
		case c.isSymlink():
		case c.Shared && c.Kind == readOnly:
			args = append(args, "--ro-bind-try", c.Path, c.Path) // it may be gone by now
		case c.Shared:
			args = append(args, "--bind-try", c.Path, c.Path)
		case c.Kind == readOnly:
			args = append(args, "--ro-bind", c.Path, c.Path)
		case c.partial:
			args = append(args, "--perms", "0555", "--tmpfs", c.Path)
			masks = append(masks, c.Path)
		case c.Kind == hidden && c.File.isDir():
			args = append(args, "--perms", "0000", "--tmpfs", c.Path, "--remount-ro", c.Path)
		case c.Kind == hidden:
			args = append(args, "--ro-bind", "/dev/null", c.Path) // a mount without device files
		default:
			args = append(args, "--bind", cmp.Or(c.Source, c.Path), c.Path)
		}
	}
	for _, l := range v.symlinks {
		args = append(args, "--symlink", l.target, l.path)
	}
	if restricted {
		masks = append(masks, "/")
	}
	for _, path := range masks {
		args = append(args, "--remount-ro", path)
	}
	return append(args, "--chdir", "/")
}

// memoryFile returns an anonymous file that contains text.
func memoryFile(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("sandbox", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "sandbox")
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := f.Seek(0, 0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// probeBwrap sets up a sandbox through bubblewrap at path that runs nothing.
func probeBwrap(path string) error {
	if path == "" {
		return errors.New("bubblewrap is not installed")
	}
	var out bytes.Buffer
	err := probePlan(Plan{Level: Bwrap, BwrapPath: path}, &out)
	if text := strings.TrimSpace(out.String()); err != nil && text != "" {
		return errors.New(text)
	}
	return err
}
