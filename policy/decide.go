package policy

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Policy is what the user allows. The zero value asks before everything,
// writes nothing, and cannot be confined, so it asks before every command; a
// nil Policy denies every call.
type Policy struct {
	Approval Approval
	Mode     Mode

	// Workspace is the absolute folder that relative paths count from.
	Workspace string

	// WritableRoots are the folders that WorkspaceWrite may write.
	WritableRoots []string
	// ReadOnlySubpaths are the names below each root that stay read-only.
	ReadOnlySubpaths []string
	// Hidden are paths that cannot be read.
	Hidden []string
	// Network is what commands may reach in WorkspaceWrite.
	Network Network

	// Confines says that this system enforces Profile. Without it, and
	// outside DangerFullAccess, whatever could change something is asked for
	// each time.
	Confines func() bool // nil: it does not
}

// confines reports whether this system enforces profiles.
func (p *Policy) confines() bool { return p.Confines != nil && p.Confines() }

// Profile returns what a call may touch when nobody was asked.
func (p *Policy) Profile() Profile {
	f := Profile{Mode: p.Mode, Hidden: p.Hidden}
	switch p.Mode {
	case WorkspaceWrite:
		f.WritableRoots = p.WritableRoots
		f.ReadOnlySubpaths = p.ReadOnlySubpaths
		f.Network = p.Network
	case DangerFullAccess:
		f = Profile{Mode: DangerFullAccess, Network: NetworkAll}
	}
	return f
}

// A Decision is a verdict with its reason, and the profile to run under once
// it is Allow or a person has said yes.
type Decision struct {
	Verdict Verdict
	Reason  string // in plain words, for the person and the model
	Hint    string // what would allow it, for a Deny
	Profile Profile
	Keys    []string // what a yes for the session covers
	Each    bool     // a yes covers this one call only
}

// Decide says what may happen with a. Paths of a must be absolute, see
// [Action.In].
func (p *Policy) Decide(a Action) Decision {
	if p == nil {
		return Decision{Reason: "no policy is in force"}
	}
	d := p.decide(a)
	d.Keys = keys(a, d.Profile)
	return d
}

func (p *Policy) decide(a Action) Decision {
	if a.Server != "" {
		return p.decideDownstream(a)
	}
	inside := p.Profile()
	outside := Profile{Mode: DangerFullAccess, Network: NetworkAll}
	if p.Mode == DangerFullAccess {
		if p.Approval == Untrusted && !a.ReadOnly {
			return Decision{Verdict: Ask, Profile: outside, Reason: "the approval policy is untrusted"}
		}
		return Decision{Verdict: Allow, Profile: outside, Reason: "the sandbox mode is danger-full-access"}
	}
	if a.Permissions == RequireEscalated {
		return p.ask(Decision{
			Profile: outside,
			Reason:  "it asks to run outside the sandbox",
			Hint:    "resend it without sandbox_permissions to run it in the sandbox",
		})
	}
	if out, why := p.firstOutside(a.Writes); out != "" {
		return p.ask(Decision{
			Profile: outside,
			Reason:  fmt.Sprintf("it would write %s, which the sandbox keeps read-only: %s", out, why),
			Hint:    p.whereToWrite(),
		})
	}
	if secret := p.firstHidden(a.Reads); secret != "" {
		return p.ask(Decision{
			Profile: outside,
			Reason:  fmt.Sprintf("it would read %s, which the sandbox hides because credentials are kept there", secret),
		})
	}
	if !p.confines() && a.ReadOnly {
		return Decision{Verdict: Allow, Profile: outside, Reason: "it only reads"}
	}
	if !p.confines() {
		d := p.ask(Decision{
			Profile: outside,
			Reason:  "this system cannot enforce the sandbox, see `toolgate doctor`",
			Hint:    "only --sandbox danger-full-access runs it unasked",
		})
		d.Each = true
		return d
	}
	if p.Approval == Untrusted && !a.ReadOnly {
		return Decision{Verdict: Ask, Profile: inside, Reason: "the approval policy is untrusted"}
	}
	return Decision{Verdict: Allow, Profile: inside, Reason: "the sandbox confines it (" + p.Mode.String() + ")"}
}

// ask turns d into a question, or into a refusal when nobody may be asked.
func (p *Policy) ask(d Decision) Decision {
	if p.Approval == Never {
		d.Verdict = Deny
		d.Reason += ", and the approval policy is never"
		return d
	}
	d.Verdict = Ask
	return d
}

func (p *Policy) whereToWrite() string {
	if p.Mode != WorkspaceWrite || len(p.WritableRoots) == 0 {
		return "nothing may be written in this sandbox mode"
	}
	return "what may be written lies below " + strings.Join(p.WritableRoots, ", ")
}

// firstOutside returns the first path that lies outside the writable roots or
// under one of their read-only names, and why it may not be written. The test
// is one of words: what a path leads to is the kernel's business.
func (p *Policy) firstOutside(writes []string) (out, why string) {
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
	}
	return "", ""
}

// firstHidden returns the first path that is hidden or lies below what is.
func (p *Policy) firstHidden(reads []string) string {
	for _, r := range reads {
		for _, h := range p.Hidden {
			if Below(r, h) {
				return r
			}
		}
	}
	return ""
}

// rootOf returns the innermost writable root that w lies in.
func (p *Policy) rootOf(w string) (string, bool) {
	best := ""
	for _, root := range p.WritableRoots {
		if Below(w, root) && len(root) > len(best) {
			best = root
		}
	}
	return best, best != ""
}

// protected reports whether w runs through a read-only name below root, at
// any depth, and which.
func (p *Policy) protected(root, w string) (string, bool) {
	rest := strings.TrimPrefix(strings.TrimPrefix(w, root), "/")
	for part := range strings.SplitSeq(rest, "/") {
		if slices.ContainsFunc(p.ReadOnlySubpaths, func(s string) bool { return strings.EqualFold(s, part) }) {
			return part, true
		}
	}
	return "", false
}

// Below reports whether the clean absolute path name is root or lies below it.
func Below(name, root string) bool {
	return name == root || root == "/" || strings.HasPrefix(name, strings.TrimSuffix(root, "/")+"/")
}

// In returns a with its paths absolute and clean, relative ones counted from
// the workspace. Nothing is looked up on disk.
func (a Action) In(workspace string) Action {
	abs := func(s string) string {
		if path.IsAbs(s) || isDrive(s) {
			return path.Clean(s)
		}
		return path.Join(workspace, s)
	}
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
	a.Reads, a.Writes = list(a.Reads), list(a.Writes)
	return a
}

func isDrive(s string) bool { return len(s) > 2 && s[1] == ':' && s[2] == '/' }

// keys names what an approval of a covers: a command by argv, folder and
// profile, a patch by each path, a downstream tool by server and name. Never
// by the text of the call.
func keys(a Action, f Profile) []string {
	key := func(kind string, parts ...any) string {
		b, _ := json.Marshal(parts)
		return kind + string(b)
	}
	switch {
	case a.Server != "":
		return []string{key("tool", a.Server, a.Tool)}
	case len(a.Command) > 0:
		return []string{key("command", a.Command, a.Dir, f.Mode)}
	case len(a.Writes) > 0:
		var ks []string
		for _, w := range a.Writes {
			ks = append(ks, key("write", w, f.Mode))
		}
		return ks
	}
	return []string{key("call", a.Tool, a.Reads, f.Mode)}
}
