package clients

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// setCodex replaces, adds or, for a nil table, removes a server of the TOML.
// What it takes for the server's lines is checked: the result must differ from
// the text in this server alone.
func setCodex(text []byte, name string, table map[string]any) ([]byte, error) {
	var before, after map[string]any
	if err := toml.Unmarshal(text, &before); err != nil {
		return nil, err
	}
	written, err := codexTable(name, table, newline(text))
	if err != nil {
		return nil, err
	}
	out := replaceTables(string(text), name, written)
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

// codexTable returns the server's lines, "" for a nil table.
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

// replaceTables returns text with written in the place of the server's tables,
// or at its end. Comments and empty lines behind a table's last key stay: they
// mostly speak of what follows.
func replaceTables(text, name, written string) string {
	var out strings.Builder
	var behind []string // lines since the last key of a table of ours
	inside, done := false, written == ""
	for line := range strings.Lines(text) {
		t := strings.TrimSpace(line)
		if strings.HasPrefix(t, "[") {
			inside = isTableOf(t, name)
			if inside && !done {
				out.WriteString(strings.Join(behind, "") + written)
				behind, done = nil, true
			}
		}
		switch {
		case !inside:
			out.WriteString(strings.Join(behind, "") + line)
			behind = nil
		case t == "" || strings.HasPrefix(t, "#"):
			behind = append(behind, line)
		default:
			behind = nil
		}
	}
	rest := out.String()
	if inside && written == "" && len(behind) == 0 {
		// The empty line that set the last table apart.
		for _, end := range []string{"\r\n", "\n"} {
			if strings.HasSuffix(rest, end+end) {
				rest = strings.TrimSuffix(rest, end)
				break
			}
		}
	}
	rest += strings.Join(behind, "")
	if done {
		return rest
	}
	nl := newline([]byte(text))
	if rest != "" && !strings.HasSuffix(rest, "\n") {
		rest += nl
	}
	if rest != "" {
		rest += nl
	}
	return rest + written
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

// isTableOf reports whether the line opens [mcp_servers.NAME] or a table below
// it.
func isTableOf(line, name string) bool {
	for _, quoted := range []string{name, `"` + name + `"`, "'" + name + "'"} {
		head := "[mcp_servers." + quoted
		if strings.HasPrefix(line, head+"]") || strings.HasPrefix(line, head+".") {
			return true
		}
	}
	return false
}
