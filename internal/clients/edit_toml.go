package clients

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"toolgate/internal/config"
)

// setCodex adds or replaces a server in Codex's TOML, or removes it if table is
// nil. It works on lines and verifies that nothing but this server has changed.
func setCodex(text []byte, name string, table map[string]any) ([]byte, error) {
	var before, after map[string]any
	if err := toml.Unmarshal(text, &before); err != nil {
		return nil, err
	}
	written, err := codexTable(name, table, newline(text))
	if err != nil {
		return nil, err
	}
	out := config.ReplaceServer(string(text), name, written)
	if err := toml.Unmarshal([]byte(out), &after); err != nil {
		return nil, fmt.Errorf("the server %s cannot be written as a table of its own: %w", name, err)
	}
	_, there := serversOf(after)[name]
	withoutServer(before, name)
	withoutServer(after, name)
	if there != (table != nil) || !reflect.DeepEqual(before, after) {
		return nil, fmt.Errorf("the server %s is not written as a table of its own; change it by hand", name)
	}
	return []byte(out), nil
}

// codexTable returns the server as TOML, or "" for a nil table.
func codexTable(name string, table map[string]any, newline string) (string, error) {
	if table == nil {
		return "", nil
	}
	b, err := toml.Marshal(map[string]any{"mcp_servers": map[string]any{name: table}})
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(strings.TrimPrefix(string(b), "[mcp_servers]\n"), "\n", newline), nil
}

func serversOf(c map[string]any) map[string]any {
	servers, _ := c["mcp_servers"].(map[string]any)
	return servers
}

func withoutServer(c map[string]any, name string) {
	servers := serversOf(c)
	delete(servers, name)
	if len(servers) == 0 {
		delete(c, "mcp_servers")
	}
}
