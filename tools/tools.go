// Package tools holds the contract of a built-in tool: what a client sees of
// it, how its arguments are read, what it would do, and what it does.
//
//	// Tool is grep_files.
//	var Tool = tools.New(tools.Def{Name: "grep_files", …}, describe, run)
//
// describe runs in the gate and touches nothing; run runs in the worker,
// inside the sandbox, with the workspace as its working folder, so a relative
// path means the same to both. Wrong, missing or unknown arguments reach
// neither.
package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
)

// A Def describes a tool, apart from its arguments. All four hints are
// published, even when false, because clients assume the worst of a missing
// hint.
type Def struct {
	Name        string
	Title       string // for people
	Description string // for the model
	ReadOnly    bool   // changes nothing
	Destructive bool   // may overwrite or delete
	Idempotent  bool   // the same call twice is the same as once
	OpenWorld   bool   // reaches beyond this machine
	Off         bool   // not offered unless [tools] enabled names it
}

// A Tool is one built-in tool. Make one with [New].
type Tool struct {
	def      Def
	schema   func() json.RawMessage // made when first asked for
	describe func(json.RawMessage) (policy.Action, error)
	run      func(context.Context, *Call, json.RawMessage) (*mcp.CallToolResult, error)
	end      func() // may be nil
}

// New returns the tool whose arguments are the fields of In. The schema comes
// from In's fields: a field without omitempty is required, its jsonschema tag
// is its description. [Tool.MCP] panics when no schema can be made of In.
//
// An error of describe or run is what the model can mend: it becomes a tool
// result with IsError, prefixed with the tool's name.
func New[In any](def Def, describe func(In) (policy.Action, error), run func(context.Context, In) (*mcp.CallToolResult, error)) Tool {
	return NewWithCall(def, describe, func(ctx context.Context, _ *Call, in In) (*mcp.CallToolResult, error) {
		return run(ctx, in)
	})
}

// Name returns the tool's name.
func (t Tool) Name() string { return t.def.Name }

// Off reports whether the tool is off by default.
func (t Tool) Off() bool { return t.def.Off }

// MCP returns the tool as tools/list publishes it.
func (t Tool) MCP() *mcp.Tool {
	destructive, open := t.def.Destructive, t.def.OpenWorld
	return &mcp.Tool{
		Name:        t.def.Name,
		Description: t.def.Description,
		InputSchema: t.schema(),
		Annotations: &mcp.ToolAnnotations{
			Title:           t.def.Title,
			ReadOnlyHint:    t.def.ReadOnly,
			DestructiveHint: &destructive,
			IdempotentHint:  t.def.Idempotent,
			OpenWorldHint:   &open,
		},
	}
}

// Describe returns what a call with these arguments would do. Its errors are
// written for the model.
func (t Tool) Describe(args json.RawMessage) (a policy.Action, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("bug in toolgate, the call was not made: %v", p)
		}
	}()
	return t.describe(args)
}

// Run does the call and always returns a result: an error of the tool is a
// result with IsError that begins with the tool's name.
func (t Tool) Run(ctx context.Context, args json.RawMessage) *mcp.CallToolResult {
	return t.RunCall(ctx, nil, args)
}

// RunCall is [Tool.Run] for a caller that tells the tool about the call.
func (t Tool) RunCall(ctx context.Context, call *Call, args json.RawMessage) (res *mcp.CallToolResult) {
	defer func() {
		if p := recover(); p != nil {
			res = Error(t.def.Name, fmt.Errorf("bug in toolgate, nothing is known about what was done: %v", p))
		}
	}()
	res, err := t.run(ctx, call, args)
	if err != nil {
		return Error(t.def.Name, err)
	}
	return res
}

// Text returns a result that is one piece of text.
func Text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.ToValidUTF8(s, "\uFFFD")}}}
}

// Error returns the result for a failed call of the tool named name. When the
// sandbox refused something, the text says so and the result's _meta carries
// the [Denial].
func Error(name string, err error) *mcp.CallToolResult {
	res := Text(name + ": " + err.Error())
	res.IsError = true
	if d, ok := errors.AsType[*Denial](err); ok {
		MarkDenied(res, d)
	}
	return res
}

// DeniedKey is the _meta key under which a worker tells the gate that the
// sandbox refused something. The gate takes it out again.
const DeniedKey = policy.DeniedKey

// A Denial says that the sandbox refused something. As an error of a tool's
// run it makes the result say so.
type Denial = policy.Denial

// MarkDenied puts d into the result's _meta.
func MarkDenied(res *mcp.CallToolResult, d *Denial) {
	if res.Meta == nil {
		res.Meta = mcp.Meta{}
	}
	res.Meta[DeniedKey] = d
}

// An ArgumentError is an argument that does not fit, in words for the model.
type ArgumentError struct{ Msg string }

func (e *ArgumentError) Error() string { return e.Msg }

// decode reads args into in, a pointer to a struct: every argument must be
// known, of the right type, and the required ones present. Absent args count
// as {}.
func decode(args json.RawMessage, in any, required []string) error {
	trimmed := bytes.TrimSpace(args)
	if len(trimmed) == 0 || string(trimmed) == "null" {
		trimmed = []byte("{}")
	}
	known := argumentsOf(reflect.TypeOf(in).Elem())
	if trimmed[0] != '{' {
		return &ArgumentError{fmt.Sprintf("arguments must be a JSON object with %s", strings.Join(known, ", "))}
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(trimmed, &given); err != nil {
		return &ArgumentError{"arguments are not valid JSON: " + err.Error()}
	}
	var unknown []string
	for name := range given {
		if !slices.Contains(known, name) {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	if len(unknown) > 0 {
		sort.Strings(unknown)
		return &ArgumentError{fmt.Sprintf("unknown argument %s; the arguments are %s", strings.Join(unknown, ", "), strings.Join(known, ", "))}
	}
	for _, name := range required {
		if v, ok := given[name]; !ok || string(v) == "null" {
			return &ArgumentError{fmt.Sprintf("missing argument %q; the arguments are %s", name, strings.Join(known, ", "))}
		}
	}
	if err := json.Unmarshal(trimmed, in); err != nil {
		if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			name := te.Field
			if i := strings.LastIndexByte(name, '.'); i >= 0 && !slices.Contains(known, name[:strings.IndexByte(name, '.')]) {
				name = name[i+1:] // what is before it is an embedded struct's Go name
			}
			return &ArgumentError{fmt.Sprintf("argument %q must be %s, not %s", name, typeWord(te.Type), jsonWord(te.Value))}
		}
		return &ArgumentError{err.Error()}
	}
	return nil
}

// typeWord names t as a model knows it.
func typeWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint64:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}

// jsonWord turns encoding/json's word for a value, such as "number 1.5", into
// one with an article.
func jsonWord(v string) string {
	switch {
	case strings.HasPrefix(v, "number "):
		return strings.TrimPrefix(v, "number ")
	case v == "array" || v == "object":
		return "an " + v
	case v == "bool":
		return "a boolean"
	}
	return "a " + v
}

// argumentsOf returns the JSON names of t's fields in order.
func argumentsOf(t reflect.Type) []string {
	var names []string
	for f := range fields(t) {
		names = append(names, f.name)
	}
	return names
}

// requiredOf returns the names of In's arguments without omitempty.
func requiredOf[In any]() []string {
	var names []string
	for f := range fields(reflect.TypeFor[In]()) {
		if f.required {
			names = append(names, f.name)
		}
	}
	return names
}

type field struct {
	name     string
	required bool
}

func fields(t reflect.Type) func(yield func(field) bool) {
	return func(yield func(field) bool) {
		for i := range t.NumField() {
			if f := t.Field(i); f.Anonymous {
				for inner := range fields(f.Type) {
					if !yield(inner) {
						return
					}
				}
				continue
			}
			name, opts, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			required := !strings.Contains(opts, "omitempty") && !strings.Contains(opts, "omitzero")
			if !yield(field{name, required}) {
				return
			}
		}
	}
}

// schemaFor returns the input schema of In in the form that every client
// takes: an object with properties and required, each property with one type
// and a description, no unions, no boolean schemas.
func schemaFor[In any]() (json.RawMessage, error) {
	s, err := jsonschema.For[In](nil)
	if err != nil {
		return nil, err
	}
	plain(s)
	edit(s, reflect.TypeFor[In]())
	s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}} // false
	b, err := json.Marshal(s)
	if err == nil && len(s.Properties) == 0 {
		// Some clients refuse an object schema without properties.
		b = append(b[:len(b)-1], `,"properties":{}}`...)
	}
	return b, err
}

// plain takes "null" out of the types that jsonschema.For gives slices, maps
// and pointers.
func plain(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if len(s.Types) > 0 {
		s.Types = slices.DeleteFunc(s.Types, func(t string) bool { return t == "null" })
		if len(s.Types) == 1 {
			s.Type, s.Types = s.Types[0], nil
		}
	}
	if s.Type == "object" && s.AdditionalProperties != nil {
		s.AdditionalProperties = nil
	}
	plain(s.Items)
	for _, p := range s.Properties {
		plain(p)
	}
}

// edit lets the fields of t that are an [Argument] state their schema.
func edit(s *jsonschema.Schema, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			edit(s, f.Type)
			continue
		}
		if a, ok := reflect.Zero(f.Type).Interface().(Argument); ok {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			a.EditSchema(s.Properties[name])
		}
	}
}
