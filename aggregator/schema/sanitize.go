// Package schema gives the tools of downstream servers names and input schemas
// that every client accepts.
//
// [PublicName] names a tool, [Sanitize] cleans its input schema, and [Adapt]
// narrows the result to what a client's model API takes. Schemas are only ever
// loosened: the server still checks its arguments.
package schema

import (
	"bytes"
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
	root, err = c.flattenRoot(root)
	if err != nil {
		return nil, nil, err
	}
	if t := root.Get("type"); t != nil && !allowsObject(t) {
		return nil, nil, fmt.Errorf("inputSchema has type %s, not object", t)
	}
	root, err = c.object(root, 0)
	if err != nil {
		return nil, nil, err
	}
	for _, key := range []string{"$schema", "$id", "id", "$anchor", "not", "if", "then", "else", "enum", "const"} {
		root.Delete(key)
	}
	root.Set("type", json.RawMessage(`"object"`))
	if root.Get("properties") == nil {
		root.Set("properties", json.RawMessage("{}"))
	}
	renamed = renameProperties(&root)
	return root.Bytes(), renamed, nil
}

// allowsObject reports whether t, a type or list of types, includes object.
func allowsObject(t json.RawMessage) bool {
	if rawjson.Text(t) == "object" {
		return true
	}
	return slices.ContainsFunc(rawjson.List(t), func(v json.RawMessage) bool { return rawjson.Text(v) == "object" })
}

// A sanitizer sanitizes one schema.
type sanitizer struct {
	source json.RawMessage // unchanged, to resolve references

	// Totals of flattenRoot, see count.
	depth, branches, bytes int
}

// count counts a branch of the root. It returns an error beyond the limits.
func (c *sanitizer) count(branch json.RawMessage) error {
	c.depth++
	c.branches++
	c.bytes += len(branch)
	if c.depth > maxDepth || c.branches > maxBranches || c.bytes > maxBranchBytes {
		return errors.New("inputSchema has too many branches at its root, or they refer to themselves")
	}
	return nil
}

// flattenRoot repositions a reference at the root and merges the branches of allOf, anyOf
// and oneOf into it.
func (c *sanitizer) flattenRoot(root rawjson.Object) (rawjson.Object, error) {
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
		root.Delete("$ref")
		for _, f := range root { // siblings of $ref apply too
			inner.Set(f.Key, f.Value)
		}
		root = inner
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		branches := rawjson.List(root.Get(key))
		root.Delete(key)
		if len(branches) == 0 {
			continue
		}
		if err := c.mergeBranches(&root, branches, key == "allOf"); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// mergeBranches merges the properties of branches into root. A property is required
// if some branch requires it (all set), or every branch does.
func (c *sanitizer) mergeBranches(root *rawjson.Object, branches []json.RawMessage, all bool) error {
	props, err := rawjson.Parse(root.Get("properties"))
	if err != nil {
		props = nil
	}
	required := rawjson.Strings(root.Get("required"))
	var common []string
	depth := c.depth
	defer func() { c.depth = depth }()
	for i, b := range branches {
		c.depth = depth
		if err := c.count(b); err != nil {
			return err
		}
		branch, err := rawjson.Parse(b)
		if err != nil {
			continue // a boolean schema: nothing to merge
		}
		if branch, err = c.flattenRoot(branch); err != nil {
			return err
		}
		inner, _ := rawjson.Parse(branch.Get("properties"))
		for _, f := range inner {
			if props.Get(f.Key) == nil {
				props.Set(f.Key, f.Value)
			}
		}
		need := rawjson.Strings(branch.Get("required"))
		if all || i == 0 {
			common = append(common, need...)
		} else {
			common = slices.DeleteFunc(common, func(s string) bool { return !slices.Contains(need, s) })
		}
	}
	for _, name := range common {
		if !slices.Contains(required, name) {
			required = append(required, name)
		}
	}
	root.Set("properties", props.Bytes())
	root.Delete("additionalProperties") // it excluded the properties of branches
	if len(required) > 0 {
		root.Set("required", arrayOfStrings(required))
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
	if o.Text("type") == "array" && o.Get("items") == nil {
		o.Set("items", json.RawMessage(`{"type":"string"}`))
	}
	if o.Text("type") == "object" && o.Get("properties") == nil {
		o.Set("properties", json.RawMessage("{}"))
	}
	return o.Bytes(), true, nil
}

// object sanitizes the keywords of o and the schemas in them.
func (c *sanitizer) object(o rawjson.Object, depth int) (rawjson.Object, error) {
	if rawjson.Kind(o.Get("const")) != 0 {
		if o.Get("enum") == nil {
			o.Set("enum", rawjson.Array([]json.RawMessage{o.Get("const")}))
		}
		o.Delete("const")
	}
	sanitizeType(&o)
	for _, key := range []string{"exclusiveMinimum", "exclusiveMaximum"} {
		if k := rawjson.Kind(o.Get(key)); k == 't' || k == 'f' { // draft 4
			o.Delete(key)
		}
	}
	for _, key := range []string{
		"$schema", "nullable", "not", "if", "then", "else",
		"unevaluatedProperties", "unevaluatedItems", "contentSchema",
	} {
		o.Delete(key)
	}
	for _, key := range []string{"description", "title"} {
		if v := o.Get(key); v != nil && rawjson.Kind(v) != '"' {
			o.Delete(key)
		}
	}
	if err := c.tuples(&o); err != nil {
		return nil, err
	}
	for _, key := range []string{"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"} {
		if err := c.schemaMap(&o, key, depth); err != nil {
			return nil, err
		}
	}
	for _, key := range []string{"items", "additionalProperties", "contains", "propertyNames"} {
		if err := c.single(&o, key, depth); err != nil {
			return nil, err
		}
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if err := c.union(&o, key, depth); err != nil {
			return nil, err
		}
	}
	sanitizeRequired(&o)
	return o, nil
}

// sanitizeType removes unknown types. A list of one type becomes that type.
func sanitizeType(o *rawjson.Object) {
	known := []string{"string", "number", "integer", "boolean", "array", "object", "null"}
	t := o.Get("type")
	switch rawjson.Kind(t) {
	case 0:
	case '"':
		if !slices.Contains(known, rawjson.Text(t)) {
			o.Delete("type")
		}
	case '[':
		var types []json.RawMessage
		for _, name := range rawjson.Strings(t) {
			if slices.Contains(known, name) {
				types = append(types, rawjson.Quote(name))
			}
		}
		switch len(types) {
		case 0:
			o.Delete("type")
		case 1:
			o.Set("type", types[0])
		default:
			o.Set("type", rawjson.Array(types))
		}
	default:
		o.Delete("type")
	}
}

// inferType sets the type of o if its other keywords imply one, as Codex does.
func inferType(o *rawjson.Object) {
	for _, key := range []string{"type", "$ref", "anyOf", "oneOf", "allOf"} {
		if o.Get(key) != nil {
			return
		}
	}
	has := func(keys ...string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return o.Get(k) != nil })
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
	name := ""
	for _, v := range values {
		var n string
		switch k := rawjson.Kind(v); k {
		case '"':
			n = "string"
		case 't', 'f':
			n = "boolean"
		case 'n':
			n = "null"
		case '{':
			n = "object"
		case '[':
			n = "array"
		default:
			n = "number"
			if !bytes.ContainsAny(v, ".eE") {
				n = "integer"
			}
		}
		if name != "" && n != name {
			return ""
		}
		name = n
	}
	return name
}

// tuples repositions a tuple, an array with a schema for each position, by an array whose
// elements may match any of these schemas.
func (c *sanitizer) tuples(o *rawjson.Object) error {
	positions := rawjson.List(o.Get("prefixItems"))
	if rawjson.Kind(o.Get("items")) == '[' {
		positions = rawjson.List(o.Get("items"))
		o.Delete("items")
	}
	o.Delete("prefixItems")
	o.Delete("additionalItems")
	if k := rawjson.Kind(o.Get("items")); k == 't' || k == 'f' {
		o.Delete("items")
	}
	if len(positions) == 0 {
		return nil
	}
	if rest := o.Get("items"); rest != nil {
		positions = append(positions, rest)
	}
	same := !slices.ContainsFunc(positions, func(v json.RawMessage) bool { return !bytes.Equal(v, positions[0]) })
	if same {
		o.Set("items", positions[0])
		return nil
	}
	o.Set("items", rawjson.Object{{Key: "anyOf", Value: rawjson.Array(positions)}}.Bytes())
	return nil
}

// schemaMap sanitizes a keyword that maps names to schemas.
func (c *sanitizer) schemaMap(o *rawjson.Object, key string, depth int) error {
	v := o.Get(key)
	if v == nil {
		return nil
	}
	if rawjson.Kind(v) != '{' {
		o.Delete(key)
		return nil
	}
	in, err := rawjson.Parse(v)
	if err != nil {
		return fmt.Errorf("inputSchema: %w", err)
	}
	out := rawjson.Object{}
	for _, f := range in {
		clean, ok, err := c.schema(f.Value, depth+1)
		if err != nil {
			return err
		}
		if ok {
			out = append(out, rawjson.Field{Key: f.Key, Value: clean})
		} else if key != "properties" {
			out = append(out, rawjson.Field{Key: f.Key, Value: json.RawMessage("{}")})
		}
	}
	o.Set(key, out.Bytes())
	return nil
}

// single sanitizes a keyword that is one schema. additionalProperties may be a boolean.
func (c *sanitizer) single(o *rawjson.Object, key string, depth int) error {
	v := o.Get(key)
	if v == nil {
		return nil
	}
	switch k := rawjson.Kind(v); {
	case k == '{':
	case key == "additionalProperties" && (k == 't' || k == 'f'):
		return nil
	default:
		o.Delete(key)
		return nil
	}
	clean, _, err := c.schema(v, depth+1)
	if err != nil {
		return err
	}
	o.Set(key, clean)
	return nil
}

// union sanitizes a keyword that is a list of schemas.
func (c *sanitizer) union(o *rawjson.Object, key string, depth int) error {
	v := o.Get(key)
	if v == nil {
		return nil
	}
	var branches []json.RawMessage
	for _, b := range rawjson.List(v) {
		clean, ok, err := c.schema(b, depth+1)
		if err != nil {
			return err
		}
		if ok {
			branches = append(branches, clean)
		}
	}
	if len(branches) == 0 {
		o.Delete(key)
		return nil
	}
	o.Set(key, rawjson.Array(branches))
	return nil
}

// sanitizeRequired removes duplicates and names without a property.
func sanitizeRequired(o *rawjson.Object) {
	v := o.Get("required")
	if v == nil {
		return
	}
	props, _ := rawjson.Parse(o.Get("properties"))
	var names []string
	for _, name := range rawjson.Strings(v) {
		if props.Get(name) != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		o.Delete("required")
		return
	}
	o.Set("required", arrayOfStrings(names))
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
		root.Set("required", arrayOfStrings(required))
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
