package programs_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/programs"
)

// tree makes folders, programs and links for the tests below.
func tree(t *testing.T) (root string, f programs.Finder) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("links and programs without .exe are needed")
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, name := range []string{"ws/bin/tool", "ws/bin/only", "ws/kept/tool", "own/tool", "own/other"} {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755))
	}
	for link, target := range map[string]string{
		"to-ws":         "ws/bin",              // leads in
		"ws/to-own":     "../own",              // lies in it, leads out
		"through":       "ws/to-own",           // leads out through it
		"around":        "ws/bin/../../own",    // the same by ..
		"to-own":        root + "/own",         // has nothing to do with it
		"own/linked":    root + "/ws/bin/tool", // a program that is linked
		"loop":          "loop",
		"ws/kept/to-ws": "../bin/tool",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(root, link)))
	}
	ws := filepath.Join(root, "ws")
	return root, programs.Finder{Dir: ws, Writable: []string{ws}, Kept: func(path string) bool {
		return strings.HasPrefix(path, filepath.Join(ws, "kept"))
	}}
}

func TestCanWrite(t *testing.T) {
	root, f := tree(t)
	for path, want := range map[string]bool{
		"ws": true, "ws/bin": true, "ws/bin/tool": true, "ws/not/there": true, "ws/kept/tool": false,
		"own": false, "own/tool": false, "not/there": false, "wsx": false,
		"to-ws": true, "to-ws/tool": true, "ws/to-own/tool": true, "through/tool": true, "around/tool": true,
		"to-own/tool": false, "own/linked": true, "loop": true, "ws/kept/to-ws": true,
	} {
		require.Equal(t, want, f.CanWrite(filepath.Join(root, path)), path)
	}
	require.True(t, f.CanWrite(root+"/ws/bin/../../own/tool"))
	require.True(t, f.CanWrite("bin/tool"), "relative to Dir")
	require.True(t, f.CanWrite("bin/../../own/tool"))
	require.False(t, f.CanWrite("../own/tool"))
	require.False(t, programs.Finder{}.CanWrite(root))
}

func TestEnv(t *testing.T) {
	root, f := tree(t)
	path := strings.ReplaceAll("R/ws/bin::.:node_modules/.bin:R/to-ws:R/through:R/own:R/to-own", "R", root)
	want := "PATH=" + root + "/own:" + root + "/to-own"
	require.Equal(t, []string{"A=" + root + "/ws", want}, f.Env([]string{"A=" + root + "/ws", "PATH=" + path}))
}

func TestFind(t *testing.T) {
	root, f := tree(t)
	env := []string{"PATH=/nowhere", "PATH=bin::" + root + "/ws/bin:" + root + "/to-ws:" + root + "/own"}
	for _, tt := range []struct{ name, want, err string }{
		{name: "tool", want: root + "/own/tool"},
		{name: "other", want: root + "/own/other"},
		{name: "only", err: "only is only at " + root + "/ws/bin/only, in a folder that commands can write"},
		{name: "linked", err: "linked is only at " + root + "/own/linked, in a folder that commands can write"},
		{name: "missing", err: "missing: program not found in PATH"},
		{name: root + "/own/tool", want: root + "/own/tool"},
		{name: "../own/tool", want: root + "/ws/../own/tool"},
		{name: "./kept/tool", want: root + "/ws/./kept/tool"},
		{name: "bin/tool", err: "bin/tool lies in a folder that commands can write"},
		{name: root + "/to-ws/tool", err: root + "/to-ws/tool lies in a folder that commands can write"},
	} {
		got, err := f.Find(tt.name, env)
		require.Equal(t, tt.want, got, tt.name)
		if tt.err != "" {
			require.EqualError(t, err, tt.err)
			continue
		}
		require.NoError(t, err)
	}
}

func TestReplaceable(t *testing.T) {
	root, f := tree(t)
	env := []string{"PATH=" + root + "/ws/bin:" + root + "/own"}
	for name, want := range map[string]bool{
		"tool": false, "other": false, "linked": true, "only": true, "not-there": false,
		root + "/own/tool": false, root + "/ws/bin/tool": true, root + "/own/linked": true, root + "/to-ws/tool": true,
	} {
		require.Equal(t, want, f.Replaceable(name, env), name)
	}
}

func TestCommand(t *testing.T) {
	root, f := tree(t)
	own := filepath.Join(root, "own")
	env := []string{"A=b", "PATH=" + filepath.Join(root, "ws/bin") + ":" + own + ":."}
	require.NoError(t, os.WriteFile(filepath.Join(own, "tool"), []byte("#!/bin/sh\necho \"$PWD $A $PATH $1\"\n"), 0o755))
	cmd, err := f.Command(t.Context(), own, env, "tool", "arg")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(own, "tool"), cmd.Path)
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, own+" b "+own+" arg\n", string(out))
	for name, dir := range map[string]string{"only": own, "bin/tool": own, root + "/ws/bin/tool": own, "none": own, "tool": "."} {
		_, err := f.Command(t.Context(), dir, env, name)
		require.Error(t, err, name)
	}
}
