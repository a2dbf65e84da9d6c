package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.starlark.net/syntax"

	"toolgate/policy/shell"
)

// A Judgment is what the rules say about a whole call.
type Judgment struct {
	// Decision is Allow only if every command of the call is permitted, nothing
	// is opaque and no redirection writes a file. It is also Prompt if something
	// is opaque and there are restricting rules.
	Decision Decision `json:"decision,omitempty"`
	// LiftsSandbox is set if the call may run outside the sandbox: rules permit
	// every command, including wrappers, and every script is plain, see
	// [shell.Found.NotPlain].
	LiftsSandbox bool `json:"-"`
	// Inside is why an allowed call runs inside the sandbox all the same.
	Inside string `json:"-"`
	// Reason explains the decision in one line; "" if no rule applies.
	Reason string `json:"reason,omitempty"`
	// Matches are the commands to which rules apply, in the order of the text.
	Matches []CommandMatch `json:"matchedRules"`
	// Found is everything that was found in the call.
	Found shell.Found `json:"found"`
	// Dangers are the destructive commands.
	Dangers []Danger `json:"dangers,omitempty"`
}

// A CommandMatch is one rule that applies to one command of the call.
type CommandMatch struct {
	Command []string `json:"command"`
	Path    string   `json:"path,omitempty"` // how the command was reached
	Rule    Match    `json:"prefixRuleMatch"`
}

// A Danger is a destructive command of a call.
type Danger struct {
	Command []string `json:"command"`
	Path    string   `json:"path,omitempty"`
	Reason  string   `json:"reason"`
}

// Judge evaluates the rules for everything that argv would run. Nil rules work
// too: commands, opaque parts and dangers are listed all the same.
func (r *Rules) Judge(argv []string) Judgment {
	j := Judgment{Found: shell.Find(argv), Matches: []CommandMatch{}}
	for _, c := range j.Found.Commands {
		if why := c.Dangerous(); why != "" {
			j.Dangers = append(j.Dangers, Danger{c.Argv, c.Path, why})
		}
	}
	cover, permitted, unnamed := r.judgeCommands(&j)
	if whole, ok := r.wholeScript(argv); ok {
		j.Matches = append(j.Matches, CommandMatch{Command: argv, Rule: whole})
		j.Decision = max(j.Decision, whole.Decision)
		if j.Decision == Allow {
			j.Reason = "it is permitted as a whole by " + whole.String()
			j.Inside = j.Found.NotPlain()
			j.LiftsSandbox = j.Inside == ""
			return j // a person has approved this very text
		}
	}
	if j.Decision > Allow {
		j.Reason = j.strictest()
		return j
	}
	opaque := slices.DeleteFunc(slices.Clone(j.Found.Opaque),
		func(o shell.Opaque) bool { return isCovered(o.Origin, cover) })
	possible := slices.IndexFunc(j.Matches, func(m CommandMatch) bool { return m.Rule.Possible })
	hidden := slices.IndexFunc(opaque, func(o shell.Opaque) bool { return !o.NoAllow })
	switch {
	case possible >= 0:
		m := j.Matches[possible]
		j.Decision = Prompt
		j.Reason = fmt.Sprintf("`%s` may be or run what %s restricts", shell.Join(m.Command), m.Rule)
	case hidden >= 0 && r.Restricts():
		j.Decision = Prompt
		j.Reason = "rules restrict commands, and here " + opaque[hidden].Reason
		if source := opaque[hidden].Source; source != "" {
			j.Reason += ": " + source
		}
	case permitted && len(opaque) == 0 && len(j.Found.Writes) == 0:
		j.Decision = Allow
		j.Reason = "every command in it is permitted"
		j.Inside = cmp.Or(unnamed, j.Found.NotPlain())
		j.LiftsSandbox = j.Inside == ""
	}
	return j
}

// judgeCommands evaluates the rules for each command. It returns how many words
// of each command an allow names, whether all commands that need an allow have
// one, and which of those that only start others has none.
func (r *Rules) judgeCommands(j *Judgment) (cover []int, permitted bool, unnamed string) {
	cover = make([]int, len(j.Found.Commands))
	listed, permitted := false, true
	for i, c := range j.Found.Commands {
		if i == 0 && c.Through && shell.RunsScript(c.Argv) {
			continue // the shell that every call of a shell tool starts
		}
		found := r.command(c)
		cover[i] = covered(found, i, j.Found.Commands, cover)
		for _, m := range append(found.Matches, r.mayRun(c)...) {
			if c.Derived && m.Decision == Allow {
				continue
			}
			j.Matches = append(j.Matches, CommandMatch{Command: c.Argv, Path: c.Path, Rule: m})
			if !m.Possible && m.Decision > Allow {
				j.Decision = max(j.Decision, m.Decision)
			}
		}
		if c.Derived || c.Elsewhere {
			continue
		}
		allowed := isCovered(c.Origin, cover) || cover[i] > 0 && c.Allowable()
		if c.Through {
			if !allowed && !shell.RunsScript(c.Argv) {
				unnamed = "no rule allows " + c.Argv[0]
			}
			continue
		}
		listed = true
		permitted = permitted && allowed
	}
	return cover, permitted && listed, unnamed
}

// isCovered reports whether an allow names the words that something was found
// in. Cover is the number of words that an allow names in each command.
func isCovered(o shell.Origin, cover []int) bool {
	return o.Parent > 0 && o.Word > 0 && cover[o.Parent-1] > o.Word
}

// covered returns how many words of a command an allow names: a rule for the
// command, or for the one that contains it. A rule for ["sudo", "apt"] covers
// `sudo apt update`, a rule for ["sudo"] does not.
func covered(found Evaluation, i int, commands []shell.Command, cover []int) int {
	c := commands[i]
	if isCovered(c.Origin, cover) {
		outer := commands[c.Parent-1]
		if outer.Argv[c.Word] != c.Argv[0] {
			return len(c.Argv) // it is part of a script, which is named as a whole
		}
		return min(len(c.Argv), cover[c.Parent-1]-c.Word)
	}
	if found.Decision != Allow {
		return 0
	}
	most := 0
	for _, m := range found.Matches {
		if m.Decision == Allow {
			most = max(most, len(m.Prefix))
		}
	}
	return most
}

// wholeScript returns the strictest rule whose pattern is exactly argv.
func (r *Rules) wholeScript(argv []string) (Match, bool) {
	var found Match
	if r == nil || len(argv) < 2 || !shell.RunsScript(argv) {
		return found, false
	}
	for _, rule := range r.prefixes {
		if len(rule.pattern) != len(argv) {
			continue
		}
		if m, ok := rule.match(shell.Command{Argv: argv}, argv[0]); ok && m.Decision >= found.Decision {
			found = m
		}
	}
	return found, found.Decision != NoDecision
}

// strictest returns the reason given by the first match with j's decision.
func (j *Judgment) strictest() string {
	for _, m := range j.Matches {
		if m.Rule.Decision != j.Decision || m.Rule.Possible {
			continue
		}
		command := shell.Join(m.Command)
		if m.Path != "" {
			command += "` in `" + m.Path
		}
		if m.Rule.Justification != "" {
			return fmt.Sprintf("`%s`: %s (%s:%d)", command, m.Rule.Justification, m.Rule.File, m.Rule.Line)
		}
		verb := "asks before"
		if j.Decision == Forbidden {
			verb = "forbids"
		}
		return fmt.Sprintf("`%s`: %s:%d %s commands starting with `%s`", command, m.Rule.File, m.Rule.Line, verb,
			shell.Join(m.Rule.Prefix))
	}
	return ""
}

// ProposePrefix returns the prefix that the answer "always" would permit for the
// call argv, or false if there is none to offer.
//
// Wanted is the model's proposal. It is taken if a command in the call begins
// with it and it is not too broad. Otherwise the first command that the rules
// do not permit yet is proposed whole. A script that cannot be analyzed is
// proposed as it is, word by word. It works on nil rules.
func (r *Rules) ProposePrefix(argv []string, wanted []string) ([]string, bool) {
	if len(argv) == 0 {
		return nil, false
	}
	j := r.Judge(argv)
	if len(j.Dangers) > 0 || j.Decision == Forbidden {
		return nil, false
	}
	if len(j.Found.Opaque) > 0 || len(j.Found.Writes) > 0 {
		return slices.Clone(argv), len(argv) > 1
	}
	var first []string
	cover := make([]int, len(j.Found.Commands))
	for i, c := range j.Found.Commands {
		if isCovered(c.Origin, cover) {
			cover[i] = len(c.Argv) // the proposal names it
			continue
		}
		if c.Derived || c.Through || c.Elsewhere {
			continue
		}
		if !c.Allowable() {
			return slices.Clone(argv), len(argv) > 1
		}
		if acceptable(wanted, c.Argv) {
			return slices.Clone(wanted), true
		}
		if first == nil && r.command(c).Decision != Allow {
			first = c.Argv
			cover[i] = len(first)
		}
	}
	if first == nil || shell.TooBroad(first) ||
		slices.ContainsFunc(first, func(s string) bool { return !utf8.ValidString(s) }) {
		return nil, false
	}
	return slices.Clone(first), true
}

// acceptable reports whether a command begins with the model's proposal, and it
// is narrow enough.
func acceptable(wanted, argv []string) bool {
	return len(wanted) > 0 && len(wanted) <= len(argv) && slices.Equal(wanted, argv[:len(wanted)]) &&
		!shell.TooBroad(wanted)
}

// PrefixRuleLine returns the line of a rule file, without newline, that decides
// about commands starting with prefix: allow, prompt or forbidden. The words
// must be valid UTF-8.
func PrefixRuleLine(prefix []string, decision string) string {
	quoted := make([]string, len(prefix))
	for i, p := range prefix {
		quoted[i] = syntax.Quote(p, false)
	}
	return fmt.Sprintf("prefix_rule(pattern=[%s], decision=%s)", strings.Join(quoted, ", "),
		syntax.Quote(decision, false))
}

// LiftsSandboxWith reports whether an allow for prefix would lift the sandbox from
// a command of the call.
func (j Judgment) LiftsSandboxWith(prefix []string) bool {
	return j.Found.NotPlain() == "" && slices.ContainsFunc(j.Found.Commands, func(c shell.Command) bool {
		direct := c.Parent == 0 || shell.RunsScript(j.Found.Commands[c.Parent-1].Argv)
		return direct && !c.Derived && len(prefix) <= len(c.Argv) && slices.Equal(prefix, c.Argv[:len(prefix)])
	})
}

// Strictest returns the first match that has the decision of the whole, or an
// empty one.
func (m Evaluation) Strictest() *Match {
	for i := range m.Matches {
		if m.Matches[i].Decision == m.Decision {
			return &m.Matches[i]
		}
	}
	return &Match{}
}
