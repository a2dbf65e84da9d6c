package clients

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"toolgate/internal/lazyregexp"
)

// setYAML adds or replaces a Goose extension, or removes it if table is nil. It
// works on lines, because encoding with a YAML library loses comments, and
// verifies that nothing but this extension has changed.
func setYAML(text []byte, name string, table map[string]any) ([]byte, error) {
	var before, after map[string]any
	if err := yaml.Unmarshal(text, &before); err != nil {
		return nil, err
	}
	out, err := replaceExtension(string(text), name, table)
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal([]byte(out), &after); err != nil {
		return nil, fmt.Errorf("the extension %s cannot be written in place; change it by hand: %w", name, err)
	}
	extensions, _ := after["extensions"].(map[string]any)
	_, there := extensions[name]
	if there != (table != nil) || !sameBut(before, after, []string{"extensions", name}) {
		return nil, fmt.Errorf("the extension %s cannot be changed in place; change it by hand", name)
	}
	return []byte(out), nil
}

var (
	extensionsLine = lazyregexp.New(`^extensions:[ \t]*(\{[ \t]*\}[ \t]*)?(#.*)?\r?\n?$`)
	extensionsKey  = lazyregexp.New(`^["']?extensions["']?[ \t]*:`)
)

// replaceExtension returns text with the extension set to table, or removed if table is nil.
func replaceExtension(text, name string, table map[string]any) (string, error) {
	nl := newline([]byte(text))
	lines := slices.Collect(strings.Lines(text))
	head := slices.IndexFunc(lines, extensionsLine.MatchString)
	if head < 0 {
		if slices.ContainsFunc(lines, extensionsKey.MatchString) {
			return "", errors.New("the extensions are not in block style; edit them by hand")
		}
		if table == nil {
			return text, nil
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += nl
		}
		written, err := extensionLines(name, table, "  ", nl)
		return text + "extensions:" + nl + written, err
	}
	from, to, indent := extensionAt(lines, head, name)
	if table == nil {
		return strings.Join(slices.Delete(lines, from, to), ""), nil
	}
	if indent == "" {
		indent = "  "
		if i := strings.Index(lines[head], "{"); i >= 0 { // no longer empty
			lines[head] = lines[head][:i] + strings.TrimLeft(lines[head][strings.Index(lines[head], "}")+1:], " \t")
		}
	}
	written, err := extensionLines(name, table, indent, nl)
	if err != nil {
		return "", err
	}
	if from > 0 && !strings.HasSuffix(lines[from-1], "\n") {
		lines[from-1] += nl
	}
	return strings.Join(slices.Replace(lines, from, to, written), ""), nil
}

// content returns the line's indentation, and whether it holds more than space and comments.
func content(line string) (indent string, ok bool) {
	rest := strings.TrimLeft(line, " ")
	trimmed := strings.TrimSpace(rest)
	return line[:len(line)-len(rest)], trimmed != "" && trimmed[0] != '#'
}

// blockEnd returns the end of the block below line head, which is after its last line with content.
func blockEnd(lines []string, head int) int {
	outer, _ := content(lines[head])
	end := head + 1
	for i := end; i < len(lines); i++ {
		indent, ok := content(lines[i])
		if ok && len(indent) <= len(outer) {
			break
		}
		if ok {
			end = i + 1
		}
	}
	return end
}

// extensionAt returns the line range of the extension in the block below line head, which is empty at
// the end of the block if it is missing, and the indentation of the block's keys.
func extensionAt(lines []string, head int, name string) (from, to int, indent string) {
	end := blockEnd(lines, head)
	for i := head + 1; i < end; i++ {
		in, ok := content(lines[i])
		if !ok {
			continue
		}
		indent = cmp.Or(indent, in)
		key, _, _ := strings.Cut(strings.TrimSpace(lines[i]), ":")
		if in == indent && strings.Trim(strings.TrimSpace(key), `"'`) == name {
			return i, blockEnd(lines, i), indent
		}
	}
	return end, end, indent
}

var plainKey = lazyregexp.New(`^[a-zA-Z][a-zA-Z0-9_-]*$`)

// yamlWords are scalars that YAML 1.1 does not read as strings.
var yamlWords = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// extensionLines returns the extension as YAML. Its values are JSON, which is valid YAML.
func extensionLines(name string, table map[string]any, indent, newline string) (string, error) {
	var out strings.Builder
	key, err := yamlValue(name)
	if err != nil {
		return "", err
	}
	if plainKey.MatchString(name) && !slices.Contains(yamlWords, strings.ToLower(name)) {
		key = name
	}
	fmt.Fprintf(&out, "%s%s:%s", indent, key, newline)
	for _, k := range slices.Sorted(maps.Keys(table)) {
		v, err := yamlValue(table[k])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%s  %s: %s%s", indent, k, v, newline)
	}
	return out.String(), nil
}

func yamlValue(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSpace(b.String()), err
}
