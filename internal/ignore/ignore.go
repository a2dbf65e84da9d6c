// Package ignore tells which files .gitignore and its kin leave out.
//
//	dir := ignore.Root("/home/me/project", ignore.Git)
//	if dir.Match("main.o", false) == ignore.Ignored { … }
//	sub := dir.Enter("src", nil)
//
// A walk asks for each name it meets and does not go into what is ignored; so
// a file below an ignored folder cannot be included again, as in git. The
// user's global excludes are not read, and neither is the index: a tracked
// file can be ignored.
package ignore

import (
	"slices"
	"strings"
)

// A Verdict is what the patterns say of a path. The zero value is nothing.
type Verdict int

const (
	None     Verdict = iota // no pattern matches
	Ignored                 // the deciding pattern leaves it out
	Included                // the deciding pattern begins with !
)

// A List is the patterns of one file. A nil List has none.
type List struct {
	patterns []pattern

	// Most patterns are plain names; they are looked up, not tried. The value
	// is the last such pattern's place.
	names map[string]int
	tried []int // places of the other patterns, last first
}

type pattern struct {
	glob     glob
	negated  bool
	dirOnly  bool
	basename bool // compared with the last path element
}

// Parse reads patterns, one a line, as they stand in .gitignore. A pattern that
// makes no sense matches nothing.
func Parse(text string, flavor Flavor) *List {
	l := &List{}
	for s := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		l.addLine(strings.TrimSuffix(s, "\r"), flavor)
	}
	if len(l.patterns) == 0 {
		return nil
	}
	l.index()
	return l
}

// ParseGlob reads one pattern, as ripgrep has it, and says what is wrong with
// it.
func ParseGlob(s string) (*List, error) {
	l := &List{}
	if err := l.addPattern(s, Ripgrep); err != nil {
		return nil, err
	}
	l.index()
	return l, nil
}

func (l *List) addLine(s string, flavor Flavor) {
	s = trimSpaces(s)
	if s == "" || s[0] == '#' {
		return
	}
	_ = l.addPattern(s, flavor) // git, too, passes over what makes no sense
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
			// The slash that it matches may lie anywhere in the path.
			p.basename = false
			p.glob.tokens = append([]token{{kind: dirs}}, g.tokens...)
		}
		l.patterns = append(l.patterns, p)
	}
	return nil
}

// trimSpaces takes spaces off the end, but not one behind a backslash.
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
		if p.basename && !p.dirOnly && p.glob.tokens == nil && !p.glob.simple {
			if _, later := l.names[p.glob.literal]; !later {
				l.names[p.glob.literal] = i
			}
			continue
		}
		l.tried = append(l.tried, i)
	}
}

// OnlyNegated reports whether all patterns begin with !.
func (l *List) OnlyNegated() bool {
	return !slices.ContainsFunc(l.patterns, func(p pattern) bool { return !p.negated })
}

// Match returns what the last pattern that matches says of path, which is
// relative to the folder of the list, with slashes.
func (l *List) Match(path string, dir bool) Verdict {
	if l == nil {
		return None
	}
	base := path[strings.LastIndexByte(path, '/')+1:]
	found, ok := l.names[base]
	if !ok {
		found = -1
	}
	for _, i := range l.tried {
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
