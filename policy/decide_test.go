package policy_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/testkit"
	"toolgate/policy"
)

func yes() bool { return true }

func TestDecide(t *testing.T) {
	const (
		untrusted = policy.Untrusted
		onRequest = policy.OnRequest
		never     = policy.Never
		readOnly  = policy.ReadOnly
		write     = policy.WorkspaceWrite
		full      = policy.DangerFullAccess
	)
	command := policy.Action{Tool: "shell", Command: []string{"make"}}
	escalated := policy.Action{Tool: "shell", Command: []string{"make"}, Permissions: policy.RequireEscalated}
	writes := func(paths ...string) policy.Action { return policy.Action{Tool: "apply_patch", Writes: paths} }
	reads := func(path string) policy.Action {
		return policy.Action{Tool: "read_file", Reads: []string{path}, ReadOnly: true}
	}
	for _, tt := range []struct {
		name     string
		approval policy.Approval
		mode     policy.Mode
		action   policy.Action
		want     policy.Verdict
		wantMode policy.Mode // it would run in
	}{
		{"a command", onRequest, write, command, policy.Allow, write},
		{"a command, nobody to ask", never, write, command, policy.Allow, write},
		{"a command, untrusted", untrusted, write, command, policy.Ask, write},
		{"a command, read-only", onRequest, readOnly, command, policy.Allow, readOnly},
		{"a command, no sandbox", onRequest, full, command, policy.Allow, full},
		{"a command, no sandbox but untrusted", untrusted, full, command, policy.Ask, full},

		{"escalated", onRequest, write, escalated, policy.Ask, full},
		{"escalated, untrusted", untrusted, write, escalated, policy.Ask, full},
		{"escalated, nobody to ask", never, write, escalated, policy.Deny, full},
		{"escalated, no sandbox", never, full, escalated, policy.Allow, full},

		{"a patch inside", onRequest, write, writes("main.go"), policy.Allow, write},
		{"a patch inside, absolute", never, write, writes("/home/u/app/x/y.go"), policy.Allow, write},
		{"a patch in a temporary folder", onRequest, write, writes("/tmp/x"), policy.Allow, write},
		{"a patch inside, untrusted", untrusted, write, writes("main.go"), policy.Ask, write},
		{"a patch beside", onRequest, write, writes("../other/main.go"), policy.Ask, full},
		{"a patch beside, by prefix", onRequest, write, writes("/home/u/app2/main.go"), policy.Ask, full},
		{"a patch beside, nobody to ask", never, write, writes("../other/main.go"), policy.Deny, full},
		{"a patch inside and beside", onRequest, write, writes("main.go", "/etc/passwd"), policy.Ask, full},
		{"a patch that comes back in", onRequest, write, writes("x/../../app/main.go"), policy.Allow, write},
		{"a hook", onRequest, write, writes(".git/hooks/pre-commit"), policy.Ask, full},
		{"a hook of a nested repository", onRequest, write, writes("vendor/x/.git/hooks/pre-commit"), policy.Ask, full},
		{"a hook, in capitals", onRequest, write, writes(".GIT/hooks/pre-commit"), policy.Ask, full},
		{"a hook, nobody to ask", never, write, writes(".git/hooks/pre-commit"), policy.Deny, full},
		{"what only looks like git's", onRequest, write, writes(".gitignore", ".github/x.yml", "git/x"), policy.Allow, write},
		{"an agent's settings", onRequest, write, writes("sub/.claude/settings.local.json"), policy.Ask, full},
		{"beside an agent's settings", onRequest, write, writes(".claude/notes.md", "claude/settings.json"), policy.Allow, write},
		{"a patch, read-only", onRequest, readOnly, writes("main.go"), policy.Ask, full},
		{"a patch, read-only, nobody to ask", never, readOnly, writes("main.go"), policy.Deny, full},
		{"a patch, no sandbox", never, full, writes("/etc/passwd"), policy.Allow, full},

		{"reading", untrusted, readOnly, reads("/etc/hostname"), policy.Allow, readOnly},
		{"reading credentials", onRequest, write, reads("/home/u/.ssh/id_ed25519"), policy.Ask, full},
		{"reading credentials, nobody to ask", never, write, reads("../.ssh"), policy.Deny, full},
		{"reading what only looks like them", never, write, reads("/home/u/.sshrc"), policy.Allow, write},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := testkit.Policy(tt.approval, tt.mode).Decide(tt.action.In("/home/u/app"))
			require.Equal(t, tt.want.String(), d.Verdict.String(), d.Reason)
			require.Equal(t, tt.wantMode.String(), d.Profile.Mode.String())
			require.NotEmpty(t, d.Reason)
			if d.Verdict != policy.Deny {
				require.NotEmpty(t, d.Keys)
			}
			if tt.wantMode == write {
				require.Equal(t, policy.NetworkNone, d.Profile.Network)
				require.Equal(t, testkit.ProtectedNames, d.Profile.ReadOnlySubpaths)
			}
		})
	}
}

func TestDecideWithoutASandboxAsksEachTime(t *testing.T) {
	p := testkit.Policy(policy.OnRequest, policy.WorkspaceWrite)
	p.Confines = nil
	d := p.Decide(policy.Action{Tool: "shell", Command: []string{"make"}})
	require.Equal(t, policy.Ask, d.Verdict)
	require.True(t, d.OnceOnly)

	p.Approval = policy.Never
	require.Equal(t, policy.Deny, p.Decide(policy.Action{Tool: "shell", Command: []string{"make"}}).Verdict)
	require.Equal(t, policy.Deny, p.Decide(policy.Action{Tool: "read_file", Reads: []string{"/x"}, ReadOnly: true}).Verdict)
}

func TestZeroValuesDeny(t *testing.T) {
	require.Equal(t, policy.Deny, (*policy.Policy)(nil).Decide(policy.Action{}).Verdict)
	require.NotEqual(t, policy.Allow, (&policy.Policy{}).Decide(policy.Action{Tool: "shell", Command: []string{"ls"}}).Verdict)
	require.NotEqual(t, policy.Allow, (&policy.Policy{}).Decide(policy.Action{Tool: "apply_patch", Writes: []string{"/x"}}).Verdict)
	var v policy.Verdict
	require.Equal(t, policy.Deny, v)
	var m policy.Mode
	require.Equal(t, policy.ReadOnly, m)
}

func TestApprovalKeysCoverTheThing(t *testing.T) {
	p := testkit.Policy(policy.Untrusted, policy.WorkspaceWrite)
	keys := func(a policy.Action) []string { return p.Decide(a.In(p.Workspace)).Keys }
	ls := policy.Action{Tool: "shell", Command: []string{"ls", "-l"}}

	reworded := ls
	reworded.Justification = "please"
	require.Equal(t, keys(ls), keys(reworded), "what the model says is not part of the thing")

	elsewhere := ls
	elsewhere.Dir = "sub"
	require.NotEqual(t, keys(ls), keys(elsewhere))

	wider := ls
	wider.Permissions = policy.RequireEscalated
	require.NotEqual(t, keys(ls), keys(wider))

	joined := policy.Action{Tool: "shell", Command: []string{"ls -l"}}
	require.NotEqual(t, keys(ls), keys(joined))

	require.Len(t, keys(policy.Action{Tool: "apply_patch", Writes: []string{"a", "b", "./a"}}), 2, "one for each file")
}

func TestParseWords(t *testing.T) {
	for _, m := range []policy.Mode{policy.ReadOnly, policy.WorkspaceWrite, policy.DangerFullAccess} {
		got, err := policy.ParseMode(m.String())
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	for _, a := range []policy.Approval{policy.Untrusted, policy.OnRequest, policy.Never} {
		got, err := policy.ParseApproval(a.String())
		require.NoError(t, err)
		require.Equal(t, a, got)
	}
	got, err := policy.ParseApproval("on-failure")
	require.NoError(t, err)
	require.Equal(t, policy.OnRequest, got)
	_, err = policy.ParseMode("readonly")
	require.EqualError(t, err, `unknown sandbox mode "readonly"`)
}

// A yes to reading a hidden path that lies in a writable folder is none to
// writing it.
func TestMoreToReadIsNotMoreToWrite(t *testing.T) {
	p := testkit.Policy(policy.OnRequest, policy.WorkspaceWrite)
	p.Hidden = append(p.Hidden, "/home/u/app/toolgate")
	for _, read := range []string{"/home/u/app/toolgate", "/home/u/app/toolgate/config.toml", "/home/u/app"} {
		d := p.Decide(policy.Action{
			Tool: "shell", Command: []string{"make"}, Permissions: policy.WithAdditional,
			Additional: &policy.Additional{Read: []string{read}},
		})
		require.Equal(t, policy.Ask, d.Verdict)
		require.Equal(t, policy.CanRead, d.Profile.Access("/home/u/app/toolgate/config.toml"), read)
		require.Equal(t, policy.CanWrite, d.Profile.Access("/home/u/app/main.go"), read)
	}
}

// TestAnApprovalCoversWhatItSays: each row is a call, what a yes for the session
// covers besides it in words, and a call that the yes does not cover.
func TestAnApprovalCoversWhatItSays(t *testing.T) {
	p := testkit.Policy(policy.Untrusted, policy.WorkspaceWrite)
	patch := func(path, kind string) policy.Action {
		return policy.Action{Tool: "apply_patch", Writes: []string{path}, Changes: map[string]string{path: kind}}
	}
	input := func(args string) policy.Action {
		return policy.Action{Tool: "write_stdin", Session: "7", Preview: "y", Arguments: []byte(args)}
	}
	for _, tt := range []struct {
		name         string
		shown, other policy.Action
		grants       string
	}{
		{"a patch", patch("/etc/x", "add"), patch("/etc/x", "delete"),
			"all calls of apply_patch that do no more than this, with any content, outside the sandbox: add /etc/x"},
		{"two kinds", patch("./a", "update"), patch("a", "update, make executable"),
			"all calls of apply_patch that do no more than this, with any content, in the sandbox: update /home/u/app/a"},
		{"tools that write", policy.Action{Tool: "write_file", Writes: []string{"/etc/x"}}, patch("/etc/x", "update"),
			"all calls of write_file that do no more than this, with any content, outside the sandbox: /etc/x"},
		{"a tool of a server", policy.Action{Server: "s", Tool: "t"}, policy.Action{Server: "s", Tool: "u"},
			"all calls of the tool t of the server s, with any arguments"},
		{"input", input(`{"chars":"y"}`), input(`{"chars":"y","kill":true}`), "the same input to the same session"},
		{"a command", policy.Action{Tool: "shell", Command: []string{"make"}}, policy.Action{Tool: "shell", Command: []string{"make", "x"}},
			"exactly this command in this folder, in the sandbox, while the files that it runs stay as they are"},
		{"a read", policy.Action{Tool: "read_file", Reads: []string{"/a"}}, policy.Action{Tool: "read_file", Reads: []string{"/b"}},
			"all calls of read_file, with any other arguments, in the sandbox, that read /a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shown, other := tt.shown.In(p.Workspace), tt.other.In(p.Workspace)
			d := p.Decide(shown)
			require.Equal(t, tt.grants, policy.Grants(shown, d.Profile))
			require.NotEqual(t, d.Keys, p.Decide(other).Keys)
		})
	}
	many := policy.Action{Tool: "apply_patch"}
	for n := range policy.MaxChanges + 1 {
		require.False(t, p.Decide(many).OnceOnly)
		many.Writes = append(many.Writes, fmt.Sprint("/etc/", n))
	}
	require.True(t, p.Decide(many).OnceOnly, "not all of it is shown")
}
