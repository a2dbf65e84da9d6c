//go:build !windows

package fileowner_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/fileowner"
)

// groupFault returns the fault of a file that its group can write: none if the files of
// the test belong to the user's private group.
func groupFault(path string) string {
	if fileowner.IsPrivate(uint32(os.Getegid())) {
		return ""
	}
	return path
}

func TestPrivateGroup(t *testing.T) {
	for groups, want := range map[string]bool{
		"root:x:0:\nada:x:1000:\n":              true,
		"ada:x:1000:ada\n":                      true,
		"ada:x:1000:ada,bob\n":                  false,
		"ada:x:1000:bob":                        false,
		"users:x:1000:\n":                       false,
		"ada:x:1000:\nother:x:1000:\n":          false,
		"ada:x:100:\n":                          false,
		"":                                      false,
		"ada:x:1000\n":                          false,
		"ada:x:1000:\nada:x:1000:ada\nb:x:1:\n": true,
	} {
		require.Equal(t, want, fileowner.HasOnly(groups, "1000", "ada"), groups)
	}
}

func TestCheck(t *testing.T) {
	type change = func(t *testing.T, dir string)
	chmod := func(name string, mode os.FileMode) change {
		return func(t *testing.T, dir string) { require.NoError(t, os.Chmod(filepath.Join(dir, name), mode)) }
	}
	for _, c := range []struct {
		name   string
		change change
		path   string // that is checked
		fault  string // the path that is refused, "" for none
	}{
		{"as it is", nil, "real/file", ""},
		{"missing", nil, "real/none/file", ""},
		{"executable", chmod("real/file", 0o755), "real/file", ""},
		{"readable by all", chmod("real/file", 0o644), "real/file", ""},
		{"writable by all", chmod("real/file", 0o666), "real/file", "real/file"},
		{"writable by the group", chmod("real/file", 0o660), "real/file", groupFault("real/file")},
		{"folder", chmod("real", 0o777), "real/file", "real"},
		{"folder of the group", chmod("real", 0o770), "real/file", groupFault("real")},
		{"folder, file missing", chmod("real", 0o777), "real/none", "real"},
		{"folder itself", chmod("real", 0o777), "real", "real"},
		{"sticky folder", chmod("real", 0o777|os.ModeSticky), "real/file", ""},
		{"upper folder", chmod(".", 0o777), "real/file", "."},
		{"link", nil, "links/link", ""},
		{"relative link", nil, "links/relative", ""},
		{"folder of the link", chmod("links", 0o777), "links/link", "links"},
		{"target of the link", chmod("real/file", 0o666), "links/link", "real/file"},
		{"folder of the target", chmod("real", 0o777), "links/relative", "real"},
		{"dangling link", nil, "links/dangling", ""},
		{"dangling link into a folder of all", chmod("real", 0o777), "links/dangling", "real"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			require.NoError(t, err)
			for _, name := range []string{"real", "links"} {
				require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "real/file"), []byte("text"), 0o600))
			require.NoError(t, os.Symlink(filepath.Join(dir, "real/file"), filepath.Join(dir, "links/link")))
			require.NoError(t, os.Symlink("../real/file", filepath.Join(dir, "links/relative")))
			require.NoError(t, os.Symlink("../real/none", filepath.Join(dir, "links/dangling")))
			if c.change != nil {
				c.change(t, dir)
			}
			err = fileowner.Check(filepath.Join(dir, c.path))
			_, readErr := fileowner.ReadFile(filepath.Join(dir, c.path))
			if c.fault == "" {
				require.NoError(t, err)
				return
			}
			fault, ok := errors.AsType[*fileowner.Error](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, filepath.Join(dir, c.fault), fault.Path)
			require.Contains(t, err.Error(), "run `chmod go-w '"+fault.Path+"'`")
			require.Equal(t, err, readErr)
		})
	}
	t.Run("loop", func(t *testing.T) {
		loop := filepath.Join(t.TempDir(), "loop")
		require.NoError(t, os.Symlink(loop, loop))
		require.ErrorContains(t, fileowner.Check(loop), "too many symlinks")
	})
}

// Only root can make files of another user.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		require.NoError(t, fileowner.Check("/etc/passwd"), "root's files are fine")
		return
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "sub", "file")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, fileowner.Check(file))
	for _, name := range []string{file, filepath.Dir(file)} {
		require.NoError(t, os.Lchown(name, 4242, 4242))
		err := fileowner.Check(file)
		require.ErrorContains(t, err, name+" belongs to another user (uid 4242)")
		require.NoError(t, os.Lchown(name, 0, 0))
	}
	require.NoError(t, os.Lchown(file, 0, 4242))
	require.NoError(t, os.Chmod(file, 0o660))
	require.ErrorContains(t, fileowner.Check(file), file+" can be written by other users")
	require.NoError(t, os.Chmod(file, 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(file, link))
	require.NoError(t, os.Lchown(link, 4242, 4242))
	require.ErrorContains(t, fileowner.Check(link), link+" belongs")
}
