package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/testkit"
	"toolgate/policy"
	"toolgate/policy/rules"
	"toolgate/policy/shell"
)

// What becomes of a command in the tests below.
const (
	lifts  = "lifts"  // it runs without the sandbox, unasked
	inside = "inside" // it runs in the sandbox, unasked
	asks   = "asks"
	denied = "denied"
)

// outcome decides argv in workspace-write under an approval policy.
func outcome(t *testing.T, parsed *rules.Rules, approval policy.Approval, argv ...string) string {
	t.Helper()
	p := testkit.Policy(approval, policy.WorkspaceWrite)
	p.Rules = func() *rules.Rules { return parsed }
	d := p.Decide(policy.Action{Tool: "shell", Command: argv})
	switch {
	case d.Verdict == policy.Deny:
		return denied
	case d.Verdict == policy.Ask:
		return asks
	case d.Profile.Mode == policy.DangerFullAccess:
		return lifts
	}
	require.Equal(t, policy.WorkspaceWrite, d.Profile.Mode)
	return inside
}

// TestAllowLiftsPlainScripts shows what an allow rule does with a script. What
// no allow covers runs in the sandbox under on-request and is asked about under
// untrusted, so the table has what untrusted does.
func TestAllowLiftsPlainScripts(t *testing.T) {
	parsed := testkit.Rules(t, `
[prefix_rule(pattern=[name]) for name in [
    "ls", "cat", "echo", "cd", "sudo", "env", "printf", "test", "read", "export", "eval", "trap", "alias", "unset",
    "[", "[[", "mapfile",
]]
prefix_rule(pattern=[["/opt/tool", "./own.sh", "../own.sh", "/home/u/app/own.sh", "/tmp/own.sh"]])
prefix_rule(pattern=["git", ["status", "commit", "log", "show", "reset"]])
prefix_rule(pattern=["go", "test"])
prefix_rule(pattern=["git", "push"], decision="forbidden")
prefix_rule(pattern=["make"], decision="prompt")
`)
	for _, tt := range []struct {
		script, want string
	}{
		// Plain.
		{"ls", lifts},
		{"ls -la /srv", lifts},
		{"ls && git status", lifts},
		{"ls || cat x", lifts},
		{"ls; cat x;", lifts},
		{"ls|cat", lifts},
		{"ls\ncat x\nls\nls", lifts},
		{"ls &&\n\tcat x |\n\n cat", lifts},
		{"\n\n ls \t \n", lifts},
		{"git commit -m 'fix: a thing (#12)!'", lifts},
		{`git commit -m "a * [x] {y,z} ~ # (it's) <b>"`, lifts},
		{"git commit -m 'one; two && three > four\n\nfive | six'", lifts},
		{"git log --format=%h --grep='a b' -n 1", lifts},
		{"git show HEAD:a.go @,+", lifts},
		{"git reset HEAD~1", lifts},
		{`'ls' "-l" '' a'b'"c"`, lifts},
		{"/usr/bin/ls -l", lifts},
		{"/opt/tool x", lifts},
		{"cd sub && go test ./...", lifts},
		{"echo if then else", lifts},
		{"bash -c 'ls'", lifts},
		{`bash -lc "ls && cat 'a b'"`, lifts},
		{"sudo ls", lifts},
		{"sudo sh -c 'ls | cat'", lifts},
		{"timeout 5 ls", inside}, // no rule speaks of timeout
		{"printf %s x", inside},  // a builtin that evaluates what it is given
		{"test -f x && ls", inside},
		{"./ls", asks},
		{"ls && gcc x", asks},
		{"ls && make", asks},
		{"ls && git push", denied},

		// A rule allows them, but commands can write them.
		{"./own.sh", inside},
		{"ls && ../own.sh", inside},
		{"/home/u/app/own.sh x", inside},
		{"/tmp/own.sh", inside},

		// Not plain, and an allow speaks of every command.
		{"ls #\\\ntouch /var/tmp/x", inside},
		{"RANDOM='a[$(touch /var/tmp/x)]'; ls", inside},
		{"printf -v RANDOM 'a[\\x24(touch x)]'; ls", inside},
		{"ls # all", inside},
		{"ls \\\n-l", inside},
		{`ls a\ b`, inside},
		{"ls 'a$b'", inside},
		{"ls 'a`b'", inside},
		{`ls "a\b"`, inside},
		{`git commit -m "fix!"`, inside},
		{"ls é", inside},
		{"ls\r", inside},
		{"LC_ALL=C ls", inside},
		{"ls *.go", inside},
		{"ls {a,b}", inside},
		{"ls ~/x", inside},
		{"ls --x=~/x", inside},
		{"ls =cat", inside},
		{"(ls)", inside},
		{"{ ls; }", inside},
		{"if ls; then cat x; fi", inside},
		{"for i in a b; do ls; done", inside},
		{"f() { ls; }; f", inside},
		{"! ls", inside},
		{"ls & cat x", inside},
		{"ls |& cat", inside},
		{"time ls", inside},
		{"coproc ls", inside},
		{"ls 2>/dev/null", inside},
		{"cat <<E\nx\nE", inside},
		{"cat <<< x", inside},
		{"[[ -f x ]] && ls", inside},
		{"[ -v 'a[x]' ] && ls", inside},
		{"export X=1; ls", inside},
		{"eval ls", inside},
		{"trap ls EXIT", inside},
		{"alias a=ls; ls", inside},
		{"unset 'a[x]'; ls", inside},
		{"mapfile -C ls -c 1 x", inside},
		{"command ls", inside},
		{"exec ls", inside},
		{"noglob ls", inside},
		{"bash -c 'ls #'", inside},
		{"sudo bash -c 'ls #\\\ntouch /var/tmp/x'", inside},
		{"env X=1 sh -c 'ls #'", asks},
		{"echo ls | bash", inside},
		{"ls &&", asks}, // bash would refuse it
		{"ls 'x", asks},
		{"ls $HOME", asks},
		{"ls $(ls)", asks},
		{"ls > x", asks},
		{"(make)", asks},
		{"$x", asks},
		{"echo $(git push)", denied},
	} {
		argv := []string{"bash", "-lc", tt.script}
		require.Equal(t, tt.want, outcome(t, parsed, policy.Untrusted, argv...), tt.script)
		onRequest := outcome(t, parsed, policy.OnRequest, argv...)
		if tt.want != asks {
			require.Equal(t, tt.want, onRequest, tt.script)
		}
		require.NotEqual(t, tt.want == lifts, onRequest != lifts, tt.script)
	}
}

// TestAllowLiftsNoOtherShell shows what an allow rule does with a program and
// its arguments.
func TestAllowLiftsNoOtherShell(t *testing.T) {
	const script = "ls #\\\ntouch /var/tmp/x"
	parsed := testkit.Rules(t, `
[prefix_rule(pattern=[name]) for name in [
    "ls", "bash", "zsh", "env", "sudo", "find", "xargs", "su", "flock", "watch", "git", "own-wrapper",
]]
prefix_rule(pattern=["ssh", "build"])
prefix_rule(pattern=["fish", "-c", "ls"])
prefix_rule(pattern=["pwsh", "-Command", "ls"])
prefix_rule(pattern=["bash", "-lc", "ls $HOME"])
prefix_rule(pattern=["bash", "-lc", "gcc x && ls"])
prefix_rule(pattern=["timeout", "5", "bash", "-c", "ls $HOME"])
`)
	for _, tt := range []struct {
		argv []string
		want string
	}{
		{[]string{"ls", "$HOME", "#", "*"}, lifts}, // no shell reads it
		{[]string{"/usr/bin/ls"}, lifts},
		{[]string{"/bin/bash", "-lc", "ls"}, lifts},
		{[]string{"sh", "-c", "ls"}, lifts},
		{[]string{"zsh", "-c", "ls"}, lifts},
		{[]string{"sudo", "bash", "-c", "ls"}, lifts},
		{[]string{"sudo", "bash", "-c", script}, inside},
		{[]string{"bash", "-c", script}, inside},
		{[]string{"zsh", "-c", script}, asks}, // the parser reads zsh otherwise
		{[]string{"./bash", "-c", "ls"}, asks},

		// Options that make a shell read something else besides.
		{[]string{"bash", "-i", "-c", "ls"}, inside},
		{[]string{"bash", "-x", "-c", "ls"}, inside},
		{[]string{"bash", "-xc", "ls"}, inside},
		{[]string{"bash", "--rcfile", "x", "-c", "ls"}, inside},
		{[]string{"bash", "-O", "extglob", "-c", "ls"}, inside},
		{[]string{"bash", "-o", "posix", "-c", "ls"}, inside},
		{[]string{"zsh", "-o", "extendedglob", "-c", "ls"}, inside},
		{[]string{"bash", "-c", "ls", "x"}, inside},
		{[]string{"bash", "x.sh"}, inside},
		{[]string{"fish", "-c", "ls"}, inside},
		{[]string{"pwsh", "-Command", "ls"}, inside},

		// Wrappers. One that a rule does not name may do more than start ls.
		{[]string{"env", "ls"}, lifts},
		{[]string{"env", "bash", "-c", "ls"}, lifts},
		{[]string{"env", "bash", "-c", script}, inside},
		{[]string{"env", "-S", "bash -c ls"}, lifts},
		{[]string{"env", "-S", "bash -c l\\s"}, inside},
		{[]string{"env", "-S", "ls -l"}, lifts},
		{[]string{"env", "touch", "x"}, asks},
		{[]string{"timeout", "5", "ls"}, inside},
		{[]string{"timeout", "5", "bash", "-c", script}, inside},
		{[]string{"timeout", "5", "bash", "-c", "ls $HOME"}, inside}, // the very words of a rule
		{[]string{"/usr/bin/time", "-o", "/var/tmp/x", "ls"}, inside},
		{[]string{"sudo", "/usr/bin/time", "-o", "/var/tmp/x", "ls"}, inside},
		{[]string{"find", ".", "-exec", "ls", ";"}, lifts},
		{[]string{"find", ".", "-exec", "sh", "-c", "ls #", ";"}, inside},
		{[]string{"find", ".", "-exec", "touch", "x", ";"}, asks},
		{[]string{"xargs", "ls"}, asks},
		{[]string{"own-wrapper", "--", "sh", "-c", "ls"}, lifts},
		{[]string{"own-wrapper", "--", "sh", "-c", script}, inside},
		{[]string{"own-wrapper", "bash", "-ec", "ls"}, inside},
		{[]string{"own-wrapper", "fish"}, lifts}, // a word
		{[]string{"su", "root", "-c", "ls"}, lifts},
		{[]string{"su", "root", "-c", script}, inside},
		{[]string{"flock", "x", "-c", script}, inside},
		{[]string{"watch", "ls", "#"}, inside},
		{[]string{"git", "-c", "core.pager=ls #", "log"}, inside},
		{[]string{"git", "-c", "core.pager=ls", "log"}, lifts},
		{[]string{"ssh", "build", "cd x; make #"}, lifts}, // it runs elsewhere
		{[]string{"ssh", "build", "bash", "-c", "make #"}, lifts},
		{[]string{"ssh", "-o", "ProxyCommand=ls #", "build"}, asks},

		// Rules that name a whole script, as the answer "always" writes them.
		{[]string{"bash", "-lc", "ls $HOME"}, inside},
		{[]string{"bash", "-lc", "gcc x && ls"}, lifts},
	} {
		require.Equal(t, tt.want, outcome(t, parsed, policy.Untrusted, tt.argv...), "%q", tt.argv)
	}
}

// TestAllowWithoutASandbox has a script that an allow covers and that may do
// more, where the sandbox would not confine it.
func TestAllowWithoutASandbox(t *testing.T) {
	parsed := testkit.Rules(t, `prefix_rule(pattern=["ls"])`)
	run := policy.Action{Tool: "shell", Command: []string{"bash", "-lc", "(ls)"}}
	escalated := run
	escalated.Permissions = policy.RequireEscalated
	more := run
	more.Permissions, more.Additional = policy.WithAdditional, &policy.Additional{Network: true}
	for _, tt := range []struct {
		name     string
		approval policy.Approval
		mode     policy.Mode
		confines bool
		action   policy.Action
		want     policy.Verdict
	}{
		{"none in force", policy.OnRequest, policy.WorkspaceWrite, false, run, policy.Ask},
		{"none in force, nobody to ask", policy.Never, policy.WorkspaceWrite, false, run, policy.Deny},
		{"switched off, untrusted", policy.Untrusted, policy.DangerFullAccess, true, run, policy.Ask},
		{"switched off", policy.OnRequest, policy.DangerFullAccess, true, run, policy.Allow},
		{"escalated", policy.OnRequest, policy.WorkspaceWrite, true, escalated, policy.Ask},
		{"escalated, nobody to ask", policy.Never, policy.WorkspaceWrite, true, escalated, policy.Deny},
		{"with more", policy.Untrusted, policy.WorkspaceWrite, true, more, policy.Ask},
	} {
		p := testkit.Policy(tt.approval, tt.mode)
		p.Rules = func() *rules.Rules { return parsed }
		p.Confines = func() bool { return tt.confines }
		d := p.Decide(tt.action)
		require.Equal(t, tt.want.String(), d.Verdict.String(), tt.name)
		require.Empty(t, d.AlwaysRule, "%s: a rule would not lift it", tt.name)
	}
}

// TestToolRuleLiftsNoCommand has rules for the shell tool itself. Their text is
// compared with that of the script, which says little about what it does.
func TestToolRuleLiftsNoCommand(t *testing.T) {
	parsed := testkit.Rules(t, `
tool_rule(server="", tool="shell", args={"command": "ls*"}, decision="allow")
tool_rule(server="", tool="apply_patch", decision="allow")
prefix_rule(pattern=["cat"])
prefix_rule(pattern=["git", "push"], decision="forbidden")
`)
	for _, approval := range []policy.Approval{policy.Untrusted, policy.OnRequest, policy.Never} {
		p := testkit.Policy(approval, policy.WorkspaceWrite)
		p.Rules = func() *rules.Rules { return parsed }
		decide := func(script string) policy.Decision {
			argv := []string{"bash", "-lc", script}
			return p.Decide(policy.Action{Tool: "shell", Command: argv, Arguments: []byte(`{"command":"ls"}`)})
		}
		d := decide("ls; touch /var/tmp/x")
		require.Equal(t, policy.Allow, d.Verdict, d.Reason)
		require.Equal(t, policy.WorkspaceWrite, d.Profile.Mode)
		require.Equal(t, policy.DangerFullAccess, decide("cat x").Profile.Mode)
		require.Equal(t, policy.Deny, decide("ls; git push").Verdict)

		d = p.Decide(policy.Action{Tool: "apply_patch", Writes: []string{"/etc/x"}})
		require.Equal(t, policy.Allow, d.Verdict)
		require.Equal(t, policy.DangerFullAccess, d.Profile.Mode)
	}
}

// TestAllowOfAWrapperCoversNoScriptInIt has programs that run what one of their arguments
// says. A rule that names the program alone does not allow that.
func TestAllowOfAWrapperCoversNoScriptInIt(t *testing.T) {
	parsed := testkit.Rules(t, `
[prefix_rule(pattern=[name]) for name in ["env", "vim", "gdb", "sqlite3", "psql", "fd", "make", "yash", "osh", "es"]]
`)
	for _, argv := range [][]string{
		{"env", "-S", "touch /x"},
		{"env", "--split-string=touch /x"},
		{"vim", "-c", "!touch /x"},
		{"gdb", "-ex", "shell touch /x"},
		{"sqlite3", "x", ".shell touch /x"},
		{"psql", "-c", `\! touch /x`},
		{"fd", "--exec=touch"},
		{"yash", "-c", "touch /x"},
		{"osh", "-c", "touch /x"},
		{"es", "-c", "touch /x"},
	} {
		require.False(t, parsed.Judge(argv).LiftsSandbox, "%q", argv)
	}
}

// TestAllowLiftsNoProgramThatCommandsCanReplace: the rule means another program.
func TestAllowLiftsNoProgramThatCommandsCanReplace(t *testing.T) {
	parsed := testkit.Rules(t, `[prefix_rule(pattern=[name]) for name in ["ls", "mytool"]]`)
	p := testkit.Policy(policy.OnRequest, policy.WorkspaceWrite)
	p.Rules = func() *rules.Rules { return parsed }
	p.Replaceable = func(program string) bool { return program == "mytool" }
	require.Equal(t, policy.WorkspaceWrite, (&policy.Policy{Mode: policy.WorkspaceWrite, Rules: p.Rules, Confines: p.Confines}).
		Decide(policy.Action{Tool: "shell", Command: []string{"ls"}}).Profile.Mode, "nothing says where it is")
	for _, tt := range []struct {
		argv []string
		want policy.Mode
	}{
		{[]string{"ls"}, policy.DangerFullAccess},
		{[]string{"mytool"}, policy.WorkspaceWrite},
		{[]string{"bash", "-lc", "ls && mytool x"}, policy.WorkspaceWrite},
	} {
		d := p.Decide(policy.Action{Tool: "shell", Command: tt.argv})
		require.Equal(t, policy.Allow, d.Verdict)
		require.Equal(t, tt.want, d.Profile.Mode, "%q", tt.argv)
	}
}

// TestWhyInside has the reasons that `toolgate policy check` prints.
func TestWhyInside(t *testing.T) {
	parsed := testkit.Rules(t, `[prefix_rule(pattern=[name]) for name in ["ls", "eval", "./own.sh", "bash"]]`)
	p := testkit.Policy(policy.OnRequest, policy.WorkspaceWrite)
	p.Rules = func() *rules.Rules { return parsed }
	for script, want := range map[string]string{
		"ls":           "",
		"ls #":         "the script is not plain: '#' is not in quotes",
		"ls & ls":      "the script is not plain: '&' is not in quotes",
		"ls 'a$b'":     "the script is not plain: '$' is in quotes",
		"ls \"a!b\"":   "the script is not plain: '!' is in quotes",
		"ls é":         `the script is not plain: '\u00e9' is not in quotes`,
		"eval ls":      "the script is not plain: eval is a keyword, or a builtin with effects of its own",
		"./own.sh":     "./own.sh is a relative path",
		"timeout 5 ls": "no rule allows timeout",
	} {
		d := p.Decide(policy.Action{Tool: "shell", Command: []string{"bash", "-lc", script}})
		if want == "" {
			require.Equal(t, "every command in it is permitted and plain", d.Reason)
			continue
		}
		require.Equal(t, "every command in it is permitted, but inside the sandbox: "+want, d.Reason, script)
	}
	d := p.Decide(policy.Action{Tool: "shell", Command: []string{"bash", "-x", "-c", "ls"}})
	require.Contains(t, d.Reason, "bash has other arguments than -c or -lc and a script")
}

// TestOrdinaryWork has what developers do all day, with the usual allow rules. The data
// file says what ran outside the sandbox before scripts had to be plain.
func TestOrdinaryWork(t *testing.T) {
	parsed := testkit.Rules(t, `[prefix_rule(pattern=[name]) for name in [
    "git", "npm", "go", "cargo", "make", "docker", "kubectl", "cd", "ls", "cat", "echo", "grep", "head", "tail",
]]`)
	data, err := os.ReadFile("testdata/work.txt")
	require.NoError(t, err)
	scripts, argvs, outside, changed := 0, 0, 0, 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		before, now := strings.TrimSpace(line[:4]), strings.TrimSpace(line[4:8])
		command, isScript := strings.CutPrefix(strings.TrimSuffix(line[8:], "\n"), "$ ")
		argv := []string{"bash", "-lc", command}
		if isScript {
			scripts++
		} else {
			argvs++
			argv, err = shell.Split(command)
			require.NoError(t, err, line)
		}
		if before == "out" {
			outside++
		}
		if before != now {
			changed++
		}
		want := map[string]string{"out": lifts, "in": inside}[now]
		require.Equal(t, want, outcome(t, parsed, policy.OnRequest, argv...), line)
	}
	require.Equal(t, 50, scripts)
	require.Equal(t, 50, argvs)
	require.LessOrEqual(t, changed*10, outside)
}
