package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// put writes a file in the workspace, or elsewhere when its name is absolute.
func (c *client) put(name, text string) string {
	c.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(c.ws, name)
	}
	require.NoError(c.t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(c.t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

// A repository that came into being while the worker runs, made by a command
// or by somebody else, is protected from the next command on.
func TestWhatComesLaterIsProtected(t *testing.T) {
	needSandbox(t)
	c := startClient(t, "-a", "never").open()
	run := func(script string) string {
		t.Helper()
		args, err := json.Marshal(map[string]string{"command": script})
		require.NoError(t, err)
		return c.call("shell", string(args)).text()
	}
	require.Contains(t, run("mkdir -p sub/repo/.git/hooks && echo one > sub/repo/.git/config && echo made"), "made")
	c.put("other/.vscode/tasks.json", "{}")
	out := run("echo two >> sub/repo/.git/config; echo x > sub/repo/.git/hooks/post-checkout; echo x >> other/.vscode/tasks.json; echo fine > sub/repo/file; cat sub/repo/.git/config")
	require.Contains(t, out, "Read-only file system")
	require.Contains(t, out, "one")
	require.NotContains(t, out, "two\n")
	require.NoFileExists(t, filepath.Join(c.ws, "sub/repo/.git/hooks/post-checkout"))
	require.FileExists(t, filepath.Join(c.ws, "sub/repo/file"))

	// The patch tool is asked by name, whatever was there at the start.
	patch := `{"input":"*** Begin Patch\n*** Add File: sub/repo/.git/hooks/pre-push\n+x\n*** End Patch\n"}`
	require.Contains(t, c.call("apply_patch", patch).text(), ".git is protected")
	patch = `{"input":"*** Begin Patch\n*** Add File: brand/new/.mcp.json\n+{}\n*** End Patch\n"}`
	require.Contains(t, c.call("apply_patch", patch).text(), ".mcp.json is protected")
}

// withState makes a call with the sandbox that Codex says it is held to.
func (c *client) withState(entries, network, tool, args string) message {
	c.t.Helper()
	c.id++
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"codex/sandbox-state-meta":{"permissionProfile":{"type":"managed","file_system":{"type":"restricted","entries":[%s],"glob_scan_max_depth":4},"network":%q},"sandboxCwd":"file://%s"}}}}`,
		c.id, tool, args, entries, network, c.ws))
	return c.receive()
}

// What Codex 0.169 sends for a profile that lets only some folders be read and
// denies by pattern is held, and the stricter of both is.
func TestCodexSandboxStateIsHeld(t *testing.T) {
	needSandbox(t)
	c := startClient(t, "-a", "never").open()
	c.put("readme", "READ ME")
	c.put("deep/a.env", "TOPSECRET")
	c.put("sec.txt", "TOPSECRET")
	c.put("docs/text", "DOCUMENTED")
	outside := c.put(filepath.Join(t.TempDir(), "outside"), "OUTSIDE")
	entry := func(path, access string) string { return fmt.Sprintf(`{"path":%s,"access":%q}`, path, access) }
	at := func(name string) string {
		return fmt.Sprintf(`{"type":"path","path":%q}`, filepath.Join(c.ws, name))
	}
	entries := entry(`{"type":"special","value":{"kind":"minimal"}}`, "read") +
		"," + entry(`{"type":"special","value":{"kind":"unknown","path":":cwd"}}`, "write") +
		"," + entry(at("."), "write") +
		"," + entry(at("docs"), "read") +
		"," + entry(at("sec.txt"), "deny") +
		"," + entry(fmt.Sprintf(`{"type":"glob_pattern","pattern":%q}`, c.ws+"/**/*.env"), "deny")
	script := fmt.Sprintf(`{"command":"cat readme docs/text; cat deep/a.env; cat sec.txt; cat %s; echo x > docs/new; echo y > new"}`, outside)
	out := c.withState(entries, "restricted", "shell", script).text()
	require.Contains(t, out, "READ ME")
	require.Contains(t, out, "DOCUMENTED")
	require.NotContains(t, out, "TOPSECRET")
	require.NotContains(t, out, "OUTSIDE")
	require.NoFileExists(t, filepath.Join(c.ws, "docs/new"))
	require.FileExists(t, filepath.Join(c.ws, "new"))
	require.Contains(t, c.withState(entries, "restricted", "read_file", `{"file_path":"deep/a.env"}`).text(), "denied: it would read")
	require.NotContains(t, c.withState(entries, "restricted", "grep_files", `{"pattern":"TOPSECRET"}`).text(), "env")

	// A file that matches since, at the next call.
	c.put("later.env", "TOPSECRET")
	require.NotContains(t, c.withState(entries, "restricted", "shell", `{"command":"cat later.env"}`).text(), "TOPSECRET")

	// Without it, our own policy is in force.
	require.Contains(t, c.call("shell", script).text(), "TOPSECRET")

	unknown := c.withState(entries+","+entry(`{"type":"special","value":{"kind":"vault"}}`, "deny"), "restricted", "shell", `{"command":"echo ran"}`)
	require.Contains(t, unknown.text(), `denied: the client's own sandbox asks for what cannot be held here: denying vault`)
}
