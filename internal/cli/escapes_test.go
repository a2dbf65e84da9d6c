package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

const escapingPeer = "escaping-peer"

// escapes are what a terminal would obey: a title, a color in eight bits, a return to the
// beginning of the line, and a direction.
const escapes = "\x1b]0;owned\a\u009b31m\rsafe\u202egpj\u2066"

// runEscapingPeer is a server all of whose texts have escapes. With an argument it refuses
// to start.
func runEscapingPeer() {
	quoted, _ := json.Marshal(escapes) // escapes only what JSON requires
	bad := string(quoted)
	fmt.Fprintln(os.Stderr, escapes)
	servePeer(func(method string, _ struct{}) string {
		switch {
		case method == "initialize" && len(os.Args) > 1:
			return `"error":{"code":-32000,"message":` + strings.TrimSuffix(bad, `"`) + `\nno problems found"}`
		case method == "initialize":
			fmt.Println(escapes)
			return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":` + bad + `,"version":` + bad + `},"instructions":` + bad + `}`
		case method == "tools/list":
			return `"result":{"tools":[{"name":"say","description":` + bad + `,"inputSchema":{"type":"object"}},{"name":` + bad + `,"inputSchema":{"type":` + bad + `}}]}`
		case method == "tools/call":
			return `"result":{` + "\r" + `"content":[{"type":"text","text":` + bad + `},{"type":"image","mimeType":` + bad + `,"data":""}]}`
		}
		return `"result":{}`
	})
}

// TestNoCommandPrintsEscapes: what a server says cannot control the terminal.
func TestNoCommandPrintsEscapes(t *testing.T) {
	d := newEscapingDesk(t)
	for _, tt := range []struct{ args, want string }{
		{"tools", "mcp__good__say"},
		{"tools --json", `\u202egpj`},
		{"--log-level debug tools", "mcp__good__say"},
		{"doctor", "problem: the server bad does not run"},
		{"doctor --json", `\u202egpj`},
		{"mcp list", "good"},
		{"mcp list --json", "good"},
		{"mcp review good", "say: as first seen"},
		{"mcp review good --json", `\u202egpj`},
		{"call mcp__good__say --json", `\u202egpj`},
		{`call nope\u001b[2J`, "unknown tool"},
		{"audit", "good/say"},
		{"audit --json", "good"},
		{"approvals list", "nothing waits"},
		{"policy check -- echo " + escapes, `"decision"`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			out, _ := d.run(strings.Fields(strings.ReplaceAll(tt.args, `\u001b`, "\x1b"))...)
			harmless(t, out)
			require.Contains(t, out, tt.want)
			require.NotContains(t, "\n"+out, "\nno problems found", "a server writes no line of ours")
		})
	}
	t.Run("call to a file", func(t *testing.T) {
		out, code := d.run("call", "mcp__good__say")
		require.Zero(t, code)
		require.Contains(t, out, escapes, "it is kept as it is")
	})
}

// harmless checks that out has nothing in it that controls a terminal.
func harmless(t *testing.T, out string) {
	t.Helper()
	for i, r := range out {
		if r != '\n' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Fatalf("%q in %q", r, out[max(0, i-100):])
		}
	}
}

// newEscapingDesk returns a desk with two such servers, of which one does not start.
func newEscapingDesk(t *testing.T) *desk {
	d := newDesk(t, "")
	peer := filepath.Join(filepath.Dir(d.toolgate), escapingPeer+filepath.Ext(d.toolgate))
	require.NoError(t, os.Link(d.toolgate, peer))
	config := ""
	for name, args := range map[string]string{"good": "", "bad": `"\u001b[2J"`} {
		config += fmt.Sprintf("[mcp_servers.%s]\ncommand = %q\nargs = [%s]\nsandbox = \"none\"\n", name, peer, args) +
			"default_tools_approval_mode = \"approve\"\n"
	}
	d.configure(config)
	return d
}
