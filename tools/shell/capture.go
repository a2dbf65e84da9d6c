package shell

import (
	"bytes"
	"strings"
	"sync"

	"toolgate/internal/lazyregexp"
	"toolgate/tools"
)

// A capture keeps what a command prints: the beginning and the end in memory
// and, once that is not everything, all of it in a file. What it costs in
// memory does not depend on how much is printed.
//
// It may be used concurrently.
type capture struct {
	open func() (*spool, error) // makes the file when it is needed

	mu      sync.Mutex
	head    []byte // the first bytes, at most limit
	tail    ring   // the last bytes, at most limit, of what follows head
	file    *spool // nil until head is full, and when open failed
	total   int64  // bytes printed so far
	lines   int64  // line ends among them
	begun   bool   // the last line has not ended
	changed chan struct{}
}

// newCapture returns a capture that answers from memory for up to limit bytes
// at either end.
func newCapture(limit int, open func() (*spool, error)) *capture {
	return &capture{head: make([]byte, 0, min(limit, 4096)), tail: ring{limit: limit}, open: open}
}

// Write takes what was printed. It never fails: what cannot be kept is counted.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	c.lines += int64(bytes.Count(p, []byte{'\n'}))
	c.total += int64(n)
	if n > 0 {
		c.begun = p[n-1] != '\n'
	}
	if room := c.tail.limit - len(c.head); room > 0 {
		k := min(room, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > 0 {
		c.spill(p)
		c.tail.write(p)
	}
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
	return n, nil
}

// spill writes p, which no longer fits head, to the file.
func (c *capture) spill(p []byte) {
	if c.open != nil {
		c.file, _ = c.open() // without a file the middle is lost, and said so
		c.open = nil
		if c.file != nil {
			c.file.write(c.head)
		}
	}
	if c.file != nil {
		c.file.write(p)
	}
}

// size returns the bytes and the lines printed so far; a begun line counts.
func (c *capture) size() (total, lines int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines = c.lines
	if c.begun {
		lines++
	}
	return c.total, lines
}

// nextKept returns the first byte at or after from that is kept.
func (c *capture) nextKept(from int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.part(from, c.total)) > 0 {
		return from
	}
	return max(from, c.total-int64(c.tail.len()))
}

// more returns a channel that is closed when more is printed.
func (c *capture) more() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// close gives up the file.
func (c *capture) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = nil
	if c.file != nil {
		c.file.remove()
		c.file = nil
	}
}

// read returns what is kept of the bytes from..to, beginning at from, and
// possibly less than was asked for.
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

// part returns bytes beginning at from out of one of the places that keep
// them, or nothing when they are lost.
func (c *capture) part(from, to int64) []byte {
	if from < int64(len(c.head)) {
		return c.head[from:min(to, int64(len(c.head)))]
	}
	if first := c.total - int64(c.tail.len()); from >= first {
		return c.tail.bytes()[from-first : to-first]
	}
	if c.file != nil {
		return c.file.read(from, to)
	}
	return nil
}

// text returns the bytes from..to as text that fits limit bytes: when they do
// not fit, their beginning and their end with a line between them that says
// how many bytes are missing, and cut is true. How tells how to get them, given
// where they begin.
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

// zeros are what binary files are full of; in JSON each takes six bytes.
var zeros = lazyregexp.New("\x00+")

// readable returns b as text: what is none, and every run of zero bytes, is
// replaced by one mark.
func readable(b []byte) string {
	return zeros.ReplaceAllString(strings.ToValidUTF8(string(b), "\uFFFD"), "\uFFFD")
}

// A ring keeps the last limit bytes written to it.
type ring struct {
	limit int
	buf   []byte
	next  int // where the next byte goes once buf is full
}

func (r *ring) len() int { return len(r.buf) }

func (r *ring) write(p []byte) {
	if r.limit == 0 {
		return
	}
	if len(p) > r.limit {
		p = p[len(p)-r.limit:]
	}
	if room := r.limit - len(r.buf); room > 0 {
		k := min(room, len(p))
		r.buf = append(r.buf, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(r.buf[r.next:], p)
		r.next = (r.next + k) % r.limit
		p = p[k:]
	}
}

// bytes returns what is kept, oldest first.
func (r *ring) bytes() []byte {
	if len(r.buf) < r.limit || r.next == 0 {
		return r.buf
	}
	b := make([]byte, 0, len(r.buf))
	return append(append(b, r.buf[r.next:]...), r.buf[:r.next]...)
}
