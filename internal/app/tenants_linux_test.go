package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/config"
	"toolgate/internal/httpauth"
	"toolgate/sandbox"
)

// Landlock cannot hide a workspace that lies in a writable root, so no command runs.
func TestOthersInAWritableRoot(t *testing.T) {
	t.Setenv("TOOLGATE_HOME", t.TempDir())
	outer := t.TempDir()
	inner := filepath.Join(outer, "inner")
	require.NoError(t, os.Mkdir(inner, 0o700))
	http := config.HTTP{Tokens: map[string]config.HTTPToken{"n": {Overrides: config.Overrides{Workspace: inner}}}}
	o := &Options{LogLevel: "warn", Dir: outer, ConfigValues: []string{"sandbox_workspace_write.exclude_slash_tmp=true"}}
	yes := sandbox.Support{OK: true}
	landlock := sandbox.System{OS: "linux", Seccomp: yes, Landlock: yes, ABI: 6}
	for _, c := range []struct {
		caller string
		http   config.HTTP
		fault  string
	}{
		{"token:default", http, "another caller's workspace lies in " + outer},
		{"token:default", config.HTTP{}, ""},
		{"token:n", http, ""},
	} {
		name := strings.TrimPrefix(c.caller, "token:")
		s, err := o.forCaller(httpauth.Caller{Name: c.caller}, http.Tokens[name].Overrides, c.http).Load()
		require.NoError(t, err)
		_, err = s.PlanOn(landlock, s.Policy.Profile())
		if c.fault == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, sandbox.ErrUnsupported)
		require.ErrorContains(t, err, c.fault)
	}
}
