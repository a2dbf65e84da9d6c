package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/policy/rules"
)

func TestDownstreamDecisions(t *testing.T) {
	yes, no := true, false
	reads := policy.Claims{ReadOnly: &yes}
	harmless := policy.Claims{Destructive: &no, OpenWorld: &no}
	open := policy.Claims{Destructive: &no}
	destroys := policy.Claims{ReadOnly: &no, Destructive: &yes}
	const (
		allow = policy.Allow
		ask   = policy.Ask
		deny  = policy.Deny
	)
	for _, tt := range []struct {
		name     string
		approval policy.ToolApproval
		trusted  bool
		claims   policy.Claims
		want     policy.Verdict // under on-request
		never    policy.Verdict // under never, workspace-write
	}{
		{"auto, trusted, reads", policy.ApproveAuto, true, reads, allow, allow},
		{"auto, not trusted, reads", policy.ApproveAuto, false, reads, ask, deny},
		{"auto, trusted, harmless", policy.ApproveAuto, true, harmless, allow, allow},
		{"auto, not trusted, harmless", policy.ApproveAuto, false, harmless, ask, deny},
		{"auto, trusted, reaches out", policy.ApproveAuto, true, open, ask, deny},
		{"auto, trusted, destroys", policy.ApproveAuto, true, destroys, ask, deny},
		{"auto, trusted, says nothing", policy.ApproveAuto, true, policy.Claims{}, ask, deny},
		{"writes, trusted, reads", policy.ApproveWrites, true, reads, allow, allow},
		{"writes, not trusted, reads", policy.ApproveWrites, false, reads, ask, deny},
		{"writes, trusted, harmless", policy.ApproveWrites, true, harmless, ask, deny},
		{"prompt, trusted, reads", policy.ApprovePrompt, true, reads, ask, deny},
		{"approve, not trusted, destroys", policy.ApproveAlways, false, destroys, allow, allow},
		{"a word that does not exist", "later", true, reads, ask, deny},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := policy.Action{Server: "s", Tool: "t", Downstream: &policy.Downstream{Approval: tt.approval, Trusted: tt.trusted, Claims: tt.claims}}
			p := policy.Policy{Approval: policy.OnRequest, Mode: policy.WorkspaceWrite}
			d := p.Decide(a)
			require.Equal(t, tt.want, d.Verdict, d.Reason)
			require.NotEmpty(t, d.Reason)
			p.Approval = policy.Never
			require.Equal(t, tt.never, p.Decide(a).Verdict)
			p.Mode = policy.DangerFullAccess
			require.Equal(t, policy.Allow, p.Decide(a).Verdict)
		})
	}
}

func TestDownstreamWithoutFactsIsAskedFor(t *testing.T) {
	p := policy.Policy{Approval: policy.OnRequest}
	require.Equal(t, policy.Ask, p.Decide(policy.Action{Server: "s", Tool: "t"}).Verdict)
	require.Equal(t, policy.Deny, (*policy.Policy)(nil).Decide(policy.Action{Server: "s", Tool: "t"}).Verdict)
}

func TestDownstreamIsKeyedByServerAndTool(t *testing.T) {
	p := policy.Policy{Approval: policy.OnRequest}
	one := p.Decide(policy.Action{Server: "s", Tool: "t"}).Keys
	require.Equal(t, one, p.Decide(policy.Action{Server: "s", Tool: "t", Preview: "x"}).Keys)
	require.NotEqual(t, one, p.Decide(policy.Action{Server: "s2", Tool: "t"}).Keys)
	require.NotEqual(t, one, p.Decide(policy.Action{Server: "s", Tool: "t2"}).Keys)
}

// A request that belongs to another is decided by the stricter rule of both; a
// list that leaves it out is stronger than any rule.
func TestRequestsOfTheProtocol(t *testing.T) {
	for _, tt := range []struct {
		name, rules string
		disabled    bool
		want        policy.Verdict
	}{
		{"no rule", ``, false, policy.Ask},
		{"its own", `tool_rule(server="s", tool="completion/complete", decision="forbidden")`, false, policy.Deny},
		{"the other's", `tool_rule(server="s", tool="prompts/get", decision="forbidden")`, false, policy.Deny},
		{"both", `tool_rule(server="s", tool="prompts/get", decision="forbidden")
tool_rule(server="s", tool="completion/complete", decision="allow")`, false, policy.Deny},
		{"allowed", `tool_rule(server="s", tool="prompts/get", decision="allow")`, false, policy.Allow},
		{"disabled", `tool_rule(server="s", tool="*", decision="allow")`, true, policy.Deny},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parsed, err := rules.Parse("test.rules", []byte(tt.rules))
			require.NoError(t, err)
			p := policy.Policy{Approval: policy.OnRequest, Rules: func() *rules.Rules { return parsed }}
			a := policy.Action{Server: "s", Tool: "completion/complete", As: "prompts/get", Request: true, Unasked: true}
			a.Downstream = &policy.Downstream{Disabled: tt.disabled}
			d := p.Decide(a)
			require.Equal(t, tt.want, d.Verdict, d.Reason)
			get := policy.Action{Server: "s", Tool: "prompts/get", Request: true}
			require.Equal(t, p.Decide(get).Keys, d.Keys, "a yes for the session covers both")
		})
	}
}

func TestParseToolApproval(t *testing.T) {
	for word, want := range map[string]policy.ToolApproval{"": policy.ApproveAuto, "auto": policy.ApproveAuto, "prompt": policy.ApprovePrompt, "writes": policy.ApproveWrites, "approve": policy.ApproveAlways} {
		got, err := policy.ParseToolApproval(word)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := policy.ParseToolApproval("Approve")
	require.Error(t, err)
}
