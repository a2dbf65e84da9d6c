package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/sandbox"
)

// linkedFiles is a way in which what the gate takes orders from lies in the
// workspace. A name that begins with ws/ is in the workspace, any other in
// the home folder; a text that begins with -> is a symlink's target, and WS in
// it is the workspace.
type linkedFiles struct {
	name   string
	home   string // TOOLGATE_HOME; "" is toolgate
	files  map[string]string
	orders []string // by the names under which the gate reads them
	attack string   // run in the workspace
	refuse string   // why nothing is started at any level, "" when it is
}

const (
	secretConfig = "approval_policy = \"never\" # secret-word\n"
	hookConfig   = "[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = %q\n"
)

var linkedLayouts = []linkedFiles{
	{
		name: "files",
		files: map[string]string{
			"ws/dot/config.toml": secretConfig, "toolgate/config.toml": "->WS/dot/config.toml",
			"ws/dot/my.rules": "# mine\n", "toolgate/rules/default.rules": "->../../ws/dot/my.rules",
		},
		orders: []string{"toolgate/config.toml", "toolgate/rules/default.rules"},
		attack: "echo '#' >> dot/config.toml; echo '#' >> dot/my.rules; rm -f dot/*; cat dot/config.toml",
	},
	{
		name:   "parent is moved",
		files:  map[string]string{"ws/a/dot/config.toml": secretConfig, "toolgate/config.toml": "->WS/a/dot/config.toml"},
		orders: []string{"toolgate/config.toml"},
		attack: "mv a b; mkdir -p a/dot; echo '#' > a/dot/config.toml; " +
			"mv a/dot a/d; mkdir -p a/dot; echo '#' > a/dot/config.toml",
	},
	{
		name:   "folder",
		home:   "links/toolgate",
		files:  map[string]string{"ws/dot/toolgate/config.toml": secretConfig, "links/toolgate": "->WS/dot/toolgate"},
		orders: []string{"links/toolgate/config.toml", "links/toolgate/rules/default.rules"},
		attack: "echo '#' >> dot/toolgate/config.toml; echo '#' > dot/toolgate/rules/default.rules; mv dot d; " +
			"mkdir -p dot/toolgate; echo '#' > dot/toolgate/config.toml; cat dot/toolgate/config.toml",
	},
	{
		name:   "parent folder",
		home:   ".config/toolgate",
		files:  map[string]string{"ws/config/toolgate/config.toml": secretConfig, ".config": "->WS/config"},
		orders: []string{".config/toolgate/config.toml"},
		attack: "echo '#' >> config/toolgate/config.toml; mv config c; " +
			"mkdir -p config/toolgate; echo '#' > config/toolgate/config.toml",
	},
	{
		name: "chain",
		files: map[string]string{
			"ws/dot/config.toml": secretConfig, "ws/lead": "->dot", "ws/last": "->lead/config.toml",
			"toolgate/config.toml": "->WS/last",
		},
		orders: []string{"toolgate/config.toml"},
		attack: "rm -f last lead; echo '#' > last; mkdir lead; echo '#' > lead/config.toml; " +
			"echo '#' > new; ln -sf new last; mv -T new last; cat last",
	},
	{
		name: "folder of rules",
		files: map[string]string{
			"ws/rules/default.rules": "->../more/x", "ws/more/x": "# mine\n", "toolgate/rules": "->WS/rules",
		},
		orders: []string{"toolgate/rules/default.rules", "toolgate/rules/new.rules"},
		attack: "echo '#' >> more/x; echo '#' > rules/new.rules; mv rules r; mkdir rules; echo '#' > rules/new.rules",
	},
	{
		name:   "answers",
		files:  map[string]string{"ws/answers/a": "{}", "toolgate/state/approvals": "->WS/answers"},
		orders: []string{"toolgate/state/approvals/a", "toolgate/state/approvals/b"},
		attack: "echo x >> answers/a; echo x > answers/b; mv answers q; mkdir answers; echo x > answers/b",
	},
	{
		name: "hook",
		files: map[string]string{
			"ws/hooks/real": "exit 0\n", "ws/check": "->hooks/real",
			"toolgate/config.toml": fmt.Sprintf(hookConfig, "sh ./check --strict"),
		},
		orders: []string{"ws/check"},
		attack: "echo exit 2 >> hooks/real; rm -f check hooks/real; echo exit 2 > check; " +
			"mv hooks h; mkdir hooks; echo exit 2 > hooks/real",
	},
	{
		name: "old backup",
		files: map[string]string{
			"ws/config.toml": "", "ws/config.toml.bak": "# secret-word\n", "toolgate/config.toml": "->WS/config.toml",
		},
		orders: []string{"toolgate/config.toml"},
		attack: "cat config.toml.bak",
	},
	{
		name:   "without links",
		home:   "ws/a/b/toolgate",
		files:  map[string]string{"ws/a/b/toolgate/config.toml": secretConfig},
		orders: []string{"ws/a/b/toolgate/config.toml"},
		attack: "mv a/b a/c; mkdir -p a/b/toolgate; echo '#' > a/b/toolgate/config.toml; " +
			"mv a d; mkdir -p a/b/toolgate; echo '#' > a/b/toolgate/config.toml",
	},
	{
		name:   "dangling",
		files:  map[string]string{"toolgate/config.toml": "->WS/dot/config.toml", "ws/dot/x": ""},
		refuse: "does not exist",
	},
	{
		name: "missing hook",
		files: map[string]string{
			"toolgate/config.toml": fmt.Sprintf(hookConfig, "./check"),
		},
		refuse: "does not exist",
	},
}

// lay writes the files below base.
func (l linkedFiles) lay(t *testing.T, base string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(base, "ws"), 0o755))
	for name, text := range l.files {
		path := filepath.Join(base, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, ok := strings.CutPrefix(text, "->"); ok {
			require.NoError(t, os.Symlink(strings.Replace(target, "WS", filepath.Join(base, "ws"), 1), path))
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

// state is what the gate would read.
func (l linkedFiles) state(base string) string {
	var b strings.Builder
	for _, name := range l.orders {
		text, err := os.ReadFile(filepath.Join(base, name))
		fmt.Fprintf(&b, "%s: %q %v\n", name, text, os.IsNotExist(err))
	}
	return b.String()
}

// systemAt is this system as if level were the best that it can do.
func systemAt(t *testing.T, level sandbox.Level) sandbox.System {
	t.Helper()
	sys := bestAt(level)
	if !need(t, "REQUIRE_SANDBOX", sys.Level() == level) {
		t.Skipf("no level %v", level)
	}
	return sys
}

// bestAt is this system without what is above level.
func bestAt(level sandbox.Level) sandbox.System {
	sys, left := sandbox.Probe(), sandbox.Support{Why: "left out"}
	switch level {
	case sandbox.Bwrap:
		path, err := exec.LookPath("bwrap")
		sys.Namespaces, sys.BwrapPath, sys.Bwrap = left, path, sandbox.Support{OK: err == nil}
	case sandbox.Landlock:
		sys.Namespaces, sys.Bwrap = left, left
	}
	return sys
}

// A command can change none of the files that the gate takes orders from, by
// whatever symlinks they are reached, and read none that holds secrets.
func TestLinkedOrdersAreProtected(t *testing.T) {
	for _, l := range linkedLayouts {
		for _, level := range []sandbox.Level{sandbox.Full, sandbox.Bwrap, sandbox.Landlock} {
			t.Run(l.name+"/"+level.String(), func(t *testing.T) {
				sys := systemAt(t, level)
				base, err := filepath.EvalSymlinks(t.TempDir())
				require.NoError(t, err)
				l.lay(t, base)
				home := l.home
				if home == "" {
					home = "toolgate"
				}
				t.Setenv("TOOLGATE_HOME", filepath.Join(base, home))
				t.Setenv("HOME", filepath.Join(base, "user"))
				var out bytes.Buffer
				p := &program{stdout: &out, stderr: &out}
				p.LogLevel, p.Dir = "error", filepath.Join(base, "ws")
				p.ConfigValues = []string{
					"sandbox_workspace_write.exclude_slash_tmp=true", "sandbox_workspace_write.exclude_tmpdir_env_var=true",
				}
				s, err := p.Load()
				require.NoError(t, err)
				before := l.state(base)
				cmd, _, err := p.startSandboxed(s, sys, []string{"/bin/sh", "-c", l.attack + "\necho fine > beside"})
				if l.refuse != "" {
					require.ErrorContains(t, err, l.refuse)
					return
				}
				if level == sandbox.Landlock {
					require.ErrorIs(t, err, sandbox.ErrUnsupported)
					require.ErrorContains(t, err, "cannot protect it")
					return
				}
				require.NoError(t, err)
				require.NoError(t, cmd.WaitEnded(), out.String())
				require.Equal(t, before, l.state(base), out.String())
				require.NotContains(t, out.String(), "secret-word")
				require.FileExists(t, filepath.Join(base, "ws", "beside"))
			})
		}
	}
}

// Rules and config that are reached through symlinks are read anew when they
// are changed in place, and not when a command could have made what they lead
// to.
func TestLinkedOrdersAreReadAnew(t *testing.T) {
	needSandbox(t)
	base := t.TempDir()
	ws, home := filepath.Join(base, "ws"), filepath.Join(base, "toolgate")
	linkedFiles{files: map[string]string{
		"ws/config.toml": "[sandbox_workspace_write]\nexclude_slash_tmp = true\nexclude_tmpdir_env_var = true\n",
		"ws/my.rules":    "", "toolgate/config.toml": "->WS/config.toml", "toolgate/rules/default.rules": "->WS/my.rules",
		"ws/other.toml": "",
	}}.lay(t, base)
	c := &client{t: t, ws: ws}
	c.cmd = exec.Command(ownBinary(t), "-a", "never")
	c.cmd.Dir = ws
	c.cmd.Env = append(os.Environ(), "HOME="+base, "TOOLGATE_HOME="+home)
	logged := c.serve()
	c.open()
	n := 0
	// permitted says whether the rules let a program out of the sandbox.
	permitted := func(program string) bool {
		n++
		made := filepath.Join(base, fmt.Sprint("made", n))
		c.call("shell", fmt.Sprintf(`{"command":["%s","%s"]}`, program, made))
		_, err := os.Stat(made)
		return err == nil
	}
	allow := func(program string) []byte {
		return fmt.Appendf(nil, "prefix_rule(pattern=[%q], decision=\"allow\")\n", program)
	}
	rules := filepath.Join(ws, "my.rules")
	require.False(t, permitted("touch"))
	require.NoError(t, os.WriteFile(rules, allow("touch"), 0o644))
	require.True(t, permitted("touch"), "changed in place")
	require.NoError(t, os.WriteFile(rules+".new", allow("mkdir"), 0o644))
	require.NoError(t, os.Rename(rules+".new", rules))
	require.False(t, permitted("mkdir"), "another file is in its place")
	require.True(t, permitted("touch"), "the rules read before stay in force")

	link := filepath.Join(home, "rules", "default.rules")
	require.NoError(t, os.WriteFile(filepath.Join(ws, "more.rules"), append(allow("mkdir"), '\n'), 0o644))
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink(filepath.Join(ws, "more.rules"), link))
	require.False(t, permitted("mkdir"), "the link leads elsewhere")

	file := filepath.Join(home, "config.toml")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Symlink(filepath.Join(ws, "other.toml"), file))
	lines := bufio.NewScanner(logged)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "config not reloaded") {
			require.Contains(t, lines.Text(), "restart toolgate")
			return
		}
	}
	t.Fatal("nothing was logged about the config")
}

// A caller over HTTP that comes later has settings of its own, while the
// commands of others run.
func TestLaterSettingsTakeTheSameOrders(t *testing.T) {
	base := t.TempDir()
	linkedFiles{files: map[string]string{
		"ws/a.toml": "", "ws/b.toml": "approval_policy = \"never\"\n", "toolgate/config.toml": "->WS/a.toml",
	}}.lay(t, base)
	home := filepath.Join(base, "toolgate")
	t.Setenv("TOOLGATE_HOME", home)
	p := &program{stdout: io.Discard, stderr: io.Discard}
	p.LogLevel, p.Dir = "error", filepath.Join(base, "ws")
	_, err := p.Load()
	require.NoError(t, err)
	_, err = p.Load()
	require.NoError(t, err)
	link := filepath.Join(home, "config.toml")
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink(filepath.Join(base, "ws", "b.toml"), link))
	_, err = p.Load()
	require.ErrorContains(t, err, "restart toolgate")
}

// A hook whose program was replaced in the workspace, where a running command
// may have changed it, does not run.
func TestReplacedHookDoesNotRun(t *testing.T) {
	needSandbox(t)
	base := t.TempDir()
	ws := filepath.Join(base, "ws")
	linkedFiles{files: map[string]string{
		"ws/check":             "exit 0\n",
		"toolgate/config.toml": fmt.Sprintf(hookConfig, "sh ./check"),
	}}.lay(t, base)
	c := &client{t: t, ws: ws}
	c.cmd = exec.Command(ownBinary(t), "-a", "never")
	c.cmd.Dir, c.cmd.Env = ws, append(os.Environ(), "HOME="+base, "TOOLGATE_HOME="+filepath.Join(base, "toolgate"))
	c.serve()
	c.open()
	require.Contains(t, c.call("shell", `{"command":"echo exit 2 >> check; echo done"}`).text(), "done")
	require.Contains(t, c.call("shell", `{"command":"echo again"}`).text(), "again")
	require.NoError(t, os.WriteFile(filepath.Join(ws, "new"), []byte("touch ran\n"), 0o644))
	require.NoError(t, os.Rename(filepath.Join(ws, "new"), filepath.Join(ws, "check")))
	require.Contains(t, c.call("shell", `{"command":"echo again"}`).text(), "restart toolgate")
	require.NoFileExists(t, filepath.Join(ws, "ran"))
}

// serve starts c's program. It returns what it logs.
func (c *client) serve() (logged io.Reader) {
	c.t.Helper()
	var err error
	c.in, err = c.cmd.StdinPipe()
	require.NoError(c.t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(c.t, err)
	logged, err = c.cmd.StderrPipe()
	require.NoError(c.t, err)
	c.out = bufio.NewReaderSize(out, 1<<20)
	require.NoError(c.t, c.cmd.Start())
	c.t.Cleanup(func() {
		c.in.Close()
		c.cmd.Wait()
	})
	return logged
}
