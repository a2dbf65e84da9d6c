// Package policy decides which calls may run, and under which profile.
//
//	d := p.Decide(action)
//	switch d.Verdict {
//	case policy.Allow: // run it under d.Profile
//	case policy.Ask:   // run it only if the user approves
//	default:           // refuse it, with d.Reason
//	}
//
// It is pure: no os, no net, no clock, no goroutine, no lock. Package gate takes
// a call through its life, and package sandbox enforces the profile.
package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"toolgate/internal/bytestring"
)

// A Verdict says whether a call may run. The zero value denies it.
type Verdict int

const (
	Deny  Verdict = iota // do not run
	Ask                  // run only if a person approves
	Allow                // run
)

func (v Verdict) String() string { return nameOf(v, "deny", "ask", "allow") }

// nameOf returns the name of a value, or of the zero value if it has none.
func nameOf[T ~int](value T, names ...string) string {
	if value < 0 || int(value) >= len(names) {
		value = 0
	}
	return names[value]
}

// An Approval says when a person is asked. The zero value asks before everything.
type Approval int

const (
	Untrusted Approval = iota // ask before every command and every change
	OnRequest                 // ask if the model requests more, or a call leaves the sandbox
	Never                     // never ask; deny what needs approval
	Granular                  // like OnRequest, with each kind of question switchable
)

// QuestionKinds are the kinds of questions that are asked under [Granular], in
// Codex's words. The zero value asks none.
type QuestionKinds struct {
	// SandboxApproval is for leaving the sandbox.
	SandboxApproval bool `json:"sandbox_approval" toml:"sandbox_approval"`
	// Rules is for rules that say prompt.
	Rules bool `json:"rules" toml:"rules"`
	// SkillApproval is accepted for compatibility with Codex and has no effect.
	SkillApproval bool `json:"skill_approval" toml:"skill_approval"`
	// RequestPermissions is for a further path or the network.
	RequestPermissions bool `json:"request_permissions" toml:"request_permissions"`
	// MCPElicitations is for downstream tools, and for questions of their servers.
	MCPElicitations bool `json:"mcp_elicitations" toml:"mcp_elicitations"`
}

// A QuestionKind is what a question is about.
type QuestionKind int

const (
	SandboxQuestion     QuestionKind = iota // leaving the sandbox, and destructive commands
	RuleQuestion                            // a rule that says prompt
	PermissionsQuestion                     // a further path or the network
	DownstreamQuestion                      // a tool of a downstream server
)

// allows reports whether questions of the kind are asked.
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

func (a Approval) String() string { return nameOf(a, "untrusted", "on-request", "never", "granular") }

// ParseApproval returns the approval policy named s. The name "on-failure" of
// older Codex versions is read as "on-request", as Codex does.
func ParseApproval(s string) (Approval, error) {
	if s == "on-failure" {
		return OnRequest, nil
	}
	return parse("approval policy", s, Untrusted, OnRequest, Never)
}

// A Mode says what the sandbox permits. The zero value is the strictest.
type Mode int

const (
	ReadOnly         Mode = iota // read files, change nothing, no network
	WorkspaceWrite               // change files below the writable roots, no network
	DangerFullAccess             // no sandbox
)

func (m Mode) String() string { return nameOf(m, "read-only", "workspace-write", "danger-full-access") }

// ParseMode returns the sandbox mode named s.
func ParseMode(s string) (Mode, error) {
	return parse("sandbox mode", s, ReadOnly, WorkspaceWrite, DangerFullAccess)
}

// parse returns the value named s. The error is a *[ValueError].
func parse[T fmt.Stringer](what, s string, values ...T) (T, error) {
	var names []string
	for _, v := range values {
		names = append(names, v.String())
	}
	if i := slices.Index(names, s); i >= 0 {
		return values[i], nil
	}
	var zero T
	return zero, &ValueError{What: what, Value: s, Known: strings.Join(names, ", ")}
}

// A ValueError is the error for a value that is none of the known ones.
type ValueError struct {
	What  string // such as "sandbox mode"
	Value string
	Known string // the accepted values, comma separated
}

func (e *ValueError) Error() string { return fmt.Sprintf("unknown %s %q", e.What, e.Value) }

// Hint lists the accepted values.
func (e *ValueError) Hint() string { return e.What + " is one of: " + e.Known }

// Network says what network a profile has. The zero value is none.
type Network int

const (
	NetworkNone  Network = iota // no network at all
	NetworkAll                  // the host's network
	NetworkHosts                // the hosts of [Profile.Hosts], through a proxy
)

func (n Network) String() string { return nameOf(n, "none", "all", "hosts") }

// A Profile says what a process may access; package sandbox enforces it. The
// zero value reads every file that the user can read, writes nothing and has no
// network.
type Profile struct {
	Mode Mode `json:"mode"`

	// Name is the name of the permission profile, "" if the profile comes from
	// a mode alone.
	Name string `json:"name,omitempty"`

	// WritableRoots are absolute, clean folders that may be written, with
	// everything below them except ReadOnlySubpaths.
	WritableRoots []string `json:"writable_roots,omitempty"`

	// SharedRoots lists the WritableRoots that other programs also use, such as
	// /tmp. Since they may be very large, they are searched for ReadOnlySubpaths
	// only in the folders directly below.
	SharedRoots []string `json:"shared_roots,omitempty"`

	// TempDir, if not "", is a folder of the caller's own that takes the place of
	// the writable root /tmp. Names in it are not protected.
	TempDir string `json:"temp_dir,omitempty"`

	// ReadOnlySubpaths are names that stay read-only in every folder below a
	// writable root: ".git", ".claude/settings*.json".
	ReadOnlySubpaths []string `json:"read_only_subpaths,omitempty"`

	// Hidden are absolute paths that cannot be read.
	Hidden []string `json:"hidden,omitempty"`

	// ReadOnlyPaths are absolute paths that cannot be changed, moved or
	// replaced, even in a writable root. For a symlink that means the link, not
	// its target.
	ReadOnlyPaths []string `json:"read_only_paths,omitempty"`

	// Paths lists paths with other access than that.
	Paths Paths `json:"paths,omitzero"`

	// Within, if not nil, are the only folders in which files may be read,
	// except Hidden. The worker checks that itself, on systems without a
	// sandbox.
	Within []string `json:"within,omitempty"`

	// Hosts applies if Network is [NetworkHosts].
	Network Network `json:"network"`
	Hosts   Hosts   `json:"hosts,omitzero"`
}

// String returns the name of the permission profile, or of the mode.
func (f Profile) String() string {
	if f.Name != "" {
		return f.Name
	}
	return f.Mode.String()
}

// Digest returns a short hash of f. Equal profiles have equal digests. TempDir does not
// count, because each process has another one.
func (f Profile) Digest() string {
	f.TempDir = ""
	b, err := json.Marshal(bytestring.Escape(f))
	if err != nil {
		panic("bug: a profile does not marshal: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// DefaultReadOnlySubpaths are the names that stay read-only below each writable
// root, because a change there can later run code outside the sandbox.
var DefaultReadOnlySubpaths = []string{".git", ".codex", ".agents", ".toolgate"}

// Permissions is what a call requests beyond the profile in force, in Codex's
// words.
type Permissions string

const (
	UseDefault       Permissions = "use_default"                 // run in the sandbox
	RequireEscalated Permissions = "require_escalated"           // run outside it, if approved
	WithAdditional   Permissions = "with_additional_permissions" // run in it with Additional
)

// Additional is what a call with [WithAdditional] requests. Paths may be relative.
type Additional struct {
	Network bool     `json:"network,omitempty"`
	Write   []string `json:"write,omitempty"` // folders
	Read    []string `json:"read,omitempty"`  // hidden paths to be made readable
}

// An Action says what a call would do, judging by its arguments. Paths may be
// relative; [Action.In] makes them absolute.
type Action struct {
	Tool   string `json:"tool"`             // name of the tool on its server
	Server string `json:"server,omitempty"` // downstream server; "" for a built-in tool

	// Downstream is set with Server.
	Downstream *Downstream `json:"downstream,omitempty"`

	// Request is set for a protocol request other than tools/call; Tool is then
	// its method.
	Request bool `json:"request,omitempty"`
	// As is another request whose rules and approvals also apply to this one.
	As string `json:"as,omitempty"`
	// Unasked is set if nobody is to be asked: without an earlier approval, the
	// call is refused.
	Unasked bool `json:"unasked,omitempty"`

	Command []string `json:"command,omitempty"` // argv of the command it starts
	Dir     string   `json:"dir,omitempty"`     // folder it runs in; "" is the workspace
	Reads   []string `json:"reads,omitempty"`   // paths it reads
	Writes  []string `json:"writes,omitempty"`  // paths it creates, changes or deletes

	// Changes says what the call does to paths in Writes: "add", "update",
	// "delete". An approval covers no other kind of change to the path.
	Changes map[string]string `json:"-"`

	// Session is the session that the call continues, in the sandbox in which
	// it was opened.
	Session string `json:"session,omitempty"`

	Permissions   Permissions `json:"permissions,omitempty"`
	Justification string      `json:"justification,omitempty"` // the model's words
	PrefixRule    []string    `json:"prefix_rule,omitempty"`   // the model's proposal for "always"
	Additional    *Additional `json:"additional,omitempty"`

	// ReadOnly is set for a call that cannot change anything. Such calls run in
	// parallel.
	ReadOnly bool `json:"read_only,omitempty"`

	// Arguments are matched by rules. If nil, the call's own arguments are used.
	Arguments json.RawMessage `json:"-"`

	// Preview is shown to a person together with the question, such as a diff.
	Preview string `json:"-"`
}
