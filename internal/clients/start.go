package clients

import (
	"errors"
	"maps"
)

// A Start is how a client reaches a server: by a command, or at a URL.
type Start struct {
	Command string
	Args    []string
	URL     string
}

// TokenVariable is the variable that holds the token for a server at a URL.
const TokenVariable = "TOOLGATE_HTTP_TOKEN"

// ErrNoHTTP says that a client's file can name no server at a URL.
var ErrNoHTTP = errors.New("it takes servers at a URL only through its own settings")

// Table returns what the client's file says of a server called name that
// starts like s, in the client's own keys. It is what works best there; the
// keys of old, which may be nil, are kept where they say something else.
func (c Client) Table(name string, s Start, old map[string]any) (map[string]any, error) {
	t := map[string]any{}
	if s.URL != "" {
		if err := c.remote(t, s.URL); err != nil {
			return nil, err
		}
	} else {
		t["command"] = s.Command
		if len(s.Args) > 0 {
			t["args"] = s.Args
		}
	}
	stdio := s.URL == ""
	switch c.Name {
	case "claude-code", "vscode":
		if stdio {
			t["type"] = "stdio"
		}
	case "codex":
		// Codex waits about a second for a server that is not required, and
		// would ask, or refuse, before toolgate knows of the call.
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
	kept := maps.Clone(old)
	for _, key := range []string{"command", "cmd", "args", "url", "httpUrl", "serverUrl", "uri", "type", "headers", "bearer_token_env_var", "env_keys"} {
		delete(kept, key)
	}
	if kept != nil {
		maps.Copy(kept, t)
		t = kept
	}
	return t, nil
}

// remote writes the URL in the client's way, and where the client finds the
// token: a file that lists servers is no place for one.
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
		t["type"], t["uri"], t["headers"], t["env_keys"] = "streamable_http", url, bearer("$"+TokenVariable), []string{TokenVariable}
	case "vscode":
		t["type"], t["url"], t["headers"] = "http", url, bearer("${env:"+TokenVariable+"}")
	case "windsurf":
		t["serverUrl"], t["headers"] = url, bearer("${env:"+TokenVariable+"}")
	default:
		t["url"] = url
	}
	return nil
}

// NeedsToken reports whether the client's file can name no variable for the
// token of a server at a URL, so that its user must enter it.
func (c Client) NeedsToken() bool { return c.Name == "zed" }

// StartOf returns how the client's file says that a server starts.
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
