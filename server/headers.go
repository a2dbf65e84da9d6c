package server

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"toolgate/aggregator"
	"toolgate/internal/rawjson"
)

// A stateless client repeats in headers what proxies in between
// may want to see. Those that stand for arguments (x-mcp-header in a tool's
// schema, SEP-2243) the SDK cannot compare with the body, because it does not
// know the tools of downstream servers.

// checkParamHeaders returns what is wrong with the headers that repeat
// arguments of a tools/call, "" when they agree with the body.
func (s *Server) checkParamHeaders(h http.Header, req *jsonrpc.Request) string {
	for _, name := range []string{headerVersion, "Mcp-Method", "Mcp-Name"} {
		if len(h.Values(name)) > 1 { // a proxy may go by another than we do
			return fmt.Sprintf("header mismatch: %s must be given once", name)
		}
	}
	if req == nil || s.opts.Downstreams == nil {
		return ""
	}
	if taskMethods[req.Method] { // of this protocol version
		return checkTaskHeader(h, req)
	}
	if req.Method != "tools/call" {
		return ""
	}
	var p struct {
		Name      string                     `json:"name"`
		Arguments map[string]json.RawMessage `json:"arguments"`
	}
	if rawjson.Unmarshal(req.Params, &p) != nil {
		return "" // others say so
	}
	t, ok := s.opts.Downstreams.Tool(p.Name)
	if !ok {
		return ""
	}
	var def struct {
		Schema headerSchema `json:"inputSchema"`
	}
	if rawjson.Unmarshal(t.Definition, &def) != nil {
		return ""
	}
	return def.Schema.check(h, p.Arguments, "")
}

// headersAgree reports whether the headers that every stateless request has agree
// with its body. Which of them does not, the SDK says.
func headersAgree(h http.Header, r *request) bool {
	name := r.params.Text("name")
	switch r.method {
	case aggregator.ReadResource:
		name = r.params.Text("uri")
	case "tools/call", aggregator.GetPrompt:
	default:
		name = h.Get("Mcp-Name")
	}
	return r.stateless && h.Get(headerVersion) == statelessVersion &&
		h.Get("Mcp-Method") == r.method && h.Get("Mcp-Name") == name
}

// checkTaskHeader compares Mcp-Name with the task that a request is about.
func checkTaskHeader(h http.Header, req *jsonrpc.Request) string {
	var p struct {
		TaskID string `json:"taskId"`
	}
	if rawjson.Unmarshal(req.Params, &p) != nil || p.TaskID == "" {
		return "" // others say so
	}
	if name := h.Values("Mcp-Name"); len(name) != 1 || name[0] != p.TaskID {
		return fmt.Sprintf("header mismatch: Mcp-Name must be the task's id, and is %q", strings.Join(name, ", "))
	}
	return ""
}

// A headerSchema is what of a schema concerns headers.
type headerSchema struct {
	Header     string                  `json:"x-mcp-header"`
	Properties map[string]headerSchema `json:"properties"`
}

// UnmarshalJSON reads what it can: schemas may be true or false, and a
// x-mcp-header that is no string counts for none.
func (s *headerSchema) UnmarshalJSON(b []byte) error {
	var in struct {
		Header     json.RawMessage            `json:"x-mcp-header"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if rawjson.Unmarshal(b, &in) != nil {
		return nil
	}
	if json.Unmarshal(in.Header, &s.Header) != nil {
		s.Header = ""
	}
	for name, raw := range in.Properties {
		var p headerSchema
		if err := p.UnmarshalJSON(raw); err != nil {
			return err
		}
		if p.Header == "" && len(p.Properties) == 0 {
			continue
		}
		if s.Properties == nil {
			s.Properties = map[string]headerSchema{}
		}
		s.Properties[name] = p
	}
	return nil
}

func (s headerSchema) check(h http.Header, args map[string]json.RawMessage, path string) string {
	for name, p := range s.Properties {
		arg := args[name]
		if p.Header != "" {
			if bad := checkHeader(h, "Mcp-Param-"+p.Header, path+name, arg); bad != "" {
				return bad
			}
		}
		var inner map[string]json.RawMessage
		if len(p.Properties) > 0 && json.Unmarshal(arg, &inner) != nil {
			inner = nil // no object: as if all were missing
		}
		if bad := p.check(h, inner, path+name+"."); bad != "" {
			return bad
		}
	}
	return ""
}

// checkHeader compares one header with the argument it stands for.
func checkHeader(h http.Header, header, param string, arg json.RawMessage) string {
	given := h.Values(header)
	absent := len(arg) == 0 || string(arg) == "null"
	switch {
	case absent && len(given) > 0:
		return fmt.Sprintf("header mismatch: %s is given and the argument %q is not", header, param)
	case absent:
		return ""
	case len(given) != 1:
		return fmt.Sprintf("header mismatch: %s must be given once for the argument %q", header, param)
	}
	text, ok := decodeHeader(given[0])
	if !ok {
		return fmt.Sprintf("header mismatch: %s is not valid Base64", header)
	}
	if !sameValue(text, arg) {
		return fmt.Sprintf("header mismatch: %s differs from the argument %q", header, param)
	}
	return ""
}

// decodeHeader takes the wrapper off a value that is in Base64.
func decodeHeader(v string) (string, bool) {
	inner, ok := strings.CutPrefix(v, "=?base64?")
	if !ok {
		return v, true
	}
	if inner, ok = strings.CutSuffix(inner, "?="); !ok {
		return v, true
	}
	b, err := base64.StdEncoding.DecodeString(inner)
	return string(b), err == nil
}

// sameValue reports whether a header's text is the string, boolean or integer
// arg; integers are compared as numbers.
func sameValue(text string, arg json.RawMessage) bool {
	var str string
	if json.Unmarshal(arg, &str) == nil {
		return text == str
	}
	if string(arg) == "true" || string(arg) == "false" {
		return text == string(arg)
	}
	a, err1 := strconv.ParseFloat(text, 64)
	b, err2 := strconv.ParseFloat(string(arg), 64)
	const safe = 1<<53 - 1 // beyond it, two integers may be one float
	return err1 == nil && err2 == nil && a == b && a == math.Trunc(a) && math.Abs(a) <= safe
}
