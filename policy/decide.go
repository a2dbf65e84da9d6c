package policy

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"toolgate/policy/rules"
	"toolgate/policy/shell"
)

// A Policy is what the user allows. The zero value asks before every command and
// change. A nil Policy denies every call.
type Policy struct {
	Approval Approval
	Granular QuestionKinds // applies if Approval is Granular
	Mode     Mode

	// ProfileName is the name of the permission profile in force, "" if there is
	// only the mode.
	ProfileName string

	// Rules returns the user's current rules. If it is nil there are none.
	Rules func() *rules.Rules

	// Version returns a string that changes with the sources of this policy. A
	// late answer is valid only for the version under which it was asked.
	Version func() string

	// Workspace is the absolute folder that relative paths are relative to.
	Workspace string

	// WritableRoots are the folders that WorkspaceWrite may write.
	WritableRoots []string
	// SharedRoots lists the WritableRoots that other programs also use.
	SharedRoots []string
	// TempDir is [Profile.TempDir].
	TempDir string
	// ReadOnlySubpaths are the names below each root that stay read-only.
	ReadOnlySubpaths []string
	// ReadRoots are the folders in which files are read unasked if no sandbox
	// can be enforced.
	ReadRoots []string
	// Hidden are paths that cannot be read, and ReadOnlyPaths paths that
	// cannot be changed, moved or replaced.
	Hidden, ReadOnlyPaths []string
	// Others are the workspaces of other callers. No approval opens a path in
	// them, unless it lies in Workspace. They are in Hidden, too.
	Others []string
	// Paths lists paths with other access than the mode gives.
	Paths Paths
	// Network is what commands may reach in WorkspaceWrite. Hosts applies if it
	// is [NetworkHosts].
	Network Network
	Hosts   Hosts

	// Confines reports whether this system can enforce profiles. If it cannot,
	// or Confines is nil, every call that could change something is asked
	// about, except in DangerFullAccess.
	Confines func() bool

	// Replaceable reports whether commands could replace a program, given as an
	// absolute path or as a name without a slash. An allow rule does not lift the
	// sandbox from such a program, nor from any if Replaceable is nil.
	Replaceable func(program string) bool
}

func (p *Policy) ruleSet() *rules.Rules {
	if p.Rules == nil {
		return nil
	}
	return p.Rules()
}

// CurrentVersion returns [Policy.Version]'s result, or "".
func (p *Policy) CurrentVersion() string {
	if p.Version == nil {
		return ""
	}
	return p.Version()
}

// WorkspaceDir returns the workspace; "" for a nil Policy.
func (p *Policy) WorkspaceDir() string {
	if p == nil {
		return ""
	}
	return p.Workspace
}

// confines reports whether this system enforces profiles.
func (p *Policy) confines() bool { return p.Confines != nil && p.Confines() }

// Profile returns the profile of a call that nobody was asked about.
func (p *Policy) Profile() Profile {
	if p.Mode == DangerFullAccess {
		return Profile{Mode: DangerFullAccess, Name: p.ProfileName, Network: NetworkAll}
	}
	f := Profile{Mode: p.Mode, Name: p.ProfileName, Hidden: p.Hidden, ReadOnlyPaths: p.ReadOnlyPaths, Paths: p.Paths}
	if p.Mode == WorkspaceWrite {
		f.WritableRoots = p.WritableRoots
		f.SharedRoots = p.SharedRoots
		f.TempDir = p.TempDir
		f.ReadOnlySubpaths = p.ReadOnlySubpaths
	}
	if p.Mode == WorkspaceWrite || p.ProfileName != "" { // a permission profile sets it in any mode
		f.Network = p.Network
		if f.Network == NetworkHosts {
			f.Hosts = p.Hosts
		}
	}
	return f
}

// A Decision is a verdict with its reason, and the profile of the run if the
// verdict is Allow or a person approves.
type Decision struct {
	Verdict    Verdict
	Reason     string // in plain words, for the person and the model
	Hint       string // what would allow it, for a Deny
	Profile    Profile
	Keys       []string // what an approval for the session covers
	OnceOnly   bool     // an approval covers this call only
	Rule       string   // the first rule that applies, with its position
	AlwaysRule string   // the rule line that "always" would add, "" if none is offered
}

// Decide decides whether a may run. Its paths must be absolute, see [Action.In].
func (p *Policy) Decide(a Action) Decision {
	if p == nil {
		return Decision{Reason: "no policy is in force"}
	}
	d := p.decide(a)
	d.Keys = Keys(a, d.Profile)
	d.OnceOnly = d.OnceOnly || len(a.Writes) > MaxChanges
	return d
}

// decide combines the sandbox's decision with the rules': forbidden applies in
// every mode, allow can lift the sandbox, prompt asks.
func (p *Policy) decide(a Action) Decision {
	if a.Downstream != nil && a.Downstream.Disabled {
		lists := fmt.Sprintf("enabled_tools or disabled_tools of [mcp_servers.%s]", a.Server)
		return Decision{Reason: lists + " leaves out " + cmp.Or(a.As, a.Tool), Hint: "only the user can change that"}
	}
	if name := p.firstOfOthers(a); name != "" {
		return Decision{Reason: name + " is in the workspace of another caller"}
	}
	rs := p.ruleSet()
	m := rs.Tool(a.Server, a.Tool, a.Arguments)
	if a.As != "" {
		if as := rs.Tool(a.Server, a.As, a.Arguments); as.Decision > m.Decision {
			m = as
		}
	}
	if m.Decision != rules.NoDecision {
		return p.byToolRule(a, m)
	}
	if a.Server != "" {
		return p.decideDownstream(a)
	}
	if len(a.Command) == 0 {
		return p.bySandbox(a)
	}
	return p.byRules(a, rs.Judge(a.Command))
}

// byToolRule decides a call to which tool rules apply.
func (p *Policy) byToolRule(a Action, m rules.Evaluation) Decision {
	why := fmt.Sprintf("a rule for this tool (%s)", m.Matches[0])
	d := Decision{Profile: p.Profile(), Rule: m.Matches[0].String()}
	if m.Decision == rules.Allow && len(a.Command) > 0 {
		return p.commandByToolRule(a, d.Rule, why)
	}
	if a.Server != "" {
		d = p.decideDownstream(a)
	}
	switch m.Decision {
	case rules.Allow:
		d.Verdict, d.Reason = Allow, why
		if a.Server == "" {
			d.Profile = NoSandbox
		}
		return d
	case rules.Prompt:
		d.Reason = why
		return p.Ask(RuleQuestion, d)
	}
	return Decision{Reason: why + " forbids it", Rule: d.Rule, Hint: "do not try it in another way"}
}

// commandByToolRule decides a call that starts a command, if a tool rule allows
// the call. Rules for commands still apply, and only they lift the sandbox.
func (p *Policy) commandByToolRule(a Action, rule, why string) Decision {
	j := p.ruleSet().Judge(a.Command)
	if d := p.byRules(a, j); j.Decision > rules.Allow || j.LiftsSandbox && p.replaceable(j.Found) == "" {
		return d
	}
	return p.inside(a, Decision{Reason: why, Rule: rule})
}

// inside allows a call that a rule allows, inside the sandbox and with d's reason,
// if the sandbox confines it.
func (p *Policy) inside(a Action, d Decision) Decision {
	by := p.bySandbox(a)
	if by.Verdict == Allow || p.onlyUntrusted(a) {
		d.Verdict, d.Profile = Allow, p.Profile()
		return d
	}
	by.Rule = d.Rule
	return by
}

// replaceable returns why a program that the call starts here may be another one when
// it starts, or "".
func (p *Policy) replaceable(f shell.Found) string {
	for _, c := range f.Commands {
		name := c.Argv[0]
		isPath := strings.ContainsAny(name, `/\`)
		switch {
		case c.Elsewhere:
		case isPath && !path.IsAbs(name) && !onWindows(name):
			return name + " is a relative path"
		case p.Replaceable == nil || p.Replaceable(name):
			return "commands could replace " + name
		}
	}
	return ""
}

// byRules decides a call that starts a command.
func (p *Policy) byRules(a Action, j rules.Judgment) Decision {
	d := p.bySandbox(a)
	if len(j.Matches) > 0 {
		d.Rule = j.Matches[0].Rule.String()
	}
	switch {
	case j.Decision == rules.Forbidden:
		return Decision{Reason: j.Reason, Rule: d.Rule, Hint: "do not try it in another way"}
	case j.Decision == rules.Allow:
		why := j.Inside
		if j.LiftsSandbox {
			why = p.replaceable(j.Found)
		}
		if why == "" {
			return Decision{Verdict: Allow, Profile: NoSandbox, Reason: j.Reason + " and plain", Rule: d.Rule}
		}
		return p.inside(a, Decision{Reason: j.Reason + ", but inside the sandbox: " + why, Rule: d.Rule})
	case d.Verdict == Deny:
		return d
	case j.Decision == rules.Prompt:
		if d.Verdict == Ask {
			j.Reason = d.Reason + "; and " + j.Reason
		}
		d.Reason, d.Hint = j.Reason, "go on without it or ask the user"
		return p.Ask(RuleQuestion, d)
	case d.Verdict == Ask && p.readsOnly(a, j.Found):
		return Decision{Verdict: Allow, Profile: p.Profile(), Reason: "it is known to read only"}
	case len(j.Dangers) > 0:
		return p.dangerous(d, j.Dangers[0])
	case d.Verdict == Ask:
		d.AlwaysRule = p.alwaysRule(a, d, j)
	}
	return d
}

// alwaysRule returns the rule that "always" would add, or "". A rule holds words
// only, so none is offered that would let out a script that can change.
func (p *Policy) alwaysRule(a Action, d Decision, j rules.Judgment) string {
	prefix, ok := p.ruleSet().ProposePrefix(a.Command, a.PrefixRule)
	if !ok || d.OnceOnly {
		return ""
	}
	lifts := j.LiftsSandboxWith(prefix)
	scripts := j.Found.ScriptFiles.Unknown || len(j.Found.ScriptFiles.Names) > 0
	if lifts && scripts || !lifts && d.Profile.Mode == DangerFullAccess {
		return ""
	}
	return rules.PrefixRuleLine(prefix, rules.Allow.String())
}

// dangerous asks about a destructive command that would otherwise run unasked.
// With danger-full-access and never, the user wants everything to run.
func (p *Policy) dangerous(d Decision, danger rules.Danger) Decision {
	why := fmt.Sprintf("`%s` %s", shell.Join(danger.Command), danger.Reason)
	if d.Verdict == Ask {
		d.Reason += ", and " + why
		return d
	}
	if p.Mode == DangerFullAccess && p.Approval == Never {
		return d
	}
	d.Reason, d.Hint = why, "use a safer way, or ask the user"
	return p.Ask(SandboxQuestion, d)
}

// onlyUntrusted reports whether the approval policy untrusted is the only reason
// to ask, because the sandbox confines the call.
func (p *Policy) onlyUntrusted(a Action) bool {
	return p.Approval == Untrusted && p.confines() && p.Mode != DangerFullAccess &&
		a.Permissions != RequireEscalated && a.Permissions != WithAdditional && len(a.Writes) == 0
}

// readsOnly reports whether the approval policy untrusted is the only reason to
// ask, and every command in the call only reads.
func (p *Policy) readsOnly(a Action, f shell.Found) bool {
	if !p.onlyUntrusted(a) || len(f.Opaque) > 0 || len(f.Writes) > 0 {
		return false
	}
	listed := false
	for _, c := range f.Commands {
		if c.Through {
			continue
		}
		// A file name pattern counts as it is written.
		asWritten := shell.Command{Argv: c.Argv}
		if !c.Allowable() || !asWritten.ReadOnly() {
			return false
		}
		listed = true
	}
	return listed
}

// NoSandbox is the profile of a run outside the sandbox.
var NoSandbox = Profile{Mode: DangerFullAccess, Network: NetworkAll}

// bySandbox decides by what the call would access, without rules.
func (p *Policy) bySandbox(a Action) Decision {
	inside := p.Profile()
	if p.Mode == DangerFullAccess {
		if p.Approval == Untrusted && !a.ReadOnly {
			return Decision{Verdict: Ask, Profile: NoSandbox, Reason: "the approval policy is untrusted"}
		}
		return Decision{Verdict: Allow, Profile: NoSandbox, Reason: "the sandbox mode is danger-full-access"}
	}
	for _, name := range slices.Concat(a.Reads, a.Writes) {
		if why := unsafeWindowsPath(name, p.Workspace); why != "" {
			return Decision{
				Profile: inside,
				Reason:  fmt.Sprintf("%s %s", name, why),
				Hint:    "give the path of a file on a drive",
			}
		}
	}
	if a.Permissions == RequireEscalated {
		d := Decision{
			Profile: NoSandbox,
			Reason:  "it asks to run outside the sandbox",
			Hint:    "resend it without sandbox_permissions to run it in the sandbox",
		}
		if a.Session != "" {
			d.Reason, d.Hint = "it types into a command that runs outside the sandbox", ""
		}
		return p.Ask(SandboxQuestion, d)
	}
	if a.Permissions == WithAdditional && a.Additional != nil {
		return p.Ask(PermissionsQuestion, Decision{
			Profile: inside.with(*a.Additional),
			Reason:  "it asks for more than the sandbox gives: " + a.Additional.String(),
			Hint:    "resend it without sandbox_permissions to run it in the sandbox",
		})
	}
	if out, why := p.firstOutside(a.Writes); out != "" {
		return p.Ask(SandboxQuestion, Decision{
			Profile: NoSandbox,
			Reason:  fmt.Sprintf("it would write %s, which the sandbox keeps read-only: %s", out, why),
			Hint:    p.whereToWrite(),
		})
	}
	if a.ReadOnly && !p.confines() {
		return p.unconfinedRead(a)
	}
	if secret, why := p.firstHidden(a.Reads); secret != "" {
		reason := fmt.Sprintf("it would read %s, which %s", secret, why)
		return p.Ask(SandboxQuestion, Decision{Profile: NoSandbox, Reason: reason})
	}
	if a.ReadOnly {
		return Decision{Verdict: Allow, Profile: inside, Reason: "it only reads"}
	}
	if !p.confines() {
		return p.unconfined()
	}
	if p.Approval == Untrusted {
		return Decision{Verdict: Ask, Profile: inside, Reason: "the approval policy is untrusted"}
	}
	return Decision{Verdict: Allow, Profile: inside, Reason: "the sandbox confines it (" + inside.String() + ")"}
}

// unconfinedRead decides a call that only reads, on a system without a sandbox.
// Only files in the workspace are read unasked. The worker checks where the
// paths lead on disk, see [Profile.Within].
func (p *Policy) unconfinedRead(a Action) Decision {
	if p.Paths.HidesSome() {
		return p.unconfined()
	}
	for _, name := range a.Reads {
		why := p.whyNotUnasked(name)
		if why == "" {
			continue
		}
		reason := fmt.Sprintf("it would read %s, %s (%s)", name, why, noSandboxHere)
		return p.Ask(SandboxQuestion, Decision{Profile: NoSandbox, Reason: reason})
	}
	d := Decision{Verdict: Allow, Profile: NoSandbox, Reason: "it only reads"}
	if len(a.Reads) > 0 {
		d.Profile.Within, d.Profile.Hidden = p.ReadRoots, p.Hidden
		d.Reason = "it only reads, in the workspace"
	}
	return d
}

// whyNotUnasked returns why a path is not read unasked on a system without a
// sandbox, or "". A folder includes everything in it.
func (p *Policy) whyNotUnasked(name string) string {
	for _, h := range p.Hidden {
		if belowFolded(name, h) {
			return "where credentials are kept"
		}
		if belowFolded(h, name) {
			return "in which " + h + " lies, where credentials are kept"
		}
	}
	if !slices.ContainsFunc(p.ReadRoots, func(root string) bool { return Below(name, root) }) {
		return "which is outside the workspace"
	}
	return ""
}

const noSandboxHere = "this system cannot enforce the sandbox, see `toolgate doctor`"

// unconfined asks about a call on a system without a sandbox.
func (p *Policy) unconfined() Decision {
	d := p.Ask(SandboxQuestion, Decision{
		Profile: NoSandbox,
		Reason:  noSandboxHere,
		Hint:    "only --sandbox danger-full-access runs it unasked",
	})
	d.OnceOnly = true
	return d
}

// Ask turns d into a question of the kind, or into a denial if such questions are
// not asked.
func (p *Policy) Ask(kind QuestionKind, d Decision) Decision {
	d.Verdict = Deny
	switch {
	case p.Approval == Never:
		d.Reason += ", and the approval policy is never"
	case p.Approval == Granular && !p.Granular.allows(kind):
		d.Reason += ", and the approval policy rules out asking about that"
	default:
		d.Verdict = Ask
	}
	return d
}

// with returns f with additional permissions.
func (f Profile) with(more Additional) Profile {
	if more.Network {
		f.Network, f.Hosts = NetworkAll, Hosts{}
	}
	f.WritableRoots = slices.Concat(f.WritableRoots, more.Write)
	if len(more.Write) > 0 && f.Mode == ReadOnly {
		f.Mode = WorkspaceWrite
	}
	var hidden []string
	f.ReadOnlyPaths = slices.Clip(f.ReadOnlyPaths)
	for _, h := range f.Hidden {
		if slices.ContainsFunc(more.Read, func(r string) bool { return Below(r, h) || Below(h, r) }) {
			f.ReadOnlyPaths = append(f.ReadOnlyPaths, h) // readable, but not writable
		} else {
			hidden = append(hidden, h)
		}
	}
	f.Hidden = hidden
	f.Paths = f.Paths.with(more)
	return f
}

// with returns p with additional permissions. Patterns still apply.
func (p Paths) with(more Additional) Paths {
	without := func(list, given []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(path string) bool {
			return slices.Contains(given, path)
		})
	}
	p.ReadOnly = without(p.ReadOnly, more.Write)
	p.Denied = without(p.Denied, slices.Concat(more.Read, more.Write))
	if p.Restricted || len(p.Denied) > 0 {
		p.Readable = slices.Concat(p.Readable, more.Read)
	}
	return p
}

func (m Additional) String() string {
	var parts []string
	if m.Network {
		parts = append(parts, "the network")
	}
	if len(m.Write) > 0 {
		parts = append(parts, "to write "+strings.Join(m.Write, ", "))
	}
	if len(m.Read) > 0 {
		parts = append(parts, "to read "+strings.Join(m.Read, ", "))
	}
	return strings.Join(parts, "; ")
}

func (p *Policy) whereToWrite() string {
	if p.Mode != WorkspaceWrite || len(p.WritableRoots) == 0 {
		return "nothing may be written in this sandbox mode"
	}
	return "what may be written lies below " + strings.Join(p.WritableRoots, ", ")
}

// firstOutside returns the first path that may not be written, and why. It
// compares names only: where a path leads on disk is up to the kernel.
func (p *Policy) firstOutside(writes []string) (out, why string) {
	f := p.Profile()
	for _, w := range writes {
		if p.Mode != WorkspaceWrite {
			return w, "the sandbox mode is " + p.Mode.String()
		}
		root, ok := p.rootOf(w)
		if !ok {
			return w, "it is outside the writable folders"
		}
		if name, ok := p.protected(root, w); ok {
			return w, name + " is protected, because a change there can run code outside the sandbox later"
		}
		if f.Access(w) != CanWrite {
			return w, "the permission profile " + f.String() + " says so"
		}
	}
	return "", ""
}

// firstOfOthers returns the first path of a that lies in another caller's
// workspace, or "".
func (p *Policy) firstOfOthers(a Action) string {
	names := slices.Concat(a.Reads, a.Writes, []string{a.Dir})
	if a.Additional != nil {
		names = slices.Concat(names, a.Additional.Read, a.Additional.Write)
	}
	for _, name := range names {
		for _, other := range p.Others {
			own := Below(p.Workspace, other) && Below(name, p.Workspace)
			if name != "" && belowFolded(name, other) && !own {
				return name
			}
		}
	}
	return ""
}

// firstHidden returns the first path that cannot be read, and why.
func (p *Policy) firstHidden(reads []string) (secret, why string) {
	f := p.Profile()
	i := slices.IndexFunc(reads, func(r string) bool { return f.Access(r) == NoAccess })
	if i < 0 {
		return "", ""
	}
	f.Hidden = nil
	if f.Access(reads[i]) == NoAccess {
		return reads[i], "the permission profile " + f.String() + " denies"
	}
	return reads[i], "the sandbox hides because credentials are kept there"
}

// rootOf returns the innermost writable root that contains w.
func (p *Policy) rootOf(w string) (string, bool) {
	best := ""
	for _, root := range p.WritableRoots {
		if Below(w, root) && len(root) > len(best) {
			best = root
		}
	}
	return best, best != ""
}

// protected reports whether w is or lies below a read-only name at any depth
// below root, and which. It ignores case, as some file systems do.
func (p *Policy) protected(root, w string) (string, bool) {
	parts := splitBelow(w, root)
	for i := range parts {
		for _, sub := range p.ReadOnlySubpaths {
			if matchesNames(parts[i:], strings.Split(sub, "/")) {
				return strings.Join(parts[:i+1+strings.Count(sub, "/")], "/"), true
			}
		}
	}
	return "", false
}

// ReadOnlyName reports whether w is or lies below a read-only name directly below
// root.
func (p *Policy) ReadOnlyName(root, w string) bool {
	parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(w, root), "/"), "/")
	return slices.ContainsFunc(p.ReadOnlySubpaths, func(sub string) bool {
		return matchesNames(parts, strings.Split(sub, "/"))
	})
}

// matchesNames reports whether the first parts match the parts of a pattern,
// ignoring case.
func matchesNames(parts, pattern []string) bool {
	if len(parts) < len(pattern) {
		return false
	}
	for i, want := range pattern {
		ok, err := path.Match(strings.ToLower(want), strings.ToLower(parts[i]))
		if err != nil || !ok {
			return false
		}
	}
	return true
}

// Below reports whether the clean absolute path name is root or lies below it. It
// ignores case for Windows paths only.
func Below(name, root string) bool {
	if onWindows(root) {
		return belowFolded(name, root)
	}
	return name == root || root == "/" || strings.HasPrefix(name, strings.TrimSuffix(root, "/")+"/")
}

// In returns a with absolute, clean paths, relative to the workspace; Windows
// paths get slashes. It does not access the disk.
func (a Action) In(workspace string) Action {
	abs := func(s string) string { return absolute(workspace, s) }
	list := func(in []string) []string {
		var out []string
		for _, s := range in {
			if s = abs(s); !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
		return out
	}
	a.Dir = abs(a.Dir)
	if len(a.Changes) > 0 {
		changes := make(map[string]string)
		for _, name := range slices.Sorted(maps.Keys(a.Changes)) { // "a" and "./a" are one
			changes[abs(name)] = strings.TrimPrefix(changes[abs(name)]+", "+a.Changes[name], ", ")
		}
		a.Changes = changes
	}
	a.Reads, a.Writes = list(a.Reads), list(a.Writes)
	if a.Additional != nil {
		more := *a.Additional
		more.Write, more.Read = list(more.Write), list(more.Read)
		a.Additional = &more
	}
	return a
}

// absolute returns s as an absolute, clean path, relative to dir.
func absolute(dir, s string) string {
	switch {
	case onWindows(dir):
		return windowsPath(dir, s)
	case path.IsAbs(s):
		return path.Clean(s)
	}
	return path.Join(dir, s)
}

// Withheld returns the permissions that no call gets, because nobody is asked
// about them.
func (p *Policy) Withheld() (list []Permissions) {
	if p.Ask(SandboxQuestion, Decision{}).Verdict == Deny {
		list = append(list, RequireEscalated)
	}
	if p.Ask(PermissionsQuestion, Decision{}).Verdict == Deny {
		list = append(list, WithAdditional)
	}
	return list
}

// Widens reports whether a person is asked to run a call outside the sandbox after
// the sandbox denied it. Under on-request the model has to request that.
func (p *Policy) Widens() bool {
	return p.Approval == Untrusted || p.Approval == Granular && p.Granular.SandboxApproval
}
