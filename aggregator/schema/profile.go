package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"toolgate/internal/rawjson"
)

// A Profile is the subset of JSON Schema that a client accepts in a tool's input schema.
// Anything else is removed from the schema and mentioned in descriptions. Arguments are
// not changed.
type Profile string

const (
	// Plain is the output of [Sanitize], which every known client accepts.
	Plain Profile = "default"

	// Strict has no references, no combinations except anyOf, and exactly one type
	// per schema, for model APIs that reject anything else.
	Strict Profile = "strict"

	// Gemini is Strict, limited to the keywords of the Gemini API.
	Gemini Profile = "gemini"
)

// ProfileFor returns the profile for the client that calls itself client.
func ProfileFor(client string) Profile {
	is := func(part string) bool { return strings.Contains(strings.ToLower(client), part) }
	switch {
	case is("gemini"), is("antigravity"): // gemini-cli-mcp-client
		return Gemini
	case is("kimi"), is("moonshot"):
		return Strict
	}
	return Plain
}

// Limits of the growth when references are replaced by their targets.
const (
	maxAdaptDepth = 16
	maxAdaptNodes = 2000
	maxAdaptBytes = 64 << 10 // of the input; a longer schema is shrunk first
)

// Adapt returns schema, which has been sanitized, in the form of profile p.
func Adapt(schema json.RawMessage, p Profile) json.RawMessage {
	schema, _ = Shrink(schema, maxAdaptBytes)
	f := adapter{source: sanitizer{source: schema}, profile: p}
	o, err := rawjson.Parse(f.adapt(schema, 0, nil))
	if err != nil {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	o.Set("type", json.RawMessage(`"object"`))
	o.Default("properties", json.RawMessage("{}"))
	o.Delete("anyOf", "nullable", "enum", "items")
	return o.Bytes()
}

// An adapter adapts one schema.
type adapter struct {
	source  sanitizer // resolves references
	profile Profile
	nodes   int
}

// keptKeywords are the keywords that each profile keeps.
var keptKeywords = map[Profile][]string{
	Strict: {
		"type", "description", "title", "enum", "properties", "required", "items", "anyOf", "additionalProperties",
		"minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength",
	},
	Gemini: {
		"type", "description", "title", "enum", "properties", "required", "items", "anyOf", "nullable",
		"minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength",
	},
}

// describedKeywords are the keywords that are added to the description when removed.
var describedKeywords = []string{
	"format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
	"minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "default", "enum", "examples",
}

// maxDescribed is the longest value of a keyword in a description, in bytes.
const maxDescribed = 200

// anyValue lists schemas with a type each, which together accept any value.
const anyValue = `[{"type":"string"},{"type":"number"},{"type":"boolean"},` +
	`{"type":"object","properties":{}},{"type":"array","items":{"type":"string"}}]`

// adapt returns schema v in the profile's form. within are the references that have
// been followed to v.
func (f *adapter) adapt(v json.RawMessage, depth int, within []string) json.RawMessage {
	o, err := rawjson.Parse(v)
	if f.nodes++; err != nil || depth > maxAdaptDepth || f.nodes > maxAdaptNodes {
		return f.opaque(o)
	}
	for hops := 0; o.Get("$ref") != nil; hops++ {
		ref := o.Text("$ref")
		target, ok := f.source.resolve(ref)
		inner, err := rawjson.Parse(target)
		if !ok || err != nil || hops > 8 || slices.Contains(within, ref) {
			o.Delete("$ref")
			for _, key := range []string{"type", "description"} {
				if v := inner.Get(key); v != nil {
					o.Default(key, v)
				}
			}
			return f.opaque(o)
		}
		within = append(slices.Clone(within), ref)
		o = withSiblings(inner, o)
	}
	f.mergeAllOf(&o)
	if of := rawjson.List(o.Get("oneOf")); of != nil {
		o.Set("anyOf", rawjson.Array(append(rawjson.List(o.Get("anyOf")), of...)))
		o.Delete("oneOf")
	}
	f.splitTypes(&o)
	nullable := f.removeNull(&o)
	if branches := rawjson.List(o.Get("anyOf")); len(branches) > 0 {
		return f.union(o, branches, nullable, depth, within)
	}
	if nullable && f.profile == Gemini {
		o.Set("nullable", json.RawMessage("true"))
	}
	if o.Get("type") == nil {
		inferType(&o)
	}
	if o.Get("type") == nil {
		return f.union(o, rawjson.List(json.RawMessage(anyValue)), false, depth, within)
	}
	f.children(&o, depth, within)
	f.dropKeywords(&o)
	return o.Bytes()
}

// opaque returns a schema with the type and description of o and nothing else. Without
// a type it is an object.
func (f *adapter) opaque(o rawjson.Object) json.RawMessage {
	out := rawjson.Object{{Key: "type", Value: o.Get("type")}}
	switch o.Text("type") {
	case "string", "number", "integer", "boolean":
	case "array":
		out.Set("items", json.RawMessage(`{"type":"object","properties":{}}`))
	default:
		out.Set("type", json.RawMessage(`"object"`))
		out.Set("properties", json.RawMessage("{}"))
	}
	if d := o.Get("description"); rawjson.Kind(d) == '"' {
		out.Set("description", d)
	}
	return out.Bytes()
}

// mergeAllOf merges the branches of allOf into o.
func (f *adapter) mergeAllOf(o *rawjson.Object) {
	branches := rawjson.List(o.Get("allOf"))
	o.Delete("allOf")
	for _, b := range branches {
		inner, err := rawjson.Parse(b)
		if err != nil {
			continue
		}
		if ref := inner.Text("$ref"); ref != "" {
			target, ok := f.source.resolve(ref)
			if inner, err = rawjson.Parse(target); !ok || err != nil {
				continue
			}
		}
		for _, field := range inner {
			switch field.Key {
			case "properties":
				props, _ := rawjson.Parse(o.Get("properties"))
				more, _ := rawjson.Parse(field.Value)
				for _, p := range more {
					props.Default(p.Key, p.Value)
				}
				o.Set("properties", props.Bytes())
			case "required":
				names := appendMissing(rawjson.Strings(o.Get("required")), rawjson.Strings(field.Value))
				o.Set("required", rawjson.StringArray(names))
			default:
				o.Default(field.Key, field.Value)
			}
		}
	}
	if len(branches) > 0 {
		o.Delete("additionalProperties") // it excluded the properties of branches
	}
}

// splitTypes replaces a list of types by an anyOf with a branch for each.
func (f *adapter) splitTypes(o *rawjson.Object) {
	list := rawjson.Strings(o.Get("type"))
	if rawjson.Kind(o.Get("type")) != '[' || len(list) == 0 {
		return
	}
	o.Delete("type")
	var branches []json.RawMessage
	for _, t := range list {
		branch := rawjson.Object{{Key: "type", Value: rawjson.Quote(t)}}
		for _, key := range keywordsOfType[t] {
			if v := o.Get(key); v != nil {
				branch.Set(key, v)
			}
		}
		if t != "null" {
			branches = append(branches, branch.Bytes())
		}
	}
	for _, t := range list {
		o.Delete(keywordsOfType[t]...)
	}
	if slices.Contains(list, "null") {
		branches = append(branches, json.RawMessage(`{"type":"null"}`))
	}
	o.Set("anyOf", rawjson.Array(append(rawjson.List(o.Get("anyOf")), branches...)))
}

// combining are the keywords that combine or refer to other schemas.
var combining = []string{"$ref", "anyOf", "oneOf", "allOf"}

// keywordsOfType are the keywords that apply to values of one type only.
var keywordsOfType = map[string][]string{
	"object":  {"properties", "required", "additionalProperties"},
	"array":   {"items", "minItems", "maxItems", "uniqueItems"},
	"string":  {"minLength", "maxLength", "pattern", "format"},
	"number":  {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
	"integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}

// removeNull removes null from anyOf and reports whether it was there. A single branch
// that remains is merged into o.
func (f *adapter) removeNull(o *rawjson.Object) (null bool) {
	branches := rawjson.List(o.Get("anyOf"))
	if branches == nil {
		return false
	}
	branches = slices.DeleteFunc(branches, func(b json.RawMessage) bool {
		inner, _ := rawjson.Parse(b)
		is := inner.Text("type") == "null"
		null = null || is
		return is
	})
	o.Delete("anyOf")
	switch len(branches) {
	case 0:
	case 1:
		inner, err := rawjson.Parse(branches[0])
		if err != nil {
			break
		}
		combined := slices.ContainsFunc(combining, func(k string) bool { return inner.Get(k) != nil })
		if combined || rawjson.Kind(inner.Get("type")) == '[' {
			o.Set("anyOf", rawjson.Array(branches)) // adapted as a whole
			break
		}
		for _, field := range inner {
			o.Default(field.Key, field.Value)
		}
	default:
		o.Set("anyOf", rawjson.Array(branches))
	}
	return null
}

// union returns a schema with nothing but anyOf. Branches without a description get
// the one of o.
func (f *adapter) union(
	o rawjson.Object, branches []json.RawMessage, nullable bool, depth int, within []string,
) json.RawMessage {
	f.dropKeywords(&o)
	var out []json.RawMessage
	for _, b := range branches {
		inner, err := rawjson.Parse(f.adapt(b, depth+1, within))
		if err != nil {
			continue
		}
		if nested := rawjson.List(inner.Get("anyOf")); nested != nil {
			out = append(out, nested...) // flatten nested anyOf
			continue
		}
		if inner.Get("description") == nil && o.Get("description") != nil {
			inner.Set("description", o.Get("description"))
		}
		if nullable && f.profile == Gemini {
			inner.Set("nullable", json.RawMessage("true"))
		}
		if !slices.ContainsFunc(out, func(have json.RawMessage) bool { return string(have) == string(inner.Bytes()) }) {
			out = append(out, inner.Bytes())
		}
	}
	if len(out) == 1 {
		return out[0]
	}
	if len(out) == 0 {
		return f.opaque(o)
	}
	u := rawjson.Object{{Key: "anyOf", Value: rawjson.Array(out)}}
	if d := o.Get("description"); d != nil && f.profile != Gemini {
		u = append(rawjson.Object{{Key: "description", Value: d}}, u...)
	}
	return u.Bytes()
}

// children adapts the schemas in o.
func (f *adapter) children(o *rawjson.Object, depth int, within []string) {
	if props, err := rawjson.Parse(o.Get("properties")); err == nil {
		for i := range props {
			props[i].Value = f.adapt(props[i].Value, depth+1, within)
		}
		o.Set("properties", props.Bytes())
	}
	if v := o.Get("items"); rawjson.Kind(v) == '{' {
		o.Set("items", f.adapt(v, depth+1, within))
	}
	if v := o.Get("additionalProperties"); rawjson.Kind(v) == '{' {
		if f.profile == Strict {
			o.Set("additionalProperties", f.adapt(v, depth+1, within))
		} else {
			o.Delete("additionalProperties")
		}
	}
	setDefaults(o)
	if o.Text("type") == "object" {
		sanitizeRequired(o)
	}
}

// dropKeywords removes the keywords that the profile does not have, and adds their
// values to the description.
func (f *adapter) dropKeywords(o *rawjson.Object) {
	var words []string
	keep := keptKeywords[f.profile]
	*o = slices.DeleteFunc(*o, func(field rawjson.Field) bool {
		ok := slices.Contains(keep, field.Key)
		if field.Key == "enum" && f.profile == Gemini {
			// "enum: possible values of the element of primitive type with enum format" are strings.
			ok = !slices.ContainsFunc(rawjson.List(field.Value), isNoText)
		}
		short := rawjson.Kind(field.Value) != '{' && len(field.Value) <= maxDescribed
		if !ok && short && slices.Contains(describedKeywords, field.Key) {
			words = append(words, fmt.Sprintf("%s: %s", field.Key, field.Value))
		}
		return !ok
	})
	if len(words) == 0 {
		return
	}
	text := "(" + strings.Join(words, ", ") + ")"
	if d := o.Text("description"); d != "" {
		text = d + " " + text
	}
	o.Set("description", rawjson.Quote(text))
}

// isNoText reports whether v is an empty string or not a string.
func isNoText(v json.RawMessage) bool { return rawjson.Kind(v) != '"' || rawjson.Text(v) == "" }
