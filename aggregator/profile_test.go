package aggregator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
)

func TestFitSchema(t *testing.T) {
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
			clean, _, err := aggregator.CleanInputSchema(json.RawMessage(in + tt.props + "}}"))
			require.NoError(t, err)
			if tt.gemini == "" {
				tt.gemini = tt.strict
			}
			require.JSONEq(t, in+tt.strict+"}}", string(aggregator.FitSchema(clean, aggregator.StrictSchemas)))
			require.JSONEq(t, in+tt.gemini+"}}", string(aggregator.FitSchema(clean, aggregator.GeminiSchemas)))
		})
	}
}

// unfit returns what of a schema a client of the profile would refuse.
func unfit(v any, p aggregator.SchemaProfile, root bool) error {
	o, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%v is no object", v)
	}
	allowed := []string{"type", "description", "title", "enum", "properties", "required", "items", "anyOf", "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength"}
	allowed = append(allowed, map[aggregator.SchemaProfile]string{aggregator.StrictSchemas: "additionalProperties", aggregator.GeminiSchemas: "nullable"}[p])
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
	case union && p == aggregator.GeminiSchemas && len(o) > 1:
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
		if _, ok := e.(string); !ok && p == aggregator.GeminiSchemas {
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

func FuzzFitSchema(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/P"}},"$defs":{"P":{"type":["object","null"],"items":[true,{}],"properties":{"p":{"$ref":"#/$defs/P"}}}}}`,
		`{"properties":{"a":{"anyOf":[{"$ref":"#/properties/a"},{"type":"null"}]},"b":{"oneOf":[{"allOf":[{"enum":[1,"x",null]}]}],"type":["array","null"]}}}`,
		`{"properties":{"a":{"allOf":[{"$ref":"#/$defs/b"},{"required":["q"]}]}},"$defs":{"b":{"$ref":"#/$defs/c"},"c":{"type":"array","additionalProperties":{"not":{}}}}}`,
		`{"properties":{"a":{"anyOf":[{"anyOf":[{"type":["string","number"]}]}],"description":"d","nullable":true}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		clean, _, err := aggregator.CleanInputSchema(json.RawMessage(in))
		if err != nil {
			return
		}
		for _, p := range []aggregator.SchemaProfile{aggregator.StrictSchemas, aggregator.GeminiSchemas} {
			got := aggregator.FitSchema(clean, p)
			var v any
			require.NoError(t, json.Unmarshal(got, &v), "%s", got)
			require.NoError(t, unfit(v, p, true), "%s\nfrom %s", got, clean)
		}
		for _, limit := range []int{50, 200, 2000} {
			small, _ := aggregator.ShrinkSchema(clean, limit)
			require.LessOrEqual(t, len(small), max(limit, 50))
			_, _, err := aggregator.CleanInputSchema(small)
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
	clean, _, err := aggregator.CleanInputSchema(json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + strings.Join(defs, ",") + `,"d40":{}}}`))
	require.NoError(t, err)
	require.Less(t, len(aggregator.FitSchema(clean, aggregator.GeminiSchemas)), 1<<20)
}

func TestShrinkSchema(t *testing.T) {
	clean, _, err := aggregator.CleanInputSchema(json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","description":"` + strings.Repeat("long ", 50) + `"},"b":{"$ref":"#/$defs/B"},"c":{"type":"object","properties":{"d":{"type":"object","properties":{"e":{"type":"object","properties":{"f":{"type":"string"}}}}}}}},"required":["a"],"$defs":{"B":{"type":"object","properties":{"` + strings.Repeat("x", 60) + `":{"type":"string"}}}}}`))
	require.NoError(t, err)
	for _, tt := range []struct {
		limit      int
		took, want string
	}{
		{0, "", string(clean)},
		{len(clean), "", string(clean)},
		{400, "descriptions", `{"type":"object","properties":{"a":{"type":"string"},"b":{"$ref":"#/$defs/B"},"c":{"type":"object","properties":{"d":{"type":"object","properties":{"e":{"type":"object","properties":{"f":{"type":"string"}}}}}}}},"required":["a"],"$defs":{"B":{"type":"object","properties":{"` + strings.Repeat("x", 60) + `":{"type":"string"}}}}}`},
		{250, "descriptions and definitions", `{"type":"object","properties":{"a":{"type":"string"},"b":{},"c":{"type":"object","properties":{"d":{"type":"object","properties":{"e":{"type":"object","properties":{"f":{"type":"string"}}}}}}}},"required":["a"]}`},
		{160, "descriptions, definitions and what is deeper than two levels", `{"type":"object","properties":{"a":{"type":"string"},"b":{},"c":{"type":"object","properties":{"d":{"type":"object","properties":{"e":{}}}}}},"required":["a"]}`},
		{100, "all that it says of its arguments", `{"type":"object","properties":{}}`},
	} {
		got, took := aggregator.ShrinkSchema(clean, tt.limit)
		require.Equal(t, tt.took, took)
		require.Equal(t, tt.want, string(got))
	}
}

func TestProfilesByTheClientsName(t *testing.T) {
	for name, want := range map[string]aggregator.SchemaProfile{
		"gemini-cli-mcp-client": aggregator.GeminiSchemas, "Antigravity": aggregator.GeminiSchemas, "kimi-cli": aggregator.StrictSchemas,
		"codex-mcp-client": aggregator.PlainSchemas, "claude-code": aggregator.PlainSchemas, "": aggregator.PlainSchemas,
	} {
		require.Equal(t, want, aggregator.ProfileOf(name), name)
	}
}

// The arguments of a tool published in another form go down as they were sent.
func TestProfilesOfATool(t *testing.T) {
	f := &fake{script: script{"tools/list": func(p *peer, m message) error {
		p.result(m, toolList(`{"name":"echo","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/P"}},"$defs":{"P":{"type":"object","properties":{"n":{"type":["integer","null"]}}}}}}`))
		return nil
	}}}
	s := set(t, spec("raw", f.launch))
	tool := s.Tools()[0]
	require.Contains(t, string(tool.DefinitionFor(aggregator.PlainSchemas)), "$ref")
	require.Contains(t, string(tool.DefinitionFor("")), "$ref")
	gemini := string(tool.DefinitionFor(aggregator.GeminiSchemas))
	require.NotContains(t, gemini, "$ref")
	require.Contains(t, gemini, `"nullable":true`)
	require.Equal(t, gemini, string(tool.DefinitionFor(aggregator.GeminiSchemas)))
	got, err := call(t.Context(), s, "raw", "echo", `{"a": {"n":9007199254740993}}`)
	require.NoError(t, err)
	require.Contains(t, got, `{\"a\": {\"n\":9007199254740993}}`)
}

func TestASchemaOverItsLimit(t *testing.T) {
	f := &fake{script: script{"tools/list": func(p *peer, m message) error {
		p.result(m, toolList(`{"name":"echo","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"`+strings.Repeat("x", 500)+`"}}}}`))
		return nil
	}}}
	one := spec("raw", f.launch)
	one.SchemaMax = 200
	s := set(t, one)
	require.Equal(t, []string{"mcp__raw__echo"}, names(s))
	require.NotContains(t, string(s.Tools()[0].Definition), "xxx")
	require.Contains(t, string(s.Tools()[0].Definition), `"a":{"type":"string"}`)
	require.Empty(t, s.Status()[0].Faults)
}
