package applypatch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/tools/applypatch"
)

// changing maps the system calls that change files to the fault that is asked
// for before each. Owners and attributes are left out: those are only set when
// they differ.
var changing = map[string]string{
	"mkdirat": "mkdir", "unlinkat": "remove", "pwrite64": "write", "write": "write",
	"renameat": "rename", "renameat2": "rename", "fsync": "sync",
	"ftruncate": "truncate", "fchmodat": "chmod", "fchmodat2": "chmod", "openat": "open",
}

var systemCall = regexp.MustCompile(`^(?:\[pid +\d+\] |\d+ +)?(\w+)\((.*)`)

// A fault is asked for before every system call that changes a file: the tests
// that kill and fail at every fault miss none.
func TestFaultsCoverSystemCalls(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("REQUIRE_STRACE") == "1" {
			t.Fatal("REQUIRE_STRACE=1, but there is no strace")
		}
		t.Skip("there is no strace")
	}
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	laySix(t, dir)
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(t.Context(), strace, "-f", "-y", "-o", trace, os.Args[0])
	cmd.Env = append(os.Environ(), childTask+"=apply", childDir+"="+dir, childState+"="+state, childDie+"="+strconv.Itoa(1<<30))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("strace cannot trace here: %v: %s", err, out)
	}
	traced := map[string]int{}
	for line := range strings.Lines(read(t, trace)) {
		m := systemCall.FindStringSubmatch(line)
		if m == nil || !strings.Contains(m[2], dir) && !strings.Contains(m[2], state) {
			continue
		}
		call, ok := changing[m[1]]
		if m[1] == "openat" && !strings.Contains(m[2], "O_CREAT") {
			continue
		}
		if ok {
			traced[call]++
		}
	}

	dir, state = t.TempDir(), filepath.Join(t.TempDir(), "state")
	laySix(t, dir)
	t.Chdir(dir)
	asked := map[string]int{}
	tool := applypatch.NewFaulty(applypatch.Options{StateDir: state}, func(op, path string) error {
		asked[op]++
		return nil
	})[0]
	must(t, tool, patchArgs{sixFiles})
	delete(asked, "chown")
	delete(asked, "setxattr")
	asked["open"]-- // the file with two names is not created
	require.Equal(t, asked, traced)
}
