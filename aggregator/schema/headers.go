package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"toolgate/internal/rawjson"
)

// A HeaderParam is an argument that a server of the newer era wants to see in a
// header of the request too (x-mcp-header).
type HeaderParam struct {
	header string   // without Mcp-Param-
	path   []string // of properties, from the arguments down
}

// HeaderParams returns the arguments of a schema that go into headers. An error
// says why a client over HTTP must not use the tool: "clients MUST reject tool
// definitions for which any x-mcp-header value violates these constraints"
// (specification 2026-07-28, transports).
func HeaderParams(schema json.RawMessage) ([]HeaderParam, error) {
	if !bytes.Contains(schema, []byte(`"x-mcp-header"`)) {
		return nil, nil
	}
	var found []HeaderParam
	if err := findHeaders(schema, nil, true, 0, &found); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, h := range found {
		name := strings.ToLower(h.header)
		if seen[name] {
			return nil, fmt.Errorf("x-mcp-header %q stands at two arguments", h.header)
		}
		seen[name] = true
	}
	return found, nil
}

// findHeaders adds the header arguments in v. reached says that v is reached
// through properties alone.
func findHeaders(v json.RawMessage, path []string, reached bool, depth int, found *[]HeaderParam) error {
	if depth > maxDepth {
		return errors.New("inputSchema is nested too deep")
	}
	if rawjson.Kind(v) == '[' {
		for _, e := range rawjson.Elements(v) {
			if err := findHeaders(e, path, false, depth+1, found); err != nil {
				return err
			}
		}
		return nil
	}
	o, err := rawjson.Parse(v)
	if err != nil {
		return nil // no schema
	}
	if h := o.Get("x-mcp-header"); h != nil {
		switch name := rawjson.Text(h); {
		case !isToken(name):
			return fmt.Errorf("x-mcp-header %s is no name of a header", h)
		case !reached || len(path) == 0:
			return fmt.Errorf("x-mcp-header %q stands where no argument is", name)
		default:
			switch o.Text("type") {
			case "string", "integer", "boolean":
				*found = append(*found, HeaderParam{name, append([]string(nil), path...)})
			default:
				return fmt.Errorf("x-mcp-header %q is at an argument that is neither string, integer nor boolean", name)
			}
		}
	}
	for _, f := range o {
		switch f.Key {
		case "properties":
			props, _ := rawjson.Parse(f.Value)
			for _, p := range props {
				if err := findHeaders(p.Value, append(path[:len(path):len(path)], p.Key), reached, depth+1, found); err != nil {
					return err
				}
			}
		case "enum", "const", "default", "examples", "x-mcp-header": // values, not schemas
		default:
			if k := rawjson.Kind(f.Value); k == '{' || k == '[' {
				if err := findHeaders(f.Value, path, false, depth+1, found); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// isToken reports whether s is a token of HTTP (RFC 9110).
func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	}) < 0
}

// HeaderValues returns the headers that go with these arguments, by the
// server's own names for them.
func HeaderValues(headers []HeaderParam, args json.RawMessage) map[string]string {
	if len(headers) == 0 {
		return nil
	}
	values := map[string]string{}
	for _, h := range headers {
		v := args
		for _, key := range h.path {
			o, _ := rawjson.Parse(v)
			v = o.Get(key)
		}
		switch rawjson.Kind(v) {
		case 0, 'n', '{', '[':
		case '"':
			values[h.header] = rawjson.Text(v)
		default:
			values[h.header] = string(v)
		}
	}
	return values
}
