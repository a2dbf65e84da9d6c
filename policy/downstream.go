package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// A ToolApproval says when a person is asked before a downstream server's tool is
// called, in Codex's words. The zero value is [ApproveAuto].
type ToolApproval string

const (
	ApproveAuto   ToolApproval = ""        // unless a trusted server's annotations say it is harmless
	ApprovePrompt ToolApproval = "prompt"  // always
	ApproveWrites ToolApproval = "writes"  // unless a trusted server's annotations say it only reads
	ApproveAlways ToolApproval = "approve" // never
)

// ParseToolApproval returns the mode named s.
func ParseToolApproval(s string) (ToolApproval, error) {
	switch s {
	case "", "auto":
		return ApproveAuto, nil
	case "prompt", "writes", "approve":
		return ToolApproval(s), nil
	}
	return ApprovePrompt, &ValueError{What: "tool approval mode", Value: s, Known: "auto, prompt, writes, approve"}
}

// Claims are the annotations of a server's tool. They are not verified; nil means
// not given.
type Claims struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// A Downstream describes the downstream tool that an [Action] calls. The zero value
// asks before every call.
type Downstream struct {
	Approval ToolApproval `json:"approval,omitempty"`
	Trusted  bool         `json:"trusted,omitempty"` // the user trusts the server's claims
	Claims   Claims       `json:"claims"`
	Disabled bool         `json:"disabled,omitempty"` // excluded by enabled_tools or disabled_tools
	Profile  Profile      `json:"-"`                  // the profile of the server's process

	// Digest is the digest of Profile, computed once; "" if it is not known.
	Digest string `json:"-"`
}

// ProfileDigest returns the digest of the profile that the action runs under.
func (a Action) ProfileDigest(d Decision) string {
	if d.Verdict != Deny && a.Server != "" && a.Downstream != nil && a.Downstream.Digest != "" {
		return a.Downstream.Digest // a server always runs under its own profile
	}
	return d.Profile.Digest()
}

// decideDownstream decides a call of a downstream tool. The server always runs
// under a profile of its own, so the only question is whether to make the call.
func (p *Policy) decideDownstream(a Action) Decision {
	var t Downstream
	if a.Downstream != nil {
		t = *a.Downstream
	}
	d := Decision{Profile: t.Profile}
	if p.Approval == Never && p.Mode == DangerFullAccess {
		d.Verdict, d.Reason = Allow, "the approval policy is never and the sandbox mode danger-full-access"
		return d
	}
	free, why := t.free()
	if free {
		d.Verdict, d.Reason = Allow, why
		return d
	}
	d.Reason = why
	where := fmt.Sprintf("for this tool of [mcp_servers.%s]", a.Server)
	if a.Request {
		where = fmt.Sprintf("in [mcp_servers.%s.tools.%q]", a.Server, cmp.Or(a.As, a.Tool))
	}
	d.Hint = "the user can allow it with approval_mode = \"approve\" " + where
	return p.Ask(DownstreamQuestion, d)
}

// free reports whether the tool may be called unasked, and why.
func (t Downstream) free() (bool, string) {
	is := func(claim *bool, want bool) bool { return t.Trusted && claim != nil && *claim == want }
	switch {
	case t.Approval == ApproveAlways:
		return true, "the config approves this tool"
	case t.Approval != ApproveAuto && t.Approval != ApproveWrites:
		return false, "the config asks before every call of this tool"
	case is(t.Claims.ReadOnly, true):
		return true, "the trusted server says that the tool only reads"
	case t.Approval == ApproveWrites:
		return false, "the tool may change something"
	case is(t.Claims.Destructive, false) && is(t.Claims.OpenWorld, false):
		return true, "the trusted server says that the tool destroys nothing and stays on this machine"
	case !t.Trusted:
		return false, "the server is not marked as trusted, so what it says of its tools does not count"
	}
	return false, "the tool may destroy something or reach beyond this machine"
}

// ErrNoClient is wrapped by a [ClientFunc]'s error if the client does not support
// the request.
var ErrNoClient = errors.New("the client does not support this request")

// A ClientFunc sends a backend's request to the client whose call caused it, and
// returns the client's result.
type ClientFunc func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)

// An InputsFunc sends the inputRequests of a downstream server's result to the
// client at once and returns the inputResponses (specification 2026-07-28, multi
// round-trip requests).
type InputsFunc func(ctx context.Context, requests json.RawMessage) (responses json.RawMessage, err error)
