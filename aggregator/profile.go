package aggregator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	if def, err := parseOrdered(b); err == nil {
		def.set("inputSchema", fitSchema(def.get("inputSchema"), p))
		b = def.bytes()
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
	o, err := parseOrdered(f.fit(schema, 0, nil))
	if err != nil {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	o.set("type", json.RawMessage(`"object"`))
	if o.get("properties") == nil {
		o.set("properties", json.RawMessage("{}"))
	}
	for _, key := range []string{"anyOf", "nullable", "enum", "items"} {
		o.remove(key)
	}
	return o.bytes()
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
	o, err := parseOrdered(v)
	if f.nodes++; err != nil || depth > maxFitDepth || f.nodes > maxFitNodes {
		return f.opaque(o)
	}
	for hops := 0; o.get("$ref") != nil; hops++ {
		ref := o.text("$ref")
		target, ok := f.clean.resolve(ref)
		inner, err := parseOrdered(target)
		if !ok || err != nil || hops > 8 || slices.Contains(within, ref) {
			o.remove("$ref")
			for _, key := range []string{"type", "description"} {
				if o.get(key) == nil && inner.get(key) != nil {
					o.set(key, inner.get(key))
				}
			}
			return f.opaque(o)
		}
		within = append(slices.Clone(within), ref)
		o.remove("$ref")
		for _, field := range o { // what stands beside the reference holds too
			inner.set(field.key, field.value)
		}
		o = inner
	}
	f.merge(&o)
	if of := listOf(o.get("oneOf")); of != nil {
		o.set("anyOf", arrayOf(append(listOf(o.get("anyOf")), of...)))
		o.remove("oneOf")
	}
	f.types(&o)
	nullable := f.withoutNull(&o)
	if branches := listOf(o.get("anyOf")); len(branches) > 0 {
		return f.union(o, branches, nullable, depth, within)
	}
	if nullable && f.profile == GeminiSchemas {
		o.set("nullable", json.RawMessage("true"))
	}
	if o.get("type") == nil {
		inferType(&o)
	}
	if o.get("type") == nil {
		any, _ := parseOrdered([]byte(anything))
		return f.union(o, listOf(any.get("anyOf")), false, depth, within)
	}
	f.inside(&o, depth, within)
	f.drop(&o)
	return o.bytes()
}

// opaque is an object or array whose inside is not said, or a value of any
// kind.
func (f *fitter) opaque(o ordered) json.RawMessage {
	out := ordered{{"type", json.RawMessage(`"object"`)}}
	switch o.text("type") {
	case "array":
		out = ordered{{"type", json.RawMessage(`"array"`)}, {"items", json.RawMessage(`{"type":"object","properties":{}}`)}}
	case "string", "number", "integer", "boolean":
		out = ordered{{"type", o.get("type")}}
	default:
		out = append(out, field{"properties", json.RawMessage("{}")})
	}
	if d := o.get("description"); kindOf(d) == '"' {
		out.set("description", d)
	}
	return out.bytes()
}

// merge puts what all branches of allOf say into o.
func (f *fitter) merge(o *ordered) {
	branches := listOf(o.get("allOf"))
	o.remove("allOf")
	for _, b := range branches {
		inner, err := parseOrdered(b)
		if err != nil {
			continue
		}
		if ref := inner.text("$ref"); ref != "" {
			target, ok := f.clean.resolve(ref)
			if inner, err = parseOrdered(target); !ok || err != nil {
				continue
			}
		}
		for _, field := range inner {
			switch field.key {
			case "properties":
				props, _ := parseOrdered(o.get("properties"))
				more, _ := parseOrdered(field.value)
				for _, p := range more {
					if props.get(p.key) == nil {
						props.set(p.key, p.value)
					}
				}
				o.set("properties", props.bytes())
			case "required":
				names := stringsOf(o.get("required"))
				for _, n := range stringsOf(field.value) {
					if !slices.Contains(names, n) {
						names = append(names, n)
					}
				}
				o.set("required", stringList(names))
			default:
				if o.get(field.key) == nil {
					o.set(field.key, field.value)
				}
			}
		}
	}
	if len(branches) > 0 {
		o.remove("additionalProperties") // it was said of a branch alone
	}
}

func stringList(names []string) json.RawMessage {
	var list []json.RawMessage
	for _, n := range names {
		list = append(list, quote(n))
	}
	return arrayOf(list)
}

// types makes alternatives of a list of types.
func (f *fitter) types(o *ordered) {
	list := stringsOf(o.get("type"))
	if kindOf(o.get("type")) != '[' || len(list) == 0 {
		return
	}
	o.remove("type")
	var branches []json.RawMessage
	for _, t := range list {
		branch := ordered{{"type", quote(t)}}
		for _, key := range ofType(t) {
			if v := o.get(key); v != nil {
				branch.set(key, v)
			}
		}
		if t != "null" {
			branches = append(branches, branch.bytes())
		}
	}
	for _, t := range list {
		for _, key := range ofType(t) {
			o.remove(key)
		}
	}
	if slices.Contains(list, "null") {
		branches = append(branches, json.RawMessage(`{"type":"null"}`))
	}
	o.set("anyOf", arrayOf(append(listOf(o.get("anyOf")), branches...)))
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
func (f *fitter) withoutNull(o *ordered) (null bool) {
	branches := listOf(o.get("anyOf"))
	if branches == nil {
		return false
	}
	branches = slices.DeleteFunc(branches, func(b json.RawMessage) bool {
		inner, _ := parseOrdered(b)
		is := inner.text("type") == "null"
		null = null || is
		return is
	})
	o.remove("anyOf")
	switch len(branches) {
	case 0:
	case 1:
		inner, err := parseOrdered(branches[0])
		if err != nil {
			break
		}
		if kindOf(inner.get("type")) == '[' || slices.ContainsFunc([]string{"$ref", "anyOf", "oneOf", "allOf"}, func(k string) bool { return inner.get(k) != nil }) {
			o.set("anyOf", arrayOf(branches)) // it is fitted as a whole
			break
		}
		for _, field := range inner {
			if o.get(field.key) == nil {
				o.set(field.key, field.value)
			}
		}
	default:
		o.set("anyOf", arrayOf(branches))
	}
	return null
}

// union returns the schema of a value of several kinds: nothing stands beside
// the alternatives, whose descriptions say what o's said.
func (f *fitter) union(o ordered, branches []json.RawMessage, nullable bool, depth int, within []string) json.RawMessage {
	f.drop(&o)
	var out []json.RawMessage
	for _, b := range branches {
		inner, err := parseOrdered(f.fit(b, depth+1, within))
		if err != nil {
			continue
		}
		if nested := listOf(inner.get("anyOf")); nested != nil {
			out = append(out, nested...) // alternatives of an alternative
			continue
		}
		if inner.get("description") == nil && o.get("description") != nil {
			inner.set("description", o.get("description"))
		}
		if nullable && f.profile == GeminiSchemas {
			inner.set("nullable", json.RawMessage("true"))
		}
		if !slices.ContainsFunc(out, func(have json.RawMessage) bool { return string(have) == string(inner.bytes()) }) {
			out = append(out, inner.bytes())
		}
	}
	if len(out) == 1 {
		return out[0]
	}
	if len(out) == 0 {
		return f.opaque(o)
	}
	u := ordered{{"anyOf", arrayOf(out)}}
	if d := o.get("description"); d != nil && f.profile != GeminiSchemas {
		u = append(ordered{{"description", d}}, u...)
	}
	return u.bytes()
}

// inside fits the schemas in o.
func (f *fitter) inside(o *ordered, depth int, within []string) {
	if props, err := parseOrdered(o.get("properties")); err == nil {
		for i := range props {
			props[i].value = f.fit(props[i].value, depth+1, within)
		}
		o.set("properties", props.bytes())
	}
	if v := o.get("items"); kindOf(v) == '{' {
		o.set("items", f.fit(v, depth+1, within))
	}
	if v := o.get("additionalProperties"); kindOf(v) == '{' {
		if f.profile == StrictSchemas {
			o.set("additionalProperties", f.fit(v, depth+1, within))
		} else {
			o.remove("additionalProperties")
		}
	}
	switch o.text("type") {
	case "array":
		if o.get("items") == nil {
			o.set("items", json.RawMessage(`{"type":"string"}`))
		}
	case "object":
		if o.get("properties") == nil {
			o.set("properties", json.RawMessage("{}"))
		}
		cleanRequired(o)
	}
}

// drop takes the keywords away that the profile does not have, and says in the
// description what they said.
func (f *fitter) drop(o *ordered) {
	var words []string
	keep := kept[f.profile]
	for _, field := range slices.Clone(*o) {
		ok := slices.Contains(keep, field.key)
		if field.key == "enum" && f.profile == GeminiSchemas {
			// "enum: possible values of the element of primitive type with enum format" are strings.
			ok = !slices.ContainsFunc(listOf(field.value), func(v json.RawMessage) bool { return kindOf(v) != '"' || textOf(v) == "" })
		}
		if ok {
			continue
		}
		o.remove(field.key)
		if k := kindOf(field.value); slices.Contains(said, field.key) && k != '{' && len(field.value) <= 200 {
			words = append(words, fmt.Sprintf("%s: %s", field.key, field.value))
		}
	}
	if len(words) == 0 {
		return
	}
	text := "(" + strings.Join(words, ", ") + ")"
	if d := o.text("description"); d != "" {
		text = d + " " + text
	}
	o.set("description", quote(text))
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
	o, err := parseOrdered(v)
	if err != nil {
		return v
	}
	for i, f := range o {
		switch f.key {
		case "properties", "$defs", "definitions", "patternProperties", "dependentSchemas":
			in, err := parseOrdered(f.value)
			if err != nil {
				continue
			}
			for j := range in {
				in[j].value = do(in[j].value)
			}
			o[i].value = in.bytes()
		case "items", "additionalProperties", "contains", "propertyNames":
			if kindOf(f.value) == '{' {
				o[i].value = do(f.value)
			}
		case "anyOf", "oneOf", "allOf":
			list := listOf(f.value)
			for j := range list {
				list[j] = do(list[j])
			}
			o[i].value = arrayOf(list)
		}
	}
	return o.bytes()
}

// without returns the schema without these keywords anywhere in it.
func without(v json.RawMessage, keys ...string) json.RawMessage {
	o, err := parseOrdered(v)
	if err != nil {
		return v
	}
	for _, key := range keys {
		o.remove(key)
	}
	return each(o.bytes(), func(in json.RawMessage) json.RawMessage { return without(in, keys...) })
}

// unreferred returns the schema with what its references mean left open.
func unreferred(v json.RawMessage) json.RawMessage {
	o, err := parseOrdered(v)
	if err != nil {
		return v
	}
	if o.get("$ref") != nil {
		return json.RawMessage("{}")
	}
	return each(v, unreferred)
}

// shallow leaves objects deeper than two levels open.
func shallow(v json.RawMessage, depth int) json.RawMessage {
	o, err := parseOrdered(v)
	if err != nil {
		return v
	}
	nested := slices.ContainsFunc([]string{"properties", "items", "anyOf", "oneOf", "allOf", "additionalProperties"}, func(k string) bool {
		b := kindOf(o.get(k))
		return b == '{' || b == '['
	})
	if depth > 2 && nested {
		return json.RawMessage("{}")
	}
	return each(v, func(in json.RawMessage) json.RawMessage { return shallow(in, depth+1) })
}
