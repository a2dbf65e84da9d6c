package cli

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestServersFollowTheConfig serves a client while the config file changes:
// a server is added, the file is broken and mended, the server is removed.
func TestServersFollowTheConfig(t *testing.T) {
	home := t.TempDir()
	t.Setenv("TOOLGATE_HOME", home)
	self, err := os.Executable()
	require.NoError(t, err)
	inner := filepath.Join(t.TempDir(), "toolgate") // the name makes the test binary the program
	binary, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(inner, binary, 0o755))
	file := filepath.Join(home, "config.toml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(ownTemp)

	cmd := exec.Command(inner, "-C", t.TempDir())
	inW, err := cmd.StdinPipe()
	require.NoError(t, err)
	outR, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(outR)
	lines.Buffer(nil, 1<<20)
	changed := false // a list_changed has passed
	// until reads what the server writes until a line holds word.
	until := func(word string) string {
		for lines.Scan() {
			changed = changed || strings.Contains(lines.Text(), "notifications/tools/list_changed")
			if strings.Contains(lines.Text(), word) {
				return lines.Text()
			}
		}
		t.Fatalf("the server ended before it wrote %q", word)
		return ""
	}
	change := func() {
		if !changed {
			until("notifications/tools/list_changed")
		}
		changed = false
	}
	send := func(line string) { fmt.Fprintln(inW, line) }
	id := 1
	listed := func() string {
		id++
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"list %d","method":"tools/list"}`, id))
		return until(fmt.Sprintf(`"id":"list %d"`, id))
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	until(`"id":1`)
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	require.NotContains(t, listed(), "mcp__")

	table := ownTemp + fmt.Sprintf("[mcp_servers.inner]\ncommand = %q\nenv = { TOOLGATE_HOME = %q }\nsandbox = \"none\"\n",
		inner, t.TempDir())
	write(table)
	for !strings.Contains(listed(), "mcp__inner__read_file") {
		change()
	}

	write("broken = [")
	write(table + "disabled_tools = [\"read_file\"]\n")
	for strings.Contains(listed(), "mcp__inner__read_file") || !strings.Contains(listed(), "mcp__inner__list_dir") {
		change()
	}

	write(ownTemp)
	for strings.Contains(listed(), "mcp__") {
		change()
	}
	inW.Close()
	for lines.Scan() {
	}
	require.NoError(t, cmd.Wait())
}
