package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

type readInput struct {
	Path        string       `json:"file_path"`
	Offset      *int         `json:"offset,omitempty" jsonschema:"default 1"`
	Limit       *int         `json:"limit,omitempty" jsonschema:"default 2000"`
	Mode        string       `json:"mode,omitempty" jsonschema:"slice (default), or indentation: the block of code around a line"`
	Indentation *indentation `json:"indentation,omitempty"`
}

type indentation struct {
	AnchorLine      *int  `json:"anchor_line,omitempty" jsonschema:"default offset"`
	MaxLevels       int   `json:"max_levels,omitempty" jsonschema:"default 0: all"`
	IncludeSiblings bool  `json:"include_siblings,omitempty"`
	IncludeHeader   *bool `json:"include_header,omitempty" jsonschema:"comments above; default true"`
	MaxLines        *int  `json:"max_lines,omitempty" jsonschema:"default limit"`
}

const defaultLines = 2000

// ReadFile is read_file.
var ReadFile = tools.New(tools.Def{
	Name:        "read_file",
	Title:       "Read a file",
	Description: "Reads a text file, or a part of it, as lines \"L12: text\".",
	ReadOnly:    true,
	Idempotent:  true,
}, describeRead, read)

func describeRead(in readInput) (policy.Action, error) {
	return readAction("file_path", in.Path, "give the path of a file")
}

func read(ctx context.Context, in readInput) (*mcp.CallToolResult, error) {
	var c counts
	offset, limit := c.read("offset", in.Offset, 1), c.read("limit", in.Limit, defaultLines)
	if c.err != nil {
		return nil, c.err
	}
	var block blockOptions
	var err error
	switch in.Mode {
	case "", "slice":
	case "indentation":
		if block, err = in.Indentation.options(offset, limit); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("mode %q is unknown; modes are slice and indentation", in.Mode)
	}

	f, size, err := openRegular(in.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := newSource(ctx, f, in.Path, size)
	if err != nil {
		return nil, err
	}
	if in.Mode == "indentation" {
		return readBlock(src, block)
	}
	return readSlice(src, offset, limit)
}

// openRegular opens the regular file at path and returns its size.
func openRegular(path string) (*os.File, int64, error) {
	const hint = "check the path with list_dir"
	info, err := os.Stat(path) // opening a named pipe would block
	if err != nil {
		return nil, 0, explain(path, false, err, hint)
	}
	switch {
	case info.IsDir():
		return nil, 0, fmt.Errorf("%s: is a folder; use list_dir", path)
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s: is not a regular file but a %s; it cannot be read", path, kind(info.Mode()))
	}
	f, err := tools.OpenNonblocking(path)
	if err != nil {
		return nil, 0, explain(path, false, err, hint)
	}
	return f, info.Size(), nil
}

func kind(m os.FileMode) string {
	switch {
	case m&os.ModeNamedPipe != 0:
		return "named pipe"
	case m&os.ModeSocket != 0:
		return "socket"
	case m&os.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// readSlice returns up to limit lines, starting at line offset.
func readSlice(src *source, offset, limit int) (*mcp.CallToolResult, error) {
	skipped, err := src.skip(offset - 1)
	if err != nil {
		return nil, err
	}
	out := page{first: offset}
	for out.lines < limit {
		l, err := src.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if !out.add(l) {
			out.more = true
			break
		}
	}
	switch {
	case out.lines > 0 || out.more:
	case offset == 1:
		return tools.Text("The file is empty."), nil
	default:
		return nil, pastEnd(src.path, fmt.Sprintf("offset %d", offset), skipped, "line", "lines")
	}
	if !out.more {
		if out.more, err = src.more(); err != nil {
			return nil, err
		}
	}
	if out.more {
		shown := fmt.Sprintf("line %d", offset)
		if out.lines != 1 {
			shown = fmt.Sprintf("lines %d-%d", offset, offset+out.lines-1)
		}
		out.note(fmt.Sprintf("%s shown, more follow; continue with offset %d", shown, offset+out.lines))
	}
	return out.result(src), nil
}

// pastEnd returns the error for a place past the last of all lines or entries.
func pastEnd(path, place string, all int, one, many string) error {
	switch all {
	case 0:
		return fmt.Errorf("%s: %s is past the end, there are no %s", path, place, many)
	case 1:
		return fmt.Errorf("%s: %s is past the end, there is 1 %s; use 1", path, place, one)
	}
	return fmt.Errorf("%s: %s is past the end, there are %d %s; use a number from 1 to %d", path, place, all, many, all)
}

// A line is one line of a file without its line ending.
type line struct {
	text   string // its start, at most maxColumn bytes
	length int64  // its length in the file in bytes
	cut    bool   // text is truncated
}

// A page builds the text of a result.
type page struct {
	first int // number of the first line
	lines int
	more  bool

	text  strings.Builder
	notes []string
}

// add appends a line. It returns false if the line does not fit.
func (p *page) add(l line) bool {
	s := fmt.Sprintf("L%d: %s", p.first+p.lines, l.text)
	if l.cut {
		s += fmt.Sprintf(" … (line cut, it has %d bytes)", l.length)
	}
	if p.text.Len()+len(s)+1 > maxOutput {
		return false
	}
	p.text.WriteString(s)
	p.text.WriteByte('\n')
	p.lines++
	return true
}

func (p *page) note(s string) { p.notes = append(p.notes, s) }

func (p *page) result(src *source) *mcp.CallToolResult {
	s := strings.TrimSuffix(p.text.String(), "\n")
	notes := append(src.notes(), p.notes...)
	if len(notes) > 0 {
		s += "\n"
	}
	for _, n := range notes {
		s += "\nNote: " + n + "."
	}
	return tools.Text(s)
}

// sampleSize is the number of bytes used to detect the type of a file.
const sampleSize = 64 << 10

// binaryError returns the error for a file that is not text, with its type.
func binaryError(path string, sample []byte, size int64) error {
	what := contentType(sample)
	if strings.HasPrefix(what, "image/") {
		return fmt.Errorf("%s: is an image (%s, %d bytes); use view_image", path, what, size)
	}
	return fmt.Errorf("%s: is a binary file (%s, %d bytes); "+
		"use a command such as file, strings or xxd to look into it", path, what, size)
}

// magic lists signatures of common files that net/http does not detect.
var magic = []struct{ start, what string }{
	{"\x7fELF", "ELF program or library"},
	{"MZ", "Windows program or library"},
	{"\xfe\xed\xfa\xce", "Mach-O program or library"},
	{"\xfe\xed\xfa\xcf", "Mach-O program or library"},
	{"\xce\xfa\xed\xfe", "Mach-O program or library"},
	{"\xcf\xfa\xed\xfe", "Mach-O program or library"},
	{"\xca\xfe\xba\xbe", "Java class or universal Mach-O program"},
	{"SQLite format 3\x00", "SQLite database"},
	{"!<arch>\n", "library archive"},
	{"BZh", "application/x-bzip2"},
	{"\xfd7zXZ\x00", "application/x-xz"},
	{"\x28\xb5\x2f\xfd", "application/zstd"},
	{"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"},
	{"DIRC", "git index"},
	{"PACK", "git pack"},
}

// contentType returns the type of a file, detected from its start.
func contentType(sample []byte) string {
	for _, m := range magic {
		if bytes.HasPrefix(sample, []byte(m.start)) {
			return m.what
		}
	}
	return http.DetectContentType(sample)
}

var errStopped = errors.New("stopped before the end of the file was reached")
