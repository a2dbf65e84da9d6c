package sandbox_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/sandbox"
)

func TestSeatbelt(t *testing.T) {
	rules := func(p policy.Profile) []string {
		text, err := sandbox.Seatbelt(p)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(text, "(version 1)\n(deny default)\n"))
		require.Equal(t, strings.Count(text, "("), strings.Count(text, ")"), "balanced, as no path here has a bracket")
		_, own, ok := strings.Cut(text, "ptmx)$\"))\n")
		require.True(t, ok)
		return strings.Split(strings.TrimSuffix(own, "\n"), "\n")
	}
	require.Equal(t, []string{""}, rules(policy.Profile{}), "the zero profile writes nothing and has no network")
	require.Equal(t, []string{""}, rules(policy.Profile{Mode: policy.ReadOnly, WritableRoots: []string{"/w"}}))

	p := policy.Profile{Mode: policy.WorkspaceWrite, WritableRoots: []string{"/w"}, Hidden: []string{"/home/u/.ssh"}}
	require.Equal(t, []string{
		`(allow file-read* file-write* (subpath "/w"))`,
		`(deny file-read* file-write* (subpath "/home/u/.ssh"))`,
	}, rules(p))

	p.Network = policy.NetworkAll
	require.Contains(t, rules(p), `(allow network-outbound (remote ip))`)

	p.Network = policy.NetworkHosts
	require.Contains(t, rules(p), `(allow network-outbound (remote ip "localhost:3128"))`)
	require.NotContains(t, rules(p), `(allow network-outbound (remote ip))`)
}

func TestSeatbeltQuotes(t *testing.T) {
	text, err := sandbox.Seatbelt(workspace(`/w/a "b" \c`))
	require.NoError(t, err)
	require.Contains(t, text, `(subpath "/w/a \"b\" \\c")`)
	_, err = sandbox.Seatbelt(workspace("/"))
	require.Error(t, err)
}

// The expressions of protected names are those of Go too, so what they match
// can be tried here.
func TestSeatbeltProtected(t *testing.T) {
	p := workspace("/w.x")
	p.ReadOnlySubpaths = append(sandbox.Protected(false), "a*c/d?")
	text, err := sandbox.Seatbelt(p)
	require.NoError(t, err)
	var denied []*regexp.Regexp
	for _, m := range regexp.MustCompile(`\(deny file-write\* \(regex #"(.*)"\)\)`).FindAllStringSubmatch(text, -1) {
		denied = append(denied, regexp.MustCompile(m[1]))
	}
	require.Len(t, denied, len(p.ReadOnlySubpaths))
	for path, want := range map[string]bool{
		"/w.x/.git":                  true,
		"/w.x/.git/hooks/x":          true,
		"/w.x/.GIT/config":           true,
		"/w.x/a/b/.git/config":       true,
		"/w.x/.github/workflows":     false,
		"/w.x/x.git":                 false,
		"/wax/.git":                  false,
		"/w.x/.claude/settings.json": true,
		"/w.x/.claude/skills":        false,
		"/w.x/sub/.mcp.json":         true,
		"/w.x/main.go":               false,
		"/w.x/abc/d1":                true,
		"/w.x/a/c/d1":                false,
	} {
		got := false
		for _, re := range denied {
			got = got || re.MatchString(path)
		}
		require.Equal(t, want, got, path)
	}
}

func TestSeatbeltPaths(t *testing.T) {
	p := policy.Profile{Mode: policy.WorkspaceWrite, WritableRoots: []string{"/home/u/w"}, Paths: policy.Paths{
		Denied: []string{"/home/u", "/home/u/w/key"}, Readable: []string{"/home/u/pub"}, ReadOnly: []string{"/home/u/w/docs"},
		DeniedGlobs: []string{`/home/u/w/**/[a-c]?\*.e*v`},
	}}
	text, err := sandbox.Seatbelt(p)
	require.NoError(t, err)
	_, own, ok := strings.Cut(text, "ptmx)$\"))\n")
	require.True(t, ok)
	require.Equal(t, `(deny file-read* file-write* (subpath "/home/u"))
(allow file-read* file-write* (subpath "/home/u/w"))
(allow file-read* (subpath "/home/u/pub"))
(deny file-write* (subpath "/home/u/w/docs"))
(deny file-read* file-write* (subpath "/home/u/w/key"))
(deny file-read* file-write* (regex #"^/home/u/w(/.*)?/[a-c][^/]\*\.e[^/]*v(/.*)?$"))
`, own)
	p.Paths.Restricted = true
	_, err = sandbox.Seatbelt(p)
	require.ErrorIs(t, err, sandbox.ErrUnsupported)
}

// FuzzSeatbeltGlob holds the expression for a pattern against the pattern.
func FuzzSeatbeltGlob(f *testing.F) {
	f.Add("/w/**/*.env", "/w/d/a.env")
	f.Add(`/a/[x-z]\*?/**`, "/a/y*b/c")
	f.Fuzz(func(t *testing.T, glob, name string) {
		if policy.CheckGlob(glob) != nil || !utf8.ValidString(glob+name) || strings.ContainsAny(glob+name, "\n\r\"") || !path.IsAbs(name) || path.Clean(name) != name || name == "/" {
			t.Skip()
		}
		text, err := sandbox.Seatbelt(policy.Profile{Paths: policy.Paths{DeniedGlobs: []string{glob}}})
		require.NoError(t, err)
		_, rest, ok := strings.Cut(text[strings.LastIndex(text, "(regex #"):], `#"`)
		require.True(t, ok)
		expr, err := regexp.Compile(strings.TrimSuffix(strings.TrimSpace(rest), `"))`))
		if err != nil {
			t.Skip() // a class that Go's expressions do not have
		}
		if policy.GlobCovers(glob, name) {
			require.Regexp(t, expr, name, "%s", expr)
		}
	})
}
