package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	cloneTree = unix.OPEN_TREE_CLONE | unix.AT_RECURSIVE | unix.OPEN_TREE_CLOEXEC
	// plainMount takes set-user-id programs and device files away.
	plainMount = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
)

// setupMounts makes the view of the file system for plan the root of this process,
// which must have its own mount namespace. If prescanned is not nil, it delivers
// the scan result of the shared roots. Pins is for [pinFolders]. Notes say what could
// not be protected.
func setupMounts(plan Plan, prescanned <-chan *scanResult) (pins int, notes []string, err error) {
	// Nothing done here may propagate to the namespace this one was copied from.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return -1, nil, step("private mounts", err)
	}
	v, err := cloneLayout(plan, prescanned)
	if err != nil {
		return -1, nil, err
	}
	notes = v.notes
	if pins, err = clonePinTree(); err != nil {
		return -1, nil, step("copying the mounts", err)
	}
	devs, err := cloneDevices()
	if err != nil {
		return -1, nil, step("device files", err)
	}
	// The kernel allows mounting a /proc only while another one is visible.
	proc, err := newMount("proc", nil, 0)
	if err != nil {
		return -1, nil, step("mounting /proc", err)
	}
	defer unix.Close(proc)
	enter := enterReadOnlyRoot
	if plan.Profile.Paths.Restricted {
		enter = enterEmptyRoot
	}
	if err := enter(); err != nil {
		return -1, nil, step("read-only root", err)
	}
	if err := attachProc(proc, plan); err != nil {
		return -1, nil, step("mounting /proc", err)
	}
	if err := unix.MoveMount(pins, "", unix.AT_FDCWD, "/dev", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return -1, nil, step("copying the mounts", err)
	}
	if err := privateDev(devs); err != nil {
		return -1, nil, step("private /dev", err)
	}
	for _, c := range v.overrides {
		err := c.place()
		if err != nil && (c.Shared || c.isSymlink() && !c.Fixed) {
			// It is being replaced, or an older kernel cannot mount on a symlink.
			notes = append(notes, fmt.Sprintf("%q can be replaced: %v", c.Path, err))
			continue
		}
		if err != nil {
			return -1, nil, step(c.Path, err)
		}
	}
	if err := pinFolders(pins, v.pins(plan.Profile.WritableRoots)); err != nil {
		return -1, nil, err
	}
	return pins, notes, v.sealMasks(plan.Profile.Paths.Restricted)
}

// sealMasks creates the symlinks in masks and then makes every mask read-only.
func (v view) sealMasks(restricted bool) error {
	for _, l := range v.symlinks {
		if err := os.MkdirAll(filepath.Dir(l.path), skeletonMode); err != nil {
			return step(l.path, err)
		}
		if err := os.Symlink(l.target, l.path); err != nil && !errors.Is(err, os.ErrExist) {
			return step(l.path, err)
		}
	}
	for _, c := range v.overrides {
		if !c.partial {
			continue
		}
		if err := makeReadOnly(c.Path); err != nil {
			return step(c.Path, err)
		}
	}
	if restricted {
		return step("/", makeReadOnly("/"))
	}
	return nil
}

// cloneLayout is layout with the mounts of every override cloned. If something that
// was found is gone by the time it is opened, the search is repeated.
func cloneLayout(plan Plan, prescanned <-chan *scanResult) (v view, err error) {
	var found *scanResult
	if prescanned != nil {
		found = <-prescanned
	}
	for range 10 {
		if v, err = layout(plan, found, scanUntilStable); err != nil {
			return view{}, err
		}
		found = nil
		if err = cloneAll(v.overrides); err == nil {
			return v, nil
		}
		if !isMissing(err) && !errors.Is(err, errReplaced) {
			break
		}
	}
	return view{}, err
}

// cloneAll clones the mounts of every override, or of none if there is an error. It
// leaves out what is gone from a shared root.
func cloneAll(overrides []mountOverride) error {
	for i := range overrides {
		if err := overrides[i].clone(); err != nil && !overrides[i].Shared {
			closeTrees(overrides)
			return step(overrides[i].Path, err)
		}
	}
	return nil
}

func closeTrees(overrides []mountOverride) {
	for _, c := range overrides {
		if c.tree > 0 {
			unix.Close(c.tree)
		}
	}
}

// enterReadOnlyRoot makes a read-only copy of the whole mount tree the root.
func enterReadOnlyRoot() error {
	root, err := unix.OpenTree(unix.AT_FDCWD, "/", cloneTree)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if err := setMountAttr(root, unix.MOUNT_ATTR_RDONLY|plainMount, unix.AT_RECURSIVE); err != nil {
		return err
	}
	return enterRoot(root)
}

// enterEmptyRoot makes an empty tmpfs the root, in which mount points for the
// visible paths are created later.
func enterEmptyRoot() error {
	root, err := skeletonMount()
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if err := enterRoot(root); err != nil {
		return err
	}
	for _, dir := range []string{"/proc", "/dev"} {
		if err := os.Mkdir(dir, skeletonMode); err != nil {
			return err
		}
	}
	return nil
}

// enterRoot makes the mount with descriptor root the root of this process.
func enterRoot(root int) error {
	if err := unix.MoveMount(root, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	if err := unix.Fchdir(root); err != nil {
		return err
	}
	// pivot_root(2): with "." twice, the old root is stacked on top of the new
	// one and is then unmounted.
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir("/")
}

func setMountAttr(tree int, attr uint64, flags uint) error {
	return unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|flags, &unix.MountAttr{Attr_set: attr})
}

// makeReadOnly makes the mount at path read-only.
func makeReadOnly(path string) error {
	return unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// attachProc mounts proc on /proc, read-only, because root could change settings of
// the whole machine in it. The limits of this namespace are set first.
func attachProc(proc int, plan Plan) error {
	if err := unix.MoveMount(proc, "", unix.AT_FDCWD, "/proc", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	limitNamespaces("/proc", kernelRelease(), plan)
	limitInotify()
	return makeReadOnly("/proc")
}

// sharedMemory is the size of /dev/shm in bytes.
const sharedMemory = 1 << 30

// sharedFiles is the number of files and folders that it can hold at level full.
const sharedFiles = 1 << 17

// plainDevices are the device files of the host that a private /dev contains.
var plainDevices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// cloneDevices returns copies of the mounts of plainDevices.
func cloneDevices() (map[string]int, error) {
	devs := map[string]int{}
	for _, name := range plainDevices {
		fd, err := unix.OpenTree(unix.AT_FDCWD, "/dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return nil, &os.PathError{Op: "open_tree", Path: "/dev/" + name, Err: err}
		}
		devs[name] = fd
	}
	return devs, nil
}

// privateDev mounts a /dev with the harmless devices devs, its own terminals and an
// empty /dev/shm.
func privateDev(devs map[string]int) error {
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", "/dev", "tmpfs", flags, "mode=755,size=64k"); err != nil {
		return err
	}
	for name, tree := range devs {
		path := "/dev/" + name
		fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return &os.PathError{Op: "create", Path: path, Err: err}
		}
		unix.Close(fd)
		if err := unix.MoveMount(tree, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "move_mount", Path: path, Err: err}
		}
		unix.Close(tree)
	}
	for _, l := range [][2]string{
		{"/proc/self/fd", "/dev/fd"}, {"fd/0", "/dev/stdin"}, {"fd/1", "/dev/stdout"}, {"fd/2", "/dev/stderr"},
		{"pts/ptmx", "/dev/ptmx"},
	} {
		if err := os.Symlink(l[0], l[1]); err != nil {
			return err
		}
	}
	shared := fmt.Sprintf("mode=1777,size=%d,nr_inodes=%d", sharedMemory, sharedFiles)
	for _, m := range []struct {
		path, kind string
		flags      uintptr
		options    string
	}{
		{"/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=620"},
		{"/dev/shm", "tmpfs", flags | unix.MS_NODEV, shared},
	} {
		if err := os.Mkdir(m.path, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.path, m.kind, m.flags, m.options); err != nil {
			return &os.PathError{Op: "mount", Path: m.path, Err: err}
		}
	}
	return makeReadOnly("/dev")
}

// clone sets c.tree to a detached copy of the mounts at c's path. A mask needs
// none.
func (c *mountOverride) clone() error {
	if c.Kind == hidden {
		return nil
	}
	fd, err := unix.Open(cmp.Or(c.Source, c.Path), unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := c.File.check(fd); err != nil {
		return err
	}
	if c.tree, err = unix.OpenTree(fd, "", cloneTree|unix.AT_EMPTY_PATH); err != nil {
		c.tree = 0
		return err
	}
	attr := uint64(plainMount)
	if c.Kind == readOnly {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	return setMountAttr(c.tree, attr, unix.AT_RECURSIVE)
}

// check returns errReplaced unless fd is the file that id identifies.
func (id fileID) check(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if id != idOf(st) {
		return errReplaced
	}
	return nil
}

// place mounts c at its path in the new root. In a shared root, it mounts what is at
// that path now, if that was replaced, and nothing if it is gone.
func (c mountOverride) place() error {
	err := errReplaced
	if !c.Shared || c.tree > 0 {
		err = c.attach()
	}
	for try := 0; c.Shared && errors.Is(err, errReplaced) && try < 5; try++ {
		now, lerr := lstatOverride(c.Path, c.Kind)
		if now.Path != c.Path || lerr != nil {
			return nil // gone, or no longer in a folder that can be reached
		}
		if err = now.clone(); err == nil {
			err = now.attach()
		}
	}
	if c.Shared && (isMissing(err) || errors.Is(err, unix.ELOOP)) {
		return nil
	}
	return err
}

// attach mounts c at its path in the new root.
func (c mountOverride) attach() error {
	at, err := c.openTarget()
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if c.Kind == hidden {
		if c.tree, err = c.newMask(); err != nil {
			return err
		}
	}
	defer unix.Close(c.tree)
	return unix.MoveMount(c.tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

var errReplaced = errors.New("was replaced while the sandbox was set up; try again")

// openTarget opens c's path in the new root. It returns errReplaced if the file
// there is no longer the one that was found in the old root.
func (c mountOverride) openTarget() (int, error) {
	if isBelow(c.Path, "/dev/shm") {
		if err := os.MkdirAll(c.Path, 0o700); err != nil {
			return -1, err
		}
	}
	// With O_NOFOLLOW, the last name is opened itself even if it is a symlink.
	if c.inMask {
		if err := c.makeTarget(); err != nil {
			return -1, err
		}
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, c.Path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil || c.inMask || c.Source != "" || isBelow(c.Path, "/dev/shm") {
		return fd, err
	}
	if err := c.File.check(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// skeletonMode is the mode of the folders in a mask that lead to visible paths.
const skeletonMode = 0o555

// makeTarget creates c's path in the mask or private /tmp it lies below. No other process
// sees a mask yet. In a private /tmp the user must be able to remove it later.
func (c mountOverride) makeTarget() error {
	mode := os.FileMode(skeletonMode)
	if isBelow(c.Path, slashTmp) {
		mode = 0o700
	}
	if c.File.isDir() {
		return os.MkdirAll(c.Path, mode)
	}
	if err := os.MkdirAll(filepath.Dir(c.Path), mode); err != nil {
		return err
	}
	f, err := os.OpenFile(c.Path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	return f.Close()
}

// newMask returns the mask to be mounted over c's path.
func (c mountOverride) newMask() (int, error) {
	switch {
	case c.partial:
		return skeletonMount()
	case c.File.isDir():
		return folderMask()
	}
	return fileMask()
}

// skeletonMount returns a tmpfs mask in which visible paths can be created.
func skeletonMount() (int, error) {
	return newMount("tmpfs", [][2]string{{"mode", "555"}, {"size", "4m"}, {"nr_inodes", "20000"}}, 0)
}

// folderMask returns an empty tmpfs mask that nobody can open.
func folderMask() (int, error) {
	return newMount("tmpfs", [][2]string{{"mode", "000"}, {"size", "4k"}, {"nr_inodes", "1"}}, unix.MOUNT_ATTR_RDONLY)
}

// newMount returns a new mount of a file system of the given type.
func newMount(fsType string, options [][2]string, attr int) (int, error) {
	fs, err := unix.Fsopen(fsType, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for _, opt := range options {
		if err := unix.FsconfigSetString(fs, opt[0], opt[1]); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr|plainMount|unix.MOUNT_ATTR_NOEXEC)
}

// fileMask returns a mask for a file that nobody can open: a device file on a
// mount without device files.
func fileMask() (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/dev/null", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if err := setMountAttr(fd, unix.MOUNT_ATTR_RDONLY|plainMount|unix.MOUNT_ATTR_NOEXEC, 0); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
