// Package rules reads Codex's rule files and says what they decide about a command,
// a host or a call of a tool.
//
//	r, err := rules.Parse("default.rules", text)
//	j := r.Judge([]string{"bash", "-lc", "git push && ls"})
//	// j.Decision is Allow, Prompt, Forbidden or NoDecision
//
// Rules that restrict look at every command that a script might run; a rule that
// permits lifts the sandbox only from what is plain, see [Judgment.Lifts].
package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"toolgate/policy/shell"
)

// A Decision is what rules say about a command, a host or a tool. The zero value
// says nothing.
type Decision int

const (
	NoDecision Decision = iota // no rule speaks of it
	Allow                      // it may run unasked, and without the sandbox where it is plain what runs
	Prompt                     // a person is asked
	Forbidden                  // it does not run
)

func (r Decision) String() string {
	switch r {
	case Allow:
		return "allow"
	case Prompt:
		return "prompt"
	case Forbidden:
		return "forbidden"
	}
	return ""
}

// MarshalText writes the word that rule files use.
func (r Decision) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// parseDecision returns the ruling that a rule file names.
func parseDecision(s string) (Decision, bool) {
	switch s {
	case "allow":
		return Allow, true
	case "prompt":
		return Prompt, true
	case "forbidden":
		return Forbidden, true
	}
	return NoDecision, false
}

// Rules are what the user's rule files say. A nil *Rules says nothing.
type Rules struct {
	// Home is what ~/ stands for in host_executable paths. Without it such
	// paths stand for nothing.
	Home string

	prefixes []prefixRule
	hosts    map[string][]string // program name to the paths that may stand for it
	networks []networkRule
	tools    []toolRule
}

// A position is the place of a rule.
type position struct {
	File string
	Line int
}

type prefixRule struct {
	position
	pattern       [][]string // the words in order, each with its alternatives
	unless        [][][]string
	decision      Decision
	justification string
}

type networkRule struct {
	position
	host, protocol string
	decision       Decision
	justification  string
}

type toolRule struct {
	position
	servers, tools []string // with * for any text
	args           map[string]argPattern
	decision       Decision
	justification  string
}

// A Match is a rule that speaks of something, and how.
type Match struct {
	Decision      Decision `json:"decision"`
	Prefix        []string `json:"matchedPrefix,omitempty"`
	Program       string   `json:"resolvedProgram,omitempty"` // the path whose file name matched
	Justification string   `json:"justification,omitempty"`
	File          string   `json:"file"`
	Line          int      `json:"line"`
	// Possible is set where the rule speaks of it only if a part that is not
	// known turns out so.
	Possible bool `json:"possible,omitempty"`
}

func (m Match) String() string {
	s := fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Decision)
	if len(m.Prefix) > 0 {
		s += " " + shell.Join(m.Prefix)
	}
	if m.Justification != "" {
		s += ": " + m.Justification
	}
	return s
}

// A Evaluation is what all rules together say: the strictest of them.
type Evaluation struct {
	Decision Decision
	Matches  []Match
}

func (r *Evaluation) add(m Match) {
	r.Matches = append(r.Matches, m)
	if !m.Possible {
		r.Decision = max(r.Decision, m.Decision)
	}
}

// Add takes in the rules of another file. Where several speak of one thing the
// strictest holds, whatever their order.
func (r *Rules) Add(other *Rules) {
	if other == nil {
		return
	}
	r.prefixes = append(r.prefixes, other.prefixes...)
	r.networks = append(r.networks, other.networks...)
	r.tools = append(r.tools, other.tools...)
	for name, paths := range other.hosts {
		if r.hosts == nil {
			r.hosts = make(map[string][]string)
		}
		r.hosts[name] = paths // the last file to name it decides, as in Codex
	}
}

// Restricts reports whether any rule prompts for or forbids a command. Where
// none does, what is opaque can hide nothing from the rules.
func (r *Rules) Restricts() bool {
	return r != nil && slices.ContainsFunc(r.prefixes, func(p prefixRule) bool { return p.decision > Allow })
}

// Command returns what the rules say about one simple command. It does not
// look inside it, see [Rules.Judge].
func (r *Rules) Command(argv []string) Evaluation {
	return r.command(shell.Command{Argv: argv})
}

// command is Command for one whose arguments may be unknown in part.
func (r *Rules) command(c shell.Command) Evaluation {
	var out Evaluation
	if r == nil || len(c.Argv) == 0 {
		return out
	}
	exact := false
	for _, rule := range r.prefixes {
		if m, ok := rule.match(c, c.Argv[0], false); ok {
			exact = exact || !m.Possible
			out.add(m)
		}
	}
	name := shell.ProgramName(c.Argv[0])
	r.byPath(c, name, &out)
	if name == c.Argv[0] {
		r.otherCase(c, name, &out)
		return out
	}
	// An absolute path stands for its file name: always for what restricts,
	// for an allow only where the path is known to be that program.
	trusted := !exact && r.standsFor(c.Argv[0], name)
	for _, rule := range r.prefixes {
		if rule.decision == Allow && !trusted {
			continue
		}
		if m, ok := rule.match(c, name, true); ok {
			if _, unknown := c.Hole(0); !unknown {
				m.Program = c.Argv[0]
			}
			out.add(m)
		}
	}
	return out
}

// byPath finds restricting rules for a path that the program may be, written
// in another way.
func (r *Rules) byPath(c shell.Command, name string, out *Evaluation) {
	if strings.HasPrefix(c.Argv[0], "/") {
		return
	}
	for _, rule := range r.prefixes {
		if rule.decision <= Allow {
			continue
		}
		for _, path := range rule.pattern[0] {
			if path == c.Argv[0] || !strings.Contains(path, "/") || shell.ProgramName(path) != name {
				continue
			}
			if m, ok := rule.match(c, path, true); ok {
				m.Possible = path != r.home(c.Argv[0])
				out.add(m)
			}
		}
	}
}

// home returns a path with the home folder in place of ~.
func (r *Rules) home(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && r.Home != "" {
		return strings.TrimSuffix(r.Home, "/") + "/" + rest
	}
	return path
}

// otherCase finds restricting rules for a name written in another case, which
// is the same program on macOS and Windows.
func (r *Rules) otherCase(c shell.Command, name string, out *Evaluation) {
	lower := strings.ToLower(name)
	if lower == name {
		return
	}
	for _, rule := range r.prefixes {
		if rule.decision > Allow {
			if m, ok := rule.match(c, lower, true); ok {
				out.add(m)
			}
		}
	}
}

// standsFor reports whether the program at path is the one called name.
func (r *Rules) standsFor(path, name string) bool {
	if paths, ok := r.hosts[name]; ok {
		return slices.ContainsFunc(paths, func(p string) bool {
			return r.home(p) == path || p == path
		})
	}
	return shell.IsSystemProgram(path)
}

// match compares the rule with a command whose program is called name.
func (p prefixRule) match(c shell.Command, name string, byName bool) (Match, bool) {
	fit := matchPrefix(p.pattern, c, name)
	if fit == fitsNot || fit == mayFit && p.decision == Allow {
		return Match{}, false
	}
	for _, u := range p.unless {
		if matchPrefix(u, c, name) == fits {
			return Match{}, false
		}
	}
	m := Match{
		Decision: p.decision, Justification: p.justification,
		File: p.File, Line: p.Line, Possible: fit == mayFit,
	}
	if fit == fits {
		m.Prefix = slices.Clone(c.Argv[:len(p.pattern)])
		if byName {
			m.Prefix[0] = name
		}
	} else {
		for _, alternatives := range p.pattern {
			m.Prefix = append(m.Prefix, strings.Join(alternatives, "|"))
		}
	}
	return m, true
}

// A fit is how a command compares with a pattern.
type fit int

const (
	fitsNot fit = iota
	mayFit      // it depends on what is not known
	fits
)

// matchPrefix compares the first words of a command with a pattern.
func matchPrefix(pattern [][]string, c shell.Command, name string) fit {
	result := fits
	for i, alternatives := range pattern {
		if i >= len(c.Argv) {
			return fitsNot
		}
		arg := c.Argv[i]
		if i == 0 {
			arg = name
		}
		if slices.Contains(alternatives, arg) {
			continue
		}
		h, unknown := c.Hole(i)
		if !unknown || i == 0 {
			return fitsNot
		}
		if !h.Many && !slices.ContainsFunc(alternatives,
			func(a string) bool { return strings.HasPrefix(a, h.Prefix) }) {
			return fitsNot
		}
		if h.Many {
			if h.Prefix != "" &&
				!slices.ContainsFunc(alternatives, func(a string) bool { return strings.HasPrefix(a, h.Prefix) }) {
				return fitsNot
			}
			return mayFit // what follows can stand anywhere
		}
		result = mayFit
	}
	return result
}

// Network returns what the rules say about reaching host by protocol: http,
// https, socks5_tcp or socks5_udp.
func (r *Rules) Network(host, protocol string) Evaluation {
	var out Evaluation
	if r == nil {
		return out
	}
	host, err := parseHost(host)
	if err != nil {
		return out
	}
	protocol, _ = parseProtocol(protocol)
	for _, n := range r.networks {
		if n.host == host && n.protocol == protocol {
			out.add(Match{Decision: n.decision, Prefix: []string{n.protocol, n.host},
				Justification: n.justification, File: n.File, Line: n.Line})
		}
	}
	return out
}

// Tool returns what the rules say about a call of a tool of a downstream
// server, or of a built-in tool when server is "". Arguments that are no JSON
// object fit every restricting rule of the tool and no other.
func (r *Rules) Tool(server, tool string, args json.RawMessage) Evaluation {
	var out Evaluation
	if r == nil {
		return out
	}
	for _, t := range r.tools {
		if !anyGlob(t.servers, server) || !anyGlob(t.tools, tool) {
			continue
		}
		if t.fits(args) {
			out.add(Match{Decision: t.decision, Prefix: []string{server, tool}, Justification: t.justification,
				File: t.File, Line: t.Line})
		}
	}
	return out
}

// fits reports whether the arguments of a call are those of the rule.
func (t toolRule) fits(args json.RawMessage) bool {
	if len(t.args) == 0 {
		return true
	}
	values, err := members(args)
	if err != nil {
		return t.decision > Allow
	}
	for name, pattern := range t.args {
		if !pattern.fitsMember(values[name], t.decision > Allow) {
			return false
		}
	}
	return true
}
