package sandbox

import (
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A nested repository must not be moved: otherwise a command could put a copy in its
// place, with hooks of its own. The kernel refuses to move a folder on which something is
// mounted anywhere in the mount namespace. So a second copy of the mount tree lies below
// the private /dev, where no path leads, and the folders are mounted on themselves there.
// In the view of the program they are no mounts, so that files can be moved and linked
// across them.

// repositories are the protected names in whose place a command must not put others.
// Folders with other protected names are moved in ordinary work, as npm does with
// packages that contain the settings of an editor.
var repositories = []string{".git", ".hg", ".jj"}

// clonePinTree returns a descriptor of a read-only copy of the mount tree.
func clonePinTree() (int, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, "/", cloneTree)
	if err != nil {
		return -1, err
	}
	return tree, setMountAttr(tree, unix.MOUNT_ATTR_RDONLY|plainMount, unix.AT_RECURSIVE)
}

// A pin is a folder that must not be moved.
type pin struct {
	path   string
	shared bool // see [mountOverride.Shared]
}

// pins returns the folders above the protected names of v, up to the writable roots.
func (v view) pins(roots []string) (list []pin) {
	seen := map[string]bool{}
	for _, c := range v.overrides {
		root, ok := outerRoot(c.Path, roots)
		isRepository := slices.ContainsFunc(strings.Split(c.Path, "/"), func(name string) bool {
			return slices.Contains(repositories, name)
		})
		if !ok || !isRepository || c.Kind == writable || c.Kind == hidden || c.inMask {
			continue
		}
		for up := filepath.Dir(c.Path); up != root && !seen[up]; up = filepath.Dir(up) {
			seen[up] = true
			list = append(list, pin{up, c.Shared})
		}
	}
	slices.SortFunc(list, func(a, b pin) int { return strings.Compare(a.path, b.path) })
	return list
}

// pinFolders keeps the folders in list from being moved. Tree is the attached copy of
// the mount tree.
func pinFolders(tree int, list []pin) error {
	for _, p := range list {
		// What is gone from a shared root, nobody can move.
		if err := pinFolder(tree, p.path); err != nil && !(p.shared && isMissing(err)) {
			return step(p.path, err)
		}
	}
	return nil
}

// pinFolder mounts the folder at path in tree on itself, unless it is a mount already.
func pinFolder(tree int, path string) error {
	at, err := unix.Openat2(tree, path[1:], &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if mounted, _ := mountState(at); mounted {
		return nil
	}
	self, err := unix.OpenTree(at, "", cloneTree|unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(self)
	return unix.MoveMount(self, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}
