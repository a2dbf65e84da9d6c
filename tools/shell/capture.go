package shell

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"toolgate/internal/lazyregexp"
	"toolgate/tools"
)

// A capture keeps the output of a command: the head and the tail in memory and, if
// there is more, all of it in a file. Memory use does not depend on the size of the
// output.
//
// It may be used concurrently.
type capture struct {
	open func() (*spool, error) // creates the file when it is needed; nil afterwards

	mu      sync.Mutex
	head    []byte // the first bytes, at most limit
	limit   int    // of head and of tail
	tail    []byte // the last bytes after head, and up to limit bytes before them
	file    *spool // nil until head is full, and if open failed
	total   int64  // bytes printed so far
	lines   int64  // newlines among them
	begun   bool   // the last line is incomplete
	changed chan struct{}
}

// newCapture returns a capture that keeps up to limit bytes at either end in memory.
func newCapture(limit int, open func() (*spool, error)) *capture {
	return &capture{head: make([]byte, 0, min(limit, 4096)), limit: limit, open: open}
}

// Write adds output. It never fails: output that cannot be kept is only counted.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	c.lines += int64(bytes.Count(p, []byte{'\n'}))
	c.total += int64(n)
	if n > 0 {
		c.begun = p[n-1] != '\n'
	}
	if room := c.limit - len(c.head); room > 0 {
		k := min(room, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > 0 {
		c.spill(p)
		c.tail = append(c.tail, p[max(0, len(p)-c.limit):]...)
		if len(c.tail) > 2*c.limit {
			c.tail = slices.Delete(c.tail, 0, len(c.tail)-c.limit)
		}
	}
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
	return n, nil
}

// spill writes p, which does not fit into head, to the file.
func (c *capture) spill(p []byte) {
	if c.open != nil {
		c.file, _ = c.open() // without a file the middle is lost, and reported as such
		c.open = nil
		if c.file != nil {
			c.file.write(c.head)
		}
	}
	if c.file != nil {
		c.file.write(p)
	}
}

// size returns the bytes and the lines printed so far, including an incomplete line.
func (c *capture) size() (total, lines int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines = c.lines
	if c.begun {
		lines++
	}
	return c.total, lines
}

// nextKept returns the offset of the first byte at or after from that is kept.
func (c *capture) nextKept(from int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.part(from, c.total)) > 0 {
		return from
	}
	return max(from, c.total-int64(len(c.last())))
}

// last returns the last bytes after head, at most limit.
func (c *capture) last() []byte { return c.tail[max(0, len(c.tail)-c.limit):] }

// more returns a channel that is closed when there is more output.
func (c *capture) more() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

func (c *capture) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = nil
	if c.file != nil {
		c.file.remove()
		c.file = nil
	}
}

// read returns the bytes from..to, or as many from the start as are kept.
func (c *capture) read(from, to int64) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	to = min(to, c.total)
	var b []byte
	for from < to {
		part := c.part(from, to)
		if len(part) == 0 {
			break
		}
		b = append(b, part...)
		from += int64(len(part))
	}
	return b
}

// part returns bytes starting at from out of head, tail or file, or nothing if they
// are lost.
func (c *capture) part(from, to int64) []byte {
	if from < int64(len(c.head)) {
		return c.head[from:min(to, int64(len(c.head)))]
	}
	last := c.last()
	if first := c.total - int64(len(last)); from >= first {
		return last[from-first : to-first]
	}
	if c.file != nil {
		return c.file.read(from, to)
	}
	return nil
}

// text returns the bytes from..to as text of at most limit bytes. If they do not fit,
// it returns their head and tail with a line between them that says how many bytes
// are missing, and cut is true. how returns the hint for reading the bytes that are
// missing at offset.
func (c *capture) text(from, to int64, limit int, how func(offset int64) string) (text string, cut bool) {
	if to-from <= int64(limit) {
		b := c.read(from, to)
		if int64(len(b)) == to-from {
			return readable(b), false
		}
	}
	half := int64(limit / 2)
	head := tools.HeadPart(c.read(from, min(from+half, to)))
	start := max(to-half, from+int64(len(head)))
	tail := tools.TailPart(c.read(start, to))
	missing := to - from - int64(len(head)) - int64(len(tail))
	if missing <= 0 {
		return readable(head) + readable(tail), false
	}
	next := from + int64(len(head))
	hint := "they were not kept"
	if len(c.read(next, next+1)) > 0 {
		hint = how(next)
	}
	return readable(head) + tools.CutLine(missing, head, hint) + readable(tail), true
}

// zeros matches runs of NUL bytes, which take six bytes each in JSON.
var zeros = lazyregexp.New("\x00+")

// readable returns b as text. Invalid UTF-8 and runs of NUL bytes are replaced by
// U+FFFD.
func readable(b []byte) string {
	return zeros.ReplaceAllString(strings.ToValidUTF8(string(b), "\uFFFD"), "\uFFFD")
}
