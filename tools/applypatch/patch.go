package applypatch

import (
	"fmt"
	"io/fs"
	"slices"
)

// A Patch is what the text of a patch says, whichever format it came in: file
// operations in order.
type Patch struct {
	Format Format
	Ops    []FileOp
}

// A Format is a way to write a patch.
type Format int

const (
	Codex   Format = iota // *** Begin Patch … *** End Patch
	Unified               // --- a/x, +++ b/x, @@ -1,2 +1,3 @@; with git's extended headers or without
)

// A Kind is what happens to a file.
type Kind int

const (
	Update Kind = iota // change it, move it, or both
	Add                // create it
	Delete             // remove it
)

// A FileOp is one file of a patch.
type FileOp struct {
	Kind   Kind
	Path   string // as written
	MoveTo string // Update: its new path, "" to stay
	Hunks  []Hunk // Add: at most one, of '+' lines only

	// Exec is the executable bit that a unified diff asks for.
	Exec Exec

	// Copy is set for git's "copy from": the file at Path stays.
	Copy bool

	Line int // of the operation in the text of the patch, from 1
}

// Exec says what a patch does to a file's executable bit.
type Exec int

const (
	ExecKeep Exec = iota
	ExecOn        // mode 100755
	ExecOff       // mode 100644
)

// A Hunk is one block of changes of a file.
type Hunk struct {
	Context   []string // the texts of its @@ lines: whole lines of the file above it
	Lines     []Line
	EndOfFile bool // the old lines are the last ones of the file

	// OldStart and NewStart are the line numbers that a header @@ -1,2 +1,3 @@
	// gives, from 1; 0 when it gives none.
	OldStart, NewStart int

	Line int // of the hunk in the text of the patch, from 1
}

// A Line is one line of a hunk.
type Line struct {
	Op   byte   // ' ', '-' or '+'
	Text string // without its line end

	// End is the line's own line end where the format says it: "\n", "\r\n",
	// or NoNewline. Empty means that it is not said.
	End string
}

// NoNewline is the [Line.End] of a last line without line end.
const NoNewline = "none"

// Paths returns every path that the patch would create, change or delete, as
// written, each once.
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
	return paths
}

// A SyntaxError says where the text of a patch is no patch.
type SyntaxError struct {
	Line int // of the text, from 1; 0 for the text as a whole
	Msg  string
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return "invalid patch: " + e.Msg
	}
	return fmt.Sprintf("invalid patch: line %d: %s", e.Line, e.Msg)
}

// oldLines returns the lines that the hunk expects in the file.
func (h *Hunk) oldLines() []Line { return h.without('+') }

// newLines returns the lines that the hunk leaves there.
func (h *Hunk) newLines() []Line { return h.without('-') }

func (h *Hunk) without(op byte) []Line {
	var lines []Line
	for _, l := range h.Lines {
		if l.Op != op {
			lines = append(lines, l)
		}
	}
	return lines
}

// execOf returns what git's mode, such as 100755, asks for.
func execOf(mode fs.FileMode) Exec {
	if mode&0o111 != 0 {
		return ExecOn
	}
	return ExecOff
}
