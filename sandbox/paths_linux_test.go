package sandbox_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/policy"
	"toolgate/sandbox"
)

// A oneOp is one operation and the errno that it ends with.
type oneOp struct {
	want syscall.Errno
	op   string
	args []string
}

func eachOp(t *testing.T, plan sandbox.Plan, list []oneOp) {
	t.Helper()
	for _, c := range list {
		errno, _ := try(t, plan, c.op, c.args...)
		require.Equal(t, c.want, errno, "%s %q", c.op, c.args)
	}
}

// absent is the errno of reading what cannot be read, where only some paths
// can: with mounts it is not there.
var absent = map[sandbox.Level]syscall.Errno{sandbox.Full: unix.ENOENT, sandbox.Bwrap: unix.ENOENT, sandbox.Landlock: unix.EACCES}

func TestOnlySomePathsCanBeRead(t *testing.T) {
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		base := t.TempDir()
		root := base + "/root"
		mine := write(t, root+"/mine", "old")
		open := write(t, base+"/open/file", "open")
		single := write(t, base+"/single", "single")
		secret := write(t, base+"/secret", "secret")
		require.NoError(t, os.Symlink(base+"/open", base+"/link"))
		require.NoError(t, os.Symlink("link/file", base+"/second"))
		require.NoError(t, os.Symlink(secret, root+"/lead"))
		p := workspace(root)
		p.Paths = policy.Paths{Restricted: true, Readable: []string{base + "/link", base + "/second", single, base + "/missing", "/bin", "/lib", "/lib64", "/usr"}}
		plan := at(t, level, p)
		no := absent[level]
		eachOp(t, plan, []oneOp{
			{0, "read", []string{mine}},
			{0, "append", []string{mine}},
			{0, "write", []string{root + "/new"}},
			{0, "list", []string{root}},
			{0, "list", []string{base + "/open"}},
			{0, "read", []string{open}},
			{0, "read", []string{base + "/link/file"}},
			{0, "read", []string{base + "/second"}},
			{0, "read", []string{single}},
			{0, "read", []string{"/bin/sh"}},
			{0, "read", []string{"/proc/self/status"}},
			{0, "read", []string{"/dev/null"}},
			{no, "read", []string{secret}},
			{no, "read", []string{root + "/lead"}},
			{no, "list", []string{"/home"}},
			{no, "read", []string{"/etc/passwd"}},
			{refused[level], "append", []string{open}},
			{refused[level], "write", []string{base + "/new"}},
			{refused[level], "mkdir", []string{"/made"}},
		})
		if level != sandbox.Landlock {
			_, names := try(t, plan, "list", base)
			require.ElementsMatch(t, []string{"link", "open", "root", "second", "single"}, strings.Fields(names))
		}
		require.Equal(t, "open", content(t, open))
		entries, err := os.ReadDir(base)
		require.NoError(t, err)
		require.Len(t, entries, 6, "nothing is left in the tree")
	})
}

func TestDeniedPaths(t *testing.T) {
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		base, root := t.TempDir(), t.TempDir()
		key := write(t, base+"/keys/id", "key")
		public := write(t, base+"/keys/public/id.pub", "public")
		out := write(t, base+"/keys/out/o", "old")
		write(t, base+"/keys/public/not", "not")
		env := write(t, base+"/conf/deep/a.env", "env")
		plain := write(t, base+"/conf/deep/a.txt", "plain")
		p := workspace(root, base+"/keys/out")
		p.Paths = policy.Paths{
			Denied:      []string{base + "/keys", base + "/keys/public/not", base + "/missing"},
			Readable:    []string{base + "/keys/public"},
			DeniedGlobs: []string{base + "/**/*.env"},
		}
		if level == sandbox.Landlock {
			_, err := planAt(level, p) // the pattern reaches into what may be written
			require.ErrorIs(t, err, sandbox.ErrUnsupported)
			require.ErrorContains(t, err, "Landlock cannot take back what it allowed above")
			p.Paths.DeniedGlobs = []string{base + "/conf/**/*.env"}
		}
		plan := at(t, level, p)
		eachOp(t, plan, []oneOp{
			{absent[level], "read", []string{key}},
			{0, "read", []string{public}},
			{unix.EACCES, "read", []string{base + "/keys/public/not"}},
			{0, "append", []string{out}},
			{0, "write", []string{base + "/keys/out/new"}},
			{refused[level], "append", []string{public}},
			{unix.EACCES, "read", []string{env}},
			{0, "read", []string{plain}},
			{0, "read", []string{"/etc/passwd"}},
		})
		if level != sandbox.Landlock {
			_, names := try(t, plan, "list", base+"/keys")
			require.ElementsMatch(t, []string{"out", "public"}, strings.Fields(names))
		}
		require.Equal(t, "key", content(t, key))
	})
}

func TestReadOnlyPaths(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Bwrap} {
		t.Run(level.String(), func(t *testing.T) {
			root := t.TempDir()
			doc := write(t, root+"/docs/a", "old")
			draft := write(t, root+"/docs/draft/a", "old")
			secret := write(t, root+"/secret", "secret")
			p := workspace(root, root+"/docs/draft", root+"/.git")
			hook := write(t, root+"/.git/hook", "old")
			p.Paths = policy.Paths{ReadOnly: []string{root + "/docs", root + "/missing"}, Denied: []string{secret}}
			eachOp(t, at(t, level, p), []oneOp{
				{0, "read", []string{doc}},
				{unix.EROFS, "append", []string{doc}},
				{unix.EROFS, "write", []string{root + "/docs/b"}},
				{unix.EBUSY, "rename", []string{root + "/docs", root + "/gone"}},
				{0, "append", []string{draft}},
				{0, "append", []string{hook}}, // named as writable itself
				{unix.EACCES, "read", []string{secret}},
				{unix.EACCES, "append", []string{secret}},
				{unix.EBUSY, "remove", []string{secret}},
			})
			require.NoFileExists(t, root+"/missing")
		})
	}
}

// What Landlock cannot hold is refused before anything starts, and the error
// says what it is.
func TestPathsThatLandlockCannotHold(t *testing.T) {
	only := sandbox.System{OS: "linux", Seccomp: sandbox.Support{OK: true}, Landlock: sandbox.Support{OK: true}, ABI: 6}
	for name, paths := range map[string]policy.Paths{
		"/w/docs":   {ReadOnly: []string{"/w/docs"}},
		"/w/key":    {Denied: []string{"/w/key"}},
		"/w/*.env":  {DeniedGlobs: []string{"/w/*.env"}},
		"/**/x.pem": {DeniedGlobs: []string{"/**/x.pem"}},
	} {
		p := policy.Profile{Mode: policy.WorkspaceWrite, Name: "dev", WritableRoots: []string{"/w"}, Paths: paths}
		_, err := sandbox.NewPlan(p, only)
		require.ErrorIs(t, err, sandbox.ErrUnsupported)
		require.ErrorContains(t, err, "the profile dev denies "+name+", which lies in what it lets be written (/w)")
		_, err = sandbox.NewPlan(p, capable)
		require.NoError(t, err)
		_, err = sandbox.NewPlan(p, sandbox.System{OS: "linux"})
		require.ErrorIs(t, err, sandbox.ErrUnsupported, "none at all")
	}
	elsewhere := policy.Profile{Mode: policy.WorkspaceWrite, WritableRoots: []string{"/w"}, Paths: policy.Paths{
		Restricted: true, Readable: []string{"/usr"}, Denied: []string{"/usr/src"}, DeniedGlobs: []string{"/srv/**/*.env"},
	}}
	plan, err := sandbox.NewPlan(elsewhere, only)
	require.NoError(t, err)
	require.Contains(t, strings.Join(plan.Unenforced, "\n"), "the size and times")
	for _, bad := range []policy.Paths{
		{Readable: []string{"usr"}}, {Denied: []string{"/"}}, {Denied: []string{"/proc/1"}}, {ReadOnly: []string{"/a/"}}, {DeniedGlobs: []string{"*.env"}},
	} {
		_, err := sandbox.NewPlan(policy.Profile{Paths: bad}, capable)
		require.Error(t, err, "%+v", bad)
	}
}

// Paths are bytes, which need not be UTF-8: those that are found, and those that the
// profile, the arguments and the environment name.
func TestPathsOfAnyBytes(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Bwrap} {
		t.Run(level.String(), func(t *testing.T) {
			base := t.TempDir()
			root, shared := base+"/root\xff", base+"/shared\u00a0\xfe \\"
			hook := write(t, root+"/a\xff\n/.git/hook", "old")
			other := write(t, shared+"/\xff/.git/hook", "old")
			key := write(t, root+"/key\xfd", "secret")
			twin := write(t, root+"/key\xfc", "open")
			p := workspace(root, shared)
			p.SharedRoots = []string{shared}
			p.Hidden = []string{key}
			eachOp(t, at(t, level, p), []oneOp{
				{refused[level], "append", []string{hook}},
				{refused[level], "append", []string{other}},
				{unix.EACCES, "read", []string{key}},
				{0, "read", []string{twin}},
				{0, "write", []string{root + "/\xff new"}},
			})
			require.FileExists(t, root+"/\xff new")
		})
	}
	one, err := sandbox.NewPlan(workspace("/w/\xff"), capable)
	require.NoError(t, err)
	two, err := sandbox.NewPlan(workspace("/w/\xfe"), capable)
	require.NoError(t, err)
	require.NotEqual(t, one.Digest, two.Digest)
	require.NotEqual(t, one.Profile.Digest(), two.Profile.Digest())
}
