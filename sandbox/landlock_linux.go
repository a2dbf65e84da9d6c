package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"toolgate/policy"
)

// Landlock access rights. Execution is not handled. Reading is handled only at
// level landlock, which has no masks.
const (
	readRights = unix.LANDLOCK_ACCESS_FS_READ_FILE

	readFolder = unix.LANDLOCK_ACCESS_FS_READ_DIR

	writeFileRights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE

	writeTreeRights = writeFileRights |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER

	deviceRights = readRights | writeFileRights | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	// A device file in a writable root would bypass every path rule.
	makeDeviceRights = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// A landlockRule allows rights on path and everything below it.
type landlockRule struct {
	path     string
	rights   uint64
	optional bool // skipped if path cannot be opened
}

// A landlockDomain is what a Landlock ruleset handles and allows.
type landlockDomain struct {
	fs, net, scoped uint64 // handled
	rules           []landlockRule
}

// landlockABI returns the kernel's Landlock ABI.
func landlockABI() (int, error) {
	abi, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(abi), nil
}

// devices are the device files that a command may write at every level.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// terminals are for opening new terminals. At level landlock, the user's other
// terminals are among them, so that only a worker, which opens terminals for its
// commands, may use them.
var terminals = []string{"/dev/ptmx", "/dev/pts"}

// domain returns the Landlock domain of a process of plan, which may be a worker. List
// returns the names in a folder, or none if it cannot be read.
func domain(plan Plan, worker bool, list func(dir string) []string) landlockDomain {
	abi := plan.ABI
	handled := uint64(writeTreeRights | makeDeviceRights)
	if plan.Level == Landlock {
		handled |= readRights
		if plan.Profile.Paths.Restricted {
			handled |= readFolder // else the folders around a hidden path could not be listed
		}
	}
	if abi < abiRefer {
		handled &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi < abiTruncate {
		handled &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= abiIoctl {
		handled |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	d := landlockDomain{fs: handled}
	devices := devices
	if worker || plan.Level != Landlock {
		devices = slices.Concat(devices, terminals)
	}
	for _, dev := range devices {
		d.rules = append(d.rules, landlockRule{dev, deviceRights & handled, true})
	}
	if plan.Level != Landlock {
		// Private, see privateDev.
		d.rules = append(d.rules, landlockRule{"/dev/shm", writeTreeRights & handled, true})
	}
	for _, root := range plan.Profile.WritableRoots {
		d.rules = append(d.rules, landlockRule{root, (readRights | readFolder | writeTreeRights) & handled, false})
	}
	if plan.Level == Landlock {
		// Running a program requires reading it, and this one may be anywhere.
		d.rules = append(d.rules, landlockRule{"/proc/self/exe", readRights, true})
		for _, path := range readablePaths(plan.Profile, list) {
			d.rules = append(d.rules, landlockRule{path, (readRights | readFolder) & handled, true})
		}
	}
	if abi >= abiNet && plan.Profile.Network == policy.NetworkNone {
		d.net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= abiScope {
		d.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return d
}

// readablePaths returns paths that together contain everything that p lets a
// process read, except for the writable roots. Landlock only allows, so the
// siblings of a hidden path are allowed name by name; siblings created later
// cannot be read.
func readablePaths(p policy.Profile, list func(dir string) []string) []string {
	masked := slices.Concat(p.Hidden, p.Paths.Denied)
	var paths []string
	var walk func(dir string)
	walk = func(dir string) {
		isHidden := isBelowAny(dir, masked)
		holdsHidden := slices.ContainsFunc(masked, func(h string) bool { return isBelow(h, dir) })
		switch {
		case isHidden:
		case holdsHidden || dir == "/":
			for _, name := range list(dir) {
				walk(filepath.Join(dir, name))
			}
		default:
			paths = append(paths, dir)
		}
	}
	if p.Paths.Restricted {
		paths = append(paths, "/proc") // programs need it
	} else {
		masked = append(masked, "/dev") // devices are allowed one by one
		walk("/")
	}
	// Paths that lie below a hidden path and are not hidden themselves.
	for _, path := range p.Paths.Readable {
		masked = slices.DeleteFunc(slices.Concat(p.Hidden, p.Paths.Denied), func(h string) bool {
			return isBelow(path, h) && h != path
		})
		walk(path)
	}
	return paths
}

// listFolder returns the names in dir except symlinks, which are resolved before
// Landlock checks a path.
func listFolder(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			names = append(names, e.Name())
		}
	}
	return names
}

// enter restricts this thread, and what it starts from now on, to the domain. The
// thread must have no_new_privs.
func (d landlockDomain) enter() error {
	fd, err := d.ruleset()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return enterRuleset(fd)
}

// enterRuleset restricts this thread, and what it starts from now on, to the
// domain of the ruleset fd.
func enterRuleset(fd int) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

// ruleset returns a descriptor of a ruleset for the domain. The caller closes it.
func (d landlockDomain) ruleset() (fd int, err error) {
	// Older kernels accept it if the fields they do not know are zero.
	attr := unix.LandlockRulesetAttr{Handled_access_fs: d.fs, Handled_access_net: d.net, Scoped: d.scoped}
	size := unsafe.Sizeof(attr)
	r, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return -1, fmt.Errorf("landlock: %w", errno)
	}
	fd = int(r)
	for _, rule := range d.rules {
		if err := rule.add(fd); err != nil {
			unix.Close(fd)
			return -1, &os.PathError{Op: "landlock", Path: rule.path, Err: err}
		}
	}
	return fd, nil
}

// add adds the rule to the ruleset.
func (r landlockRule) add(ruleset int) error {
	fd, err := unix.Open(r.path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil && r.optional {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !r.optional {
		// A root has no symlinks in its path, unless one was created meanwhile.
		if real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil || real != r.path {
			return errReplaced
		}
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: r.rights, Parent_fd: int32(fd)}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		attr.Allowed_access &= deviceRights // the others apply to folders only
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE,
		uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
