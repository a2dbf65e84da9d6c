package shell

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzCapture writes text in pieces and compares every part that the capture
// returns with the text itself.
func FuzzCapture(f *testing.F) {
	f.Add([]byte("one\ntwo\nthree"), uint8(4), uint8(3), int16(2), true)
	f.Add(bytes.Repeat([]byte("äöü\n"), 100), uint8(16), uint8(7), int16(50), true)
	f.Add(bytes.Repeat([]byte("x"), 1000), uint8(1), uint8(255), int16(-1), false)
	f.Add([]byte{}, uint8(0), uint8(0), int16(0), false)
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte, limit, piece uint8, spoolBytes int16, spooled bool) {
		c := newCapture(int(limit), func() (*spool, error) {
			if !spooled {
				return nil, errors.New("no folder")
			}
			return newSpool(folder, max(0, int64(spoolBytes)), plenty())
		})
		defer c.close()
		for rest := text; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			c.Write(rest[:n])
			rest = rest[n:]
		}
		total, lines := c.size()
		require.Equal(t, int64(len(text)), total)
		want := int64(bytes.Count(text, []byte("\n")))
		if len(text) > 0 && text[len(text)-1] != '\n' {
			want++
		}
		require.Equal(t, want, lines)
		for range 20 {
			from := rand.Int64N(total + 1)
			to := from + rand.Int64N(total+1-from)
			got := c.read(from, to)
			require.True(t, bytes.HasPrefix(text[from:to], got))
			if spooled && int64(spoolBytes) >= total {
				require.Len(t, got, int(to-from), "everything is in the file")
			}
		}
		ends := min(total, int64(limit))
		require.Equal(t, string(text[:ends]), string(c.read(0, ends)), "the beginning is always there")
		require.Equal(t, string(text[total-ends:]), string(c.read(total-ends, total)), "the end is always there")
		for next := int64(0); next < total; {
			b := c.read(next, total)
			if len(b) == 0 {
				skip := c.nextKept(next)
				require.Greater(t, skip, next, "paging goes on")
				next = skip
				continue
			}
			next += int64(len(b))
		}
	})
}

// TestCutText says how much is missing, exactly, and never cuts a character.
func TestCutText(t *testing.T) {
	how := func(offset int64) string { return "" }
	text := strings.Repeat("€", 1000)
	for _, spooled := range []bool{true, false} {
		for limit := range 40 {
			c := newCapture(max(limit, 4), func() (*spool, error) {
				if !spooled {
					return nil, errors.New("no folder")
				}
				return newSpool(t.TempDir(), 1<<20, plenty())
			})
			c.Write([]byte(text))
			got, cut := c.text(0, int64(len(text)), limit, how)
			require.True(t, cut)
			require.NotContains(t, got, "\uFFFD")
			require.Equal(t, strings.ToValidUTF8(got, "?"), got)
			c.close()
		}
	}
	c := newCapture(64, nil)
	c.Write([]byte("short"))
	got, cut := c.text(0, 5, 64, how)
	require.Equal(t, "short", got)
	require.False(t, cut)
}

// TestSpoolWithoutFolder answers from memory and reports what is lost.
func TestSpoolWithoutFolder(t *testing.T) {
	c := newCapture(8, func() (*spool, error) { return newSpool(filepath.Join(t.TempDir(), "nosuch"), 100, plenty()) })
	c.Write([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	require.Equal(t, "01234567", string(c.read(0, 36)))
	require.Equal(t, int64(28), c.nextKept(10))
	require.Equal(t, "stuvwxyz", string(c.read(28, 36)))
	got, cut := c.text(0, 36, 16, func(int64) string { return "" })
	require.True(t, cut)
	require.Equal(t, "01234567\n[... 5 tokens (20 bytes) cut; they were not kept ...]\nstuvwxyz", got)
}

// TestSpoolHasNoName leaves nothing behind in the folder, not even while it is
// in use.
func TestSpoolHasNoName(t *testing.T) {
	folder := t.TempDir()
	s, err := newSpool(folder, 10, plenty())
	require.NoError(t, err)
	s.write([]byte("0123456789abc"))
	require.Equal(t, "789", string(s.read(7, 13)))
	if !s.named {
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	s.remove()
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

func plenty() *quota {
	var a quota
	a.left.Store(1 << 40)
	return &a
}

// TestSpoolTotal shares what there is between spools, and gives it back.
func TestSpoolTotal(t *testing.T) {
	var all quota
	all.left.Store(10)
	folder := t.TempDir()
	one, err := newSpool(folder, 100, &all)
	require.NoError(t, err)
	two, err := newSpool(folder, 100, &all)
	require.NoError(t, err)
	one.write([]byte("012345"))
	two.write([]byte("abcdefgh"))
	one.write([]byte("67"))
	require.Equal(t, "012345", string(one.read(0, 100)))
	require.Equal(t, "abcd", string(two.read(0, 100)))
	require.Zero(t, all.left.Load())
	one.remove()
	two.write([]byte("efgh"))
	require.Equal(t, "abcd", string(two.read(0, 100)), "no holes")
	two.remove()
	require.Equal(t, int64(10), all.left.Load())
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		keys        []string
		application bool
		want        string
	}{
		{[]string{"ctrl-c"}, false, "\x03"},
		{[]string{"Ctrl-Z", "ENTER", "return"}, false, "\x1a\r\r"},
		{[]string{"up", "down", "left", "right", "home", "end"}, false, "\x1b[A\x1b[B\x1b[D\x1b[C\x1b[H\x1b[F"},
		{[]string{"up", "down", "left", "right", "home", "end"}, true, "\x1bOA\x1bOB\x1bOD\x1bOC\x1bOH\x1bOF"},
		{[]string{"delete", "f1", "page-up"}, true, "\x1b[3~\x1bOP\x1b[5~"},
		{[]string{"alt-f", "alt-F", "alt-enter", "esc"}, false, "\x1bf\x1bF\x1b\r\x1b"},
		{[]string{":", "G", "ä", " "}, false, ":Gä "},
		{nil, false, ""},
	} {
		got, err := keyText(c.keys, c.application)
		if c.keys != nil && c.keys[len(c.keys)-1] == " " {
			require.Error(t, err, "a blank is the key space")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, bad := range []string{"", "ctrl-", "ctrl-ab", "alt-", "hyper-x", "\x1b["} {
		_, err := keyText([]string{bad}, false)
		require.ErrorContains(t, err, "unknown key")
	}
}

func TestKeyMode(t *testing.T) {
	var m keyMode
	for _, step := range []struct {
		printed string
		want    bool
	}{
		{"hello", false},
		{"\x1b[?1h\x1b=", true},
		{"text", true},
		{"\x1b[?1", true},
		{"l", false},
		{"\x1b[?1l\x1b[?1h", true},
		{"\x1b[?1h and \x1b[?1l", false},
	} {
		m.update([]byte(step.printed))
		require.Equal(t, step.want, m.application.Load(), "%q", step.printed)
	}
}

func TestMatcher(t *testing.T) {
	c := newCapture(64<<10, nil)
	c.Write([]byte("old\nprompt> "))
	m, err := newMatcher(`^ready$|prompt> $`, 4)
	require.NoError(t, err)
	require.True(t, m.matches(c), "a begun line counts")
	m, err = newMatcher("^ready$", 0)
	require.NoError(t, err)
	require.False(t, m.matches(c))
	c.Write([]byte("rea"))
	require.False(t, m.matches(c))
	c.Write([]byte("\r\nready\r\n"))
	require.True(t, m.matches(c), "a line that ends as in a terminal")
	m, err = newMatcher("needle", 0)
	require.NoError(t, err)
	for range 100 {
		c.Write(bytes.Repeat([]byte("hay"), 10_000))
		require.False(t, m.matches(c))
	}
	c.Write([]byte("needle"))
	require.True(t, m.matches(c), "at the end of a very long line")
	for _, none := range []string{"", "exit"} {
		m, err = newMatcher(none, 0)
		require.NoError(t, err)
		require.Nil(t, m)
	}
}
