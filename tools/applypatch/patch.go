package applypatch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Patch is a parsed patch of either format: file operations in order.
type Patch struct {
	Format Format
	Ops    []FileOp

	// Notes say how the text was rewritten before it could be parsed, for the
	// model. They are empty for a text that was parsed as it is.
	Notes []string

	source   source // the text as parsed
	fallback *Patch // how to read it if this does not apply, or nil
}

// A Format is the format of a patch.
type Format int

const (
	Codex   Format = iota // *** Begin Patch … *** End Patch
	Unified               // --- a/x, +++ b/x, @@ -1,2 +1,3 @@; git's extended headers are optional
)

// A Kind is the kind of a file operation.
type Kind int

const (
	Update Kind = iota // edit it, move it, or both
	Add                // create it
	Delete             // remove it
)

// A FileOp is one file operation of a patch.
type FileOp struct {
	Kind   Kind
	Path   string // as written
	MoveTo string // Update: its new path, "" to stay
	Hunks  []Hunk // Add: at most one, of '+' lines only

	// Exec is the change of the executable bit, in unified diffs only.
	Exec Exec

	// Copy is set for git's "copy from": the file at Path is kept.
	Copy bool

	// Unique is set if the text left something to guess: then each hunk must fit
	// in one place only.
	Unique bool

	// Whole is set for an update whose '+' lines are the whole new file.
	Whole bool

	Line int // line number in the text of the patch, from 1
}

// Exec is what a patch does to a file's executable bit.
type Exec int

const (
	ExecKeep Exec = iota
	ExecOn        // mode 100755
	ExecOff       // mode 100644
)

// A Hunk is one block of changes to a file.
type Hunk struct {
	Context   []string // the text of its @@ lines: whole lines of the file above the hunk
	Lines     []Line
	EndOfFile bool // the old lines are the last lines of the file

	// OldStart and NewStart are the line numbers in a header such as
	// @@ -1,2 +1,3 @@, from 1, or 0 without one.
	OldStart, NewStart int

	Line int // line number in the text of the patch, from 1
}

// A Line is one line of a hunk.
type Line struct {
	Op   byte   // ' ', '-' or '+'
	Text string // without the line ending

	// End is the line ending where the format specifies it: "\n", "\r\n" or
	// NoNewline. Empty means unspecified.
	End string
}

// NoNewline is the [Line.End] of a last line without a line ending.
const NoNewline = "none"

// Paths returns the paths that the patch would create, change or delete, as
// written and without duplicates. If it may be read with other paths, because those do
// not exist, they are among them.
func (p *Patch) Paths() []string {
	var paths []string
	add := func(path string) {
		if path != "" && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	for _, op := range p.Ops {
		if !op.Copy {
			add(op.Path)
		}
		add(op.MoveTo)
	}
	for _, q := range []*Patch{p.otherwise(), p.fallback} {
		if q == nil {
			continue
		}
		for _, path := range q.Paths() {
			add(path)
		}
	}
	return paths
}

// changes returns what the patch does to each of its paths: "update", "add",
// "delete", "move away" or "make executable", or several of them, in order.
func (p *Patch) changes() map[string]string {
	kinds := map[string][]string{}
	note := func(path, kind string) {
		if path != "" && !slices.Contains(kinds[path], kind) {
			kinds[path] = append(kinds[path], kind)
		}
	}
	for _, op := range p.Ops {
		switch {
		case op.Copy:
		case op.MoveTo != "":
			note(op.Path, "move away")
		default:
			note(op.Path, [...]string{Update: "update", Add: "add", Delete: "delete"}[op.Kind])
		}
		note(op.MoveTo, "add")
		if op.Exec == ExecOn {
			note(cmp.Or(op.MoveTo, op.Path), "make executable")
		}
	}
	list := map[string]string{}
	for _, q := range []*Patch{p.otherwise(), p.fallback} {
		if q != nil {
			maps.Copy(list, q.changes())
		}
	}
	for path, k := range kinds {
		list[path] = strings.Join(k, ", ")
	}
	return list
}

// A SyntaxError is a syntax error in the text of a patch.
type SyntaxError struct {
	Line int // from 1; 0 for the text as a whole
	Msg  string
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return "invalid patch: " + e.Msg
	}
	return fmt.Sprintf("invalid patch: line %d: %s", e.Line, e.Msg)
}

func syntaxError(line int, format string, args ...any) error {
	return &SyntaxError{line, fmt.Sprintf(format, args...)}
}

func emptyHunk(h *Hunk) error {
	return syntaxError(h.Line, "the hunk has no lines; give it lines that begin with ' ', '-' or '+'")
}

// oldLines returns the lines that the hunk expects in the file.
func (h *Hunk) oldLines() []Line { return without(h.Lines, '+') }

func without(lines []Line, op byte) []Line {
	return slices.DeleteFunc(slices.Clone(lines), func(l Line) bool { return l.Op == op })
}
