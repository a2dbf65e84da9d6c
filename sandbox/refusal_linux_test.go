package sandbox_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/policy"
	"toolgate/sandbox"
)

// A findings is what a process on a poorer system finds.
type findings struct {
	System sandbox.System
	Plan   string // error of a plan for this system, or its level
	Rest   []string

	// Forced is the error of starting a program by the plan of a system that
	// can do everything, and Ran whether it ran all the same.
	Forced      string
	Unsupported bool
	Ran         bool
}

// poorer are systems that lack something, made by refusing the calls for it.
var poorer = map[string]func() error{
	"namespaces": func() error {
		return sandbox.RefuseCalls(uint32(unix.EPERM), unix.CLONE_NEWUSER, unix.SYS_CLONE, unix.SYS_UNSHARE)
	},
	// A container, or AppArmor: there are namespaces, but nothing can be done in them.
	"mounts":   func() error { return sandbox.RefuseCalls(uint32(unix.EPERM), 0, unix.SYS_MOUNT) },
	"landlock": func() error { return sandbox.RefuseCalls(uint32(unix.ENOSYS), 0, unix.SYS_LANDLOCK_CREATE_RULESET) },
	"disabled landlock": func() error {
		return sandbox.RefuseCalls(uint32(unix.EOPNOTSUPP), 0, unix.SYS_LANDLOCK_CREATE_RULESET)
	},
	// Last, for it also refuses itself.
	"seccomp": func() error { return sandbox.RefuseCalls(uint32(unix.ENOSYS), 0, unix.SYS_SECCOMP) },
}

func init() {
	// poorer becomes a process on a system without what the arguments name.
	ops["poorer"] = func(args []string) error {
		runtime.LockOSThread()
		for _, lack := range args {
			if err := poorer[lack](); err != nil {
				return err
			}
		}
		return unix.Exec("/proc/self/exe", []string{"toolgate", "op", "find"}, os.Environ())
	}
	ops["find"] = func([]string) error {
		f := findings{System: sandbox.Probe()}
		plan, err := sandbox.NewPlan(workspace(os.TempDir()), f.System)
		if err != nil {
			f.Plan = err.Error()
		} else {
			f.Plan, f.Rest = plan.Level.String(), plan.Unenforced
		}
		rich, err := sandbox.NewPlan(policy.Profile{}, capable)
		if err != nil {
			return err
		}
		cmd := rich.Command("", "op", "say", "ran")
		var said strings.Builder
		cmd.Stdout = &said
		if err := cmd.Run(); err != nil {
			f.Forced, f.Unsupported = err.Error(), errors.Is(err, sandbox.ErrUnsupported)
		}
		f.Ran = said.String() != ""
		return json.NewEncoder(os.Stdout).Encode(f)
	}
}

// A process that cannot be confined as the plan asks does not start, and the
// error says why.
func TestRefusals(t *testing.T) {
	here := sandbox.Probe()
	if here.Level() != sandbox.Full || !here.Landlock.OK {
		skip(t, "this system lacks something itself: %v", here.Why())
	}
	for _, c := range []struct {
		lacks      string
		plan       string   // level, or part of the error
		why        string   // a part of what the system says for itself
		unenforced []string // a word of each
		forced     string   // part of the error of the richer plan
	}{
		{"namespaces", "landlock", "operation not permitted", []string{"Landlock cannot take back", "attributes", "/proc"}, "operation not permitted"},
		{"mounts", "landlock", "private mounts: operation not permitted", []string{"Landlock cannot take back", "attributes", "/proc"}, "private mounts: operation not permitted"},
		{"landlock", "full", "built without Landlock", []string{"second layer"}, "landlock: function not implemented"},
		{"disabled landlock", "full", "switched off", []string{"second layer"}, "landlock: operation not supported"},
		{"seccomp", "unsupported", "function not implemented", nil, "seccomp: function not implemented"},
		{"namespaces, landlock", "unsupported", "built without Landlock", nil, "operation not permitted"},
	} {
		t.Run(c.lacks, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe", append([]string{"op", "poorer"}, strings.Split(c.lacks, ", ")...)...)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			require.NoError(t, err)
			var f findings
			require.NoError(t, json.Unmarshal(out, &f))
			require.Contains(t, f.Plan, c.plan)
			require.Contains(t, strings.Join(f.System.Why(), "\n"), c.why)
			require.Len(t, f.Rest, len(c.unenforced))
			for i, word := range c.unenforced {
				require.Contains(t, f.Rest[i], word)
			}
			require.False(t, f.Ran, "it ran unconfined")
			require.Contains(t, f.Forced, c.forced)
			require.True(t, f.Unsupported, f.Forced)
		})
	}
}
