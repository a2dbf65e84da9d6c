package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// many makes n empty files in a new folder, named so that their order is that
// of their numbers.
func many(tb testing.TB, n int) string {
	tb.Helper()
	dir := tb.TempDir()
	first := filepath.Join(dir, "f0000000")
	require.NoError(tb, os.WriteFile(first, nil, 0o644))
	for i := 1; i < n; i++ {
		// A link is made faster than a file.
		path := filepath.Join(dir, fmt.Sprintf("f%07d", i))
		if os.Link(first, path) == nil {
			continue
		}
		require.NoError(tb, os.WriteFile(path, nil, 0o644)) // it has as many links as it can have
		first = path
	}
	return dir
}

// A folder that is too large to be sorted at once is listed in the same order.
func TestLargeFolder(t *testing.T) {
	const n = 60_000
	dir := many(t, n)
	require.NoError(t, os.Remove(filepath.Join(dir, "f0030000")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "f0030000"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f0030000", "inside"), nil, 0o644))
	page := func(offset int) []string {
		res := call(t, "list_dir", fmt.Sprintf(`{"dir_path":%q,"offset":%d,"limit":3}`, dir, offset))
		require.False(t, res.IsError, text(res))
		return strings.Split(text(res), "\n")[1:]
	}
	require.Equal(t, []string{"f0000000", "f0000001", "f0000002", "More than 3 entries found; continue with offset 4"}, page(1))
	require.Equal(t, []string{"f0030000/", "  inside", "f0030001", "More than 3 entries found; continue with offset 30004"}, page(30_001))
	require.Equal(t, []string{"f0059998", "f0059999"}, page(n))
	// Without a limit, as many as a result may hold.
	res := call(t, "list_dir", fmt.Sprintf(`{"dir_path":%q}`, dir))
	require.Less(t, len(text(res)), 40_100)
	require.Regexp(t, `\nMore than 44\d\d entries found; continue with offset 44\d\d$`, text(res))
	res = call(t, "list_dir", fmt.Sprintf(`{"dir_path":%q,"offset":%d}`, dir, n+2))
	require.True(t, res.IsError)
	require.Contains(t, text(res), fmt.Sprintf("offset %d is past the end, there are %d entries; use a number from 1 to %d", n+2, n+1, n+1))
}

// BenchmarkListEnd lists the end of a folder of a million entries. What is held
// at a time is measured where it is most: heap in use at the end of the call
// without a collection before.
func BenchmarkListEnd(b *testing.B) {
	const n = 1_000_000
	dir := many(b, n)
	b.Chdir(dir)
	b.ReportAllocs()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	before, most := stats.HeapInuse, uint64(0)
	for b.Loop() {
		res := call(b, "list_dir", fmt.Sprintf(`{"dir_path":".","offset":%d}`, n-10))
		if res.IsError {
			b.Fatal(text(res))
		}
		runtime.ReadMemStats(&stats)
		most = max(most, stats.HeapInuse)
	}
	b.ReportMetric(float64(most-before)/(1<<20), "MB-heap")
}

func TestOddNames(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("such names cannot be made here")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"a\nb", "c\xff", strings.Repeat("é", 120), "\x1b[31m"} {
		require.NoError(t, os.WriteFile(name, nil, 0o644))
	}
	require.NoError(t, os.Symlink("nowhere", "link"))
	require.NoError(t, os.Symlink(".", "loop"))
	res := call(t, "list_dir", `{"dir_path":".","sizes":true}`)
	require.Equal(t, "Absolute path: "+dir+"\n\"\\x1b[31m\" (0 bytes)\n\"a\\nb\" (0 bytes)\n\"c\\xff\" (0 bytes)\nlink@\nloop@\n"+strings.Repeat("é", 120)+" (0 bytes)", text(res))
}

func TestUnreadableFolder(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("shut", 0o000))
	require.NoError(t, os.WriteFile("file", nil, 0o000))
	require.Contains(t, text(call(t, "list_dir", `{"dir_path":"."}`)), "file\nshut/")
	require.Equal(t, "list_dir: shut: permission denied by the file's owner and mode; choose another file", text(call(t, "list_dir", `{"dir_path":"shut"}`)))
	require.Equal(t, "read_file: file: permission denied by the file's owner and mode; choose another file", text(call(t, "read_file", `{"file_path":"file"}`)))
}
