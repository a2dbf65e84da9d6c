// Package rules reads Codex's rule files and evaluates them for a command, a host
// or a tool call.
//
//	r, err := rules.Parse("default.rules", text)
//	j := r.Judge([]string{"bash", "-lc", "git push && ls"})
//	// j.Decision is Allow, Prompt, Forbidden or NoDecision
//
// Restricting rules apply to every command that a script might run. A permitting
// rule lifts the sandbox only from simple scripts, see [Judgment.LiftsSandbox].
package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"toolgate/policy/shell"
)

// A Decision is what rules say about a command, a host or a tool, in Codex's
// words. Stricter decisions are greater.
type Decision int

const (
	NoDecision Decision = iota // no rule applies
	Allow                      // run it unasked, and outside the sandbox if it is simple enough
	Prompt                     // ask a person first
	Forbidden                  // do not run it
)

var decisionNames = []string{NoDecision: "", Allow: "allow", Prompt: "prompt", Forbidden: "forbidden"}

func (r Decision) String() string { return decisionNames[r] }

// MarshalText returns the word that rule files use.
func (r Decision) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Rules are the rules of one or more rule files. A nil *Rules has none.
type Rules struct {
	// Home replaces ~ in the paths of host_executable. If it is empty, such
	// paths match nothing.
	Home string

	prefixes []prefixRule
	hosts    map[string][]string // program name to the paths that are that program
	networks []networkRule
	tools    []toolRule
}

// An effect is what a rule decides, why, and where the rule is defined.
type effect struct {
	File          string
	Line          int
	decision      Decision
	justification string
}

// match returns the match of the rule for what prefix says.
func (e effect) match(prefix ...string) Match {
	return Match{Decision: e.decision, Prefix: prefix, Justification: e.justification, File: e.File, Line: e.Line}
}

type prefixRule struct {
	effect
	pattern [][]string // the words in order, each with its alternatives
	unless  [][][]string
}

type networkRule struct {
	effect
	host, protocol string
}

type toolRule struct {
	effect
	servers, tools []string // * matches any text
	args           map[string]argPattern
}

// A Match is a rule that applies to a command, a host or a tool.
type Match struct {
	Decision      Decision `json:"decision"`
	Prefix        []string `json:"matchedPrefix,omitempty"`
	Program       string   `json:"resolvedProgram,omitempty"` // the path whose file name matched
	Justification string   `json:"justification,omitempty"`
	File          string   `json:"file"`
	Line          int      `json:"line"`
	// Possible is set if the rule applies only for some values of an argument
	// that is not known.
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

// An Evaluation is what all rules together say. The strictest decision applies;
// matches that are only possible do not count.
type Evaluation struct {
	Decision Decision
	Matches  []Match
}

func (e *Evaluation) add(m Match) {
	e.Matches = append(e.Matches, m)
	if !m.Possible {
		e.Decision = max(e.Decision, m.Decision)
	}
}

// Add adds the rules of another file. The strictest rule that applies wins,
// whatever the order.
func (r *Rules) Add(other *Rules) {
	if other == nil {
		return
	}
	r.prefixes = append(r.prefixes, other.prefixes...)
	r.networks = append(r.networks, other.networks...)
	r.tools = append(r.tools, other.tools...)
	if r.hosts == nil {
		r.hosts = make(map[string][]string)
	}
	maps.Copy(r.hosts, other.hosts) // the last file wins, as in Codex
}

// Restricts reports whether any rule prompts for or forbids a command.
func (r *Rules) Restricts() bool {
	return r != nil && slices.ContainsFunc(r.prefixes, func(p prefixRule) bool { return p.decision > Allow })
}

// Command evaluates the rules for one simple command, not for the commands that
// it starts; see [Rules.Judge].
func (r *Rules) Command(argv []string) Evaluation {
	return r.command(shell.Command{Argv: argv})
}

// command is [Rules.Command] for a command with arguments that may be unknown.
func (r *Rules) command(c shell.Command) Evaluation {
	var out Evaluation
	if r == nil || len(c.Argv) == 0 {
		return out
	}
	program := c.Argv[0]
	name := shell.ProgramName(program)
	exact := false
	for _, rule := range r.prefixes {
		if m, ok := rule.match(c, program); ok {
			exact = exact || !m.Possible
			out.add(m)
		}
	}
	r.byPath(c, name, &out)
	// A path also matches rules for its file name: always for restricting rules, for an
	// allow only if the path is known to be that program. A name also matches restricting
	// rules in lower case, because macOS and Windows ignore case.
	trusted := !exact && r.standsFor(program, name)
	_, unknown := c.Hole(0)
	for _, other := range slices.Compact([]string{name, strings.ToLower(name)}) {
		for _, rule := range r.prefixes {
			if other == program || rule.decision == Allow && (!trusted || other != name) {
				continue
			}
			if m, ok := rule.match(c, other); ok {
				if name != program && !unknown {
					m.Program = program
				}
				out.add(m)
			}
		}
	}
	return out
}

// mayRun returns the restricting rules for commands that c may run in addition to
// those that are listed, see [shell.Command.Suspects].
func (r *Rules) mayRun(c shell.Command) []Match {
	if !r.Restricts() {
		return nil
	}
	parts := c.Suspects()
	var found []Match
	for _, rule := range r.prefixes {
		if rule.decision > Allow && rule.mentioned(parts) {
			found = append(found, rule.possible())
		}
	}
	return found
}

// mentioned reports whether the words of the pattern are among the parts, in their
// order.
func (p prefixRule) mentioned(parts []shell.Part) bool {
	for n, part := range parts {
		named := slices.ContainsFunc(p.pattern[0], func(name string) bool {
			return strings.EqualFold(shell.ProgramName(part.Text), shell.ProgramName(name))
		})
		switch {
		case part.Many:
			return true
		case named && !p.excepts(parts[n:]), part.Unknown && len(p.pattern) > 1:
			return inOrder(p.pattern[1:], parts[n+1:])
		}
	}
	return false
}

// excepts reports whether the parts begin with an exception of the rule.
func (p prefixRule) excepts(parts []shell.Part) bool {
	return slices.ContainsFunc(p.unless, func(u [][]string) bool {
		argv := make([]string, 0, len(u))
		for _, part := range parts[:min(len(u), len(parts))] {
			argv = append(argv, part.Text)
		}
		return len(argv) == len(u) && matchPrefix(u, shell.Command{Argv: argv}, shell.ProgramName(argv[0])) == fits
	})
}

// inOrder reports whether the parts contain the words of a pattern, with others between.
func inOrder(pattern [][]string, parts []shell.Part) bool {
	for _, part := range parts {
		if len(pattern) == 0 || part.Many {
			return true
		}
		if part.Unknown || slices.ContainsFunc(pattern[0], part.Begins) {
			pattern = pattern[1:]
		}
	}
	return len(pattern) == 0
}

// byPath finds restricting rules for a path that may be the same program.
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
			if m, ok := rule.match(c, path); ok {
				m.Possible = path != r.home(c.Argv[0])
				out.add(m)
			}
		}
	}
}

// home replaces ~ in a path with the home folder.
func (r *Rules) home(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && r.Home != "" {
		return strings.TrimSuffix(r.Home, "/") + "/" + rest
	}
	return path
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

// match reports whether the rule applies to a command of the program name.
func (p prefixRule) match(c shell.Command, name string) (Match, bool) {
	fit := matchPrefix(p.pattern, c, name)
	if fit == fitsNot || fit == mayFit && p.decision == Allow {
		return Match{}, false
	}
	for _, u := range p.unless {
		if matchPrefix(u, c, name) == fits {
			return Match{}, false
		}
	}
	if fit == mayFit {
		return p.possible(), true
	}
	m := p.effect.match(slices.Clone(c.Argv[:len(p.pattern)])...)
	m.Prefix[0] = name
	return m, true
}

// possible returns the match of a rule that may apply.
func (p prefixRule) possible() Match {
	m := p.effect.match()
	m.Possible = true
	for _, alternatives := range p.pattern {
		m.Prefix = append(m.Prefix, strings.Join(alternatives, "|"))
	}
	return m
}

// A fit says whether a command matches a pattern.
type fit int

const (
	fitsNot fit = iota
	mayFit      // depends on arguments that are not known
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
		if !slices.ContainsFunc(alternatives, func(a string) bool { return strings.HasPrefix(a, h.Prefix) }) {
			return fitsNot
		}
		if h.Many {
			return mayFit // the words after it may be at any position
		}
		result = mayFit
	}
	return result
}

// Network evaluates the rules for a connection to host by a protocol: http, https,
// socks5_tcp or socks5_udp.
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
			out.add(n.match(n.protocol, n.host))
		}
	}
	return out
}

// Tool evaluates the rules for a call of a downstream server's tool, or of a
// built-in tool if server is "". If the arguments are not a JSON object, all
// restricting rules for the tool apply and no permitting one does.
func (r *Rules) Tool(server, tool string, args json.RawMessage) Evaluation {
	var out Evaluation
	if r == nil {
		return out
	}
	for _, t := range r.tools {
		if anyGlob(t.servers, server) && anyGlob(t.tools, tool) && t.fits(args) {
			out.add(t.match(server, tool))
		}
	}
	return out
}

// fits reports whether the arguments of a call match the rule.
func (t toolRule) fits(args json.RawMessage) bool {
	if len(t.args) == 0 {
		return true
	}
	values, err := members(args)
	if err != nil {
		return t.decision > Allow
	}
	for name, pattern := range t.args {
		if !pattern.fitsMember(values, name, t.decision > Allow) {
			return false
		}
	}
	return true
}
