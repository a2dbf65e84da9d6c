package sandbox_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/sandbox"
)

var (
	yes = sandbox.Support{OK: true}
	no  = sandbox.Support{Why: "not here"}
)

// capable is a system that can do everything.
var capable = sandbox.System{
	OS: "linux", Namespaces: yes, Bwrap: yes, BwrapPath: "/usr/bin/bwrap", Seccomp: yes, Landlock: yes, ABI: 7,
}

func workspace(roots ...string) policy.Profile {
	return policy.Profile{
		Mode: policy.WorkspaceWrite, WritableRoots: roots, ReadOnlySubpaths: policy.DefaultReadOnlySubpaths,
	}
}

func TestNewPlanLevel(t *testing.T) {
	for _, c := range []struct {
		name       string
		change     func(*sandbox.System)
		want       sandbox.Level
		unenforced []string // a word of each line
	}{
		{"everything", func(s *sandbox.System) {}, sandbox.Full, nil},
		{"no landlock", func(s *sandbox.System) { s.Landlock, s.ABI = no, 0 }, sandbox.Full, []string{"second layer"}},
		{"old landlock", func(s *sandbox.System) { s.ABI = 5 }, sandbox.Full, []string{"signal"}},
		{"root", func(s *sandbox.System) { s.Root, s.PidLimit = true, true }, sandbox.Full, nil},
		{"root before Linux 6.14", func(s *sandbox.System) { s.Root = true }, sandbox.Full, []string{"root's processes"}},
		{"root with bubblewrap", func(s *sandbox.System) { s.Root, s.PidLimit, s.Namespaces = true, true, no }, sandbox.Bwrap,
			[]string{"root's processes"}},
		{"no namespaces", func(s *sandbox.System) { s.Namespaces = no }, sandbox.Bwrap, nil},
		{"landlock only", func(s *sandbox.System) { s.Namespaces, s.Bwrap = no, no }, sandbox.Landlock,
			[]string{".git", "owner", "/proc"}},
		{"old landlock only", func(s *sandbox.System) { s.Namespaces, s.Bwrap, s.ABI = no, no, 1 }, sandbox.Landlock,
			[]string{".git", "owner", "/proc", "truncated", "signalled"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := capable
			c.change(&s)
			plan, err := sandbox.NewPlan(workspace("/w"), s)
			require.NoError(t, err)
			require.Equal(t, c.want, plan.Level)
			require.Len(t, plan.Unenforced, len(c.unenforced))
			for i, word := range c.unenforced {
				require.Contains(t, plan.Unenforced[i], word)
			}
		})
	}
}

func TestNewPlanUnsupported(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*sandbox.System)
		why    string
	}{
		{"zero system", func(s *sandbox.System) { *s = sandbox.System{} }, "no sandbox for"},
		{"another system", func(s *sandbox.System) { s.OS = "plan9" }, "no sandbox for plan9"},
		{"no seccomp", func(s *sandbox.System) { s.Seccomp = no }, "seccomp: not here"},
		{"nothing at all", func(s *sandbox.System) { s.Namespaces, s.Bwrap, s.Landlock = no, no, no }, "namespaces: not here; bubblewrap: not here; landlock: not here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := capable
			c.change(&s)
			plan, err := sandbox.NewPlan(workspace("/w"), s)
			require.ErrorIs(t, err, sandbox.ErrUnsupported)
			require.ErrorContains(t, err, c.why)
			require.Zero(t, plan)

			plan, err = sandbox.NewPlan(policy.Profile{Mode: policy.DangerFullAccess}, s)
			require.NoError(t, err, "what is not confined needs nothing")
			require.Equal(t, sandbox.None, plan.Level)
		})
	}
}

func TestNewPlanProfile(t *testing.T) {
	for _, c := range []struct {
		name    string
		profile policy.Profile
		want    string // part of the error; "" for none
	}{
		{"zero", policy.Profile{}, ""},
		{"a folder", workspace("/home/u/w"), ""},
		{"nested", workspace("/w", "/w/a"), ""},
		{"relative root", workspace("w"), "absolute, clean"},
		{"unclean root", workspace("/w/../x"), "absolute, clean"},
		{"trailing slash", workspace("/w/"), "absolute, clean"},
		{"empty root", workspace(""), "absolute, clean"},
		{"whole file system", workspace("/"), "whole file system"},
		{"proc", workspace("/proc"), "belongs to the kernel"},
		{"below sys", workspace("/sys/fs/cgroup"), "belongs to the kernel"},
		{"dev", workspace("/dev"), "belongs to the kernel"},
		{"beside dev", workspace("/device"), ""},
		{"shared memory", workspace("/dev/shm"), ""},
		{"shared memory folder", workspace("/dev/shm/w"), ""},
		{"sub-path up", policy.Profile{ReadOnlySubpaths: []string{"../x"}}, "sub-path"},
		{"sub-path absolute", policy.Profile{ReadOnlySubpaths: []string{"/x"}}, "sub-path"},
		{"sub-path is the root", policy.Profile{ReadOnlySubpaths: []string{"."}}, "sub-path"},
		{"sub-path deep", policy.Profile{ReadOnlySubpaths: []string{"a/b"}}, ""},
		{"hidden relative", policy.Profile{Hidden: []string{".ssh"}}, "hidden path"},
		{"hidden all", policy.Profile{Hidden: []string{"/"}}, "hidden path"},
		{"hidden", policy.Profile{Hidden: []string{"/home/u/.ssh"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := sandbox.NewPlan(c.profile, capable)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.NotErrorIs(t, err, sandbox.ErrUnsupported)
		})
	}
}

func TestReadOnlyHasNoRoots(t *testing.T) {
	p := workspace("/w")
	p.Mode = policy.ReadOnly
	plan, err := sandbox.NewPlan(p, capable)
	require.NoError(t, err)
	require.Empty(t, plan.Profile.WritableRoots)
}

func TestDigest(t *testing.T) {
	digest := func(p policy.Profile, s sandbox.System) string {
		plan, err := sandbox.NewPlan(p, s)
		require.NoError(t, err)
		require.NotEmpty(t, plan.Digest)
		return plan.Digest
	}
	base := digest(workspace("/a", "/b"), capable)
	require.Equal(t, base, digest(workspace("/b", "/a", "/b"), capable), "order and repetition confine alike")
	require.NotEqual(t, base, digest(workspace("/a"), capable))
	old := capable
	old.ABI = 5
	require.NotEqual(t, base, digest(workspace("/a", "/b"), old))
	open := workspace("/a", "/b")
	open.Network = policy.NetworkAll
	require.NotEqual(t, base, digest(open, capable))
}

func TestPlanJSON(t *testing.T) {
	plan, err := sandbox.NewPlan(workspace("/a"), capable)
	require.NoError(t, err)
	text, err := json.Marshal(plan)
	require.NoError(t, err)
	require.Contains(t, string(text), `"level":"full"`)
	var back sandbox.Plan
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, plan, back)
	require.Error(t, json.Unmarshal([]byte(`{"level":"most"}`), &back))
}

func TestZeroPlanStartsNothing(t *testing.T) {
	require.ErrorContains(t, sandbox.Plan{}.Command("true").Start(), "NewPlan")
	forged := sandbox.Plan{Profile: policy.Profile{Mode: policy.DangerFullAccess}}
	require.ErrorContains(t, forged.Command("true").Start(), "NewPlan")
	_, err := sandbox.NewSpawner(sandbox.Plan{})
	require.Error(t, err)
}

func TestCredentials(t *testing.T) {
	paths := sandbox.Credentials("/home/u")
	require.Contains(t, paths, "/home/u/.ssh")
	require.Contains(t, paths, "/home/u/.config/gcloud")
	plan, err := sandbox.NewPlan(policy.Profile{Hidden: paths}, capable)
	require.NoError(t, err, "each is a path that can be hidden")
	require.Len(t, plan.Profile.Hidden, len(paths), "none is named twice")
}

func TestProtected(t *testing.T) {
	for _, gitWrites := range []bool{false, true} {
		p := workspace("/w")
		p.ReadOnlySubpaths = sandbox.Protected(gitWrites)
		_, err := sandbox.NewPlan(p, capable)
		require.NoError(t, err)
		require.Equal(t, !gitWrites, slices.Contains(p.ReadOnlySubpaths, ".git"))
		for _, name := range policy.DefaultReadOnlySubpaths {
			if name != ".git" {
				require.Contains(t, p.ReadOnlySubpaths, name)
			}
		}
	}
}

func TestWhatLiesBehindAMaskIsNotMaskedAgain(t *testing.T) {
	sys := sandbox.System{OS: "linux", Namespaces: sandbox.Support{OK: true}, Seccomp: sandbox.Support{OK: true}}
	plan, err := sandbox.NewPlan(policy.Profile{Hidden: []string{"/h/.config/gcloud", "/h/.config", "/h/.config2", "/h/.config/x/y"}}, sys)
	require.NoError(t, err)
	require.Equal(t, []string{"/h/.config", "/h/.config2"}, plan.Profile.Hidden)
}
