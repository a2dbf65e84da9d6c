package tools_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/tools"
)

// command is an argument whose schema is an array and that takes a script too.
type command struct{ any }

func (command) EditSchema(s *jsonschema.Schema) {
	*s = jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}}
}

func (c *command) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &c.any) }

type runInput struct {
	Command   command  `json:"command"`
	Workdir   string   `json:"workdir,omitempty"`
	TimeoutMS int64    `json:"timeout_ms,omitempty"`
	Login     bool     `json:"login,omitempty"`
	Share     *float64 `json:"share,omitempty"`
	Keys      []string `json:"keys,omitempty"`
	Sizes     []int    `json:"sizes,omitempty"`
	Rows      int      `json:"rows,omitempty"`
	Nested    struct {
		Depth int `json:"depth,omitempty"`
	} `json:"nested,omitzero"`
}

// withoutRows does not publish rows.
func withoutRows(s *jsonschema.Schema) {
	delete(s.Properties, "rows")
	s.PropertyOrder = slices.DeleteFunc(s.PropertyOrder, func(name string) bool { return name == "rows" })
}

type lookInput struct {
	Path   string `json:"file_path"`
	Limit  *int   `json:"limit,omitempty"`
	Case   string `json:"case,omitempty"`
	Output string `json:"output_mode,omitempty"`
}

var (
	runTool = tools.New(tools.Def{Name: "run", Description: "Runs.", EditSchema: withoutRows},
		func(runInput) (policy.Action, error) { return policy.Action{}, nil },
		func(context.Context, runInput) (*mcp.CallToolResult, error) { return tools.Text(""), nil })
	lookTool = tools.New(tools.Def{Name: "look", Description: "Looks.", ReadOnly: true},
		func(lookInput) (policy.Action, error) { return policy.Action{}, nil },
		func(context.Context, lookInput) (*mcp.CallToolResult, error) { return tools.Text(""), nil })
)

var canonicalTests = []struct {
	tool           tools.Tool
	in, want, note string // want begins with "error: " for an error
}{
	// Nothing to do: the same bytes.
	{tool: lookTool, in: ` {"file_path": "a", "limit": 5}`, want: ` {"file_path": "a", "limit": 5}`},
	{tool: lookTool, in: `["a"]`, want: `["a"]`},
	{tool: lookTool, in: ``, want: ``},
	{tool: runTool, in: `{"command":"ls -l"}`, want: `{"command":"ls -l"}`},

	// Names.
	{tool: lookTool, in: `{"path":"a","head_limit":5}`, want: `{"file_path":"a","limit":5}`},
	{tool: lookTool, in: `{"dir_path":"a"}`, want: `{"file_path":"a"}`},
	{tool: lookTool, in: `{"filePath":"a","Max-Results":5}`, want: `{"file_path":"a","limit":5}`},
	{tool: runTool, in: `{"cmd":["a"],"cwd":"b","timeout":7}`, want: `{"command":["a"],"workdir":"b","timeout_ms":7}`},
	{tool: lookTool, in: `{"path":"a","file_path":"a"}`, want: `{"file_path":"a"}`},
	{tool: lookTool, in: `{"path":"a","file_path":null}`, want: `{"file_path":"a"}`},
	{tool: lookTool, in: `{"limit":"5","head_limit":5.0,"path":"a"}`, want: `{"limit":5,"file_path":"a"}`},
	{tool: lookTool, in: `{"path":"a","file_path":"b"}`,
		want: `error: "path" and "file_path" are the same argument, with different values; give one`},
	{tool: runTool, in: `{"command":["ls"],"Command":["id"]}`,
		want: `error: "command" and "Command" are the same argument, with different values; give one`},

	// Values.
	{tool: lookTool, in: `{"path":"a","-i":true}`, want: `{"file_path":"a","case":"insensitive"}`},
	{tool: lookTool, in: `{"path":"a","-i":"False"}`, want: `{"file_path":"a"}`},
	{tool: lookTool, in: `{"path":"a","case_sensitive":false}`, want: `{"file_path":"a","case":"insensitive"}`},
	{tool: lookTool, in: `{"path":"a","output_mode":"files_with_matches"}`,
		want: `{"file_path":"a","output_mode":"files"}`},

	// Numbers, booleans, arrays and objects in strings.
	{tool: lookTool, in: `{"file_path":"a","limit":10.0}`, want: `{"file_path":"a","limit":10}`},
	{tool: lookTool, in: `{"file_path":"a","limit":1e3}`, want: `{"file_path":"a","limit":1000}`},
	{tool: lookTool, in: `{"file_path":"a","limit":" 10 "}`, want: `{"file_path":"a","limit":10}`},
	{tool: lookTool, in: `{"file_path":"a","limit":"-1.0"}`, want: `{"file_path":"a","limit":-1}`},
	{tool: lookTool, in: `{"file_path":"a","limit":1.5}`, want: `{"file_path":"a","limit":1.5}`},
	{tool: lookTool, in: `{"file_path":"a","limit":"10 lines"}`, want: `{"file_path":"a","limit":"10 lines"}`},
	{tool: lookTool, in: `{"file_path":"a","limit":1e300}`, want: `{"file_path":"a","limit":1e300}`},
	{tool: lookTool, in: `{"file_path":"10"}`, want: `{"file_path":"10"}`},
	{tool: runTool, in: `{"command":["a"],"timeout_ms":123456789012345678}`,
		want: `{"command":["a"],"timeout_ms":123456789012345678}`},
	{tool: runTool, in: `{"command":["a"],"login":"True","share":"0.5"}`,
		want: `{"command":["a"],"login":true,"share":0.5}`},
	{tool: runTool, in: `{"command":["a"],"rows":"30.0"}`, want: `{"command":["a"],"rows":30}`},
	{tool: runTool, in: `{"command":["a"],"login":"yes"}`, want: `{"command":["a"],"login":"yes"}`},
	{tool: runTool, in: `{"command":["a"],"sizes":["1",2.0],"nested":{"depth":"3"}}`,
		want: `{"command":["a"],"sizes":[1,2],"nested":{"depth":3}}`},
	{tool: runTool, in: `{"command":["a"],"sizes":"[\"1\"]","nested":"{\"depth\":\"3\"}"}`,
		want: `{"command":["a"],"sizes":[1],"nested":{"depth":3}}`},
	{tool: runTool, in: `{"command":["a"],"nested":"{\"depth\":3,\"depth\":4}"}`,
		want: `{"command":["a"],"nested":"{\"depth\":3,\"depth\":4}"}`},
	{tool: runTool, in: `{"command":["a"],"keys":"enter"}`, want: `{"command":["a"],"keys":"enter"}`},

	// A script stays one, unless it is a JSON array of strings.
	{tool: runTool, in: `{"command":"[\"ls\", \"-l\"]"}`, want: `{"command":["ls", "-l"]}`},
	{tool: runTool, in: `{"command":"[ -f a ] && echo"}`, want: `{"command":"[ -f a ] && echo"}`},
	{tool: runTool, in: `{"command":"[1]"}`, want: `{"command":"[1]"}`},
	{tool: runTool, in: `{"command":"[]"}`, want: `{"command":"[]"}`},

	// Unknown ones. That a tool changes something makes the difference.
	{tool: lookTool, in: `{"path":"a","dry_run":true,"x":{}}`, want: `{"file_path":"a"}`,
		note: `look has no argument "dry_run", "x", which was ignored`},
	{tool: lookTool, in: `{"file_path":"a","x":null}`, want: `{"file_path":"a"}`},
	{tool: lookTool, in: `{"file":"a","limits":3}`, want: `{"file_path":"a"}`,
		note: `look has no argument "limits", which was ignored; did you mean "limit"?`},
	{tool: lookTool, in: `{"fle_path":"a"}`,
		want: `error: unknown argument "fle_path"; the arguments are file_path, limit, case, output_mode; did you mean "file_path"?`},
	{tool: runTool, in: `{"command":["a"],"description":"runs a","verbose":1}`, want: `{"command":["a"]}`,
		note: `run has no argument "description", "verbose", which was ignored`},
}

const runArguments = `; the arguments are command, workdir, timeout_ms, login, share, keys, sizes, nested`

func TestCanonical(t *testing.T) {
	for _, c := range canonicalTests {
		got, notes, err := c.tool.Canonical(json.RawMessage(c.in))
		if err != nil {
			require.Equal(t, c.want, "error: "+err.Error(), c.in)
			continue
		}
		require.Equal(t, c.want, string(got), c.in)
		if c.note == "" {
			require.Empty(t, notes, c.in)
			continue
		}
		require.Equal(t, []string{c.note}, notes, c.in)
	}
	// What could keep a call from harm is not passed over.
	for _, name := range []string{"dry_run", "--dry-run", "dryRun", "host", "targetPath", "timeoutSeconds", "deadline",
		"requires_approval", "sandboxed", "user", "args", "env", "stdin", "readOnly", "reverse", "encoding", "timout_ms"} {
		in, _ := json.Marshal(map[string]any{"command": []string{"a"}, name: true})
		_, _, err := runTool.Canonical(in)
		require.ErrorContains(t, err, `unknown argument "`+name+`"`)
		require.ErrorContains(t, err, runArguments)
	}
	_, _, err := runTool.Canonical(json.RawMessage(`{"command":["a"],"foo":["-n"]}`))
	require.EqualError(t, err, `unknown argument "foo"`+runArguments)
}

// FuzzCanonical: canonical arguments are valid JSON and stay as they are, and none has a
// name that the tool does not have.
func FuzzCanonical(f *testing.F) {
	for _, c := range canonicalTests {
		f.Add(c.in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for _, tool := range []tools.Tool{runTool, lookTool} {
			once, _, err := tool.Canonical(json.RawMessage(in))
			if err != nil {
				continue
			}
			twice, notes, err := tool.Canonical(once)
			require.NoError(t, err)
			require.Equal(t, string(once), string(twice))
			require.Empty(t, notes)
			if _, err := tool.Describe(once); err != nil && json.Valid(once) && utf8.ValidString(in) {
				require.NotContains(t, err.Error(), "unknown argument")
			}
		}
	})
}
