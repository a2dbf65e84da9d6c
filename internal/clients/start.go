package clients

import (
	"errors"
	"slices"
)

// A Start is how a client reaches a server: it runs a command or connects to a URL.
type Start struct {
	Command string
	Args    []string
	URL     string
}

// TokenVariable is the environment variable that holds the token for a URL.
const TokenVariable = "TOOLGATE_HTTP_TOKEN"

// ErrNoHTTP is returned for a client whose config file does not support URLs.
var ErrNoHTTP = errors.New("servers at a URL can only be added in the client's settings")

// Table returns the entry for the server name in the client's own schema, with
// the settings that suit the client best. Other keys of the existing entry old,
// which may be nil, are kept.
func (c Client) Table(name string, s Start, old map[string]any) (map[string]any, error) {
	t := map[string]any{}
	stdio := s.URL == ""
	if stdio {
		t["command"] = s.Command
		if len(s.Args) > 0 {
			t["args"] = s.Args
		}
	} else if err := c.remote(t, s.URL); err != nil {
		return nil, err
	}
	switch c.Name {
	case "claude-code", "vscode":
		if stdio {
			t["type"] = "stdio"
		}
	case "codex":
		// Codex waits only about a second for a server that is not required, and
		// without "approve" it asks or refuses before toolgate sees the call.
		t["required"] = true
		if old["default_tools_approval_mode"] == nil {
			t["default_tools_approval_mode"] = "approve"
		}
	case "copilot":
		if stdio {
			t["type"] = "local"
		}
		if old["tools"] == nil {
			t["tools"] = []string{"*"}
		}
	case "goose":
		if stdio {
			t["cmd"] = s.Command
			delete(t, "command")
			t["type"] = "stdio"
			if t["args"] == nil {
				t["args"] = []string{}
			}
		}
		t["enabled"], t["name"] = true, name
		for key, v := range map[string]any{"description": "", "timeout": 300} {
			if old[key] == nil {
				t[key] = v
			}
		}
	case "zed":
		t["source"] = "custom"
	}
	for key, v := range old {
		if _, ours := t[key]; !ours && !slices.Contains(startKeys, key) {
			t[key] = v
		}
	}
	return t, nil
}

// startKeys are the keys that say how a server starts, in any client's schema.
var startKeys = []string{
	"command", "cmd", "args", "url", "httpUrl", "serverUrl", "uri", "type", "headers",
	"bearer_token_env_var", "env_keys",
}

// remote puts the URL into t, and a reference to the variable that holds the
// token. The token itself does not belong in a config file.
func (c Client) remote(t map[string]any, url string) error {
	bearer := func(variable string) map[string]string {
		return map[string]string{"Authorization": "Bearer " + variable}
	}
	switch c.Name {
	case "claude-desktop":
		return ErrNoHTTP
	case "claude-code", "copilot":
		t["type"], t["url"], t["headers"] = "http", url, bearer("${"+TokenVariable+"}")
	case "codex":
		t["url"], t["bearer_token_env_var"] = url, TokenVariable
	case "cursor":
		t["url"], t["headers"] = url, bearer("${env:"+TokenVariable+"}")
	case "gemini":
		t["httpUrl"], t["headers"] = url, bearer("$"+TokenVariable)
	case "goose":
		t["type"], t["uri"], t["headers"] = "streamable_http", url, bearer("$"+TokenVariable)
		t["env_keys"] = []string{TokenVariable}
	case "vscode":
		t["type"], t["url"], t["headers"] = "http", url, bearer("${env:"+TokenVariable+"}")
	case "windsurf":
		t["serverUrl"], t["headers"] = url, bearer("${env:"+TokenVariable+"}")
	default:
		t["url"] = url
	}
	return nil
}

// NeedsToken reports whether the client's config cannot reference a variable, so
// that the user must enter the token for a URL.
func (c Client) NeedsToken() bool { return c.Name == "zed" }

// StartOf returns how the entry of a client's config starts the server.
func StartOf(table map[string]any) Start {
	text := func(keys ...string) string {
		for _, key := range keys {
			if s, ok := table[key].(string); ok && s != "" {
				return s
			}
		}
		return ""
	}
	s := Start{Command: text("command", "cmd"), URL: text("httpUrl", "serverUrl", "uri", "url")}
	args, _ := table["args"].([]any)
	for _, a := range args {
		if word, ok := a.(string); ok {
			s.Args = append(s.Args, word)
		}
	}
	return s
}
