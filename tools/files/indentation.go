package files

import (
	"fmt"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/rawjson"
	"toolgate/tools"
)

// tabWidth is how many columns a tab counts in indentation mode, and how many
// a level has.
const tabWidth = 4

// blockOptions are the settings of indentation mode, checked.
type blockOptions struct {
	anchor   int // line number
	levels   int // 0 is all
	siblings bool
	header   bool
	lines    int // most lines returned
}

// options checks the settings; what is not given follows from offset and
// limit. A nil i has no settings.
func (i *indentation) options(offset, limit int) (blockOptions, error) {
	if i == nil {
		i = &indentation{}
	}
	anchor, err := atLeastOne("indentation.anchor_line", i.AnchorLine, offset)
	if err != nil {
		return blockOptions{}, err
	}
	lines, err := atLeastOne("indentation.max_lines", i.MaxLines, limit)
	if err != nil {
		return blockOptions{}, err
	}
	if i.MaxLevels < 0 {
		return blockOptions{}, &tools.ArgumentError{Msg: fmt.Sprintf("indentation.max_levels is %d; it is 0 for all levels, or more", i.MaxLevels)}
	}
	// No page holds more lines than that, so none has to be kept.
	const most = maxOutput / len("L1: \n")
	return blockOptions{
		anchor:   anchor,
		levels:   i.MaxLevels,
		siblings: i.IncludeSiblings,
		header:   i.IncludeHeader == nil || *i.IncludeHeader,
		lines:    min(limit, lines, most),
	}, nil
}

// An indented is a line and how far its block is indented. A blank line
// belongs to the block of the line before it.
type indented struct {
	line
	columns int
}

func (l indented) blank() bool { return strings.TrimSpace(l.text) == "" && !l.cut }

// comment reports whether the line is a comment or an annotation of the kind
// that stands above a definition.
func (l indented) comment() bool {
	s := strings.TrimSpace(l.text)
	return strings.HasPrefix(s, "#") || strings.HasPrefix(s, "//") || strings.HasPrefix(s, "--")
}

// readBlock returns the block of lines around the anchor.
//
// Only lines that can still be part of it are kept: as many above and below
// the anchor as may be returned.
func readBlock(src *source, opt blockOptions) (*mcp.CallToolResult, error) {
	above, anchor, below, err := readAround(src, opt)
	if err != nil {
		return nil, err
	}
	least := 0
	if opt.levels > 0 {
		least = max(0, anchor.columns-opt.levels*tabWidth)
	}
	up := climber{lines: above, least: least, siblings: opt.siblings, header: opt.header, step: -1, at: len(above) - 1}
	down := climber{lines: below, least: least, siblings: opt.siblings, step: 1}
	taken, budget := 1, opt.lines
	for taken < budget {
		before := taken
		if up.take() {
			taken++
		}
		if taken < budget && down.take() {
			taken++
		}
		if taken == before {
			break
		}
	}

	block := append(append(above[len(above)-up.taken:len(above):len(above)], anchor), below[:down.taken]...)
	first := opt.anchor - up.taken
	for len(block) > 0 && block[0].blank() {
		block, first = block[1:], first+1
	}
	for len(block) > 0 && block[len(block)-1].blank() {
		block = block[:len(block)-1]
	}
	out := page{first: first}
	for _, l := range block {
		if !out.add(l.line) {
			out.note(fmt.Sprintf("cut after line %d, the block goes on to line %d; continue with offset %d in mode slice", first+out.lines-1, first+len(block)-1, first+out.lines))
			break
		}
	}
	if out.lines == 0 {
		out.note(fmt.Sprintf("line %d is blank and so is what is around it", opt.anchor))
	}
	return out.result(src), nil
}

// UnmarshalJSON refuses settings that there are none of.
func (i *indentation) UnmarshalJSON(b []byte) error {
	type plain indentation // without this method
	*i = indentation{}
	err := rawjson.UnmarshalKnown(b, (*plain)(i))
	if err != nil && strings.Contains(err.Error(), "unknown field") {
		return &tools.ArgumentError{Msg: "indentation has an " + strings.Replace(strings.TrimPrefix(err.Error(), "json: "), "unknown field", "unknown argument", 1) +
			"; its arguments are anchor_line, max_levels, include_siblings, include_header, max_lines"}
	}
	return err
}

// A climber walks away from the anchor, one line at a time, until the block
// ends.
type climber struct {
	lines    []indented
	step, at int
	least    int // columns of the outermost lines of the block
	siblings bool
	header   bool

	taken     int
	outermost int // lines taken that are as far out as the block goes
	ended     bool
}

// take takes the next line, if it still belongs to the block.
//
// Without siblings one line at the outermost indentation belongs to it, the
// one that opens or closes it, and with a header the comments above that.
func (c *climber) take() bool {
	if c.ended || c.at < 0 || c.at >= len(c.lines) || c.lines[c.at].columns < c.least {
		c.ended = true
		return false
	}
	l := c.lines[c.at]
	if l.columns == c.least && !c.siblings {
		if c.outermost > 0 && !(c.header && l.comment()) {
			c.ended = true
			return false
		}
		c.outermost++
	}
	c.at += c.step
	c.taken++
	return true
}

// readAround returns the anchor line and the lines above and below it.
func readAround(src *source, opt blockOptions) (above []indented, anchor indented, below []indented, err error) {
	measure := measurer{}
	ring := make([]indented, 0, min(opt.lines, opt.anchor))
	oldest := 0
	for n := 1; ; n++ {
		l, err := src.next()
		if err == io.EOF {
			return nil, anchor, nil, pastEnd(src.path, fmt.Sprintf("anchor_line %d", opt.anchor), n-1, "line", "lines")
		}
		if err != nil {
			return nil, anchor, nil, err
		}
		anchor = measure.line(l)
		if n == opt.anchor {
			break
		}
		if len(ring) < opt.lines {
			ring = append(ring, anchor)
		} else {
			ring[oldest] = anchor
			oldest = (oldest + 1) % len(ring)
		}
	}
	above = append(above, ring[oldest:]...)
	above = append(above, ring[:oldest]...)
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

// A measurer tells how far lines are indented, in the order of the file.
type measurer struct{ last int }

func (m *measurer) line(l line) indented {
	in := indented{line: l}
	if !in.blank() {
		m.last = columns(l.text)
	}
	in.columns = m.last
	return in
}

// columns returns the width of the white space that s begins with.
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
