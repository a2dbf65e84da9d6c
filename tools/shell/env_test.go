package shell_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/tools/shell"
)

func TestEnvironment(t *testing.T) {
	inherited := []string{
		"PATH=/bin", "HOME=/home/x", "EDITOR=vi", "TERM=xterm-kitty", "PAGER=less",
		"GITHUB_TOKEN=t", "aws_secret_access_key=s", "DB_PASSWORD=p", "SSH_AUTH_SOCK=/s", "MONKEY=1", "broken", "=x",
	}
	for _, c := range []struct {
		name string
		env  shell.Environment
		has  []string
		not  []string
	}{
		{
			"secrets are dropped, the rest stays, and nothing pages",
			shell.Environment{},
			[]string{"PATH=/bin", "HOME=/home/x", "EDITOR=vi", "TERM=dumb", "PAGER=cat", "NO_COLOR=1", "COLORTERM=", "SSH_AUTH_SOCK=/s"},
			[]string{"GITHUB_TOKEN", "aws_secret_access_key", "DB_PASSWORD", "MONKEY", "broken", ""},
		},
		{
			"one secret is kept by name",
			shell.Environment{Keep: []string{"github_token", "MONKEY"}},
			[]string{"GITHUB_TOKEN=t", "MONKEY=1"},
			[]string{"aws_secret_access_key", "DB_PASSWORD"},
		},
		{
			"all secrets are kept",
			shell.Environment{IgnoreDefaultExcludes: true},
			[]string{"GITHUB_TOKEN=t", "aws_secret_access_key=s", "DB_PASSWORD=p"},
			nil,
		},
		{
			"the gate's own, which may have any name",
			shell.Environment{Secrets: []string{"MONKEY", "editor", "GITHUB_TOKEN"}, IgnoreDefaultExcludes: true, Keep: []string{"GITHUB_TOKEN"}},
			[]string{"GITHUB_TOKEN=t", "DB_PASSWORD=p"},
			[]string{"MONKEY", "EDITOR"},
		},
		{
			"core",
			shell.Environment{Inherit: "core"},
			[]string{"PATH=/bin", "HOME=/home/x", "TERM=dumb"},
			[]string{"EDITOR", "SSH_AUTH_SOCK"},
		},
		{
			"none",
			shell.Environment{Inherit: "none", Set: map[string]string{"A": "1"}},
			[]string{"A=1", "TERM=dumb"},
			[]string{"PATH", "HOME"},
		},
		{
			"exclude by pattern, whatever the case",
			shell.Environment{Exclude: []string{"ssh_*", "E?ITOR"}},
			[]string{"PATH=/bin"},
			[]string{"SSH_AUTH_SOCK", "EDITOR"},
		},
		{
			"set wins over what calms, and over exclude",
			shell.Environment{Exclude: []string{"PAGER"}, Set: map[string]string{"PAGER": "more", "API_KEY": "k"}},
			[]string{"PAGER=more", "API_KEY=k"},
			nil,
		},
		{
			"include only",
			shell.Environment{IncludeOnly: []string{"PATH", "*ER"}},
			[]string{"PATH=/bin", "PAGER=cat"},
			[]string{"HOME", "EDITOR", "TERM"},
		},
		{
			"a malformed pattern matches nothing",
			shell.Environment{Exclude: []string{"[", "HOME"}},
			[]string{"PATH=/bin"},
			[]string{"HOME"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.env.Apply(inherited, false)
			require.IsIncreasing(t, got)
			require.Equal(t, got, c.env.Apply(c.env.ApplyToWorker(inherited), false), "the worker has it all")
			require.Subset(t, got, c.has)
			for _, name := range c.not {
				for _, v := range got {
					require.False(t, strings.HasPrefix(v, name+"="), v)
				}
			}
		})
	}
	require.Contains(t, shell.Environment{}.Apply(inherited, true), "TERM=xterm")
	require.Contains(t, shell.Environment{Set: map[string]string{"TERM": "vt100"}}.Apply(inherited, true), "TERM=vt100")
}

func TestWorkerEnvironment(t *testing.T) {
	none := shell.Environment{Inherit: "none", IncludeOnly: []string{"TMP"}, Set: map[string]string{"TMP": "/set"}}
	inherited := []string{"TMPDIR=/own", "TMP=/other", "TEMP=", "HOME=/home/x", "TOKEN=t"}
	require.Equal(t, []string{"TMP=/set", "TMPDIR=/own"}, none.ApplyToWorker(inherited))
	require.Equal(t, []string{"TMP=/set"}, none.Apply(none.ApplyToWorker(inherited), false))
}
