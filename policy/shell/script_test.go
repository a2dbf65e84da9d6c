package shell_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/testkit"
	"toolgate/policy/rules"
	"toolgate/policy/shell"
)

var update = flag.Bool("update", false, "rewrite testdata with what the code does now")

const scriptsFile = "testdata/scripts.txt"

// A scriptCase is one entry of testdata/scripts.txt.
type scriptCase struct {
	head   string // the comment above, for the first
	kind   string
	name   string
	script string
	want   string
}

func readScripts(t testing.TB) []scriptCase {
	t.Helper()
	b, err := os.ReadFile(scriptsFile)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(b), "\n== ")
	require.True(t, ok)
	var cases []scriptCase
	for part := range strings.SplitSeq(rest, "\n== ") {
		title, body, ok := strings.Cut(part, "\n")
		require.True(t, ok, part)
		kind, name, ok := strings.Cut(title, ": ")
		require.True(t, ok, title)
		body = strings.TrimRight(body, "\n") + "\n"
		script, want, ok := strings.Cut("\n"+body, "\n--\n")
		require.True(t, ok, title)
		cases = append(cases, scriptCase{head, kind, name, strings.TrimPrefix(script, "\n"), want})
		head = ""
	}
	return cases
}

func writeScripts(t *testing.T, cases []scriptCase) {
	var b strings.Builder
	for _, c := range cases {
		if c.head != "" {
			b.WriteString(c.head + "\n")
		}
		fmt.Fprintf(&b, "== %s: %s\n", c.kind, c.name)
		if c.script != "" {
			b.WriteString(c.script + "\n")
		}
		b.WriteString("--\n" + c.want + "\n")
	}
	require.NoError(t, os.WriteFile(scriptsFile, []byte(strings.TrimRight(b.String(), "\n")+"\n"), 0o644))
}

// describe prints what was found in the form of testdata/scripts.txt.
func describe(f shell.Found) string {
	var b strings.Builder
	path := func(p string) string {
		p = strings.TrimPrefix(strings.TrimPrefix(p, "bash -c"), " > ")
		if p != "" {
			p += " "
		}
		return p
	}
	for _, c := range f.Commands[1:] {
		mark := ""
		if c.Derived {
			mark = "~"
		}
		if c.Through {
			mark += "^"
		}
		if mark != "" {
			mark += " "
		}
		set := ""
		if len(c.Assigns) > 0 {
			set = " {" + strings.Join(c.Assigns, " ") + "}"
		}
		var holes []string
		for _, h := range c.Holes {
			s := fmt.Sprint(h.Index)
			if h.Many {
				s += "+"
			}
			holes = append(holes, s)
		}
		open := ""
		if len(holes) > 0 {
			open = " [" + strings.Join(holes, " ") + "]"
		}
		fmt.Fprintf(&b, "%s%s| %s%s%s\n", mark, path(c.Path), strings.ReplaceAll(c.String(), "\n", `\n`), set, open)
	}
	for _, o := range f.Opaque {
		fmt.Fprintf(&b, "? %s%s: %s\n", path(o.Path), o.Reason, o.Source)
	}
	for _, w := range f.Writes {
		fmt.Fprintf(&b, "> %s\n", w.Target)
	}
	return b.String()
}

func TestScripts(t *testing.T) {
	cases := readScripts(t)
	require.GreaterOrEqual(t, len(cases), 150)
	rs := testkit.Rules(t, `prefix_rule(pattern=["git", "push"], decision="forbidden")`)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			argv := []string{"bash", "-c", c.script}
			got := describe(shell.Find(argv))
			ruling := rs.Judge(argv).Decision
			switch c.kind {
			case "evasion":
				require.Greater(t, ruling, rules.Allow, "not seen:\n%s\n%s", c.script, got)
			case "innocent":
				require.Equal(t, rules.NoDecision, ruling, "seen:\n%s\n%s", c.script, got)
			default:
				t.Fatalf("unknown kind %q", c.kind)
			}
			if *update {
				cases[i].want = got
				return
			}
			require.Equal(t, c.want, got, c.script)
		})
	}
	if *update {
		writeScripts(t, cases)
	}
}
