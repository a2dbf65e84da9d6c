package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"toolgate/internal/rawjson"
)

// A HeaderParam is an argument that a stateless server also wants in a header of the
// request (x-mcp-header).
type HeaderParam struct {
	header string   // without Mcp-Param-
	path   []string // of property names, from the arguments down
}

// HeaderParams returns the arguments in an input schema that go into headers. If it
// returns an error, the tool must not be used over HTTP: "clients MUST reject tool
// definitions for which any x-mcp-header value violates these constraints"
// (specification 2026-07-28, transports).
func HeaderParams(schema json.RawMessage) ([]HeaderParam, error) {
	if !rawjson.Mentions(schema, "x-mcp-header") {
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
			return nil, fmt.Errorf("two arguments have the x-mcp-header %q", h.header)
		}
		seen[name] = true
	}
	return found, nil
}

// findHeaders appends the header parameters in v to found. reached tells whether v is
// reached through properties alone.
func findHeaders(v json.RawMessage, path []string, reached bool, depth int, found *[]HeaderParam) error {
	if depth > maxDepth {
		return errors.New("inputSchema is nested too deep")
	}
	if rawjson.Kind(v) == '[' {
		for _, e := range rawjson.List(v) {
			if err := findHeaders(e, path, false, depth+1, found); err != nil {
				return err
			}
		}
		return nil
	}
	o, err := rawjson.Parse(v)
	if err != nil {
		return nil // not a schema
	}
	if o.Get("x-mcp-header") != nil {
		h, err := headerParam(o, path, reached)
		if err != nil {
			return err
		}
		*found = append(*found, h)
	}
	for _, f := range o {
		switch f.Key {
		case "enum", "const", "default", "examples", "x-mcp-header": // values, not schemas
			continue
		case "properties":
			props, _ := rawjson.Parse(f.Value)
			for _, p := range props {
				inner := append(path[:len(path):len(path)], p.Key)
				if err := findHeaders(p.Value, inner, reached, depth+1, found); err != nil {
					return err
				}
			}
			continue
		}
		if k := rawjson.Kind(f.Value); k != '{' && k != '[' {
			continue
		}
		if err := findHeaders(f.Value, path, false, depth+1, found); err != nil {
			return err
		}
	}
	return nil
}

// headerParam returns the header parameter that the schema o at path declares.
func headerParam(o rawjson.Object, path []string, reached bool) (HeaderParam, error) {
	name := o.Text("x-mcp-header")
	if !isToken(name) {
		return HeaderParam{}, fmt.Errorf("x-mcp-header %s is not a valid header name", o.Get("x-mcp-header"))
	}
	if !reached || len(path) == 0 {
		return HeaderParam{}, fmt.Errorf("x-mcp-header %q is not at an argument", name)
	}
	switch o.Text("type") {
	case "string", "integer", "boolean":
		return HeaderParam{name, slices.Clone(path)}, nil
	}
	return HeaderParam{}, fmt.Errorf("x-mcp-header %q is at an argument that is not a string, integer or boolean", name)
}

// isToken reports whether s is an HTTP token (RFC 9110).
func isToken(s string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"
	return s != "" && strings.Trim(s, allowed) == ""
}

// HeaderValues returns the headers for args, keyed by name without Mcp-Param-. args has
// the server's own property names.
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
