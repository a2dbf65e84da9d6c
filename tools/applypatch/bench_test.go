package applypatch_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/tools"
	"toolgate/tools/applypatch"
)

// bigFile returns a text of about 10 MB, in which no two lines are the same.
func bigFile() string {
	var b strings.Builder
	for i := 0; b.Len() < 10<<20; i++ {
		fmt.Fprintf(&b, "\tline %d of a file with ordinary text in it, %x\n", i, i*i)
	}
	return b.String()
}

// bigPatch returns a patch with n hunks spread over text, and one that takes
// them back.
func bigPatch(text string, n int) (there, back string) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var a, b strings.Builder
	a.WriteString("*** Begin Patch\n*** Update File: big.txt\n")
	b.WriteString("*** Begin Patch\n*** Update File: big.txt\n")
	for h := range n {
		i := h*(len(lines)/n) + 3
		before, after := strings.Join(lines[i-3:i], "\n "), strings.Join(lines[i+1:i+4], "\n ")
		fmt.Fprintf(&a, "@@\n %s\n-%s\n+changed %d\n %s\n", before, lines[i], h, after)
		fmt.Fprintf(&b, "@@\n %s\n-changed %d\n+%s\n %s\n", before, h, lines[i], after)
	}
	a.WriteString("*** End Patch\n")
	b.WriteString("*** End Patch\n")
	return a.String(), b.String()
}

// BenchmarkBigFile applies 2,000 hunks to a file of 10 MB.
func BenchmarkBigFile(b *testing.B) {
	for _, state := range []string{"", filepath.Join(b.TempDir(), "state")} {
		b.Run(fmt.Sprintf("journal=%v", state != ""), func(b *testing.B) {
			b.Chdir(b.TempDir())
			text := bigFile()
			write(b, "big.txt", text)
			there, back := bigPatch(text, 2000)
			b.SetBytes(int64(len(text)))
			benchPair(b, state, there, back)
			require.Equal(b, text, read(b, "big.txt"))
		})
	}
}

// BenchmarkManyFiles changes 500 files.
func BenchmarkManyFiles(b *testing.B) {
	for _, state := range []string{"", filepath.Join(b.TempDir(), "state")} {
		b.Run(fmt.Sprintf("journal=%v", state != ""), func(b *testing.B) {
			b.Chdir(b.TempDir())
			var there, back strings.Builder
			there.WriteString("*** Begin Patch\n")
			back.WriteString("*** Begin Patch\n")
			for i := range 500 {
				name := fmt.Sprintf("d%d/f%d.txt", i%20, i)
				write(b, name, "one\ntwo\nthree\n")
				fmt.Fprintf(&there, "*** Update File: %s\n@@\n one\n-two\n+TWO\n", name)
				fmt.Fprintf(&back, "*** Update File: %s\n@@\n one\n-TWO\n+two\n", name)
			}
			there.WriteString("*** End Patch\n")
			back.WriteString("*** End Patch\n")
			benchPair(b, state, there.String(), back.String())
		})
	}
}

// BenchmarkSmall is the patch of every day.
func BenchmarkSmall(b *testing.B) {
	for _, state := range []string{"", filepath.Join(b.TempDir(), "state")} {
		b.Run(fmt.Sprintf("journal=%v", state != ""), func(b *testing.B) {
			b.Chdir(b.TempDir())
			write(b, "a.txt", "one\ntwo\nthree\n")
			benchPair(b, state, updatePatch("a.txt", "two", "TWO").Input, updatePatch("a.txt", "TWO", "two").Input)
		})
	}
}

// BenchmarkMismatch is 200 hunks that are nowhere in a file of 10 MB: the
// price of the nearest places.
func BenchmarkMismatch(b *testing.B) {
	b.Chdir(b.TempDir())
	text := bigFile()
	write(b, "big.txt", text)
	there, _ := bigPatch(text, 200)
	args, err := json.Marshal(patchArgs{strings.ReplaceAll(there, "ordinary", "special")})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		require.True(b, applypatch.Tool.Run(b.Context(), args).IsError)
	}
}

// benchPair applies there and back in turn; an op is one of the two.
func benchPair(b *testing.B, state, there, back string) {
	tool := applypatch.New(applypatch.Options{StateDir: state})[0]
	args := [2]json.RawMessage{marshal(b, there), marshal(b, back)}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		apply(b, tool, args[n%2])
		n++
	}
	b.StopTimer()
	if n%2 == 1 {
		apply(b, tool, args[1])
	}
}

func marshal(b testing.TB, patch string) json.RawMessage {
	raw, err := json.Marshal(patchArgs{patch})
	require.NoError(b, err)
	return raw
}

func apply(b *testing.B, tool tools.Tool, args json.RawMessage) {
	res := tool.Run(b.Context(), args)
	require.False(b, res.IsError, "%v", res.Content)
}
