package schema

import (
	"encoding/json"
	"slices"

	"toolgate/internal/rawjson"
)

// Shrink returns a schema of at most so many bytes, as Codex makes one:
// without descriptions, then without definitions, then without what is deeper
// than two levels, then without all. Steps are the words for what was taken.
func Shrink(schema json.RawMessage, limit int) (small json.RawMessage, took string) {
	if limit <= 0 || len(schema) <= limit {
		return schema, ""
	}
	for _, step := range []struct {
		took string
		do   func(json.RawMessage) json.RawMessage
	}{
		{"descriptions", func(v json.RawMessage) json.RawMessage { return without(v, "description", "title", "examples") }},
		{"descriptions and definitions", func(v json.RawMessage) json.RawMessage { return without(withoutRefs(v), "$defs", "definitions") }},
		{"descriptions, definitions and what is deeper than two levels", func(v json.RawMessage) json.RawMessage { return truncate(v, 0) }},
	} {
		if schema = step.do(schema); len(schema) <= limit {
			return schema, step.took
		}
	}
	return json.RawMessage(`{"type":"object","properties":{}}`), "all that it says of its arguments"
}

// mapSubschemas returns v with do applied to the schemas right below it.
func mapSubschemas(v json.RawMessage, do func(json.RawMessage) json.RawMessage) json.RawMessage {
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
	return mapSubschemas(o.Bytes(), func(in json.RawMessage) json.RawMessage { return without(in, keys...) })
}

// withoutRefs returns the schema with what its references mean left open.
func withoutRefs(v json.RawMessage) json.RawMessage {
	o, err := rawjson.Parse(v)
	if err != nil {
		return v
	}
	if o.Get("$ref") != nil {
		return json.RawMessage("{}")
	}
	return mapSubschemas(v, withoutRefs)
}

// truncate leaves objects deeper than two levels open.
func truncate(v json.RawMessage, depth int) json.RawMessage {
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
	return mapSubschemas(v, func(in json.RawMessage) json.RawMessage { return truncate(in, depth+1) })
}
