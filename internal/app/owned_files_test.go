//go:build !windows

package app

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/internal/approvals"
	"toolgate/internal/console"
	"toolgate/internal/fileowner"
	"toolgate/internal/httpauth"
	"toolgate/internal/oauth"
)

// Whatever file decides something is refused if another user could change it or a folder on the way
// to it, and doctor names it.
func TestFilesOfOthersAreRefused(t *testing.T) {
	open := func(home string) error {
		_, err := (&Options{LogLevel: "error"}).Load()
		return err
	}
	queue := func(home string) ([]approvals.Entry, error) {
		q, err := approvals.Open(filepath.Join(home, "state/approvals"))
		require.NoError(t, err)
		return q.Waiting()
	}
	for _, c := range []struct {
		file string // in TOOLGATE_HOME
		text string
		read func(home string) error // an error if the file is refused
	}{
		{"config.toml", `sandbox_mode = "read-only"`, open},
		{"rules/default.rules", `prefix_rule(pattern=["ls"], decision="allow")`, open},
		{"state/http-token", strings.Repeat("x", httpauth.MinToken), func(home string) error {
			_, err := httpauth.LoadOrCreateToken(filepath.Join(home, "state/http-token"))
			return err
		}},
		{"state/oauth/docs.json", `{"url":"https://example.com"}`, func(home string) error {
			_, err := oauth.Store{Dir: filepath.Join(home, "state/oauth")}.Load(oauth.Server{Name: "docs", URL: "https://example.com"})
			return err
		}},
		{"state/catalogue/docs.json", `{}`, func(home string) error {
			_, err := aggregator.ReviewServer(filepath.Join(home, "state"), "docs")
			return err
		}},
		{"state/trust/docs.json", `{}`, func(home string) error {
			catalog := filepath.Join(home, "state/catalogue/docs.json")
			require.NoError(t, os.MkdirAll(filepath.Dir(catalog), 0o700))
			require.NoError(t, os.WriteFile(catalog, []byte("{}"), 0o600))
			_, err := aggregator.ReviewServer(filepath.Join(home, "state"), "docs")
			return err
		}},
		{"state/consoles/1.json", `{"url":"http://127.0.0.1:1","secret":"00"}`, func(home string) error {
			_, err := console.Announcements(filepath.Join(home, "state/consoles"))
			return err
		}},
		{"state/approvals/q.json", `{"id":"q","asked":"2100-01-01T00:00:00Z"}`, func(home string) error {
			list, err := queue(home)
			if err == nil && len(list) == 0 {
				return &fileowner.Error{Path: "q"} // it does not count
			}
			return err
		}},
		{"state/approvals/q.answer", `{"answer":"once","decided":"2100-01-01T00:00:00Z"}`, func(home string) error {
			question := filepath.Join(home, "state/approvals/q.json")
			require.NoError(t, os.WriteFile(question, []byte(`{"id":"q","asked":"2100-01-01T00:00:00Z"}`), 0o600))
			list, err := queue(home)
			if err == nil && len(list) == 1 {
				return &fileowner.Error{Path: "q"} // it does not count, so the question still waits
			}
			return cmp.Or(err, fileowner.Check(question)) // as above
		}},
		{"hook.sh", "#!/bin/sh\n", func(home string) error {
			hook := filepath.Join(home, "hook.sh")
			o := &Options{LogLevel: "error", Dir: t.TempDir(), ConfigValues: []string{
				`hooks.PreToolUse=[{hooks=[{type="command",command="` + hook + `"}]}]`,
				`sandbox_workspace_write.exclude_slash_tmp=true`, `sandbox_workspace_write.exclude_tmpdir_env_var=true`,
			}}
			a, err := o.Open()
			if err != nil {
				return err
			}
			defer a.Close()
			return errors.Join(a.HookFaults()...)
		}},
	} {
		for name, loosen := range map[string]func(home, file string) string{
			"as it is": func(_, _ string) string { return "" },
			"file": func(_, file string) string {
				require.NoError(t, os.Chmod(file, 0o666))
				return file
			},
			"folder": func(_, file string) string {
				require.NoError(t, os.Chmod(filepath.Dir(file), 0o777))
				return filepath.Dir(file)
			},
			"home": func(home, _ string) string {
				require.NoError(t, os.Chmod(home, 0o772))
				return home
			},
		} {
			t.Run(c.file+"/"+name, func(t *testing.T) {
				home := filepath.Join(t.TempDir(), "home")
				t.Setenv("TOOLGATE_HOME", home)
				file := filepath.Join(home, c.file)
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
				require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
				require.NoError(t, os.Chmod(file, 0o700)) // a hook is a program
				if strings.HasSuffix(file, "-token") {
					require.NoError(t, os.Chmod(file, 0o600))
				}
				at := loosen(home, file)
				s := &Settings{ConfigDir: home, StateDir: filepath.Join(home, "state"), WorkDir: filepath.Join(home, "worker")}
				if at == "" {
					require.NoError(t, c.read(home))
					require.Empty(t, s.FileFaults())
					return
				}
				require.Contains(t, errorsOf(s.FileFaults()), at+" can be written by other users")
				require.ErrorContains(t, c.read(home), "who could change what toolgate does")
			})
		}
	}
}

func errorsOf(list []error) string {
	var b strings.Builder
	for _, err := range list {
		b.WriteString(err.Error() + "\n")
	}
	return b.String()
}

// The key of a server over HTTPS is hidden from commands like the config, and refused like it.
func TestTLSKeysAreControlFiles(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	dir, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	key := filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(key, []byte("key"), 0o600))
	c, err := findControlFiles(home, filepath.Join(home, "state"))
	require.NoError(t, err)
	require.NoError(t, c.addFiles("", key))
	hidden, _ := c.paths()
	require.Contains(t, hidden, key)
	require.NoError(t, os.Chmod(key, 0o666))
	require.ErrorContains(t, c.addFiles(key), "can be written by other users")
}
