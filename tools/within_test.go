package tools_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/tools"
)

type readInput struct {
	Path string `json:"path"`
}

// TestWithin: what a name leads to decides, and the answer names the path to
// send instead.
func TestWithin(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	ws, more, out := filepath.Join(top, "ws"), filepath.Join(top, "more"), filepath.Join(top, "out")
	for _, file := range []string{ws + "/a/f", ws + "/own/id", ws + "/own.txt", more + "/f", out + "/f", out + "/d/f"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, nil, 0o644))
	}
	for link, to := range map[string]string{
		"in": "a", "back": "a/../a/f", "up": "../ws/a/f", "abs": ws + "/a/f", "out": "../out/d", "far": "out/f",
		"lost": "../none", "key": "own/id", "loop": "loop",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(ws, link)))
	}
	t.Chdir(ws)

	read := tools.New(tools.Def{Name: "read", ReadOnly: true}, func(in readInput) (policy.Action, error) {
		return policy.Action{Reads: []string{in.Path}}, nil
	}, func(context.Context, readInput) (*mcp.CallToolResult, error) { return tools.Text("ran"), nil })
	within := tools.Within(read, []string{ws, more}, []string{filepath.Join(ws, "own"), filepath.Join(out, "d")})

	const (
		again   = "; send the call again with that path, and the user is asked where need be"
		plain   = "; name the file by its path without links and .., and the user is asked where need be"
		outside = "is outside the workspace; ask the user to read it"
	)
	for path, want := range map[string]string{
		"a":             "ran",
		"a/f":           "ran",
		"a/../own.txt":  "ran",
		ws + "/a/f":     "ran",
		more + "/f":     "ran",
		"in/f":          "ran",
		"back":          "ran",
		"missing":       "ran", // the tool says so
		"a/f/x":         "ran", // the same
		"../ws/a/f":     "ran",
		"out/f":         "leads out of the workspace, to " + out + "/d/f" + again,
		"out":           "leads out of the workspace, to " + out + "/d" + again,
		"far":           "leads out of the workspace, to " + ws + "/out/f" + again,
		"up":            "leads out of the workspace, to " + ws + "/a/f" + again,
		"abs":           "leads out of the workspace, to " + ws + "/a/f" + again,
		"lost":          "leads out of the workspace, to " + top + "/none" + again,
		"loop":          "leads out of the workspace, to " + ws + "/loop" + again,
		"key":           "leads to what is hidden, to " + ws + "/own/id" + again,
		"out/../f":      "leads out of the workspace" + plain,
		"own/id":        "leads to what is hidden" + plain,
		".":             "leads to what is hidden" + plain,
		"../out/f":      outside,
		more + "2/f":    outside,
		"/proc/self/fd": outside,
	} {
		args, err := json.Marshal(readInput{path})
		require.NoError(t, err)
		if want != "ran" {
			want = "read: " + path + ": " + want
		}
		require.Equal(t, want, within.Run(t.Context(), args).Content[0].(*mcp.TextContent).Text, path)
	}
	require.True(t, within.Run(t.Context(), json.RawMessage(`{}`)).IsError)

	missing := tools.New(tools.Def{Name: "read", ReadOnly: true}, func(readInput) (policy.Action, error) {
		return policy.Action{}, nil
	}, func(context.Context, readInput) (*mcp.CallToolResult, error) {
		return nil, &tools.Missing{Path: "x", What: "is missing", Near: []string{"own/id", "a/f", "out/f", "../out/f"}}
	})
	within = tools.Within(missing, []string{ws}, []string{filepath.Join(ws, "own")})
	res := within.Run(t.Context(), json.RawMessage(`{"path":"x"}`))
	require.Equal(t, "read: x: is missing; did you mean a/f?", res.Content[0].(*mcp.TextContent).Text, "others cannot be read")

	none := tools.Within(read, nil, nil)
	require.True(t, none.Run(t.Context(), json.RawMessage(`{"path":"a/f"}`)).IsError)
}
