package printable_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"toolgate/internal/printable"
)

func TestText(t *testing.T) {
	for _, tt := range []struct{ name, in, text, line string }{
		{"plain", "a é 😀\tb\nc", "a é 😀\tb\nc", `a é 😀 b\nc`},
		{"a title", "\x1b]0;x\a", `\u001b]0;x\u0007`, `\u001b]0;x\u0007`},
		{"eight bits", "\u009b31m\x7f", `\u009b31m\u007f`, `\u009b31m\u007f`},
		{"over the line", "safe\rrm", `safe\u000drm`, `safe\u000drm`},
		{"line ends of Windows", "a\r\nb", "a\nb", `a\nb`},
		{"directions", "\u202egpj.exe\u2066\u061c\u200f", `\u202egpj.exe\u2066\u061c\u200f`, `\u202egpj.exe\u2066\u061c\u200f`},
		{"lines that are none", "a\u2028b\u0085c", `a\u2028b\u0085c`, `a\u2028b\u0085c`},
		{"tags", "x\U000e0041", `x\udb40\udc41`, `x\udb40\udc41`},
		{"not UTF-8", "a\x9bb\xff", "a\uFFFDb\uFFFD", "a\uFFFDb\uFFFD"},
		{"empty", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.text, printable.Text(tt.in))
			require.Equal(t, tt.line, printable.Line(tt.in))
			var b strings.Builder
			n, err := printable.Writer(&b).Write([]byte(tt.in))
			require.NoError(t, err)
			require.Equal(t, len(tt.in), n)
			require.Equal(t, tt.text, b.String())
		})
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"a\x1b[2J\r\n", "\u202e\U000e0041\xff", `\u001b"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := printable.Text(s)
		require.True(t, utf8.ValidString(text))
		for _, r := range text {
			require.True(t, r == '\n' || r == '\t' || !unicode.Is(unicode.Cc, r) && !unicode.Is(unicode.Bidi_Control, r), "%q", r)
		}
		require.Equal(t, text, printable.Text(text))
		require.NotContains(t, printable.Line(s), "\n")

		// Its JSON keeps its value.
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(s))
		var got string
		require.NoError(t, json.Unmarshal([]byte(printable.Text(b.String())), &got))
		if utf8.ValidString(s) {
			require.Equal(t, s, got)
		}
	})
}
