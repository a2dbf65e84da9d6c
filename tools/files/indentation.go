package files

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/rawjson"
)

// tabWidth is the number of columns of a tab and of a level in indentation mode.
const tabWidth = 4

// blockOptions are the validated settings of indentation mode.
type blockOptions struct {
	anchor   int // line number
	levels   int // 0 means all
	siblings bool
	header   bool
	lines    int // maximum number of lines to return
}

// options validates the settings. The defaults derive from offset and limit. i may be
// nil.
func (i *indentation) options(offset, limit int) (blockOptions, error) {
	if i == nil {
		i = &indentation{}
	}
	var c counts
	anchor := c.read("indentation.anchor_line", i.AnchorLine, offset)
	lines := c.read("indentation.max_lines", i.MaxLines, limit)
	if c.err != nil {
		return blockOptions{}, c.err
	}
	if i.MaxLevels < 0 {
		return blockOptions{}, fmt.Errorf("indentation.max_levels is %d; it is 0 for all levels, or more", i.MaxLevels)
	}
	// No page has more lines than this.
	const most = maxOutput / len("L1: \n")
	return blockOptions{
		anchor:   anchor,
		levels:   i.MaxLevels,
		siblings: i.IncludeSiblings,
		header:   i.IncludeHeader == nil || *i.IncludeHeader,
		lines:    min(limit, lines, most),
	}, nil
}

// An indentedLine is a line with the indentation of its block. A blank line belongs to
// the block of the line before it.
type indentedLine struct {
	line
	columns int
}

func (l indentedLine) blank() bool { return strings.TrimSpace(l.text) == "" && !l.cut }

// comment reports whether the line is a comment or an annotation, which may precede a
// definition.
func (l indentedLine) comment() bool {
	s := strings.TrimSpace(l.text)
	return strings.HasPrefix(s, "#") || strings.HasPrefix(s, "//") || strings.HasPrefix(s, "--")
}

// readBlock returns the block of lines around the anchor.
//
// It keeps only as many lines above and below the anchor as it may return.
func readBlock(src *source, opt blockOptions) (*mcp.CallToolResult, error) {
	above, anchor, below, err := readAround(src, opt)
	if err != nil {
		return nil, err
	}
	least := 0
	if opt.levels > 0 {
		least = max(0, anchor.columns-opt.levels*tabWidth)
	}
	slices.Reverse(above) // the nearest first
	up := blockWalker{lines: above, least: least, siblings: opt.siblings, header: opt.header}
	down := blockWalker{lines: below, least: least, siblings: opt.siblings}
	full := func() bool { return 1+up.taken+down.taken >= opt.lines }
	for !full() && !(up.ended && down.ended) {
		up.take()
		if !full() {
			down.take()
		}
	}

	slices.Reverse(above[:up.taken])
	block := slices.Concat(above[:up.taken], []indentedLine{anchor}, below[:down.taken])
	first := opt.anchor - up.taken
	for len(block) > 0 && block[0].blank() {
		block, first = block[1:], first+1
	}
	for len(block) > 0 && block[len(block)-1].blank() {
		block = block[:len(block)-1]
	}
	out := page{first: first, room: maxOutput}
	for _, l := range block {
		if !out.add(l.line) {
			const format = "cut after line %d, the block goes on to line %d; continue with offset %d in mode slice"
			out.note(fmt.Sprintf(format, first+out.lines-1, first+len(block)-1, first+out.lines))
			break
		}
	}
	if out.lines == 0 {
		out.note(fmt.Sprintf("line %d is blank and so is what is around it", opt.anchor))
	}
	return out.result(src), nil
}

func (i *indentation) UnmarshalJSON(b []byte) error {
	type plain indentation // without this method
	*i = indentation{}
	return unmarshalKnown(b, (*plain)(i), "indentation",
		"anchor_line, max_levels, include_siblings, include_header, max_lines")
}

func (p *readPart) UnmarshalJSON(b []byte) error {
	type plain readPart // without this method
	*p = readPart{}
	return unmarshalKnown(b, (*plain)(p), "more", "file_path, offset, limit, tail")
}

// unmarshalKnown decodes an argument that is an object with the named fields.
func unmarshalKnown(b []byte, v any, argument, fields string) error {
	err := rawjson.UnmarshalKnown(b, v)
	if err != nil && strings.Contains(err.Error(), "unknown field") {
		what := strings.Replace(strings.TrimPrefix(err.Error(), "json: "), "unknown field", "unknown argument", 1)
		return fmt.Errorf("%s has an %s; its arguments are %s", argument, what, fields)
	}
	return err
}

// A blockWalker walks from the anchor, one line at a time, until the block ends.
type blockWalker struct {
	lines    []indentedLine // from the anchor
	least    int            // columns of the outermost lines of the block
	siblings bool
	header   bool

	taken     int
	outermost int // lines taken with the outermost indentation of the block
	ended     bool
}

// take takes the next line if it belongs to the block.
//
// Without siblings, the block has one line with the outermost indentation, which opens
// or closes it. With header, it also has the comments above that line.
func (c *blockWalker) take() {
	if c.ended || c.taken == len(c.lines) || c.lines[c.taken].columns < c.least {
		c.ended = true
		return
	}
	l := c.lines[c.taken]
	if l.columns == c.least && !c.siblings {
		if c.outermost > 0 && !(c.header && l.comment()) {
			c.ended = true
			return
		}
		c.outermost++
	}
	c.taken++
}

// readAround returns the anchor line and the lines above and below it.
func readAround(
	src *source, opt blockOptions,
) (above []indentedLine, anchor indentedLine, below []indentedLine, err error) {
	measure := indentMeter{}
	for n := 1; ; n++ {
		l, err := src.next()
		if err == io.EOF {
			place := fmt.Sprintf("anchor_line %d", opt.anchor)
			return nil, anchor, nil, pastEnd(src.path, place, n-1, "line", "lines")
		}
		if err != nil {
			return nil, anchor, nil, err
		}
		anchor = measure.line(l)
		if n == opt.anchor {
			break
		}
		if above = append(above, anchor); len(above) == 2*opt.lines {
			above = slices.Delete(above, 0, opt.lines)
		}
	}
	above = above[max(0, len(above)-opt.lines):]
	for len(below) < opt.lines {
		l, err := src.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, anchor, nil, err
		}
		below = append(below, measure.line(l))
	}
	return above, anchor, below, nil
}

// An indentMeter measures the indentation of lines, in the order of the file.
type indentMeter struct{ last int }

func (m *indentMeter) line(l line) indentedLine {
	in := indentedLine{line: l}
	if !in.blank() {
		m.last = columns(l.text)
	}
	in.columns = m.last
	return in
}

// columns returns the width of the leading white space of s.
func columns(s string) int {
	n := 0
	for i := range len(s) {
		switch s[i] {
		case ' ':
			n++
		case '\t':
			n += tabWidth
		default:
			return n
		}
	}
	return n
}
