package schema

import (
	"encoding/json"
	"slices"

	"toolgate/internal/rawjson"
)

// Shrink returns schema reduced to at most limit bytes; 0 means no limit. Like Codex, it
// removes descriptions, then definitions, then everything below two levels, then
// everything, until the schema is short enough. removed names what it removed.
func Shrink(schema json.RawMessage, limit int) (small json.RawMessage, removed string) {
	if limit <= 0 || len(schema) <= limit {
		return schema, ""
	}
	if schema = without(schema, "description", "title", "examples"); len(schema) <= limit {
		return schema, "descriptions"
	}
	if schema = without(withoutRefs(schema), "$defs", "definitions"); len(schema) <= limit {
		return schema, "descriptions and definitions"
	}
	if schema = truncate(schema, 0); len(schema) <= limit {
		return schema, "descriptions, definitions and everything below two levels"
	}
	return json.RawMessage(`{"type":"object","properties":{}}`), "everything"
}

// mapSubschemas returns schema v with do applied to its direct subschemas.
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
			list := rawjson.List(f.Value)
			for j := range list {
				list[j] = do(list[j])
			}
			o[i].Value = rawjson.Array(list)
		}
	}
	return o.Bytes()
}

// without returns schema v without the given keywords at any level.
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

// withoutRefs returns schema v with each reference replaced by a schema that accepts
// any value.
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

// truncate returns schema v with each nested schema below two levels replaced by one
// that accepts any value.
func truncate(v json.RawMessage, depth int) json.RawMessage {
	o, err := rawjson.Parse(v)
	if err != nil {
		return v
	}
	keywords := []string{"properties", "items", "anyOf", "oneOf", "allOf", "additionalProperties"}
	nested := slices.ContainsFunc(keywords, func(k string) bool {
		b := rawjson.Kind(o.Get(k))
		return b == '{' || b == '['
	})
	if depth > 2 && nested {
		return json.RawMessage("{}")
	}
	return mapSubschemas(v, func(in json.RawMessage) json.RawMessage { return truncate(in, depth+1) })
}
