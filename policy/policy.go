// Package policy says what may run and in which profile.
//
//	d := p.Decide(action)
//	switch d.Verdict {
//	case policy.Allow: // run it under d.Profile
//	case policy.Ask:   // run it only if the user approves
//	default:           // refuse it, with d.Reason
//	}
//
// It is pure: no os, no net, no clock, no goroutine, no lock. Package gate drives
// a call through its life, and package sandbox enforces the profile.
package policy

import (
	"encoding/json"
	"fmt"
)

// A Verdict is what may happen with a call. The zero value refuses it.
type Verdict int

const (
	Deny  Verdict = iota // do not run
	Ask                  // run only if a person approves
	Allow                // run
)

func (v Verdict) String() string {
	switch v {
	case Ask:
		return "ask"
	case Allow:
		return "allow"
	}
	return "deny"
}

// An Approval says when a person is asked. The zero value asks before
// everything.
type Approval int

const (
	Untrusted Approval = iota // ask before every command and every change
	OnRequest                 // ask when the model asks for more, or a call reaches outside
	Never                     // ask nobody; what would need a yes is refused
	Granular                  // as OnRequest, but each kind of question can be switched off
)

// QuestionKinds are the kinds of questions that may be asked under [Granular], in
// Codex's words. The zero value asks none.
type QuestionKinds struct {
	SandboxApproval    bool `json:"sandbox_approval" toml:"sandbox_approval"`       // to reach beyond the sandbox
	Rules              bool `json:"rules" toml:"rules"`                             // where a rule says prompt
	SkillApproval      bool `json:"skill_approval" toml:"skill_approval"`           // read for Codex's sake; nothing here asks it
	RequestPermissions bool `json:"request_permissions" toml:"request_permissions"` // for one more path or the network
	MCPElicitations    bool `json:"mcp_elicitations" toml:"mcp_elicitations"`       // for tools of downstream servers, and their own questions
}

// A QuestionKind is what a question is about.
type QuestionKind int

const (
	SandboxQuestion     QuestionKind = iota // reaching beyond the sandbox, and what destroys
	RuleQuestion                            // a rule that says prompt
	PermissionsQuestion                     // one more path or the network
	DownstreamQuestion                      // a tool of a downstream server
)

// allows reports whether questions of the kind may be asked.
func (k QuestionKinds) allows(kind QuestionKind) bool {
	switch kind {
	case SandboxQuestion:
		return k.SandboxApproval
	case RuleQuestion:
		return k.Rules
	case PermissionsQuestion:
		return k.RequestPermissions
	case DownstreamQuestion:
		return k.MCPElicitations
	}
	return false
}

func (a Approval) String() string {
	switch a {
	case OnRequest:
		return "on-request"
	case Never:
		return "never"
	case Granular:
		return "granular"
	}
	return "untrusted"
}

// ParseApproval returns the approval policy named s. The name "on-failure" of
// older Codex versions is read as "on-request", as Codex does.
func ParseApproval(s string) (Approval, error) {
	switch s {
	case "untrusted":
		return Untrusted, nil
	case "on-request", "on-failure":
		return OnRequest, nil
	case "never":
		return Never, nil
	}
	return Untrusted, &ValueError{What: "approval policy", Value: s, Known: "untrusted, on-request, never"}
}

// A Mode is how far the sandbox reaches. The zero value is the narrowest.
type Mode int

const (
	ReadOnly         Mode = iota // read files, change nothing, no network
	WorkspaceWrite               // change files below the writable roots, no network
	DangerFullAccess             // no sandbox
)

func (m Mode) String() string {
	switch m {
	case WorkspaceWrite:
		return "workspace-write"
	case DangerFullAccess:
		return "danger-full-access"
	}
	return "read-only"
}

// ParseMode returns the sandbox mode named s.
func ParseMode(s string) (Mode, error) {
	switch s {
	case "read-only":
		return ReadOnly, nil
	case "workspace-write":
		return WorkspaceWrite, nil
	case "danger-full-access":
		return DangerFullAccess, nil
	}
	return ReadOnly, &ValueError{What: "sandbox mode", Value: s,
		Known: "read-only, workspace-write, danger-full-access"}
}

// A ValueError is a word that none of the known ones matches.
type ValueError struct {
	What  string // such as "sandbox mode"
	Value string
	Known string // the accepted words, comma separated
}

func (e *ValueError) Error() string { return fmt.Sprintf("unknown %s %q", e.What, e.Value) }

// Hint says what would have been accepted.
func (e *ValueError) Hint() string { return e.What + " is one of: " + e.Known }

// Network is what a profile may reach. The zero value is nothing.
type Network int

const (
	NetworkNone  Network = iota // no network at all
	NetworkAll                  // the host's network
	NetworkHosts                // the hosts of [Profile.Hosts], through a proxy
)

func (n Network) String() string {
	switch n {
	case NetworkAll:
		return "all"
	case NetworkHosts:
		return "hosts"
	}
	return "none"
}

// A Profile is what a process may touch; package sandbox enforces it. The
// zero value reads every file that the user can read and is not hidden,
// writes nothing and has no network.
type Profile struct {
	Mode Mode `json:"mode"`

	// Name is the permission profile that this one was made from, "" when it
	// stands for a mode alone.
	Name string `json:"name,omitempty"`

	// WritableRoots are absolute, clean folders that may be written, with
	// everything below them but what ReadOnlySubpaths names.
	WritableRoots []string `json:"writable_roots,omitempty"`

	// SharedRoots are those of WritableRoots that many programs share, such as
	// /tmp. They are searched for ReadOnlySubpaths no deeper than in the
	// folders directly below: all of such a folder may be very large.
	SharedRoots []string `json:"shared_roots,omitempty"`

	// ReadOnlySubpaths are names that stay read-only in every folder below a
	// writable root: ".git", ".claude/settings*.json".
	ReadOnlySubpaths []string `json:"read_only_subpaths,omitempty"`

	// Hidden are absolute paths that cannot be read.
	Hidden []string `json:"hidden,omitempty"`

	// ReadOnlyPaths are absolute paths that cannot be changed, moved or
	// replaced, even in a writable root. A symlink among them stays what it
	// is; what it leads to is not meant.
	ReadOnlyPaths []string `json:"read_only_paths,omitempty"`

	// Paths is what single paths allow beyond that, or less.
	Paths Paths `json:"paths,omitzero"`

	// Within, where it is not nil, are the folders in which alone files are
	// read, and of them not what Hidden names. The worker sees to that itself:
	// such a profile is for systems that enforce nothing.
	Within []string `json:"within,omitempty"`

	// Network is what may be reached, and Hosts which hosts where it is
	// [NetworkHosts].
	Network Network `json:"network"`
	Hosts   Hosts   `json:"hosts,omitzero"`
}

// String returns the name of the permission profile, or else of the mode.
func (f Profile) String() string {
	if f.Name != "" {
		return f.Name
	}
	return f.Mode.String()
}

// DefaultReadOnlySubpaths are the names that stay read-only below each
// writable root: a change there runs code or widens permissions later,
// outside the sandbox.
var DefaultReadOnlySubpaths = []string{".git", ".codex", ".agents", ".toolgate"}

// Permissions is what a call asks for beyond the profile in force, in Codex's
// words.
type Permissions string

const (
	UseDefault       Permissions = "use_default"                 // run in the sandbox
	RequireEscalated Permissions = "require_escalated"           // run outside it, if a person says yes
	WithAdditional   Permissions = "with_additional_permissions" // run in it with one thing more
)

// Additional is what a call with [WithAdditional] asks for. Paths may be
// relative.
type Additional struct {
	Network bool     `json:"network,omitempty"`
	Write   []string `json:"write,omitempty"` // folders
	Read    []string `json:"read,omitempty"`  // hidden paths to be shown
}

// An Action is what a call would do, as far as its arguments tell. Paths may
// be relative; [Action.In] makes them absolute.
type Action struct {
	Tool   string `json:"tool"`             // name of the tool on its server
	Server string `json:"server,omitempty"` // downstream server; "" for a built-in tool

	// Downstream is set with Server.
	Downstream *Downstream `json:"downstream,omitempty"`

	// Request is set for a request of the protocol other than tools/call; Tool
	// is then its method. As is the request whose rules and approvals hold for
	// this one too, if it is another. With Unasked nobody is asked: what needs
	// a yes that was not given before is refused with [ErrUnasked].
	Request bool   `json:"request,omitempty"`
	As      string `json:"as,omitempty"`
	Unasked bool   `json:"unasked,omitempty"`

	Command []string `json:"command,omitempty"` // argv of the command it starts
	Dir     string   `json:"dir,omitempty"`     // folder it runs in; "" is the workspace
	Reads   []string `json:"reads,omitempty"`   // paths it reads
	Writes  []string `json:"writes,omitempty"`  // paths it creates, changes or deletes

	// Session is the session that the call goes on with; it runs where that
	// session was opened.
	Session string `json:"session,omitempty"`

	Permissions   Permissions `json:"permissions,omitempty"`
	Justification string      `json:"justification,omitempty"` // the model's words
	PrefixRule    []string    `json:"prefix_rule,omitempty"`   // the model's proposal for "always"
	Additional    *Additional `json:"additional,omitempty"`

	// ReadOnly is set for a call that cannot change anything. Such calls run
	// side by side.
	ReadOnly bool `json:"read_only,omitempty"`

	// Arguments are those of the call, for rules that look at them. Unless
	// the description sets them, they are the call's own.
	Arguments json.RawMessage `json:"-"`

	// Preview is what a person is shown beside the question, such as a diff.
	Preview string `json:"-"`
}
