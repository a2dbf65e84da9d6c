package aggregator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"toolgate/internal/rawjson"
)

// A SchemaProfile says how much of JSON Schema a client takes in a tool's
// inputSchema. What it does not take is loosened and said in words; arguments
// are never changed, and the server checks them as ever.
type SchemaProfile string

const (
	// PlainSchemas is the form that every known client takes, and the default.
	PlainSchemas SchemaProfile = "default"

	// StrictSchemas has neither references nor combinations but anyOf, and one
	// type for everything: for clients that hand schemas to a model's API which
	// refuses the rest.
	StrictSchemas SchemaProfile = "strict"

	// GeminiSchemas is StrictSchemas with the keywords that Gemini's API knows.
	GeminiSchemas SchemaProfile = "gemini"
)

// SchemaProfiles are all there are.
var SchemaProfiles = []SchemaProfile{PlainSchemas, StrictSchemas, GeminiSchemas}

// ProfileOf returns the profile for a client of this name.
func ProfileOf(client string) SchemaProfile {
	client = strings.ToLower(client)
	for _, known := range []struct {
		part    string
		profile SchemaProfile
	}{
		{"gemini", GeminiSchemas}, // gemini-cli-mcp-client
		{"antigravity", GeminiSchemas},
		{"kimi", StrictSchemas},
		{"moonshot", StrictSchemas},
	} {
		if strings.Contains(client, known.part) {
			return known.profile
		}
	}
	return PlainSchemas
}

// forms holds a tool's definition in the profiles that were asked for.
type forms struct {
	mu   sync.Mutex
	made map[SchemaProfile]json.RawMessage
}

// DefinitionFor returns the tool as tools/list answers it to a client of the
// profile.
func (t *Tool) DefinitionFor(p SchemaProfile) json.RawMessage {
	if t.forms == nil || p != StrictSchemas && p != GeminiSchemas {
		return t.Definition
	}
	t.forms.mu.Lock()
	defer t.forms.mu.Unlock()
	if b, ok := t.forms.made[p]; ok {
		return b
	}
	b := t.Definition
	if def, err := rawjson.Parse(b); err == nil {
		def.Set("inputSchema", fitSchema(def.Get("inputSchema"), p))
		b = def.Bytes()
	}
	if t.forms.made == nil {
		t.forms.made = map[SchemaProfile]json.RawMessage{}
	}
	t.forms.made[p] = b
	return b
}

// Limits of what references may grow to when they are written out.
const (
	maxFitDepth = 16
	maxFitNodes = 2000
	maxFitBytes = 64 << 10 // of the schema before; a longer one is made smaller first
)

// fitSchema returns a clean schema in the form of the profile.
func fitSchema(schema json.RawMessage, p SchemaProfile) json.RawMessage {
	schema, _ = shrinkSchema(schema, maxFitBytes)
	f := fitter{clean: cleaner{source: schema}, profile: p}
	o, err := rawjson.Parse(f.fit(schema, 0, nil))
	if err != nil {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	o.Set("type", json.RawMessage(`"object"`))
	if o.Get("properties") == nil {
		o.Set("properties", json.RawMessage("{}"))
	}
	for _, key := range []string{"anyOf", "nullable", "enum", "items"} {
		o.Delete(key)
	}
	return o.Bytes()
}

// A fitter fits one schema.
type fitter struct {
	clean   cleaner // finds what references mean
	profile SchemaProfile
	nodes   int
}

// kept are the keywords that stay as they are, by profile.
var kept = map[SchemaProfile][]string{
	StrictSchemas: {"type", "description", "title", "enum", "properties", "required", "items", "anyOf", "additionalProperties", "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength"},
	GeminiSchemas: {"type", "description", "title", "enum", "properties", "required", "items", "anyOf", "nullable", "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength"},
}

// said are the keywords that go into the description when they do not stay.
var said = []string{"format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "default", "enum", "examples"}

// anything is the schema of a value of any kind, for those that want a type.
const anything = `{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object","properties":{}},{"type":"array","items":{"type":"string"}}]}`

// fit returns a schema in the profile's form. within are the references that
// it stands in.
func (f *fitter) fit(v json.RawMessage, depth int, within []string) json.RawMessage {
	o, err := rawjson.Parse(v)
	if f.nodes++; err != nil || depth > maxFitDepth || f.nodes > maxFitNodes {
		return f.opaque(o)
	}
	for hops := 0; o.Get("$ref") != nil; hops++ {
		ref := o.Text("$ref")
		target, ok := f.clean.resolve(ref)
		inner, err := rawjson.Parse(target)
		if !ok || err != nil || hops > 8 || slices.Contains(within, ref) {
			o.Delete("$ref")
			for _, key := range []string{"type", "description"} {
				if o.Get(key) == nil && inner.Get(key) != nil {
					o.Set(key, inner.Get(key))
				}
			}
			return f.opaque(o)
		}
		within = append(slices.Clone(within), ref)
		o.Delete("$ref")
		for _, field := range o { // what stands beside the reference holds too
			inner.Set(field.Key, field.Value)
		}
		o = inner
	}
	f.merge(&o)
	if of := rawjson.Elements(o.Get("oneOf")); of != nil {
		o.Set("anyOf", rawjson.Array(append(rawjson.Elements(o.Get("anyOf")), of...)))
		o.Delete("oneOf")
	}
	f.types(&o)
	nullable := f.withoutNull(&o)
	if branches := rawjson.Elements(o.Get("anyOf")); len(branches) > 0 {
		return f.union(o, branches, nullable, depth, within)
	}
	if nullable && f.profile == GeminiSchemas {
		o.Set("nullable", json.RawMessage("true"))
	}
	if o.Get("type") == nil {
		inferType(&o)
	}
	if o.Get("type") == nil {
		any, _ := rawjson.Parse([]byte(anything))
		return f.union(o, rawjson.Elements(any.Get("anyOf")), false, depth, within)
	}
	f.inside(&o, depth, within)
	f.drop(&o)
	return o.Bytes()
}

// opaque is an object or array whose inside is not said, or a value of any
// kind.
func (f *fitter) opaque(o rawjson.Object) json.RawMessage {
	out := rawjson.Object{{Key: "type", Value: json.RawMessage(`"object"`)}}
	switch o.Text("type") {
	case "array":
		out = rawjson.Object{{Key: "type", Value: json.RawMessage(`"array"`)}, {Key: "items", Value: json.RawMessage(`{"type":"object","properties":{}}`)}}
	case "string", "number", "integer", "boolean":
		out = rawjson.Object{{Key: "type", Value: o.Get("type")}}
	default:
		out = append(out, rawjson.Field{Key: "properties", Value: json.RawMessage("{}")})
	}
	if d := o.Get("description"); rawjson.Kind(d) == '"' {
		out.Set("description", d)
	}
	return out.Bytes()
}

// merge puts what all branches of allOf say into o.
func (f *fitter) merge(o *rawjson.Object) {
	branches := rawjson.Elements(o.Get("allOf"))
	o.Delete("allOf")
	for _, b := range branches {
		inner, err := rawjson.Parse(b)
		if err != nil {
			continue
		}
		if ref := inner.Text("$ref"); ref != "" {
			target, ok := f.clean.resolve(ref)
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
					if props.Get(p.Key) == nil {
						props.Set(p.Key, p.Value)
					}
				}
				o.Set("properties", props.Bytes())
			case "required":
				names := stringsOf(o.Get("required"))
				for _, n := range stringsOf(field.Value) {
					if !slices.Contains(names, n) {
						names = append(names, n)
					}
				}
				o.Set("required", stringList(names))
			default:
				if o.Get(field.Key) == nil {
					o.Set(field.Key, field.Value)
				}
			}
		}
	}
	if len(branches) > 0 {
		o.Delete("additionalProperties") // it was said of a branch alone
	}
}

func stringList(names []string) json.RawMessage {
	var list []json.RawMessage
	for _, n := range names {
		list = append(list, rawjson.Quote(n))
	}
	return rawjson.Array(list)
}

// types makes alternatives of a list of types.
func (f *fitter) types(o *rawjson.Object) {
	list := stringsOf(o.Get("type"))
	if rawjson.Kind(o.Get("type")) != '[' || len(list) == 0 {
		return
	}
	o.Delete("type")
	var branches []json.RawMessage
	for _, t := range list {
		branch := rawjson.Object{{Key: "type", Value: rawjson.Quote(t)}}
		for _, key := range ofType(t) {
			if v := o.Get(key); v != nil {
				branch.Set(key, v)
			}
		}
		if t != "null" {
			branches = append(branches, branch.Bytes())
		}
	}
	for _, t := range list {
		for _, key := range ofType(t) {
			o.Delete(key)
		}
	}
	if slices.Contains(list, "null") {
		branches = append(branches, json.RawMessage(`{"type":"null"}`))
	}
	o.Set("anyOf", rawjson.Array(append(rawjson.Elements(o.Get("anyOf")), branches...)))
}

// ofType are the keywords that say something of one type.
func ofType(t string) []string {
	switch t {
	case "object":
		return []string{"properties", "required", "additionalProperties"}
	case "array":
		return []string{"items", "minItems", "maxItems", "uniqueItems"}
	case "string":
		return []string{"minLength", "maxLength", "pattern", "format"}
	case "number", "integer":
		return []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
	}
	return nil
}

// withoutNull takes null out of the alternatives, and reports whether it was
// one. What is left alone then is no alternative any more.
func (f *fitter) withoutNull(o *rawjson.Object) (null bool) {
	branches := rawjson.Elements(o.Get("anyOf"))
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
		if rawjson.Kind(inner.Get("type")) == '[' || slices.ContainsFunc([]string{"$ref", "anyOf", "oneOf", "allOf"}, func(k string) bool { return inner.Get(k) != nil }) {
			o.Set("anyOf", rawjson.Array(branches)) // it is fitted as a whole
			break
		}
		for _, field := range inner {
			if o.Get(field.Key) == nil {
				o.Set(field.Key, field.Value)
			}
		}
	default:
		o.Set("anyOf", rawjson.Array(branches))
	}
	return null
}

// union returns the schema of a value of several kinds: nothing stands beside
// the alternatives, whose descriptions say what o's said.
func (f *fitter) union(o rawjson.Object, branches []json.RawMessage, nullable bool, depth int, within []string) json.RawMessage {
	f.drop(&o)
	var out []json.RawMessage
	for _, b := range branches {
		inner, err := rawjson.Parse(f.fit(b, depth+1, within))
		if err != nil {
			continue
		}
		if nested := rawjson.Elements(inner.Get("anyOf")); nested != nil {
			out = append(out, nested...) // alternatives of an alternative
			continue
		}
		if inner.Get("description") == nil && o.Get("description") != nil {
			inner.Set("description", o.Get("description"))
		}
		if nullable && f.profile == GeminiSchemas {
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
	if d := o.Get("description"); d != nil && f.profile != GeminiSchemas {
		u = append(rawjson.Object{{Key: "description", Value: d}}, u...)
	}
	return u.Bytes()
}

// inside fits the schemas in o.
func (f *fitter) inside(o *rawjson.Object, depth int, within []string) {
	if props, err := rawjson.Parse(o.Get("properties")); err == nil {
		for i := range props {
			props[i].Value = f.fit(props[i].Value, depth+1, within)
		}
		o.Set("properties", props.Bytes())
	}
	if v := o.Get("items"); rawjson.Kind(v) == '{' {
		o.Set("items", f.fit(v, depth+1, within))
	}
	if v := o.Get("additionalProperties"); rawjson.Kind(v) == '{' {
		if f.profile == StrictSchemas {
			o.Set("additionalProperties", f.fit(v, depth+1, within))
		} else {
			o.Delete("additionalProperties")
		}
	}
	switch o.Text("type") {
	case "array":
		if o.Get("items") == nil {
			o.Set("items", json.RawMessage(`{"type":"string"}`))
		}
	case "object":
		if o.Get("properties") == nil {
			o.Set("properties", json.RawMessage("{}"))
		}
		cleanRequired(o)
	}
}

// drop takes the keywords away that the profile does not have, and says in the
// description what they said.
func (f *fitter) drop(o *rawjson.Object) {
	var words []string
	keep := kept[f.profile]
	for _, field := range slices.Clone(*o) {
		ok := slices.Contains(keep, field.Key)
		if field.Key == "enum" && f.profile == GeminiSchemas {
			// "enum: possible values of the element of primitive type with enum format" are strings.
			ok = !slices.ContainsFunc(rawjson.Elements(field.Value), func(v json.RawMessage) bool { return rawjson.Kind(v) != '"' || rawjson.Text(v) == "" })
		}
		if ok {
			continue
		}
		o.Delete(field.Key)
		if k := rawjson.Kind(field.Value); slices.Contains(said, field.Key) && k != '{' && len(field.Value) <= 200 {
			words = append(words, fmt.Sprintf("%s: %s", field.Key, field.Value))
		}
	}
	if len(words) == 0 {
		return
	}
	text := "(" + strings.Join(words, ", ") + ")"
	if d := o.Text("description"); d != "" {
		text = d + " " + text
	}
	o.Set("description", rawjson.Quote(text))
}

// shrinkSchema returns a schema of at most so many bytes, as Codex makes one:
// without descriptions, then without definitions, then without what is deeper
// than two levels, then without all. Steps are the words for what was taken.
func shrinkSchema(schema json.RawMessage, limit int) (small json.RawMessage, took string) {
	if limit <= 0 || len(schema) <= limit {
		return schema, ""
	}
	for _, step := range []struct {
		took string
		do   func(json.RawMessage) json.RawMessage
	}{
		{"descriptions", func(v json.RawMessage) json.RawMessage { return without(v, "description", "title", "examples") }},
		{"descriptions and definitions", func(v json.RawMessage) json.RawMessage { return without(unreferred(v), "$defs", "definitions") }},
		{"descriptions, definitions and what is deeper than two levels", func(v json.RawMessage) json.RawMessage { return shallow(v, 0) }},
	} {
		if schema = step.do(schema); len(schema) <= limit {
			return schema, step.took
		}
	}
	return json.RawMessage(`{"type":"object","properties":{}}`), "all that it says of its arguments"
}

// each returns v with do applied to the schemas right below it.
func each(v json.RawMessage, do func(json.RawMessage) json.RawMessage) json.RawMessage {
	o, err := rawjson.Parse(v)
	if err != nil {
		return v
	}
	for i, f := range o {
		switch f.Key {
		case "properties", "$defs", "definitions", "patternProperties", "dependentSchemas":
			in, err := rawjson.Parse(f.Value)
			if err != nil {
				continue
			}
			for j := range in {
				in[j].Value = do(in[j].Value)
			}
			o[i].Value = in.Bytes()
		case "items", "additionalProperties", "contains", "propertyNames":
			if rawjson.Kind(f.Value) == '{' {
				o[i].Value = do(f.Value)
			}
		case "anyOf", "oneOf", "allOf":
			list := rawjson.Elements(f.Value)
			for j := range list {
				list[j] = do(list[j])
			}
			o[i].Value = rawjson.Array(list)
		}
	}
	return o.Bytes()
}

// without returns the schema without these keywords anywhere in it.
func without(v json.RawMessage, keys ...string) json.RawMessage {
	o, err := rawjson.Parse(v)
	if err != nil {
		return v
	}
	for _, key := range keys {
		o.Delete(key)
	}
	return each(o.Bytes(), func(in json.RawMessage) json.RawMessage { return without(in, keys...) })
}

// unreferred returns the schema with what its references mean left open.
func unreferred(v json.RawMessage) json.RawMessage {
	o, err := rawjson.Parse(v)
	if err != nil {
		return v
	}
	if o.Get("$ref") != nil {
		return json.RawMessage("{}")
	}
	return each(v, unreferred)
}

// shallow leaves objects deeper than two levels open.
func shallow(v json.RawMessage, depth int) json.RawMessage {
	o, err := rawjson.Parse(v)
	if err != nil {
		return v
	}
	nested := slices.ContainsFunc([]string{"properties", "items", "anyOf", "oneOf", "allOf", "additionalProperties"}, func(k string) bool {
		b := rawjson.Kind(o.Get(k))
		return b == '{' || b == '['
	})
	if depth > 2 && nested {
		return json.RawMessage("{}")
	}
	return each(v, func(in json.RawMessage) json.RawMessage { return shallow(in, depth+1) })
}
