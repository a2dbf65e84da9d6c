package sandbox_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/sandbox"
)

// TestProtectedNames tries to change, replace and move a file of each protected name.
func TestProtectedNames(t *testing.T) {
	root := t.TempDir()
	p := workspace(root)
	p.ReadOnlySubpaths = sandbox.Protected(false)
	files := map[string]string{}
	for _, name := range p.ReadOnlySubpaths {
		file := root + "/sub/" + strings.ReplaceAll(name, "*", ".toml")
		if filepath.Ext(name) == "" && !strings.Contains(name, "/") && !strings.HasSuffix(name, "rc") {
			file += "/x/y"
		}
		files[name] = write(t, file, "old")
	}
	ordinary := []string{"package.json", "Makefile", ".config/dotnet-tools.json", ".cargo/registry/x", ".env", "opencode.md"}
	for _, name := range ordinary {
		write(t, root+"/sub/"+name, "old")
	}
	c := keep(t, at(t, sandbox.Full, p))
	for name, file := range files {
		require.Equal(t, unix.EROFS, c.do(t, "append", file), name)
		require.NotEqual(t, syscall.Errno(0), c.do(t, "rename", file, root+"/moved"), name)
		first, _, _ := strings.Cut(strings.ReplaceAll(name, "*", ".toml"), "/")
		require.Equal(t, unix.EBUSY, c.do(t, "rename", root+"/sub/"+first, root+"/moved"), name)
	}
	for _, name := range ordinary {
		require.Equal(t, syscall.Errno(0), c.do(t, "append", root+"/sub/"+name), name)
	}
}

// TestProtectedNamesHaveSources checks that each name says where it is documented.
func TestProtectedNamesHaveSources(t *testing.T) {
	for name, source := range sandbox.ProtectedSources() {
		require.True(t, strings.HasPrefix(source, "https://") || name == ".toolgate", name)
	}
}
