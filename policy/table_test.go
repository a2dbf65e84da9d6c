package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/testkit"
	"toolgate/policy"
	"toolgate/policy/rules"
)

// TestDecisionTable is Codex's table of decisions (workspace-write on Linux)
// with the one column that we add, read-only commands under untrusted. Where a
// cell differs from Codex, the row says so.
func TestDecisionTable(t *testing.T) {
	const (
		prompt  = "prompt"
		inside  = "runs in the sandbox"
		free    = "runs without the sandbox"
		refused = "refused"
	)
	parsed, err := rules.Parse("t.rules", []byte(`
prefix_rule(pattern=["make", "ask"], decision="prompt", justification="slow")
prefix_rule(pattern=["git", "push"], decision="forbidden", justification="not from here")
prefix_rule(pattern=["touch"], decision="allow")
tool_rule(server="s", tool="bad", decision="forbidden")
tool_rule(server="s", tool="good", decision="allow")
`))
	require.NoError(t, err)
	script := func(s string) policy.Action {
		return policy.Action{Tool: "shell", Command: []string{"bash", "-c", s}}
	}
	escalated := script("make x")
	escalated.Permissions = policy.RequireEscalated
	patch := func(path string) policy.Action { return policy.Action{Tool: "apply_patch", Writes: []string{path}} }
	more := script("make x")
	more.Permissions, more.Additional = policy.WithAdditional, &policy.Additional{Network: true}
	downstream := func(tool string) policy.Action { return policy.Action{Server: "s", Tool: tool} }

	policies := []struct {
		name     string
		approval policy.Approval
		kinds    policy.QuestionKinds
	}{
		{"untrusted", policy.Untrusted, policy.QuestionKinds{}},
		{"on-request", policy.OnRequest, policy.QuestionKinds{}},
		{"granular, all true", policy.Granular, policy.QuestionKinds{SandboxApproval: true, Rules: true, RequestPermissions: true, MCPElicitations: true}},
		{"granular, all false", policy.Granular, policy.QuestionKinds{}},
		{"never", policy.Never, policy.QuestionKinds{}},
	}
	for _, row := range []struct {
		call   string
		action policy.Action
		mode   policy.Mode
		want   [5]string // in the order of policies
	}{
		{"plain command, no rule", script("make x"), policy.WorkspaceWrite,
			[5]string{prompt, inside, inside, inside, inside}},
		{"known read-only command (Codex 0.169 prompts, older versions ran it)", script("ls -l | head"), policy.WorkspaceWrite,
			[5]string{inside, inside, inside, inside, inside}},
		{"forced rm", script("rm -rf build"), policy.WorkspaceWrite,
			[5]string{prompt, prompt, prompt, refused, refused}},
		{"another destructive command (Codex runs it)", script("git reset --hard"), policy.WorkspaceWrite,
			[5]string{prompt, prompt, prompt, refused, refused}},
		{"rule prompt", script("make ask"), policy.WorkspaceWrite,
			[5]string{prompt, prompt, prompt, refused, refused}},
		{"rule forbidden", script("git push"), policy.WorkspaceWrite,
			[5]string{refused, refused, refused, refused, refused}},
		{"rule forbidden, hidden (Codex runs it)", script("if true; then echo $(git push); fi"), policy.WorkspaceWrite,
			[5]string{refused, refused, refused, refused, refused}},
		{"rule forbidden, without a sandbox", script("git push"), policy.DangerFullAccess,
			[5]string{refused, refused, refused, refused, refused}},
		{"opaque while rules restrict (Codex runs it)", script("$X push"), policy.WorkspaceWrite,
			[5]string{prompt, prompt, prompt, refused, refused}},
		{"rule allow on every segment", script("touch a && touch b"), policy.WorkspaceWrite,
			[5]string{free, free, free, free, free}},
		{"rule allow on one segment", script("touch a && make x"), policy.WorkspaceWrite,
			[5]string{prompt, inside, inside, inside, inside}},
		{"require_escalated", escalated, policy.WorkspaceWrite,
			[5]string{prompt, prompt, prompt, refused, refused}},
		{"with_additional_permissions", more, policy.WorkspaceWrite,
			[5]string{prompt, prompt, prompt, refused, refused}},
		{"apply_patch inside writable roots", patch("a.go"), policy.WorkspaceWrite,
			[5]string{prompt, inside, inside, inside, inside}},
		{"apply_patch outside", patch("/etc/x"), policy.WorkspaceWrite,
			[5]string{prompt, prompt, prompt, refused, refused}},
		{"apply_patch protected", patch(".git/hooks/x"), policy.WorkspaceWrite,
			[5]string{prompt, prompt, prompt, refused, refused}},
		{"apply_patch anywhere, read-only sandbox", patch("a.go"), policy.ReadOnly,
			[5]string{prompt, prompt, prompt, refused, refused}},
		{"downstream tool without claims", downstream("x"), policy.WorkspaceWrite,
			[5]string{prompt, prompt, prompt, refused, refused}},
		{"downstream tool, full access", downstream("x"), policy.DangerFullAccess,
			[5]string{prompt, prompt, prompt, refused, inside}},
		{"tool rule forbidden", downstream("bad"), policy.WorkspaceWrite,
			[5]string{refused, refused, refused, refused, refused}},
		{"tool rule allow", downstream("good"), policy.WorkspaceWrite,
			[5]string{inside, inside, inside, inside, inside}},
		{"everything else without a sandbox", script("make x"), policy.DangerFullAccess,
			[5]string{prompt, free, free, free, free}},
		{"forced rm without a sandbox", script("rm -rf build"), policy.DangerFullAccess,
			[5]string{prompt, prompt, prompt, refused, free}},
	} {
		for i, pol := range policies {
			t.Run(row.call+"/"+pol.name, func(t *testing.T) {
				p := testkit.Policy(pol.approval, row.mode)
				p.Granular = pol.kinds
				p.Rules = func() *rules.Rules { return parsed }
				d := p.Decide(row.action.In(p.Workspace))
				got := map[policy.Verdict]string{policy.Deny: refused, policy.Ask: prompt, policy.Allow: inside}[d.Verdict]
				if d.Verdict == policy.Allow && d.Profile.Mode == policy.DangerFullAccess {
					got = free
				}
				require.Equal(t, row.want[i], got, d.Reason)
				require.NotEmpty(t, d.Reason)
			})
		}
	}
}

// TestAlwaysIsOfferedWhereARuleWouldHelp: a line that would permit any command,
// or that a stricter rule overrides, is not offered.
func TestAlwaysIsOfferedWhereARuleWouldHelp(t *testing.T) {
	p := testkit.Policy(policy.OnRequest, policy.WorkspaceWrite)
	parsed, err := rules.Parse("t.rules", []byte(`prefix_rule(pattern=["make"], decision="prompt")`))
	require.NoError(t, err)
	p.Rules = func() *rules.Rules { return parsed }
	for _, tt := range []struct {
		argv, prefix []string
		want         string
	}{
		{[]string{"go", "test", "./..."}, []string{"go", "test"}, `prefix_rule(pattern=["go", "test"], decision="allow")`},
		{[]string{"go", "test"}, nil, `prefix_rule(pattern=["go", "test"], decision="allow")`},
		{[]string{"python3", "x.py"}, []string{"python3"}, ""}, // x.py may be another one tomorrow
		{[]string{"bash", "-c", "./gradlew test"}, []string{"./gradlew"}, ""},
		{[]string{"bash", "-c", "go build && go vet"}, []string{"go", "vet"}, `prefix_rule(pattern=["go", "vet"], decision="allow")`},
		{[]string{"make", "x"}, []string{"make", "x"}, ""},
		{[]string{"rm", "-rf", "/"}, []string{"rm"}, ""},
	} {
		d := p.Decide(policy.Action{Tool: "shell", Command: tt.argv, PrefixRule: tt.prefix, Permissions: policy.RequireEscalated})
		require.Equal(t, policy.Ask, d.Verdict)
		require.Equal(t, tt.want, d.AlwaysRule, "%q", tt.argv)
	}
}
