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
	"inotify":  func() error { return sandbox.RefuseCalls(uint32(unix.EMFILE), 0, unix.SYS_INOTIFY_INIT1) },
	"fanotify": func() error { return sandbox.RefuseCalls(uint32(unix.EPERM), 0, unix.SYS_FANOTIFY_INIT) },
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
	// poorer to is poorer for another op, with one argument.
	ops["poorer to"] = func(args []string) error {
		runtime.LockOSThread()
		for _, lack := range args[2:] {
			if err := poorer[lack](); err != nil {
				return err
			}
		}
		return unix.Exec("/proc/self/exe", []string{"toolgate", "op", args[0], args[1]}, os.Environ())
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

// kinds are profiles that say something of single paths, below the temporary
// folder dir.
func kinds(dir string) map[string]policy.Profile {
	root := dir + "/root"
	with := func(paths policy.Paths) policy.Profile {
		p := workspace(root)
		p.Name, p.Paths = "dev", paths
		return p
	}
	return map[string]policy.Profile{
		"reads some":        with(policy.Paths{Restricted: true, Readable: []string{"/bin", "/lib", "/lib64", "/usr"}}),
		"denies elsewhere":  with(policy.Paths{Denied: []string{dir + "/key"}}),
		"pattern elsewhere": with(policy.Paths{DeniedGlobs: []string{dir + "/conf/*.env"}}),
		"denies in root":    with(policy.Paths{Denied: []string{root + "/key"}}),
		"pattern in root":   with(policy.Paths{DeniedGlobs: []string{root + "/**/*.env"}}),
		"read-only in root": with(policy.Paths{ReadOnly: []string{root + "/docs"}}),
	}
}

func init() {
	// kinds prints, for each of kinds, the level that this system has for it
	// or why it has none, and whether a program ran by the plan of a system
	// that can do everything.
	ops["kinds"] = func(args []string) error {
		found := map[string][2]string{}
		for name, p := range kinds(args[0]) {
			plan, err := sandbox.NewPlan(p, sandbox.Probe())
			said := [2]string{plan.Level.String(), "did not run"}
			if err != nil {
				said[0] = err.Error()
			}
			if rich, err := sandbox.NewPlan(p, capable); err != nil {
				return err
			} else {
				cmd := rich.Command("", "op", "say", "x")
				cmd.Dir = "/"
				if cmd.Run() == nil {
					said[1] = "ran"
				}
			}
			found[name] = said
		}
		return json.NewEncoder(os.Stdout).Encode(found)
	}
}

// A profile that this system cannot hold in every word is refused, with the
// reason, and nothing runs by the part that it could hold.
func TestRefusalsOfProfiles(t *testing.T) {
	here := sandbox.Probe()
	if here.Level() != sandbox.Full || !here.Landlock.OK {
		skip(t, "this system lacks something itself: %v", here.Why())
	}
	dir := t.TempDir()
	write(t, dir+"/root/key", "x")
	write(t, dir+"/root/docs/a", "x")
	write(t, dir+"/conf/a.env", "x")
	const takeBack = "unsupported on this system: the profile dev denies %, which lies in what it lets be written"
	landlock := map[string]string{
		"reads some": "landlock", "denies elsewhere": "landlock", "pattern elsewhere": "landlock",
		"denies in root": takeBack, "pattern in root": takeBack, "read-only in root": takeBack,
	}
	every := func(why string) map[string]string {
		m := map[string]string{}
		for name := range landlock {
			m[name] = why
		}
		return m
	}
	for _, c := range []struct {
		lacks string
		want  map[string]string // kind → level, or part of the error
	}{
		{"namespaces", landlock},
		{"mounts", landlock}, // as in a container: EPERM
		{"landlock", every("full")},
		{"disabled landlock", every("full")},
		{"seccomp", every("seccomp: function not implemented")},
		{"namespaces, landlock", every("unsupported on this system: namespaces: ")},
		{"mounts, landlock", every("unsupported on this system: namespaces: ")},
	} {
		t.Run(c.lacks, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe", append([]string{"op", "poorer to", "kinds", dir}, strings.Split(c.lacks, ", ")...)...)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			require.NoError(t, err)
			var found map[string][2]string
			require.NoError(t, json.Unmarshal(out, &found))
			require.Len(t, found, len(c.want))
			for name, want := range c.want {
				for part := range strings.SplitSeq(want, "%") {
					require.Contains(t, found[name][0], part, name)
				}
				require.Equal(t, "did not run", found[name][1], name)
			}
		})
	}
	out, err := exec.Command("/proc/self/exe", "op", "kinds", dir).Output()
	require.NoError(t, err)
	var found map[string][2]string
	require.NoError(t, json.Unmarshal(out, &found))
	for name := range landlock {
		require.Equal(t, [2]string{"full", "ran"}, found[name], "the control: %s", name)
	}
}
