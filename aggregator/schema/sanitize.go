// Package schema gives the tools of downstream servers names and input schemas
// that every client accepts.
//
// [PublicName] names a tool, [Sanitize] cleans its input schema, and [Adapt]
// narrows the result to what a client's model API takes. Schemas are only ever
// loosened: the server still checks its arguments.
package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// Limits of an input schema. A schema beyond them is an error.
const (
	maxBytes = 512 << 10
	maxDepth = 64

	// Branches at the root may refer to the root itself, or to large schemas.
	maxBranches    = 1000
	maxBranchBytes = 8 << 20
)

// Sanitize returns schema in a form that every known client accepts: an object with
// properties, without unions or references at its root, without boolean schemas, with
// a type wherever one can be inferred. Over any other form some clients drop the
// tool, and some all tools of the server.
//
// The result accepts at least what schema accepts. renamed maps each root property
// that had to be renamed to its raw name, for [RestoreArguments].
func Sanitize(schema json.RawMessage) (clean json.RawMessage, renamed map[string]string, err error) {
	switch rawjson.Kind(schema) {
	case 0, 'n', 't': // absent, null or true: no constraint
		return json.RawMessage(`{"type":"object","properties":{}}`), nil, nil
	case '{':
	default:
		return nil, nil, errors.New("inputSchema is not an object")
	}
	if len(schema) > maxBytes {
		return nil, nil, fmt.Errorf("inputSchema is %d bytes long, more than %d", len(schema), maxBytes)
	}
	root, err := rawjson.Parse(schema)
	if err != nil {
		return nil, nil, fmt.Errorf("inputSchema: %w", err)
	}
	c := sanitizer{source: schema}
	root, err = c.flattenRoot(root, 0)
	if err != nil {
		return nil, nil, err
	}
	t := root.Get("type")
	if t != nil && root.Text("type") != "object" && !slices.Contains(rawjson.Strings(t), "object") {
		return nil, nil, fmt.Errorf("inputSchema has type %s, not object", t)
	}
	root, err = c.object(root, 0)
	if err != nil {
		return nil, nil, err
	}
	root.Delete("$schema", "$id", "id", "$anchor", "not", "if", "then", "else", "enum", "const")
	root.Set("type", json.RawMessage(`"object"`))
	root.Default("properties", json.RawMessage("{}"))
	renamed = renameProperties(&root)
	return root.Bytes(), renamed, nil
}

// A sanitizer sanitizes one schema.
type sanitizer struct {
	source json.RawMessage // unchanged, to resolve references

	branches, bytes int // totals of the branches of the root
}

// flattenRoot resolves a reference at the root and merges the branches of allOf, anyOf
// and oneOf into it.
func (c *sanitizer) flattenRoot(root rawjson.Object, depth int) (rawjson.Object, error) {
	for hops := 0; root.Get("$ref") != nil; hops++ {
		target, ok := c.resolve(root.Text("$ref"))
		if !ok || hops > 8 {
			return nil, fmt.Errorf("inputSchema refers to %s, which does not exist", root.Get("$ref"))
		}
		c.bytes += len(target)
		inner, err := rawjson.Parse(target)
		if err != nil {
			return nil, fmt.Errorf("inputSchema: %w", err)
		}
		root = withSiblings(inner, root)
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		branches := rawjson.List(root.Get(key))
		root.Delete(key)
		if len(branches) == 0 {
			continue
		}
		if err := c.mergeBranches(&root, branches, key == "allOf", depth+1); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// withSiblings returns target with the members that stand beside $ref in o, which apply too.
func withSiblings(target, o rawjson.Object) rawjson.Object {
	o.Delete("$ref")
	for _, f := range o {
		target.Set(f.Key, f.Value)
	}
	return target
}

// mergeBranches merges the properties of branches into root. A property is required
// if some branch requires it (all set), or every branch does.
func (c *sanitizer) mergeBranches(root *rawjson.Object, branches []json.RawMessage, all bool, depth int) error {
	props, _ := rawjson.Parse(root.Get("properties"))
	required := rawjson.Strings(root.Get("required"))
	var common []string
	for i, b := range branches {
		c.branches++
		c.bytes += len(b)
		if depth > maxDepth || c.branches > maxBranches || c.bytes > maxBranchBytes {
			return errors.New("inputSchema has too many branches at its root, or they refer to themselves")
		}
		branch, err := rawjson.Parse(b)
		if err != nil {
			continue // a boolean schema: nothing to merge
		}
		if branch, err = c.flattenRoot(branch, depth); err != nil {
			return err
		}
		inner, _ := rawjson.Parse(branch.Get("properties"))
		for _, f := range inner {
			props.Default(f.Key, f.Value)
		}
		need := rawjson.Strings(branch.Get("required"))
		if all || i == 0 {
			common = append(common, need...)
		} else {
			common = slices.DeleteFunc(common, func(s string) bool { return !slices.Contains(need, s) })
		}
	}
	required = appendMissing(required, common)
	root.Set("properties", props.Bytes())
	root.Delete("additionalProperties") // it excluded the properties of branches
	if len(required) > 0 {
		root.Set("required", rawjson.StringArray(required))
	}
	return nil
}

// schema sanitizes a schema below the root. ok is false for the boolean schema false,
// which no value matches.
func (c *sanitizer) schema(v json.RawMessage, depth int) (clean json.RawMessage, ok bool, err error) {
	if depth > maxDepth {
		return nil, false, fmt.Errorf("inputSchema is nested more than %d deep", maxDepth)
	}
	switch rawjson.Kind(v) {
	case 'f':
		return nil, false, nil
	case '{':
	default:
		return json.RawMessage("{}"), true, nil
	}
	o, err := rawjson.Parse(v)
	if err != nil {
		return nil, false, fmt.Errorf("inputSchema: %w", err)
	}
	if ref := o.Get("$ref"); ref != nil {
		if _, ok := c.resolve(rawjson.Text(ref)); !ok {
			o.Delete("$ref")
		}
	}
	o, err = c.object(o, depth)
	if err != nil {
		return nil, false, err
	}
	inferType(&o)
	setDefaults(&o)
	return o.Bytes(), true, nil
}

// setDefaults gives an array its items and an object its properties.
func setDefaults(o *rawjson.Object) {
	switch o.Text("type") {
	case "array":
		o.Default("items", json.RawMessage(`{"type":"string"}`))
	case "object":
		o.Default("properties", json.RawMessage("{}"))
	}
}

// object sanitizes the keywords of o and the schemas in them.
func (c *sanitizer) object(o rawjson.Object, depth int) (rawjson.Object, error) {
	if v := o.Get("const"); v != nil {
		o.Default("enum", rawjson.Array([]json.RawMessage{v}))
		o.Delete("const")
	}
	sanitizeType(&o)
	for _, key := range []string{"exclusiveMinimum", "exclusiveMaximum"} {
		if k := rawjson.Kind(o.Get(key)); k == 't' || k == 'f' { // draft 4
			o.Delete(key)
		}
	}
	o.Delete("$schema", "nullable", "not", "if", "then", "else",
		"unevaluatedProperties", "unevaluatedItems", "contentSchema")
	for _, key := range []string{"description", "title"} {
		if v := o.Get(key); v != nil && rawjson.Kind(v) != '"' {
			o.Delete(key)
		}
	}
	tuples(&o)
	o, err := mapSubschemas(o, func(v json.RawMessage) (json.RawMessage, bool, error) { return c.schema(v, depth+1) })
	sanitizeRequired(&o)
	return o, err
}

// sanitizeType removes unknown types. A list of one type becomes that type.
func sanitizeType(o *rawjson.Object) {
	types := rawjson.Strings(o.Get("type"))
	if name := o.Text("type"); name != "" {
		types = []string{name}
	}
	known := []string{"string", "number", "integer", "boolean", "array", "object", "null"}
	types = slices.DeleteFunc(types, func(name string) bool { return !slices.Contains(known, name) })
	switch len(types) {
	case 0:
		o.Delete("type")
	case 1:
		o.Set("type", rawjson.Quote(types[0]))
	default:
		o.Set("type", rawjson.StringArray(types))
	}
}

// inferType sets the type of o if its other keywords imply one, as Codex does.
func inferType(o *rawjson.Object) {
	has := func(keys ...string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return o.Get(k) != nil })
	}
	if has("type") || has(combining...) {
		return
	}
	name := ""
	switch {
	case has("enum"):
		name = typeOfAll(rawjson.List(o.Get("enum")))
	case has("properties", "additionalProperties", "required"):
		name = "object"
	case has("items", "prefixItems", "minItems", "maxItems"):
		name = "array"
	case has("format", "pattern", "minLength", "maxLength"):
		name = "string"
	case has("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
		name = "number"
	}
	if name != "" {
		o.Set("type", rawjson.Quote(name))
	}
}

// typeOfAll returns the JSON Schema type that all values have, "" for none.
func typeOfAll(values []json.RawMessage) string {
	types := map[byte]string{'"': "string", 't': "boolean", 'f': "boolean", 'n': "null", '{': "object", '[': "array"}
	name := ""
	for _, v := range values {
		n := cmp.Or(types[rawjson.Kind(v)], "number")
		if n == "number" && !bytes.ContainsAny(v, ".eE") {
			n = "integer"
		}
		if name != "" && n != name {
			return ""
		}
		name = n
	}
	return name
}

// tuples replaces a tuple, an array with a schema for each position, by an array whose
// elements may match any of these schemas.
func tuples(o *rawjson.Object) {
	positions := rawjson.List(o.Get("prefixItems"))
	if list := rawjson.List(o.Get("items")); list != nil {
		positions = list
		o.Delete("items")
	}
	o.Delete("prefixItems", "additionalItems")
	if k := rawjson.Kind(o.Get("items")); k == 't' || k == 'f' {
		o.Delete("items")
	}
	if len(positions) == 0 {
		return
	}
	if rest := o.Get("items"); rest != nil {
		positions = append(positions, rest)
	}
	items := positions[0]
	if slices.ContainsFunc(positions, func(v json.RawMessage) bool { return !bytes.Equal(v, items) }) {
		items = rawjson.Object{{Key: "anyOf", Value: rawjson.Array(positions)}}.Bytes()
	}
	o.Set("items", items)
}

// A subschemaFunc returns a schema in another form. ok is false for one that is to be
// dropped.
type subschemaFunc func(v json.RawMessage) (clean json.RawMessage, ok bool, err error)

// mapSubschemas returns o with do applied to its direct subschemas. Keywords whose values
// are not schemas are removed.
func mapSubschemas(o rawjson.Object, do subschemaFunc) (rawjson.Object, error) {
	out := make(rawjson.Object, 0, len(o))
	for _, f := range o {
		var err error
		switch kind := rawjson.Kind(f.Value); f.Key {
		case "properties", "$defs", "definitions", "patternProperties", "dependentSchemas":
			f.Value, err = mapNamed(f, do)
		case "items", "additionalProperties", "contains", "propertyNames":
			if kind == '{' {
				f.Value, _, err = do(f.Value)
			} else if f.Key != "additionalProperties" || kind != 't' && kind != 'f' {
				f.Value = nil
			}
		case "anyOf", "oneOf", "allOf":
			f.Value, err = mapList(f.Value, do)
		}
		if err != nil {
			return nil, err
		}
		if f.Value != nil {
			out = append(out, f)
		}
	}
	return out, nil
}

// mapNamed is [mapSubschemas] for a keyword that maps names to schemas. Only a property
// can be dropped: elsewhere a reference may lead to it.
func mapNamed(f rawjson.Field, do subschemaFunc) (json.RawMessage, error) {
	in, err := rawjson.Parse(f.Value)
	if err != nil {
		return nil, nil // not a map: the keyword is removed
	}
	out := make(rawjson.Object, 0, len(in))
	for _, e := range in {
		clean, ok, err := do(e.Value)
		if err != nil {
			return nil, err
		}
		if !ok {
			clean = json.RawMessage("{}")
		}
		if ok || f.Key != "properties" {
			out = append(out, rawjson.Field{Key: e.Key, Value: clean})
		}
	}
	return out.Bytes(), nil
}

// mapList is [mapSubschemas] for a keyword that is a list of schemas.
func mapList(v json.RawMessage, do subschemaFunc) (json.RawMessage, error) {
	var out []json.RawMessage
	for _, e := range rawjson.List(v) {
		clean, ok, err := do(e)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, clean)
		}
	}
	if out == nil {
		return nil, nil
	}
	return rawjson.Array(out), nil
}

// sanitizeRequired removes duplicates and names without a property.
func sanitizeRequired(o *rawjson.Object) {
	v := o.Get("required")
	if v == nil {
		return
	}
	props, _ := rawjson.Parse(o.Get("properties"))
	names := appendMissing(nil, rawjson.Strings(v))
	names = slices.DeleteFunc(names, func(name string) bool { return props.Get(name) == nil })
	if len(names) == 0 {
		o.Delete("required")
		return
	}
	o.Set("required", rawjson.StringArray(names))
}

// appendMissing appends to names those of more that it lacks.
func appendMissing(names, more []string) []string {
	for _, n := range more {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// resolve returns the target of a reference into the schema itself. ok is false for any
// other reference and for a missing target.
func (c *sanitizer) resolve(ref string) (json.RawMessage, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	at := c.source
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if part == "" {
			break
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if list := rawjson.List(at); list != nil {
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(list) {
				return nil, false
			}
			at = list[i]
			continue
		}
		o, err := rawjson.Parse(at)
		if err != nil || o.Get(part) == nil {
			return nil, false
		}
		at = o.Get(part)
	}
	return at, true
}

// renameProperties renames the root properties whose names model APIs reject. It
// returns the raw name of each.
func renameProperties(root *rawjson.Object) map[string]string {
	props, err := rawjson.Parse(root.Get("properties"))
	if err != nil || !slices.ContainsFunc(props, func(f rawjson.Field) bool { return !isPlainProperty(f.Key) }) {
		return nil
	}
	renamed := map[string]string{}
	required := rawjson.Strings(root.Get("required"))
	for i, f := range props {
		if isPlainProperty(f.Key) {
			continue
		}
		name := strings.Trim(policy.PlainName(f.Key), "_")
		name = name[:min(len(name), 40)]
		for base, n := name, 2; name == "" || props.Get(name) != nil; n++ {
			name = fmt.Sprintf("%s_%d", base, n)
		}
		renamed[name] = f.Key
		if at := slices.Index(required, f.Key); at >= 0 {
			required[at] = name
		}
		props[i].Key = name
	}
	root.Set("properties", props.Bytes())
	if len(required) > 0 {
		root.Set("required", rawjson.StringArray(required))
	}
	return renamed
}

// isPlainProperty reports whether model APIs accept name as a property.
func isPlainProperty(name string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
	return name != "" && len(name) <= 64 && strings.Trim(name, allowed) == ""
}

// RestoreArguments restores the raw names of renamed properties in args. Everything
// else keeps its bytes. It is an error if args has both names of a property.
func RestoreArguments(args json.RawMessage, renamed map[string]string) (json.RawMessage, error) {
	if len(renamed) == 0 {
		return args, nil
	}
	o, err := rawjson.Parse(args)
	if err != nil {
		return args, nil // the server reports the error
	}
	for i, f := range o {
		raw, ok := renamed[f.Key]
		if !ok {
			continue
		}
		if o.Get(raw) != nil {
			return nil, fmt.Errorf("%q and %q are the same argument; send %q alone", f.Key, raw, f.Key)
		}
		o[i].Key = raw
	}
	return o.Bytes(), nil
}
