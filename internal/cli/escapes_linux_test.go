package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// TestCallOnATerminal: there the text of a result is not what a file would get.
func TestCallOnATerminal(t *testing.T) {
	cmd := newEscapingDesk(t).command("call", "mcp__good__say")
	f, err := pty.Start(cmd)
	require.NoError(t, err)
	defer f.Close()
	out, _ := io.ReadAll(f) // a terminal without a writer is an error
	require.NoError(t, cmd.Wait())
	require.Contains(t, string(out), `\u202egpj`)
	harmless(t, strings.ReplaceAll(string(out), "\r\n", "\n"))
}
