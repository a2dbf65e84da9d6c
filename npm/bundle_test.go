package main_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bundle makes the bundle's folder of this platform, with a program that is
// there already.
func bundle(t *testing.T) (dir string) {
	t.Helper()
	packed(t)
	out := t.TempDir()
	require.NoError(t, goRun("-version", version, "-out", filepath.Join(out, "npm"), "-binaries", filepath.Join(built.dir, "bin"), "-only", here(), "-mcpb", filepath.Join(out, "mcpb")))
	return filepath.Join(out, "mcpb", here())
}

// TestBundleStarts with what a user chose filled in, as a client does it.
func TestBundleStarts(t *testing.T) {
	dir := bundle(t)
	m := readJSON(t, filepath.Join(dir, "manifest.json"))
	require.Equal(t, "binary", m["server"].(map[string]any)["type"])
	require.FileExists(t, filepath.Join(dir, filepath.FromSlash(m["server"].(map[string]any)["entry_point"].(string))))
	input := m["user_config"].(map[string]any)
	workspaces := input["workspaces"].(map[string]any)
	require.Equal(t, []any{"directory", true, true}, []any{workspaces["type"], workspaces["multiple"], workspaces["required"]})

	one, two := t.TempDir(), t.TempDir()
	values := map[string][]string{
		"workspaces": {one, two},
		"sandbox":    {input["sandbox"].(map[string]any)["default"].(string)},
		"approval":   {input["approval"].(map[string]any)["default"].(string)},
	}
	config := m["server"].(map[string]any)["mcp_config"].(map[string]any)
	argv := []string{strings.ReplaceAll(config["command"].(string), "${__dirname}", dir)}
	for _, a := range config["args"].([]any) {
		if key := regexp.MustCompile(`^\$\{user_config\.(\w+)\}$`).FindStringSubmatch(a.(string)); key != nil {
			require.NotEmpty(t, values[key[1]], key[1])
			argv = append(argv, values[key[1]]...)
			continue
		}
		argv = append(argv, a.(string))
	}
	requireServes(t, argv, one, two)
}

// requireServes starts a command as Claude Desktop does, from the root folder
// with little around it, and requires that it works in the folders.
func requireServes(t *testing.T, argv []string, folders ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "USERPROFILE=" + t.TempDir()}
	cmd.Stdin = strings.NewReader(listing)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	require.NoError(t, err)
	all := answers(t, out)
	requireTools(t, all[2])
	var hello struct {
		Instructions string
		ServerInfo   struct{ Version string }
	}
	require.NoError(t, json.Unmarshal(all[1], &hello))
	require.Equal(t, version, hello.ServerInfo.Version)
	for _, f := range folders {
		real, err := filepath.EvalSymlinks(f)
		require.NoError(t, err)
		require.Contains(t, hello.Instructions, real)
	}
}

func readJSON(t *testing.T, file string) (m map[string]any) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &m))
	return m
}

// TestBundleByItsOwnTool: validated, packed, unpacked and filled in by the
// package @anthropic-ai/mcpb, which $TOOLGATE_MCPB names the folder of.
func TestBundleByItsOwnTool(t *testing.T) {
	tool := os.Getenv("TOOLGATE_MCPB")
	if tool == "" {
		if os.Getenv("REQUIRE_NODE") != "" && os.Getenv("REQUIRE_MCPB") != "" {
			t.Fatal("REQUIRE_MCPB is set, and TOOLGATE_MCPB names no folder of @anthropic-ai/mcpb")
		}
		t.Skip("TOOLGATE_MCPB names no folder of @anthropic-ai/mcpb")
	}
	node := lookUp(t, "node")
	dir := bundle(t)
	cli := filepath.Join(tool, "dist", "cli", "cli.js")
	file := filepath.Join(t.TempDir(), "toolgate-"+version+"-"+here()+".mcpb")
	unpacked := t.TempDir()
	for _, args := range [][]string{{"validate", filepath.Join(dir, "manifest.json")}, {"pack", dir, file}, {"unpack", file, unpacked}} {
		out, err := exec.Command(node, append([]string{cli}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	one, two := t.TempDir(), t.TempDir()
	cmd := exec.Command(node, filepath.Join("testdata", "bundle.mjs"), tool, unpacked, one, two)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	require.NoError(t, err)
	var argv []string
	require.NoError(t, json.Unmarshal(out, &argv), "%s", out)
	requireServes(t, argv, one, two)

	// The registry's entry names it with its digest.
	entry := filepath.Join(t.TempDir(), "server.json")
	require.NoError(t, goRun("-version", version, "-mcpb", filepath.Dir(file), "-server", entry))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	sum := sha256.Sum256(text)
	packages := readJSON(t, entry)["packages"].([]any)
	require.Len(t, packages, 2)
	last := packages[1].(map[string]any)
	require.Equal(t, hex.EncodeToString(sum[:]), last["fileSha256"])
	require.True(t, strings.HasSuffix(last["identifier"].(string), "/"+filepath.Base(file)))
}

// TestRegistryEntry: what the registry's schema of 2025-12-11 asks for.
func TestRegistryEntry(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.json")
	require.NoError(t, goRun("-version", "1.2.3", "-server", file))
	s := readJSON(t, file)
	require.Contains(t, s["$schema"], "/2025-12-11/")
	require.Regexp(t, `^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`, s["name"])
	require.LessOrEqual(t, len(s["description"].(string)), 100)
	require.LessOrEqual(t, len(s["title"].(string)), 100)
	require.Equal(t, "1.2.3", s["version"])
	require.Equal(t, map[string]any{"url": "https://github.com/toolgate/toolgate", "source": "github"}, s["repository"])
	p := s["packages"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"npm", "toolgate", "1.2.3"}, []any{p["registryType"], p["identifier"], p["version"]})
	require.Equal(t, map[string]any{"type": "stdio"}, p["transport"])
	help, err := os.ReadFile(filepath.Join("..", "docs", "cli.md"))
	require.NoError(t, err)
	for _, a := range p["packageArguments"].([]any) {
		a := a.(map[string]any)
		require.Equal(t, "named", a["type"])
		require.Contains(t, string(help), a["name"].(string)+" ", "a flag there is")
	}
}
