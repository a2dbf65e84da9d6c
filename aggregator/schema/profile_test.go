package schema_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator/schema"
)

func TestAdapt(t *testing.T) {
	const in = `{"type":"object","properties":{`
	for _, tt := range []struct{ name, props, strict, gemini string }{
		{"plain", `"a":{"type":"string","description":"d"}`, `"a":{"type":"string","description":"d"}`, ""},
		{"a reference", `"a":{"$ref":"#/$defs/P","description":"mine"}},"$defs":{"P":{"type":"object","properties":{"x":{"type":"integer"}},"description":"theirs"}`,
			`"a":{"type":"object","properties":{"x":{"type":"integer"}},"description":"mine"}`, ""},
		{"a reference to itself", `"a":{"$ref":"#/$defs/P"}},"$defs":{"P":{"type":"object","properties":{"x":{"$ref":"#/$defs/P"}}}`,
			`"a":{"type":"object","properties":{"x":{"type":"object","properties":{}}}}`, ""},
		{"types in a list", `"a":{"type":["string","null"],"minLength":1}`, `"a":{"minLength":1,"type":"string"}`, `"a":{"type":"string","minLength":1,"nullable":true}`},
		{"several types", `"a":{"type":["string","integer"],"description":"d","maximum":3}`,
			`"a":{"description":"d","anyOf":[{"type":"string","description":"d"},{"type":"integer","maximum":3,"description":"d"}]}`,
			`"a":{"anyOf":[{"type":"string","description":"d"},{"type":"integer","maximum":3,"description":"d"}]}`},
		{"oneOf, one of it null", `"a":{"oneOf":[{"type":"integer"},{"type":"null"}]}`, `"a":{"type":"integer"}`, `"a":{"type":"integer","nullable":true}`},
		{"allOf", `"a":{"allOf":[{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]},{"properties":{"y":{"type":"string"}},"required":["y"]}]}`,
			`"a":{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"required":["x","y"]}`, ""},
		{"limits in words", `"a":{"type":"string","format":"email","pattern":"^a","description":"d"}`, `"a":{"type":"string","description":"d (format: \"email\", pattern: \"^a\")"}`, ""},
		{"enum of numbers", `"a":{"type":"integer","enum":[1,2]}`, `"a":{"type":"integer","enum":[1,2]}`, `"a":{"type":"integer","description":"(enum: [1,2])"}`},
		{"a map", `"a":{"type":"object","additionalProperties":{"type":"string","format":"x"}}`, `"a":{"type":"object","additionalProperties":{"type":"string","description":"(format: \"x\")"},"properties":{}}`, `"a":{"type":"object","properties":{}}`},
		{"anything", `"a":{"description":"d"}`,
			`"a":{"description":"d","anyOf":[{"type":"string","description":"d"},{"type":"number","description":"d"},{"type":"boolean","description":"d"},{"type":"object","properties":{},"description":"d"},{"type":"array","items":{"type":"string"},"description":"d"}]}`,
			`"a":{"anyOf":[{"type":"string","description":"d"},{"type":"number","description":"d"},{"type":"boolean","description":"d"},{"type":"object","properties":{},"description":"d"},{"type":"array","items":{"type":"string"},"description":"d"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clean, _, err := schema.Sanitize(json.RawMessage(in + tt.props + "}}"))
			require.NoError(t, err)
			if tt.gemini == "" {
				tt.gemini = tt.strict
			}
			require.JSONEq(t, in+tt.strict+"}}", string(schema.Adapt(clean, schema.Strict)))
			require.JSONEq(t, in+tt.gemini+"}}", string(schema.Adapt(clean, schema.Gemini)))
		})
	}
}

// unfit returns what of a schema a client of the profile would refuse.
func unfit(v any, p schema.Profile, root bool) error {
	o, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%v is no object", v)
	}
	allowed := []string{"type", "description", "title", "enum", "properties", "required", "items", "anyOf", "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength"}
	allowed = append(allowed, map[schema.Profile]string{schema.Strict: "additionalProperties", schema.Gemini: "nullable"}[p])
	for key := range o {
		if !slices.Contains(allowed, key) {
			return fmt.Errorf("keyword %s", key)
		}
	}
	kind, typed := o["type"].(string)
	branches, union := o["anyOf"].([]any)
	switch {
	case typed == union || root && kind != "object":
		return fmt.Errorf("either one type or alternatives: %v", o)
	case union && p == schema.Gemini && len(o) > 1:
		return fmt.Errorf("alternatives and more: %v", o)
	case kind == "array" && o["items"] == nil, kind == "object" && o["properties"] == nil:
		return fmt.Errorf("nothing inside: %v", o)
	}
	inner := branches
	if o["items"] != nil {
		inner = append(inner, o["items"])
	}
	if m, ok := o["additionalProperties"].(map[string]any); ok {
		inner = append(inner, m)
	}
	props, _ := o["properties"].(map[string]any)
	for _, v := range props {
		inner = append(inner, v)
	}
	for _, name := range slice(o["required"]) {
		if _, ok := props[name.(string)]; !ok {
			return fmt.Errorf("required %v is not there", name)
		}
	}
	for _, e := range slice(o["enum"]) {
		if _, ok := e.(string); !ok && p == schema.Gemini {
			return fmt.Errorf("enum of %v", e)
		}
	}
	for _, v := range inner {
		if err := unfit(v, p, false); err != nil {
			return err
		}
	}
	return nil
}

func slice(v any) []any {
	s, _ := v.([]any)
	return s
}

func FuzzAdapt(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/P"}},"$defs":{"P":{"type":["object","null"],"items":[true,{}],"properties":{"p":{"$ref":"#/$defs/P"}}}}}`,
		`{"properties":{"a":{"anyOf":[{"$ref":"#/properties/a"},{"type":"null"}]},"b":{"oneOf":[{"allOf":[{"enum":[1,"x",null]}]}],"type":["array","null"]}}}`,
		`{"properties":{"a":{"allOf":[{"$ref":"#/$defs/b"},{"required":["q"]}]}},"$defs":{"b":{"$ref":"#/$defs/c"},"c":{"type":"array","additionalProperties":{"not":{}}}}}`,
		`{"properties":{"a":{"anyOf":[{"anyOf":[{"type":["string","number"]}]}],"description":"d","nullable":true}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		clean, _, err := schema.Sanitize(json.RawMessage(in))
		if err != nil {
			return
		}
		for _, p := range []schema.Profile{schema.Strict, schema.Gemini} {
			got := schema.Adapt(clean, p)
			var v any
			require.NoError(t, json.Unmarshal(got, &v), "%s", got)
			require.NoError(t, unfit(v, p, true), "%s\nfrom %s", got, clean)
		}
		for _, limit := range []int{50, 200, 2000} {
			small, _ := schema.Shrink(clean, limit)
			require.LessOrEqual(t, len(small), max(limit, 50))
			_, _, err := schema.Sanitize(small)
			require.NoError(t, err, "%s", small)
		}
	})
}

// References that each name the next twice would grow without end.
func TestReferencesDoNotGrowWithoutEnd(t *testing.T) {
	var defs []string
	for i := range 40 {
		defs = append(defs, fmt.Sprintf(`"d%d":{"type":"object","properties":{"l":{"$ref":"#/$defs/d%d"},"r":{"$ref":"#/$defs/d%d"}}}`, i, i+1, i+1))
	}
	clean, _, err := schema.Sanitize(json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + strings.Join(defs, ",") + `,"d40":{}}}`))
	require.NoError(t, err)
	require.Less(t, len(schema.Adapt(clean, schema.Gemini)), 1<<20)
}

func TestProfilesByTheClientsName(t *testing.T) {
	for name, want := range map[string]schema.Profile{
		"gemini-cli-mcp-client": schema.Gemini, "Antigravity": schema.Gemini, "kimi-cli": schema.Strict,
		"codex-mcp-client": schema.Plain, "claude-code": schema.Plain, "": schema.Plain,
	} {
		require.Equal(t, want, schema.ProfileFor(name), name)
	}
}
