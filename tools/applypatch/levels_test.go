package applypatch_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/tools/applypatch"
)

// Each character of print that is taken for a plain one, and some that are
// not though they look it.
func TestTypographicCharacters(t *testing.T) {
	plain := map[rune]rune{0x2212: '-', 0xA0: ' ', 0x202F: ' ', 0x205F: ' ', 0x3000: ' '}
	for first, span := range map[rune]struct{ last, as rune }{
		0x2010: {0x2015, '-'}, 0x2018: {0x201B, '\''}, 0x201C: {0x201F, '"'}, 0x2002: {0x200A, ' '},
	} {
		for r := first; r <= span.last; r++ {
			plain[r] = span.as
		}
	}
	t.Chdir(t.TempDir())
	for r, as := range plain {
		write(t, "a.txt", fmt.Sprintf("one %c two\n", r))
		must(t, applypatch.Tool, updatePatch("a.txt", fmt.Sprintf("one %c two", as), "changed"))
		require.Equal(t, "changed\n", read(t, "a.txt"), "%U", r)

		// The other way round too.
		write(t, "a.txt", fmt.Sprintf("one %c two\n", as))
		must(t, applypatch.Tool, updatePatch("a.txt", fmt.Sprintf("one %c two", r), "changed"))
	}
	for r, as := range map[rune]rune{0x2026: '.', 0x00AB: '"', 0x2032: '\'', 0x2043: '-', 0x200B: ' ', 0x0410: 'A'} {
		write(t, "a.txt", fmt.Sprintf("one %c two\n", r))
		mustFail(t, applypatch.Tool, updatePatch("a.txt", fmt.Sprintf("one %c two", as), "changed"))
	}
}
