package files_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"

	"toolgate/tools/files"
)

func TestEncodings(t *testing.T) {
	t.Chdir(t.TempDir())
	const plain = "caf\u00e9\n\u65e5\u672c"
	encoded := func(s string, err error) string { require.NoError(t, err); return s }
	for _, test := range []struct{ name, content, want string }{
		{"utf8", plain, "L1: caf\u00e9\nL2: \u65e5\u672c"},
		{"bom", "\ufeff" + plain, "L1: caf\u00e9\nL2: \u65e5\u672c\n\nNote: read as UTF-8 with a byte order mark."},
		{"only bom", "\ufeff", "The file is empty."},
		{"utf16le", encoded(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(plain)), "L1: caf\u00e9\nL2: \u65e5\u672c\n\nNote: read as UTF-16LE."},
		{"utf16be", encoded(unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().String(plain)), "L1: caf\u00e9\nL2: \u65e5\u672c\n\nNote: read as UTF-16BE."},
		{"utf32", encoded(utf32.UTF32(utf32.LittleEndian, utf32.UseBOM).NewEncoder().String(plain)), "L1: caf\u00e9\nL2: \u65e5\u672c\n\nNote: read as UTF-32LE."},
		{"latin1", "caf\xe9 \x80\ngr\xfcn", "L1: caf\u00e9 \u20ac\nL2: gr\u00fcn\n\nNote: read as Windows-1252 (Latin-1), which is a guess: it is not valid UTF-8."},
		{"faults", "caf\u00e9 \u65e5 \xff\nx", "L1: caf\u00e9 \u65e5 \ufffd\nL2: x\n\nNote: 1 line shown is not valid UTF-8; what is wrong in it is shown as \ufffd."},
		{"crlf", "a\r\nb\r\n\r\nc\rd", "L1: a\nL2: b\nL3: \nL4: c\rd"},
		{"no end", "a\nb", "L1: a\nL2: b"},
		{"blank", "\n\n", "L1: \nL2: "},
		{"500", strings.Repeat("x", 500) + "\n", "L1: " + strings.Repeat("x", 500)},
		{"500 crlf", strings.Repeat("x", 500) + "\r\n", "L1: " + strings.Repeat("x", 500)},
		{"501", strings.Repeat("x", 501), "L1: " + strings.Repeat("x", 500) + " … (line cut, it has 501 bytes; column 501 goes on)"},
		{"long", strings.Repeat("é", 500_000) + "\ny", "L1: " + strings.Repeat("é", 250) + " … (line cut, it has 1000000 bytes; column 501 goes on)\nL2: y"},
		{"character at the cut", strings.Repeat("x", 499) + "é", "L1: " + strings.Repeat("x", 499) + " … (line cut, it has 501 bytes; column 500 goes on)"},
		{"svg", "<svg xmlns='x'/>", "L1: <svg xmlns='x'/>"},
	} {
		require.NoError(t, os.WriteFile("f", []byte(test.content), 0o644))
		res := call(t, "read_file", `{"file_path":"f"}`)
		require.False(t, res.IsError, test.name)
		require.Equal(t, test.want, text(res), test.name)
	}
}

func TestNoText(t *testing.T) {
	t.Chdir(t.TempDir())
	png := "\x89PNG\x0D\x0A\x1A\x0A\x00\x00"
	for _, test := range []struct{ content, want string }{
		{"\x7fELF\x02\x01\x01\x00", "read_file: f: is a binary file (ELF program or library, 8 bytes); use a command such as file, strings or xxd to look into it"},
		{"a\x00b", "read_file: f: is a binary file (application/octet-stream, 3 bytes); use a command such as file, strings or xxd to look into it"},
		{"PK\x03\x04\x00", "read_file: f: is a binary file (application/zip, 5 bytes); use a command such as file, strings or xxd to look into it"},
		{"SQLite format 3\x00", "read_file: f: is a binary file (SQLite database, 16 bytes); use a command such as file, strings or xxd to look into it"},
		{"\xff\xd8\xff\xe0 no NUL", "read_file: f: is damaged image/jpeg or of a kind that cannot be read (unexpected EOF); make a new one, or convert it to PNG"},
		{png, "read_file: f: is damaged image/png or of a kind that cannot be read (unexpected EOF); make a new one, or convert it to PNG"},
		{"GIF89a" + "\x01\x00\x01\x00", "read_file: f: is damaged image/gif or of a kind that cannot be read (gif: reading header: unexpected EOF); make a new one, or convert it to PNG"},
		{"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj", "read_file: f: is a binary file (application/pdf, 22 bytes); use a command such as file, strings or xxd to look into it"},
	} {
		require.NoError(t, os.WriteFile("f", []byte(test.content), 0o644))
		res := call(t, "read_file", `{"file_path":"f"}`)
		require.True(t, res.IsError)
		require.Equal(t, test.want, text(res))
	}
}

// A result is never longer than a client takes, and says how to go on.
func TestPages(t *testing.T) {
	t.Chdir(t.TempDir())
	f, err := os.Create("f")
	require.NoError(t, err)
	const lines = 5000
	w := bufio.NewWriter(f)
	for i := range lines {
		fmt.Fprintf(w, "%d %s\n", i+1, strings.Repeat("x", i%90))
	}
	require.NoError(t, w.Flush())
	require.NoError(t, f.Close())
	next := 1
	for seen := 0; ; {
		res := call(t, "read_file", fmt.Sprintf(`{"file_path":"f","offset":%d}`, next))
		require.False(t, res.IsError)
		require.LessOrEqual(t, len(text(res)), 40_200)
		body, note, _ := strings.Cut(text(res), "\n\nNote: ")
		for l := range strings.SplitSeq(body, "\n") {
			seen++
			require.True(t, strings.HasPrefix(l, fmt.Sprintf("L%d: %d ", seen, seen)), l)
		}
		if note == "" {
			require.Equal(t, lines, seen)
			break
		}
		_, err := fmt.Sscanf(note[strings.Index(note, "offset"):], "offset %d.", &next)
		require.NoError(t, err)
		require.Equal(t, seen+1, next)
	}
}

// Page by page, a long line is read to its end.
func TestColumns(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, long := range map[string]string{
		"ascii": strings.Repeat("0123456789", 20_000), "wide": strings.Repeat("é日x", 30_000), "end": strings.Repeat("y", 39_800),
	} {
		require.NoError(t, os.WriteFile("f", []byte("first\n"+long+"\r\nlast"), 0o644))
		var got strings.Builder
		for column, pages := 1, 1; ; pages++ {
			require.Less(t, pages, 10)
			res := call(t, "read_file", fmt.Sprintf(`{"file_path":"f","offset":2,"column":%d}`, column))
			require.False(t, res.IsError, text(res))
			require.LessOrEqual(t, len(text(res)), 40_000)
			body, note, _ := strings.Cut(text(res), "\n\nNote: ")
			got.WriteString(strings.TrimPrefix(body, "L2: "))
			_, next, more := strings.Cut(note, "continue with column ")
			require.Contains(t, note, fmt.Sprintf("of %d of the line shown", len(long)))
			if !more {
				break
			}
			_, err := fmt.Sscanf(next, "%d", &column)
			require.NoError(t, err)
		}
		require.True(t, long == got.String(), name)
	}
	for args, want := range map[string]string{
		`{"file_path":"f","column":7}`:            "read_file: f: column 7 is past the end of line 1, which has 5 bytes",
		`{"file_path":"f","offset":4,"column":1}`: "read_file: f: offset 4 is past the end, there are 3 lines; use a number from 1 to 3",
		`{"file_path":"f","column":0}`:            "read_file: column is 0; it counts from 1",
		`{"file_path":"f","tail":1,"column":1}`:   "read_file: tail does not go with offset, column or indentation; leave one out",
	} {
		res := call(t, "read_file", args)
		require.Equal(t, want, text(res))
		require.True(t, res.IsError)
	}
	require.Equal(t, "L3: ast\n\nNote: bytes 2-4 of 4 of the line shown.", text(call(t, "read_file", `{"file_path":"f","offset":3,"column":2}`)))
}

func TestStopped(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("f", []byte("a\n"), 0o644))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct{ tool, args, want string }{
		{"read_file", `{"file_path":"f"}`, "read_file: f: stopped before the end of the file was reached"},
		{"list_dir", `{"dir_path":"."}`, "list_dir: .: listing was stopped; ask for less depth"},
	} {
		res := catalog[test.tool].Run(ctx, json.RawMessage(test.args))
		require.True(t, res.IsError)
		require.Equal(t, test.want, text(res))
	}
}

// FuzzIndentation checks that a block is lines of the file around the anchor,
// and no more of them than were asked for.
func FuzzIndentation(f *testing.F) {
	f.Add("a\n  b\n\n  c\nd", 2, 1, 3, uint8(0))
	f.Add("# x\nf() {\n\ty\n}\n", 3, 0, 9, uint8(3))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content string, anchor, levels, lines int, flags uint8) {
		if strings.ContainsAny(content, "\x00\r") || len(content) > 400 {
			t.Skip()
		}
		path := filepath.Join(dir, "f")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
		args, err := json.Marshal(map[string]any{"file_path": path, "mode": "indentation", "indentation": map[string]any{
			"anchor_line": anchor, "max_levels": levels, "max_lines": lines, "include_siblings": flags&1 != 0, "include_header": flags&2 != 0,
		}})
		require.NoError(t, err)
		res := files.ReadFile.Run(t.Context(), args)
		if res.IsError {
			require.True(t, strings.HasPrefix(text(res), "read_file: "), text(res))
			require.NotContains(t, text(res), "bug")
			return
		}
		body, _, _ := strings.Cut(text(res), "\n\nNote: ")
		body = strings.TrimPrefix(body, "\n")
		if body == "" {
			return
		}
		shown := strings.Split(body, "\n")
		require.LessOrEqual(t, len(shown), lines)
		if !strings.ContainsAny(content, "\ufeff\ufffe\uffff") && isASCII(content) {
			all := strings.Split(content, "\n")
			var first int
			_, err := fmt.Sscanf(shown[0], "L%d:", &first)
			require.NoError(t, err)
			for i, l := range shown {
				require.Equal(t, fmt.Sprintf("L%d: %s", first+i, all[first+i-1]), l)
			}
		}
	})
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// generated writes a file of size bytes, lines of 100 bytes, and returns its
// path.
func generated(tb testing.TB, size int64) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "large.txt")
	f, err := os.Create(path)
	require.NoError(tb, err)
	defer f.Close()
	block := strings.Repeat(strings.Repeat("x", 99)+"\n", 10_000)
	for left := size; left > 0; left -= int64(len(block)) {
		_, err := io.WriteString(f, block[:min(left, int64(len(block)))])
		require.NoError(tb, err)
	}
	return path
}

// Reading the end of a large file takes memory that does not grow with it.
func TestMemoryOfRead(t *testing.T) {
	small, large := generated(t, 4<<20), generated(t, 64<<20)
	read := func(path string, offset int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		res := files.ReadFile.Run(t.Context(), json.RawMessage(fmt.Sprintf(`{"file_path":%q,"offset":%d}`, path, offset)))
		runtime.ReadMemStats(&after)
		require.False(t, res.IsError, text(res))
		return after.TotalAlloc - before.TotalAlloc
	}
	read(small, 1)
	require.Less(t, read(large, 64<<20/100), read(small, 4<<20/100)+1<<20)
}

// BenchmarkReadEnd reads the last lines of a 1 GB file, and beside it the whole
// file with plain reads, to compare.
func BenchmarkReadEnd(b *testing.B) {
	const size = 1 << 30
	path := generated(b, size)
	args := json.RawMessage(fmt.Sprintf(`{"file_path":%q,"offset":%d}`, path, size/100-10))
	b.Run("read_file", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(size)
		for b.Loop() {
			if res := files.ReadFile.Run(b.Context(), args); res.IsError {
				b.Fatal(text(res))
			}
		}
	})
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(size)
		buf := make([]byte, 256<<10)
		for b.Loop() {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			for err == nil {
				_, err = f.Read(buf)
			}
			f.Close()
		}
	})
}
