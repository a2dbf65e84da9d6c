package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

var cgroups atomic.Int64

// Cgroup returns the folder of a control group (version 2) that is delegated to the user
// uid. Programs are started in it with UseCgroupFD. It needs root and a system where it may
// limit processes, else the test is skipped, or fails with REQUIRE_CGROUP. What is left in
// the group ends with the test.
func Cgroup(t testing.TB, uid int) *os.File {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can delegate a control group")
	}
	root := ""
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[2] == "cgroup2" {
			root = f[1]
		}
	}
	has, _ := os.ReadFile(root + "/cgroup.controllers")
	used, err := os.ReadFile(root + "/cgroup.subtree_control")
	for _, c := range []string{"pids", "memory"} {
		if !slices.Contains(strings.Fields(string(has)), c) {
			if c == "pids" {
				err = fmt.Errorf("%s has no controller for processes", root)
			}
			continue
		}
		if !slices.Contains(strings.Fields(string(used)), c) && err == nil {
			err = os.WriteFile(root+"/cgroup.subtree_control", []byte("+"+c), 0) // stays: other tests use it
		}
	}
	dir := fmt.Sprintf("%s/test-%d-%d", root, os.Getpid(), cgroups.Add(1))
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err != nil && os.Getenv("REQUIRE_CGROUP") == "" {
		t.Skipf("no control groups: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { removeCgroup(dir) })
	for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		require.NoError(t, os.Chown(filepath.Join(dir, name), uid, uid))
	}
	f, err := os.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// removeCgroup kills all in the group dir and removes it, with all below it.
func removeCgroup(dir string) {
	os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeCgroup(filepath.Join(dir, e.Name()))
		}
	}
	for err := os.Remove(dir); err != nil && !os.IsNotExist(err); err = os.Remove(dir) {
		runtime.Gosched() // the kernel ends what it killed
	}
}
