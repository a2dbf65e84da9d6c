// Package ignore reports which files .gitignore and similar files exclude.
//
//	dir := ignore.Root("/home/me/project", ignore.Git)
//	if dir.Match("main.o", false) == ignore.Ignored { … }
//	sub := dir.Enter("src", nil)
//
// A walk asks for each name it meets and does not enter ignored folders, so a
// file below an ignored folder cannot be included again, as in git. The user's
// global excludes and the index are not read: a tracked file can be ignored.
package ignore

import (
	"slices"
	"strings"
)

// A Verdict is the result of matching a path. The zero value is None.
type Verdict int

const (
	None     Verdict = iota // no pattern matches
	Ignored                 // the deciding pattern excludes it
	Included                // the deciding pattern begins with !
)

// A List holds the patterns of one file. A nil List has none.
type List struct {
	patterns []pattern

	// Most patterns are plain names, which are looked up instead of tried one
	// by one. The value is the index of the last pattern with this name.
	names map[string]int
	other []int // indexes of the other patterns, last first
}

type pattern struct {
	glob     glob
	negated  bool
	dirOnly  bool
	basename bool // compared with the last path element
}

// Parse parses patterns in the format of .gitignore, one per line. An invalid
// pattern matches nothing. Parse returns nil when text has no patterns.
func Parse(text string, flavor Flavor) *List {
	l := &List{}
	for s := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		s = trimSpaces(strings.TrimSuffix(s, "\r"))
		if s != "" && s[0] != '#' {
			_ = l.addPattern(s, flavor) // git also skips invalid patterns
		}
	}
	if len(l.patterns) == 0 {
		return nil
	}
	l.index()
	return l
}

// ParseGlob parses one pattern in ripgrep's syntax.
func ParseGlob(s string) (*List, error) {
	l := &List{}
	if err := l.addPattern(s, Ripgrep); err != nil {
		return nil, err
	}
	l.index()
	return l, nil
}

func (l *List) addPattern(s string, flavor Flavor) error {
	var p pattern
	if s, p.negated = strings.CutPrefix(s, "!"); s == "" {
		return nil
	}
	s, p.dirOnly = strings.CutSuffix(s, "/")
	basename := !strings.Contains(s, "/")
	s = strings.TrimPrefix(s, "/")
	if s == "" {
		return nil
	}
	alternatives := []string{s}
	if flavor == Ripgrep {
		var err error
		if alternatives, err = expandBraces(s); err != nil {
			return err
		}
	}
	for _, a := range alternatives {
		g, err := compile(a, flavor)
		if err != nil {
			return err
		}
		p.glob, p.basename = g, basename
		if p.basename && g.crosses() {
			// The slash that it matches can be anywhere in the path.
			p.basename = false
			p.glob.tokens = append([]token{{kind: dirs}}, g.tokens...)
		}
		l.patterns = append(l.patterns, p)
	}
	return nil
}

// trimSpaces removes trailing spaces, except for one after a backslash.
func trimSpaces(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(s))
	}
	return s[:end]
}

func (l *List) index() {
	l.names = map[string]int{}
	for i := len(l.patterns) - 1; i >= 0; i-- {
		p := &l.patterns[i]
		if p.basename && !p.dirOnly && p.glob.tokens == nil && !p.glob.hasSuffix {
			if _, later := l.names[p.glob.literal]; !later {
				l.names[p.glob.literal] = i
			}
			continue
		}
		l.other = append(l.other, i)
	}
}

// OnlyNegated reports whether all patterns begin with !.
func (l *List) OnlyNegated() bool {
	return !slices.ContainsFunc(l.patterns, func(p pattern) bool { return !p.negated })
}

// Match returns the verdict of the last pattern that matches path, which is
// slash-separated and relative to the folder of the list. dir tells whether it
// is a directory.
func (l *List) Match(path string, dir bool) Verdict {
	if l == nil {
		return None
	}
	base := path[strings.LastIndexByte(path, '/')+1:]
	found, ok := l.names[base]
	if !ok {
		found = -1
	}
	for _, i := range l.other {
		if i < found {
			break
		}
		if l.patterns[i].match(path, base, dir) {
			found = i
			break
		}
	}
	switch {
	case found < 0:
		return None
	case l.patterns[found].negated:
		return Included
	}
	return Ignored
}

func (p *pattern) match(path, base string, dir bool) bool {
	if p.dirOnly && !dir {
		return false
	}
	if p.basename {
		return p.glob.match(base)
	}
	return p.glob.match(path)
}
