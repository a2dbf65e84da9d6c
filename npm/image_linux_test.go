package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImage runs what the Dockerfile's last stage says, without Docker: in a
// root that holds what is copied into it and nothing else, as its user, without
// network.
func TestImage(t *testing.T) {
	packed(t)
	bwrap := lookUp(t, "bwrap")
	if exec.Command(bwrap, "--unshare-all", "--ro-bind", "/", "/", "true").Run() != nil {
		t.Skip("bwrap does not start here")
	}
	text, err := os.ReadFile(filepath.Join("..", "Dockerfile"))
	require.NoError(t, err)
	_, last, ok := strings.Cut(string(text), "\nFROM scratch\n")
	require.True(t, ok)
	one := func(instruction string) string {
		m := regexp.MustCompile(`(?m)^` + instruction + ` (.*)$`).FindStringSubmatch(last)
		require.NotNil(t, m, instruction)
		return m[1]
	}
	words := func(instruction string) (list []string) {
		require.NoError(t, json.Unmarshal([]byte(one(instruction)), &list))
		return list
	}
	uid, gid, _ := strings.Cut(one("USER"), ":")
	require.NotEqual(t, "0", uid)
	name, value, _ := strings.Cut(one("ENV"), "=")
	workspace := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(workspace, "a file"), nil, 0o644))
	require.NoError(t, os.Chmod(workspace, 0o755))
	line := []string{"--unshare-all", "--die-with-parent", "--clearenv", "--uid", uid, "--gid", gid, "--tmpfs", "/", "--proc", "/proc", "--dev", "/dev",
		"--setenv", name, value, "--bind", workspace, one("WORKDIR"), "--chdir", one("WORKDIR")}
	for _, m := range regexp.MustCompile(`(?m)^COPY .*--from=build .*(/out/\S+) (/\S+)$`).FindAllStringSubmatch(last, -1) {
		switch {
		case m[2] == "/toolgate":
			line = append(line, "--ro-bind", filepath.Join(built.dir, "src", here(), "bin", "toolgate"), m[2])
		case m[2] != one("WORKDIR"):
			line = append(line, "--dir", m[2])
		}
	}
	line = append(line, "--")
	line = append(append(line, words("ENTRYPOINT")...), words("CMD")...)
	cmd := exec.CommandContext(t.Context(), bwrap, line...)
	cmd.Stdin = strings.NewReader(working)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	require.NoError(t, err)
	all := answers(t, out)
	require.Contains(t, string(all[1]), version)
	requireTools(t, all[2])
	require.Contains(t, string(all[3]), "a file", "list_dir")
}
