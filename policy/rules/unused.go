package rules

import (
	"fmt"
	"slices"
	"strings"
)

// An Unused is a rule that has no effect.
type Unused struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Why  string `json:"why"`
}

func (u Unused) String() string { return fmt.Sprintf("%s:%d: %s", u.File, u.Line, u.Why) }

// Unused returns the rules that can never have an effect. Exists reports whether a
// program, given by name or path, is installed; servers are the names of the
// configured ones. A restricting rule for a program that is not installed counts
// as used: the program may be installed later.
func (r *Rules) Unused(exists func(program string) bool, servers []string) []Unused {
	if r == nil {
		return nil
	}
	var unused []Unused
	add := func(s effect, format string, args ...any) {
		unused = append(unused, Unused{s.File, s.Line, fmt.Sprintf(format, args...)})
	}
	for i, p := range r.prefixes {
		if by := r.shadow(i); by >= 0 {
			s := r.prefixes[by]
			what := "says " + s.decision.String() + " for all of it, and the strictest rule holds"
			if s.decision == p.decision {
				what = "says the same already"
			}
			add(p.effect, "it has no effect: %s:%d %s", s.File, s.Line, what)
			continue
		}
		if p.decision == Allow && !slices.ContainsFunc(p.pattern[0], exists) {
			add(p.effect, "it never matches: there is no program %s here", strings.Join(p.pattern[0], " or "))
		}
	}
	for _, t := range r.tools {
		if !slices.ContainsFunc(append(slices.Clone(servers), ""),
			func(name string) bool { return anyGlob(t.servers, name) }) {
			add(t.effect, "it never matches: no server is called %s", strings.Join(t.servers, " or "))
		}
	}
	return unused
}

// shadow returns the index of a rule that decides wherever rule i applies, or -1.
func (r *Rules) shadow(i int) int {
	p := r.prefixes[i]
	for j, s := range r.prefixes {
		if j == i || len(s.unless) > 0 || s.decision < p.decision {
			continue
		}
		if s.decision == p.decision && (j > i || len(s.pattern) != len(p.pattern)) {
			continue // keep the first of two equal rules, and one with a reason of its own
		}
		if covers(s.pattern, p.pattern) {
			return j
		}
	}
	return -1
}

// covers reports whether every command that matches narrow matches wide.
func covers(wide, narrow [][]string) bool {
	if len(wide) > len(narrow) {
		return false
	}
	for i := range wide {
		for _, word := range narrow[i] {
			if !slices.Contains(wide[i], word) {
				return false
			}
		}
	}
	return true
}
