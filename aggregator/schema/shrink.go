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
	if schema = truncate(schema); len(schema) <= limit {
		return schema, "descriptions, definitions and everything below two levels"
	}
	return json.RawMessage(`{"type":"object","properties":{}}`), "everything"
}

// rewrite returns schema v with each schema in it, v itself first, replaced by what do
// returns for it. depth is that of v.
func rewrite(v json.RawMessage, depth int, do func(o rawjson.Object, depth int) rawjson.Object) json.RawMessage {
	o, err := rawjson.Parse(v)
	if err != nil {
		return v
	}
	o, _ = mapSubschemas(do(o, depth), func(in json.RawMessage) (json.RawMessage, bool, error) {
		return rewrite(in, depth+1, do), true, nil
	})
	return o.Bytes()
}

// without returns schema v without the given keywords at any level.
func without(v json.RawMessage, keys ...string) json.RawMessage {
	return rewrite(v, 0, func(o rawjson.Object, _ int) rawjson.Object {
		o.Delete(keys...)
		return o
	})
}

// withoutRefs returns schema v with each reference replaced by a schema that accepts
// any value.
func withoutRefs(v json.RawMessage) json.RawMessage {
	return rewrite(v, 0, func(o rawjson.Object, _ int) rawjson.Object {
		if o.Get("$ref") != nil {
			return nil
		}
		return o
	})
}

// truncate returns schema v with each nested schema below two levels replaced by one
// that accepts any value.
func truncate(v json.RawMessage) json.RawMessage {
	return rewrite(v, 0, func(o rawjson.Object, depth int) rawjson.Object {
		keywords := []string{"properties", "items", "anyOf", "oneOf", "allOf", "additionalProperties"}
		nested := slices.ContainsFunc(keywords, func(k string) bool {
			b := rawjson.Kind(o.Get(k))
			return b == '{' || b == '['
		})
		if depth > 2 && nested {
			return nil
		}
		return o
	})
}
