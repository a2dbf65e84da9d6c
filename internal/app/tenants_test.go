package app

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/config"
	"toolgate/internal/httpauth"
)

// A workspace of a caller over HTTP may go while the server runs.
func TestWorkspaceOfACallerIsGone(t *testing.T) {
	t.Setenv("TOOLGATE_HOME", t.TempDir())
	o := &Options{LogLevel: "warn"}
	gone := config.Overrides{Workspace: filepath.Join(t.TempDir(), "gone")}
	_, err := o.forCaller(httpauth.Caller{Name: "token:n"}, gone, config.HTTP{}).Open()
	require.ErrorContains(t, err, "gone: no such directory")
}
