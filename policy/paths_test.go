package policy_test

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
)

// parsePathRules reads "/a=read /b=write /c=deny".
func parsePathRules(s string) (list []policy.PathRule, ok bool) {
	for _, f := range strings.Fields(s) {
		at, word, _ := strings.Cut(f, "=")
		a, err := policy.ParseAccess(word)
		if err != nil || !isClean(at) {
			return nil, false
		}
		list = append(list, policy.PathRule{Path: at, Access: a})
	}
	return list, true
}

func isClean(p string) bool { return path.IsAbs(p) && path.Clean(p) == p }

// accessOf is what the rules say of a path, found the slow way.
func accessOf(list []policy.PathRule, at string) policy.Access {
	for up := at; ; up = path.Dir(up) {
		found, least := false, write
		for _, r := range list {
			if r.Path == up {
				found, least = true, min(least, r.Access)
			}
		}
		if found {
			return least
		}
		if up == "/" {
			return deny
		}
	}
}

func TestCompilePaths(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules string
		roots []string
		paths policy.Paths
	}{
		{"nothing", "", nil, policy.Paths{Restricted: true}},
		{"all can be read", "/=read", nil, policy.Paths{}},
		{"a writable folder", "/=read /w=write", []string{"/w"}, policy.Paths{}},
		{"what holds without it is left out", "/=read /usr=read /w=write /w/a=write /s=deny /s/t=deny", []string{"/w", "/w/a"}, policy.Paths{Denied: []string{"/s"}}},
		{"carved out", "/=read /w=write /w/docs=read /w/docs/draft=write /w/key=deny", []string{"/w", "/w/docs/draft"}, policy.Paths{ReadOnly: []string{"/w/docs"}, Denied: []string{"/w/key"}}},
		{"opened again", "/=read /s=deny /s/pub=read /s/out=write", []string{"/s/out"}, policy.Paths{Denied: []string{"/s"}, Readable: []string{"/s/pub"}}},
		{"some folders", "/usr=read /w=write", []string{"/w"}, policy.Paths{Restricted: true, Readable: []string{"/usr"}}},
		{"the stricter of two", "/=read /w=write /w=read", nil, policy.Paths{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, ok := parsePathRules(tt.rules)
			require.True(t, ok)
			roots, paths, err := policy.CompilePaths(list)
			require.NoError(t, err)
			require.Equal(t, tt.roots, roots)
			require.Equal(t, tt.paths, paths)
		})
	}
	for _, bad := range []policy.PathRule{
		{Path: "a"}, {Path: "/a/"}, {Path: "/a/../b"}, {Path: ""},
		{Path: "/a/*", Glob: true, Access: read}, {Path: "a/*", Glob: true}, {Path: "/a/[", Glob: true}, {Path: "/a**", Glob: true},
	} {
		_, _, err := policy.CompilePaths([]policy.PathRule{bad})
		require.Error(t, err, "%v", bad)
	}
}

func TestMatchGlob(t *testing.T) {
	for _, tt := range []struct {
		glob, name   string
		match, cover bool
	}{
		{"/w/*.env", "/w/a.env", true, true},
		{"/w/*.env", "/w/.env", true, true},
		{"/w/*.env", "/w/a.envy", false, false},
		{"/w/*.env", "/w/d/a.env", false, false},
		{"/w/*.env", "/w/a.env/in/it", false, true},
		{"/w/**/*.env", "/w/a.env", true, true},
		{"/w/**/*.env", "/w/d/e/a.env", true, true},
		{"/w/**/*.env", "/w", false, false},
		{"/w/**/*.env", "/x/a.env", false, false},
		{"/w/**/secrets/**", "/w/secrets/a", true, true},
		{"/w/**/secrets/**", "/w/secrets", false, false},
		{"/w/**/a/**/b", "/w/a/a/x/b", true, true},
		{"/w/**/a/**/b", "/w/x/b", false, false},
		{"/**/id_[a-z]*", "/home/u/id_rsa", true, true},
		{"/**/id_[a-z]*", "/home/u/id_1", false, false},
		{`/w/\[x\]/*`, "/w/[x]/a", true, true},
		{"/w/?", "/w/é", true, true},
		{"/*", "/a", true, true},
		{"/*", "/", false, false},
	} {
		require.NoError(t, policy.CheckGlob(tt.glob))
		require.Equal(t, tt.match, policy.MatchGlob(tt.glob, tt.name), "%s matches %s", tt.glob, tt.name)
		require.Equal(t, tt.cover, policy.GlobCovers(tt.glob, tt.name), "%s covers %s", tt.glob, tt.name)
	}
}

// matchSlow is MatchParts as it is written down, without being clever.
func matchSlow(glob, names []string) bool {
	switch {
	case len(glob) == 0:
		return len(names) == 0
	case glob[0] == "**" && len(glob) == 1:
		return len(names) > 0
	case glob[0] == "**":
		for n := range len(names) + 1 {
			if matchSlow(glob[1:], names[n:]) {
				return true
			}
		}
		return false
	case len(names) == 0:
		return false
	}
	ok, err := path.Match(glob[0], names[0])
	return err == nil && ok && matchSlow(glob[1:], names[1:])
}

func FuzzMatchGlob(f *testing.F) {
	f.Add("/w/**/*.env", "/w/d/a.env")
	f.Add("/**/a/**/b/**", "/a/b/a/c/b/d")
	f.Add("/a/**", "/a")
	f.Add(`/\[/[a-c]?`, "/[/bx")
	f.Fuzz(func(t *testing.T, glob, name string) {
		if policy.CheckGlob(glob) != nil || !isClean(name) || name == "/" || strings.Count(glob, "**") > 6 || len(name) > 60 {
			t.Skip()
		}
		got := policy.MatchGlob(glob, name)
		require.Equal(t, matchSlow(strings.Split(glob[1:], "/"), strings.Split(name[1:], "/")), got)
		covered := policy.GlobCovers(glob, name)
		require.True(t, covered || !got, "what is matched is covered")
		require.True(t, policy.GlobCovers(glob, name+"/below") == covered || policy.MatchGlob(glob, name+"/below"))
		if base, _ := policy.GlobBase(glob); got && !policy.Below(name, base) {
			t.Fatalf("%s is not below the base %s", name, base)
		}
	})
}

func TestPlaces(t *testing.T) {
	p := policy.Places{Workspaces: []string{"/w", "/v*"}, Home: "/home/u", TempDir: "/var/t"}
	rule := func(path string, a policy.Access) policy.PathRule { return policy.PathRule{Path: path, Access: a} }
	glob := func(path string) policy.PathRule { return policy.PathRule{Path: path, Glob: true} }
	for _, tt := range []struct {
		name, sub string
		access    policy.Access
		want      []policy.PathRule
		fault     string
	}{
		{":root", "", read, []policy.PathRule{rule("/", read)}, ""},
		{":tmpdir", "", write, []policy.PathRule{rule("/var/t", write)}, ""},
		{":slash_tmp", ".", write, []policy.PathRule{rule("/tmp", write)}, ""},
		{":workspace_roots", "", write, []policy.PathRule{rule("/w", write), rule("/v*", write)}, ""},
		{":workspace_roots", "docs", read, []policy.PathRule{rule("/w/docs", read), rule("/v*/docs", read)}, ""},
		{":workspace_roots", "**/*.env", deny, []policy.PathRule{glob("/w/**/*.env"), glob(`/v\*/**/*.env`)}, ""},
		{":workspace_roots", "build/**", deny, []policy.PathRule{rule("/w/build", deny), rule("/v*/build", deny)}, ""},
		{"/etc/**", "", deny, []policy.PathRule{rule("/etc", deny)}, ""},
		{"/srv/", "", read, []policy.PathRule{rule("/srv", read)}, ""},
		{"/", "", read, []policy.PathRule{rule("/", read)}, ""},
		{"~", "", read, []policy.PathRule{rule("/home/u", read)}, ""},
		{"~/.ssh", "", deny, []policy.PathRule{rule("/home/u/.ssh", deny)}, ""},
		{"~/**/*.pem", "", deny, []policy.PathRule{glob("/home/u/**/*.pem")}, ""},
		{"/srv", "*.key", deny, []policy.PathRule{glob("/srv/*.key")}, ""},

		{":cwd", "", read, nil, `unknown place ":cwd"`},
		{":minimal", "", write, nil, ":minimal can be read or denied, not written"},
		{":root", "etc", read, nil, ":root has no paths below it in a profile"},
		{":workspace_roots", "../x", read, nil, `path "../x": must lead down, without . and .. in it`},
		{":workspace_roots", "a//b", read, nil, `path "a//b": must lead down, without . and .. in it`},
		{":workspace_roots", "*.md", write, nil, `pattern "/w/*.md": a pattern can only be denied; name a path, or a folder with /** after it`},
		{"src", "", read, nil, `path "src": must begin with /, ~/ or one of :root, :minimal, :workspace_roots, :tmpdir, :slash_tmp`},
		{"~other/x", "", read, nil, `path "~other/x": must begin with /, ~/ or one of :root, :minimal, :workspace_roots, :tmpdir, :slash_tmp`},
		{"/a/../b", "", read, nil, `path "/a/../b": must not have .. in it`},
		{"/a/x**", "", deny, nil, `pattern "/a/x**": ** must stand for itself between two slashes`},
		{"/a/*", "b", deny, nil, `path "/a/*": a pattern has no paths below it`},
	} {
		got, err := p.Path(tt.name, tt.sub, tt.access)
		if tt.fault != "" {
			require.EqualError(t, err, tt.fault)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tt.want, got, "%s %s", tt.name, tt.sub)
	}
	none, err := policy.Places{}.Path(":tmpdir", "", write)
	require.NoError(t, err)
	require.Empty(t, none)
	_, err = policy.Places{}.Path("~/x", "", read)
	require.EqualError(t, err, `path "~/x": there is no home folder`)
}

// Whatever a profile names, the rules are about clean, absolute paths, and
// what is denied stays denied.
func FuzzPlacePath(f *testing.F) {
	f.Add(":workspace_roots", "**/*.env")
	f.Add("~/.ssh/**", "")
	f.Add("/a//b/./c", "d")
	f.Add("/*/[x", "..")
	f.Fuzz(func(t *testing.T, name, sub string) {
		p := policy.Places{Workspaces: []string{"/w", "/v[1]"}, Home: "/home/u", TempDir: "/var/t"}
		list, err := p.Path(name, sub, deny)
		if err != nil {
			return
		}
		_, paths, err := policy.CompilePaths(append(list, policy.PathRule{Path: "/", Access: read}))
		if err != nil {
			// Only for what is no path at all.
			require.Contains(t, name+sub, "\x00")
			return
		}
		for _, r := range list {
			require.True(t, isClean(r.Path), r.Path)
			if sub != "" && sub != "." {
				require.False(t, r.Path == "/" || r.Path == "/w", "%q leads down", sub)
			}
		}
		f := policy.Profile{Paths: paths}
		for _, d := range paths.Denied {
			require.Equal(t, deny, f.Access(d+"/x"))
		}
	})
}
