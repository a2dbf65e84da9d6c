package tools_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"toolgate/tools"
)

// clip returns s if it fits the budget in tokens, and otherwise its head and its tail
// with a line between them.
func clip(s string, budget int, how string) string {
	limit := budget * tools.BytesPerToken
	if len(s) <= limit {
		return s
	}
	head := tools.HeadPart([]byte(s[:limit/2]))
	tail := tools.TailPart([]byte(s[len(s)-limit/2:]))
	return string(head) + tools.CutLine(int64(len(s)-len(head)-len(tail)), head, how) + string(tail)
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		name, in string
		budget   int
		how      string
		want     string
	}{
		{"fits", "hello\n", 2, "", "hello\n"},
		{"exactly", "12345678", 2, "", "12345678"},
		{"one line", "0123456789abcdef", 2, "", "0123\n[... 2 tokens (8 bytes) cut ...]\ncdef"},
		{"how to get it", "0123456789abcdef", 2, "ask again", "0123\n[... 2 tokens (8 bytes) cut; ask again ...]\ncdef"},
		{"whole lines, where that costs little", "111111\n2\n3\n4\n5\n6\n7\n8888888\n", 4, "", "111111\n[... 3 tokens (12 bytes) cut ...]\n8888888\n"},
		{"characters stay whole", strings.Repeat("€", 10), 4, "", "€€\n[... 5 tokens (18 bytes) cut ...]\n€€"},
		{"long", strings.Repeat("x", 40_000), tools.DefaultBudget, "", strings.Repeat("x", 40_000)},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, clip(c.in, c.budget, c.how)) })
	}
}

func FuzzClip(f *testing.F) {
	f.Add("one\ntwo\nthree\n", uint8(1))
	f.Add(strings.Repeat("ä€😀\n", 50), uint8(7))
	f.Add("\xff\xfe\x80", uint8(0))
	f.Fuzz(func(t *testing.T, s string, budget uint8) {
		got := clip(s, int(budget)+1, "")
		limit := (int(budget) + 1) * tools.BytesPerToken
		if len(s) <= limit {
			require.Equal(t, s, got)
			return
		}
		head, rest, ok := strings.Cut(got, "[... ")
		require.True(t, ok || strings.Contains(s, "[... "))
		_, tail, ok := strings.Cut(rest, " ...]\n")
		require.True(t, ok)
		if strings.Contains(s, "[") || strings.Contains(s, "]") {
			return // the line may not be told from the text
		}
		require.LessOrEqual(t, len(head)+len(tail), limit+1)
		require.True(t, strings.HasPrefix(s, strings.TrimSuffix(head, "\n")))
		require.True(t, strings.HasSuffix(s, tail))
		if utf8.ValidString(s) {
			require.True(t, utf8.ValidString(got))
		}
	})
}
