package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/policy"
	"toolgate/sandbox"
)

// /tmp is a folder of the caller's own, in which the roots below the real /tmp are in their places.
func TestPrivateTmp(t *testing.T) {
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		own, root := t.TempDir(), t.TempDir()
		other := write(t, t.TempDir()+"/file", "other")
		git := write(t, root+"/.git/config", "old")
		write(t, own+"/here", "old")
		write(t, own+"/repo/.git/config", "old")
		p := policy.Profile{
			Mode: policy.WorkspaceWrite, WritableRoots: []string{root, "/tmp"}, SharedRoots: []string{"/tmp"},
			ReadOnlySubpaths: []string{".git"}, TempDir: own,
			Hidden: []string{filepath.Dir(other)}, ReadOnlyPaths: []string{other},
		}
		plan := at(t, level, p)
		dir := plan.TempDir()
		machine, err := os.CreateTemp("/tmp", "sandbox-test-")
		require.NoError(t, err)
		machine.Close()
		defer os.Remove(machine.Name())
		require.Equal(t, level == sandbox.Landlock, dir == own, "where nothing can be mounted it is another folder")

		errno, out := try(t, plan, "read", dir+"/here")
		require.Equal(t, "old", out, "%v", errno)
		errno, _ = try(t, plan, "write", dir+"/new")
		require.Zero(t, errno)
		require.Equal(t, "new", content(t, own+"/new"))
		errno, _ = try(t, plan, "append", dir+"/repo/.git/config")
		require.Zero(t, errno, "its names are not protected")
		errno, _ = try(t, plan, "write", root+"/new")
		require.Zero(t, errno)
		require.FileExists(t, root+"/new")
		for range 2 { // the second sandbox finds what the first one made
			errno, _ = try(t, plan, "append", machine.Name())
			errno2, _ := try(t, plan, "write", "/tmp/sandbox-test-new")
			require.NoFileExists(t, "/tmp/sandbox-test-new")
			if level == sandbox.Landlock {
				require.Equal(t, unix.EACCES, errno)
				require.Equal(t, unix.EACCES, errno2)
				require.Contains(t, plan.Unenforced, "files of other programs in /tmp can be read: there are no mounts")
			} else {
				require.Equal(t, unix.ENOENT, errno)
				require.Zero(t, errno2)
				errno, _ = try(t, plan, "append", git)
				require.Equal(t, unix.EROFS, errno)
			}
			errno, _ = try(t, plan, "read", other)
			require.Contains(t, []error{unix.ENOENT, unix.EACCES}, errno)
		}

		// Later searches do not take the private folder for a shared one.
		c := keep(t, plan)
		require.NoError(t, c.cmd.Rescan())
		require.Zero(t, c.do(t, "append", dir+"/repo/.git/config"))
		require.NoError(t, c.cmd.Rescan())
		require.Zero(t, c.do(t, "append", dir+"/repo/.git/config"))

		p.WritableRoots, p.SharedRoots = []string{root}, nil
		require.Empty(t, at(t, level, p).TempDir(), "it only takes the place of a writable /tmp")
		require.NoError(t, os.RemoveAll(own))
		cmd := plan.Command("", "op", "say")
		require.Error(t, cmd.Start(), "without the folder nothing starts")
	})
}

// What is below the private folder may be a trap that an earlier command left.
func TestPrivateTmpWithTraps(t *testing.T) {
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		own, outside := t.TempDir(), t.TempDir()
		root := t.TempDir()
		rel, err := filepath.Rel("/tmp", root)
		require.NoError(t, err)
		first, _, _ := strings.Cut(rel, "/")
		require.NoError(t, os.Symlink(outside, filepath.Join(own, first)))
		plan := at(t, level, policy.Profile{
			Mode: policy.WorkspaceWrite, WritableRoots: []string{root, "/tmp"}, TempDir: own,
		})
		cmd := plan.Command("", "op", "write", root+"/new")
		cmd.Dir = "/"
		err = cmd.Run()
		require.Equal(t, level == sandbox.Landlock, err == nil, "%v", err)
		entries, err := os.ReadDir(outside)
		require.NoError(t, err)
		require.Empty(t, entries)
	})
}
