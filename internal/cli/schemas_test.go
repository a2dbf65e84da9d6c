package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// listingServer is an MCP server over HTTP with these tools.
func listingServer(t *testing.T, tools string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		json.NewDecoder(r.Body).Decode(&m)
		result := map[string]string{
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`,
			"tools/list": `{"tools":[` + tools + `]}`,
		}[m.Method]
		switch {
		case result != "":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		case len(m.ID) == 0 && r.Method == http.MethodPost:
			w.WriteHeader(http.StatusAccepted)
		default:
			http.Error(w, "", http.StatusBadRequest)
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// listAs returns what tools/list answers to a client of this name.
func (d *desk) listAs(client string, args ...string) string {
	cmd := d.command(args...)
	cmd.Stdin = strings.NewReader(strings.Replace(greeting, `"name":"t"`, `"name":"`+client+`"`, 1) + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n")
	out, err := cmd.Output()
	require.NoError(d.t, err)
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, `"id":1,`) {
			return line
		}
	}
	d.t.Fatalf("no answer in %s", out)
	return ""
}

// TestSchemasForEachClient: each client gets the schemas that it takes, and a
// tool whose schema cannot be mended takes nothing else down.
func TestSchemasForEachClient(t *testing.T) {
	s := listingServer(t, `
		{"name":"good","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/P"}},"$defs":{"P":{"type":"object","properties":{"n":{"type":["integer","null"]}}}}}},
		{"name":"bad","inputSchema":{"type":"string"}}`)
	d := newDesk(t, "[mcp_servers.s]\nurl = \""+s.URL+"\"\nrequired = true\nenvironment_id = \"e\"\n")
	for _, tt := range []struct {
		client string
		args   []string
		ref    bool
	}{
		{"codex-mcp-client", nil, true},
		{"gemini-cli-mcp-client", nil, false},
		{"gemini-cli-mcp-client", []string{"-c", `mcp.schema_profile="default"`}, true},
		{"codex-mcp-client", []string{"-c", `mcp.schema_profile="strict"`}, false},
		{"codex-mcp-client", []string{"-c", `mcp_servers.s.tool_input_schema_max_bytes=100`}, false},
	} {
		got := d.listAs(tt.client, append(tt.args, "serve")...)
		require.Contains(t, got, `"mcp__s__good"`)
		require.NotContains(t, got, `"mcp__s__bad"`)
		require.Contains(t, got, `"read_file"`)
		require.Equal(t, tt.ref, strings.Contains(got, `$ref`), "%s %v", tt.client, tt.args)
	}
	out, code := d.run("doctor")
	require.Equal(t, 1, code)
	require.Contains(t, out, "problem: server s: bad is left out: inputSchema has type \"string\", not object")
	require.Contains(t, out, "problem: server s: the key environment_id has no effect here; take it out")
}
