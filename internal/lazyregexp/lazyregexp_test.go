package lazyregexp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/lazyregexp"
)

func TestRegexp(t *testing.T) {
	r := lazyregexp.New(`(\w)(\d)`)
	require.True(t, r.MatchString("a1"))
	require.True(t, r.Match([]byte("a1")))
	require.Equal(t, "a1", r.FindString("-a1-"))
	require.Equal(t, []string{"a1", "a", "1"}, r.FindStringSubmatch("-a1-"))
	require.Equal(t, [][]string{{"a1", "a", "1"}, {"b2", "b", "2"}}, r.FindAllStringSubmatch("a1b2", -1))
	require.Equal(t, "1a", r.ReplaceAllString("a1", "$2$1"))
	require.Equal(t, []byte("1a"), r.ReplaceAll([]byte("a1"), []byte("$2$1")))
	require.Equal(t, "<a1>", r.ReplaceAllStringFunc("a1", func(s string) string { return "<" + s + ">" }))
}

// In a test a wrong expression is found at once.
func TestWrongExpression(t *testing.T) {
	require.Panics(t, func() { lazyregexp.New("(") })
}
