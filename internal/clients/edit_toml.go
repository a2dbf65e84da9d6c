package clients

import (
	"fmt"
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
	written := ""
	if table != nil {
		b, err := toml.Marshal(map[string]any{"mcp_servers": map[string]any{name: table}})
		if err != nil {
			return nil, err
		}
		written = strings.ReplaceAll(strings.TrimPrefix(string(b), "[mcp_servers]\n"), "\n", newline(text))
	}
	out := config.ReplaceServer(string(text), name, written)
	if err := toml.Unmarshal([]byte(out), &after); err != nil {
		return nil, fmt.Errorf("the server %s cannot be written as a table of its own: %w", name, err)
	}
	servers, _ := after["mcp_servers"].(map[string]any)
	_, there := servers[name]
	if there != (table != nil) || !sameBut(before, after, []string{"mcp_servers", name}) {
		return nil, fmt.Errorf("the server %s is not written as a table of its own; change it by hand", name)
	}
	return []byte(out), nil
}
