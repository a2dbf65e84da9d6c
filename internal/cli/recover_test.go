package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a patch left when toolgate was killed is gone once the next one has started, without
// any message of a client, over stdio and over HTTP.
func TestServeRecoversPatches(t *testing.T) {
	needSandbox(t)
	// Commands must not be able to write the record, which is below the temporary folder.
	settings := []string{
		"-c", "sandbox_workspace_write.exclude_slash_tmp=true", "-c", "sandbox_workspace_write.exclude_tmpdir_env_var=true",
	}
	for _, args := range [][]string{{"serve"}, {"serve", "--http", "127.0.0.1:0"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			c := killedInAPatch(t, settings...)
			next := exec.CommandContext(t.Context(), ownBinary(t), slices.Concat(args, settings)...)
			next.Dir, next.Env = c.ws, c.cmd.Env
			stderr, err := next.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, next.Start())
			if len(args) > 1 { // it does not end by itself
				_, err := stderr.Read(make([]byte, 1)) // it serves
				require.NoError(t, err)
				require.NoError(t, next.Process.Kill())
			}
			next.Wait()
			files, err := os.ReadDir(c.ws)
			require.NoError(t, err)
			require.Len(t, files, patchedFiles, "a file was left")
			first, err := os.ReadFile(filepath.Join(c.ws, "f000.txt"))
			require.NoError(t, err)
			for _, f := range files {
				data, err := os.ReadFile(filepath.Join(c.ws, f.Name()))
				require.NoError(t, err)
				require.Equal(t, string(first), string(data))
			}
		})
	}
}

const patchedFiles = 200

// killedInAPatch kills a toolgate while a patch of many files is being applied, and returns it.
func killedInAPatch(t *testing.T, settings ...string) *client {
	var patch strings.Builder
	patch.WriteString("*** Begin Patch\n")
	for i := range patchedFiles {
		fmt.Fprintf(&patch, "*** Update File: f%03d.txt\n@@\n-old\n+new\n", i)
	}
	patch.WriteString("*** End Patch\n")
	for range 100 {
		c := startClient(t, settings...).open()
		for i := range patchedFiles {
			require.NoError(t, os.WriteFile(filepath.Join(c.ws, fmt.Sprintf("f%03d.txt", i)), []byte("old\n"), 0o644))
		}
		left := func() bool {
			files, err := os.ReadDir(c.ws)
			require.NoError(t, err)
			return len(files) > patchedFiles
		}
		c.start("apply_patch", fmt.Sprintf(`{"input":%q}`, patch.String()))
		for !left() {
			if data, _ := os.ReadFile(filepath.Join(c.ws, "f199.txt")); string(data) == "new\n" {
				break // it was applied unseen
			}
		}
		require.NoError(t, c.cmd.Process.Kill())
		c.cmd.Wait()
		if left() {
			return c
		}
	}
	t.Fatal("each patch was applied before it could be killed")
	return nil
}
