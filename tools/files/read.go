package files

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

type readInput struct {
	Path        string       `json:"file_path" jsonschema:"file to read"`
	Offset      *int         `json:"offset,omitempty" jsonschema:"default 1"`
	Limit       *int         `json:"limit,omitempty" jsonschema:"default 2000"`
	Tail        *int         `json:"tail,omitempty" jsonschema:"the last lines"`
	Column      *int64       `json:"column,omitempty" jsonschema:"first byte of a long line"`
	More        []readPart   `json:"more,omitempty" jsonschema:"other parts or files"`
	Mode        string       `json:"mode,omitempty" jsonschema:"slice (default), or indentation: the block of code around a line"`
	Indentation *indentation `json:"indentation,omitempty" jsonschema:"with that mode"`
}

// A readPart is a further part to read.
type readPart struct {
	Path   string `json:"file_path,omitempty"`
	Offset *int   `json:"offset,omitempty"`
	Limit  *int   `json:"limit,omitempty"`
	Tail   *int   `json:"tail,omitempty"`
}

type indentation struct {
	AnchorLine      *int  `json:"anchor_line,omitempty" jsonschema:"default offset"`
	MaxLevels       int   `json:"max_levels,omitempty" jsonschema:"default 0: all"`
	IncludeSiblings bool  `json:"include_siblings,omitempty"`
	IncludeHeader   *bool `json:"include_header,omitempty" jsonschema:"comments above; default true"`
	MaxLines        *int  `json:"max_lines,omitempty" jsonschema:"default limit"`
}

const (
	defaultLines = 2000
	maxParts     = 20
)

// ReadFile is read_file.
var ReadFile = tools.New(tools.Def{
	Name:  "read_file",
	Title: "Read a file",
	Description: "Reads a text file, or a part of it, as lines \"L12: text\". " +
		"Shows an image, and a notebook as its cells.",
	ReadOnly:   true,
	Idempotent: true,
}, describeRead, read)

func describeRead(in readInput) (policy.Action, error) {
	a, err := readAction("file_path", in.Path, "give the path of a file")
	for _, p := range in.More {
		if p.Path != "" && !slices.Contains(a.Reads, p.Path) {
			a.Reads = append(a.Reads, p.Path)
		}
	}
	if len(in.More) >= maxParts {
		return a, fmt.Errorf("more has %d parts; read up to %d in a call", len(in.More), maxParts-1)
	}
	return a, err
}

func read(ctx context.Context, in readInput) (*mcp.CallToolResult, error) {
	first, err := in.part()
	if err != nil {
		return nil, err
	}
	if len(in.More) == 0 {
		return first.read(ctx)
	}
	parts := []part{first}
	for _, m := range in.More {
		p, err := (&readInput{Path: cmp.Or(m.Path, in.Path), Offset: m.Offset, Limit: m.Limit, Tail: m.Tail}).part()
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return readAll(ctx, parts)
}

// readAll returns the parts one after the other, each below its path. A part that cannot
// be read is an error in its place, but one that the sandbox denies is that of the call.
func readAll(ctx context.Context, parts []part) (*mcp.CallToolResult, error) {
	all := &mcp.CallToolResult{IsError: true}
	var text strings.Builder // since the last image
	left := maxOutput
	for i, p := range parts {
		p.room = max(left/(len(parts)-i), 1000)
		res, err := p.read(ctx)
		if _, denied := errors.AsType[*tools.Denial](err); denied || ctx.Err() != nil && err != nil {
			return nil, err
		}
		// Without the paths that may have been meant: [tools.Within] does not see them here.
		if m, ok := errors.AsType[*tools.Missing](err); ok {
			m.Near = nil
		}
		if err != nil {
			res = tools.Text(err.Error())
		} else {
			all.IsError = false
		}
		fmt.Fprintf(&text, "==> %s <==\n", tools.OneLine(p.path))
		for _, c := range res.Content {
			if t, ok := c.(*mcp.TextContent); ok {
				text.WriteString(t.Text + "\n")
				left -= len(t.Text)
				continue
			}
			all.Content = append(all.Content, &mcp.TextContent{Text: text.String()}, c)
			text.Reset()
		}
	}
	if text.Len() > 0 {
		all.Content = append(all.Content, &mcp.TextContent{Text: strings.TrimSuffix(text.String(), "\n")})
	}
	return all, nil
}

// A part is a part of a file to read, with validated arguments.
type part struct {
	path   string
	offset int
	limit  int
	tail   int           // last lines, or 0 to begin at offset
	column int64         // from 1, or 0 for whole lines
	block  *blockOptions // in indentation mode
	raw    bool          // not rendered
	room   int           // bytes of text to return
}

// part validates the arguments of the first part.
func (in *readInput) part() (part, error) {
	var c counts
	p := part{path: in.Path, room: maxOutput, raw: in.Mode != ""}
	p.offset, p.limit = c.read("offset", in.Offset, 1), c.read("limit", in.Limit, defaultLines)
	p.tail = c.read("tail", in.Tail, 0)
	if c.err != nil {
		return p, c.err
	}
	if in.Column != nil {
		if p.column = *in.Column; p.column < 1 {
			return p, fmt.Errorf("column is %d; it counts from 1", p.column)
		}
	}
	switch in.Mode {
	case "", "slice":
	case "indentation":
		block, err := in.Indentation.options(p.offset, p.limit)
		if err != nil {
			return p, err
		}
		p.block = &block
	default:
		return p, fmt.Errorf("mode %q is unknown; modes are slice and indentation", in.Mode)
	}
	if p.tail > 0 && (in.Offset != nil || in.Column != nil || p.block != nil) {
		return p, errors.New("tail does not go with offset, column or indentation; leave one out")
	}
	if p.column > 0 && p.block != nil {
		return p, errors.New("column does not go with indentation; leave one out")
	}
	return p, nil
}

func (p part) read(ctx context.Context) (*mcp.CallToolResult, error) {
	f, size, err := openRegular(p.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if strings.EqualFold(filepath.Ext(p.path), ".ipynb") && !p.raw && size <= maxNotebook {
		if text, err := renderNotebook(contextReader{ctx, f}); err == nil {
			src := &source{path: p.path, ctx: ctx, r: bufio.NewReader(bytes.NewReader(text))}
			src.rendered = "these are the cells of the notebook, not the lines of the file; mode slice shows those"
			return p.readFrom(src, func() (*source, error) {
				again := *src
				again.r = bufio.NewReader(bytes.NewReader(text))
				return &again, nil
			})
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, explain(p.path, false, err, "")
		}
	}
	src, err := newSource(ctx, f, p.path, size)
	if errors.Is(err, errImage) {
		return viewImage(ctx, imageInput{Path: p.path})
	}
	if err != nil {
		return nil, err
	}
	return p.readFrom(src, func() (*source, error) {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, explain(p.path, false, err, "")
		}
		return newSource(ctx, f, p.path, size)
	})
}

// readFrom reads the part from src. reopen returns src at its start.
func (p part) readFrom(src *source, reopen func() (*source, error)) (*mcp.CallToolResult, error) {
	switch {
	case p.block != nil:
		return readBlock(src, *p.block)
	case p.column > 0:
		return p.readColumns(src)
	case p.tail > 0:
		lines, err := src.skip(math.MaxInt)
		if err != nil {
			return nil, err
		}
		p.offset, p.limit = max(1, lines-p.tail+1), p.tail
		if src, err = reopen(); err != nil {
			return nil, err
		}
	}
	return p.readSlice(src)
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

// readColumns returns the line at offset from a column on, as much of it as fits.
func (p part) readColumns(src *source) (*mcp.CallToolResult, error) {
	skipped, err := src.skip(p.offset - 1)
	if err != nil {
		return nil, err
	}
	text, length, err := src.columns(p.column, p.room-200)
	switch {
	case err == io.EOF:
		return nil, pastEnd(p.path, fmt.Sprintf("offset %d", p.offset), skipped, "line", "lines")
	case err != nil:
		return nil, err
	case p.column > length:
		return nil, fmt.Errorf("%s: column %d is past the end of line %d, which has %d bytes",
			p.path, p.column, p.offset, length)
	}
	out := page{}
	fmt.Fprintf(&out.text, "L%d: %s", p.offset, src.decoded(text))
	shown := fmt.Sprintf("bytes %d-%d of %d of the line shown", p.column, p.column+int64(len(text))-1, length)
	if last := p.column + int64(len(text)); last <= length {
		shown += fmt.Sprintf("; continue with column %d", last)
	}
	out.note(shown)
	return out.result(src), nil
}

// readSlice returns up to limit lines, starting at line offset.
func (p part) readSlice(src *source) (*mcp.CallToolResult, error) {
	offset, limit := p.offset, p.limit
	skipped, err := src.skip(offset - 1)
	if err != nil {
		return nil, err
	}
	out := page{first: offset, room: p.room}
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
	shown  int    // how many of them text has, if cut
	cut    bool   // text is truncated
}

// A page builds the text of a result.
type page struct {
	first int // number of the first line
	room  int // bytes
	lines int
	more  bool

	text  strings.Builder
	notes []string
}

// add appends a line. It returns false if the line does not fit.
func (p *page) add(l line) bool {
	s := fmt.Sprintf("L%d: %s", p.first+p.lines, l.text)
	if l.cut {
		s += fmt.Sprintf(" … (line cut, it has %d bytes; column %d goes on)", l.length, l.shown+1)
	}
	if p.text.Len()+len(s)+1 > p.room {
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

// errImage is the error for a file that is an image and not text.
var errImage = errors.New("is an image; use view_image")

// binaryError returns the error for a file that is not text, with its type.
func binaryError(path string, sample []byte, size int64) error {
	what := contentType(sample)
	if strings.HasPrefix(what, "image/") {
		return errImage
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
