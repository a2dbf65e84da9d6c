// Package tools defines the contract of a built-in tool: its definition and arguments,
// what a call would do, and how to run it.
//
//	// Tool is grep_files.
//	var Tool = tools.New(tools.Def{Name: "grep_files", …}, describe, run)
//
// describe runs in the gate and has no side effects. run runs in the worker, inside the
// sandbox, with the workspace as its working folder. Relative paths mean the same to
// both. Calls with wrong, missing or unknown arguments reach neither. The server passes
// what a model sends through [Tool.Canonical] first.
package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
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

	// EditSchema, if set, changes the schema derived from the arguments. An
	// argument that it removes is neither published nor named in errors, but
	// accepted.
	EditSchema func(*jsonschema.Schema)
}

// A Tool is one built-in tool. Make one with [New].
type Tool struct {
	def       Def
	fields    []field                              // of the arguments
	published func() *jsonschema.Schema            // computed on first use
	accepted  func() map[string]*jsonschema.Schema // of all arguments, published or not
	schema    func() json.RawMessage               // the same as JSON
	describe  func(json.RawMessage) (policy.Action, error)
	run       func(context.Context, *Call, json.RawMessage) (*mcp.CallToolResult, error)
	end       func() // may be nil
}

// New returns the tool whose arguments are the fields of In, from which it derives the
// schema: a field without omitempty is required, and its jsonschema tag is its
// description. [Tool.MCP] panics if In has no schema.
//
// An error of describe or run is for the model: it becomes a tool result with IsError,
// prefixed with the name of the tool. A call that describe rejects does not reach run.
func New[In any](
	def Def,
	describe func(In) (policy.Action, error),
	run func(context.Context, In) (*mcp.CallToolResult, error),
) Tool {
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

// Describe returns what a call with these arguments would do. Its errors are for the
// model.
func (t Tool) Describe(args json.RawMessage) (a policy.Action, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("bug in toolgate, the call was not made: %v", p)
		}
	}()
	return t.describe(args)
}

// Run runs a call and always returns a result. An error of the tool becomes a result
// with IsError that begins with the name of the tool.
func (t Tool) Run(ctx context.Context, args json.RawMessage) *mcp.CallToolResult {
	return t.RunCall(ctx, nil, args)
}

// RunCall is [Tool.Run] with a Call, which may be nil.
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

// Text returns a result with s as its only content. Invalid UTF-8 is replaced.
func Text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.ToValidUTF8(s, "\uFFFD")}}}
}

// Error returns the result for a failed call of the named tool. If err wraps a
// [*Denial], the result's _meta has it too.
func Error(name string, err error) *mcp.CallToolResult {
	res := Text(name + ": " + err.Error())
	res.IsError = true
	if d, ok := errors.AsType[*Denial](err); ok {
		MarkDenied(res, d)
	}
	return res
}

// A Denial describes what the sandbox refused. A tool's run may return it as an error.
type Denial = policy.Denial

// MarkDenied sets d in the result's _meta. The gate removes it.
func MarkDenied(res *mcp.CallToolResult, d *Denial) { mark(res, policy.DeniedKey, d) }

func mark(res *mcp.CallToolResult, key string, value any) {
	if res.Meta == nil {
		res.Meta = mcp.Meta{}
	}
	res.Meta[key] = value
}

// decode decodes args into in, a pointer to a struct with these fields. Unknown arguments,
// wrong types and missing required arguments are errors, with what
// published returns. Empty args mean {}.
func decode(args json.RawMessage, in any, fields []field, published func() string) error {
	trimmed := bytes.TrimSpace(args)
	if len(trimmed) == 0 || string(trimmed) == "null" {
		trimmed = []byte("{}")
	}
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	if trimmed[0] != '{' {
		return fmt.Errorf("arguments must be a JSON object with %s", published())
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(trimmed, &given); err != nil {
		return fmt.Errorf("arguments are not valid JSON: %w", err)
	}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("unknown argument %s; the arguments are %s", strings.Join(unknown, ", "), published())
	}
	for _, f := range fields {
		if v, ok := given[f.name]; f.required && (!ok || string(v) == "null") {
			return fmt.Errorf("missing argument %q; the arguments are %s", f.name, published())
		}
	}
	if err := json.Unmarshal(trimmed, in); err != nil {
		return decodeError(err, names)
	}
	return nil
}

// decodeError returns an error of encoding/json in words for the model.
func decodeError(err error, known []string) error {
	te, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	name := te.Field
	if first, _, nested := strings.Cut(name, "."); nested && !slices.Contains(known, first) {
		name = name[strings.LastIndexByte(name, '.')+1:] // drop the Go name of an embedded struct
	}
	return fmt.Errorf("argument %q must be %s, not %s", name, typeWord(te.Type), jsonWord(te.Value))
}

// typeWord returns the name of t for the model.
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

// jsonWord returns encoding/json's description of a value, such as "number 1.5", with
// an article.
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

// A field is a field of a struct of arguments.
type field struct {
	reflect.StructField
	name     string // in JSON
	required bool
}

// fieldsOf returns the fields of t and of the structs that it embeds, in order.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for _, f := range reflect.VisibleFields(t) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" || name == "-" {
			continue
		}
		required := !strings.Contains(opts, "omitempty") && !strings.Contains(opts, "omitzero")
		fields = append(fields, field{f, name, required})
	}
	return fields
}

// schemaFor returns the input schema of In in a form that every client accepts: an
// object with properties and required, where each property has one type and a
// description. It has no unions and no boolean schemas, and does not forbid other
// properties: [Tool.Canonical] takes some. all has the properties before Def.EditSchema.
// schemaFor panics if In has no schema.
func schemaFor[In any](def Def, fields []field) (s *jsonschema.Schema, all map[string]*jsonschema.Schema) {
	s, err := jsonschema.For[In](nil)
	if err != nil {
		panic(fmt.Sprintf("tools.New: %s: %v", def.Name, err))
	}
	plain(s)
	for _, f := range fields {
		if a, ok := reflect.Zero(f.Type).Interface().(Argument); ok {
			a.EditSchema(s.Properties[f.name])
		}
	}
	all = maps.Clone(s.Properties)
	if def.EditSchema != nil {
		def.EditSchema(s)
	}
	return s, all
}

// encode returns the schema as it is published.
func encode(s *jsonschema.Schema) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic("tools.New: " + err.Error())
	}
	if len(s.Properties) == 0 {
		// Some clients refuse an object schema without properties.
		b = append(b[:len(b)-1], `,"properties":{}}`...)
	}
	return b
}

// plain removes "null" from the types that jsonschema.For generates for slices, maps and
// pointers.
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
