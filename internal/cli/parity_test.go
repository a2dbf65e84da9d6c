package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// everythingArgs are arguments for those tools of the reference server that
// need some.
var everythingArgs = map[string]map[string]any{
	"echo":                           {"message": "hi"},
	"get-sum":                        {"a": 1, "b": 2},
	"get-annotated-message":          {"messageType": "success"},
	"get-resource-reference":         {"resourceType": "Text", "resourceId": 1},
	"get-structured-content":         {"location": "Chicago"},
	"trigger-long-running-operation": {"duration": 0.1, "steps": 2},
	"trigger-sampling-request":       {"prompt": "hi"},
	"trigger-url-elicitation":        {"url": "https://example.com"},
	"simulate-research-query":        {"topic": "python", "ambiguous": true},
	"gzip-file-as-resource":          {"data": "data:text/plain,hello", "name": "x.gz"},
}

// TestParityWithTheReferenceServer: a client that can do all sees each of the
// reference server's tools through us and can use it, as well as its resources
// and prompts, over both transports and in both eras.
func TestParityWithTheReferenceServer(t *testing.T) {
	node, err := exec.LookPath("node")
	index := os.Getenv("TOOLGATE_EVERYTHING")
	if err != nil || index == "" {
		if os.Getenv("REQUIRE_NODE") != "" {
			t.Fatal("REQUIRE_NODE is set, and node or TOOLGATE_EVERYTHING is missing")
		}
		t.Skip("needs node, and TOOLGATE_EVERYTHING")
	}
	config := fmt.Sprintf("[mcp_servers.everything]\ncommand = %q\nargs = [%q]\nrequired = true\nsandbox = \"none\"\nname_budget = 64\ndefault_tools_approval_mode = \"approve\"\n", node, index)
	stdio := func(t *testing.T) mcp.Transport {
		home := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600))
		cmd := exec.Command(ownBinary(t))
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TOOLGATE_HOME="+home)
		cmd.Stderr = os.Stderr
		return &mcp.CommandTransport{Command: cmd}
	}
	overHTTP := func(t *testing.T) mcp.Transport {
		return &mcp.StreamableClientTransport{Endpoint: startWeb(t, config).url + "/mcp", HTTPClient: &http.Client{Transport: withToken{}}}
	}
	for _, tt := range []struct {
		name    string
		connect func(*testing.T) mcp.Transport
	}{{"stdio", stdio}, {"http", overHTTP}} {
		for _, era := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(tt.name+"/"+era, func(t *testing.T) {
				t.Parallel() // a tool of it takes its time
				useEverything(t, tt.connect(t), era)
			})
		}
	}
}

// withToken sends the token of [startWeb].
type withToken struct{}

func (withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+webToken)
	return http.DefaultTransport.RoundTrip(r)
}

func useEverything(t *testing.T, transport mcp.Transport, era string) {
	var mu sync.Mutex
	asked := map[string]bool{}
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		asked[what] = true
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "full", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
		},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			note("elicitation " + cmp.Or(r.Params.Mode, "form"))
			return &mcp.ElicitResult{Action: "accept", Content: filledIn(r.Params.RequestedSchema)}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			note("sampling")
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "sampled"}}, nil
		},
	})
	client.AddRoots(&mcp.Root{URI: "file:///r", Name: "r"})
	cs, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: era})
	require.NoError(t, err)
	defer cs.Close()
	require.Equal(t, era, cs.InitializeResult().ProtocolVersion)

	var tools []string
	for tool, err := range cs.Tools(t.Context(), nil) {
		require.NoError(t, err)
		if strings.HasPrefix(tool.Name, "mcp__everything__") {
			tools = append(tools, tool.Name)
		}
	}
	require.GreaterOrEqual(t, len(tools), 16, "%q", tools)
	for _, name := range tools {
		raw := strings.ReplaceAll(strings.TrimPrefix(name, "mcp__everything__"), "_", "-")
		args := everythingArgs[raw]
		if args == nil {
			args = map[string]any{}
		}
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
		require.NoError(t, err, name)
		text := ""
		for _, c := range res.Content {
			if c, ok := c.(*mcp.TextContent); ok {
				text += c.Text
			}
		}
		require.False(t, res.IsError, "%s: %s", name, text)
		require.NotEmpty(t, res.Content, name)
		if raw == "trigger-sampling-request" {
			require.Contains(t, text, "sampled")
		}
	}
	require.True(t, asked["sampling"])
	require.True(t, asked["elicitation form"])
	require.True(t, asked["elicitation url"])

	resources, err := cs.ListResources(t.Context(), nil)
	require.NoError(t, err)
	require.NotEmpty(t, resources.Resources)
	read, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: resources.Resources[0].URI})
	require.NoError(t, err)
	require.NotEmpty(t, read.Contents)
	templates, err := cs.ListResourceTemplates(t.Context(), nil)
	require.NoError(t, err)
	require.NotEmpty(t, templates.ResourceTemplates)
	prompts, err := cs.ListPrompts(t.Context(), nil)
	require.NoError(t, err)
	require.NotEmpty(t, prompts.Prompts)
	for _, p := range prompts.Prompts {
		args := map[string]string{}
		for _, a := range p.Arguments {
			args[a.Name] = "1"
			if strings.Contains(strings.ToLower(a.Name), "type") {
				args[a.Name] = "Text"
			}
		}
		got, err := cs.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: p.Name, Arguments: args})
		require.NoError(t, err, p.Name)
		require.NotEmpty(t, got.Messages, p.Name)
	}
}

// filledIn fills a form in with what it asks for.
func filledIn(schema any) map[string]any {
	var form struct {
		Required   []string
		Properties map[string]struct {
			Type  string
			Enum  []any
			OneOf []struct{ Const any }
		}
	}
	b, err := json.Marshal(schema)
	if err != nil || json.Unmarshal(b, &form) != nil {
		return nil
	}
	content := map[string]any{}
	for _, name := range form.Required {
		switch p := form.Properties[name]; {
		case len(p.Enum) > 0:
			content[name] = p.Enum[0]
		case len(p.OneOf) > 0:
			content[name] = p.OneOf[0].Const
		case p.Type == "boolean":
			content[name] = true
		case p.Type == "number", p.Type == "integer":
			content[name] = 1
		default:
			content[name] = "Ada"
		}
	}
	return content
}
