package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator/schema"
	"toolgate/internal/rawjson"
)

func TestSanitize(t *testing.T) {
	deep := strings.Repeat(`{"type":"array","items":`, 70) + `{}` + strings.Repeat(`}`, 70)
	for _, tt := range []struct{ name, in, want, err string }{
		{name: "kept byte for byte", in: `{"type":"object","properties":{"b":{"type":"integer","minimum":1,"default":9007199254740993,"x-vendor":{"z":1.0}},"a":{"type":"string"}},"required":["b"],"additionalProperties":false}`},
		{name: "missing", in: ``, want: `{"type":"object","properties":{}}`},
		{name: "null", in: `null`, want: `{"type":"object","properties":{}}`},
		{name: "a string", in: `"x"`, err: "not an object"},
		{name: "another type", in: `{"type":"string"}`, err: "not object"},
		{name: "too deep", in: `{"type":"object","properties":{"a":` + deep + `}}`, err: "deep"},
		{name: "no type", in: `{"properties":{"a":{"type":"string"}}}`, want: `{"properties":{"a":{"type":"string"}},"type":"object"}`},
		{name: "type in a list", in: `{"type":["object"],"properties":{}}`, want: `{"type":"object","properties":{}}`},
		{name: "no properties", in: `{"type":"object"}`, want: `{"type":"object","properties":{}}`},
		{name: "properties null", in: `{"type":"object","properties":null,"required":null}`, want: `{"type":"object","properties":{}}`},
		{name: "required without a property", in: `{"type":"object","properties":{"a":{"type":"string"}},"required":["a","b","a",3]}`, want: `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`},
		{name: "boolean schemas", in: `{"type":"object","properties":{"a":true,"b":false},"required":["a","b"]}`, want: `{"type":"object","properties":{"a":{}},"required":["a"]}`},
		{name: "const", in: `{"type":"object","properties":{"a":{"const":"x"},"n":{"const":3}}}`, want: `{"type":"object","properties":{"a":{"enum":["x"],"type":"string"},"n":{"enum":[3],"type":"integer"}}}`},
		{name: "inferred types", in: `{"type":"object","properties":{"a":{"minimum":1},"b":{"items":{"type":"string"}},"c":{"properties":{}},"d":{"format":"date"},"e":{}}}`, want: `{"type":"object","properties":{"a":{"minimum":1,"type":"number"},"b":{"items":{"type":"string"},"type":"array"},"c":{"properties":{},"type":"object"},"d":{"format":"date","type":"string"},"e":{}}}`},
		{name: "array without items", in: `{"type":"object","properties":{"a":{"type":"array"}}}`, want: `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}`},
		{name: "tuple", in: `{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"},{"type":"integer"}]},"b":{"type":"array","prefixItems":[{"type":"string"}]}}}`, want: `{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"b":{"type":"array","items":{"type":"string"}}}}`},
		{name: "unknown type", in: `{"type":"object","properties":{"a":{"type":"any"},"b":{"type":[]},"c":{"type":7}}}`, want: `{"type":"object","properties":{"a":{},"b":{},"c":{}}}`},
		{name: "several types stay", in: `{"type":"object","properties":{"a":{"type":["string","null"]}}}`},
		{name: "not and conditions go", in: `{"type":"object","properties":{"a":{"not":{"type":"null"}}},"if":{},"then":{}}`, want: `{"type":"object","properties":{"a":{}}}`},
		{name: "draft", in: `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"number","minimum":0,"exclusiveMinimum":true}}}`, want: `{"type":"object","properties":{"a":{"type":"number","minimum":0}}}`},
		{name: "references stay with what they refer to", in: `{"type":"object","properties":{"a":{"$ref":"#/$defs/P"}},"$defs":{"P":{"type":"object","properties":{"p":{"$ref":"#/$defs/P"}}}}}`},
		{name: "dangling reference", in: `{"type":"object","properties":{"a":{"$ref":"#/$defs/P","description":"d"},"b":{"$ref":"https://example.com/s.json"}}}`, want: `{"type":"object","properties":{"a":{"description":"d"},"b":{}}}`},
		{name: "root reference", in: `{"$ref":"#/$defs/P","$defs":{"P":{"type":"object","properties":{"p":{"type":"string"}}}}}`, want: `{"type":"object","properties":{"p":{"type":"string"}},"$defs":{"P":{"type":"object","properties":{"p":{"type":"string"}}}}}`},
		{name: "root reference to nothing", in: `{"$ref":"#/$defs/P"}`, err: "does not exist"},
		{name: "root reference to itself", in: `{"$ref":"#"}`, err: "does not exist"},
		{name: "root oneOf", in: `{"type":"object","oneOf":[{"properties":{"a":{"type":"string"},"c":{"type":"string"}},"required":["a","c"]},{"properties":{"b":{"type":"number"},"c":{"type":"string"}},"required":["b","c"]}],"additionalProperties":false}`, want: `{"type":"object","properties":{"a":{"type":"string"},"c":{"type":"string"},"b":{"type":"number"}},"required":["c"]}`},
		{name: "root allOf", in: `{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"number"}},"required":["b"]}]}`, want: `{"properties":{"a":{"type":"string"},"b":{"type":"number"}},"required":["a","b"],"type":"object"}`},
		{name: "nested unions stay", in: `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}`},
		{name: "union with booleans", in: `{"type":"object","properties":{"a":{"anyOf":[true,false]},"b":{"anyOf":[false]}}}`, want: `{"type":"object","properties":{"a":{"anyOf":[{}]},"b":{}}}`},
		{name: "words that are none", in: `{"type":"object","properties":{"a":{"type":"string","description":3,"title":null}}}`, want: `{"type":"object","properties":{"a":{"type":"string"}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := schema.Sanitize(json.RawMessage(tt.in))
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			want := tt.want
			if want == "" {
				want = tt.in
			}
			require.Equal(t, want, string(got))
			again, _, err := schema.Sanitize(got)
			require.NoError(t, err)
			require.Equal(t, want, string(again), "cleaning twice")
		})
	}
}

func TestOddPropertyNamesAreMappedBack(t *testing.T) {
	clean, renamed, err := schema.Sanitize(json.RawMessage(`{"type":"object","properties":{"a b":{"type":"string"},"a_b":{"type":"string"},"ä":{"type":"integer"},"ok.x-y":{"type":"string"}},"required":["a b"]}`))
	require.NoError(t, err)
	require.Equal(t, `{"type":"object","properties":{"a_b_2":{"type":"string"},"a_b":{"type":"string"},"_2":{"type":"integer"},"ok.x-y":{"type":"string"}},"required":["a_b_2"]}`, string(clean))
	require.Equal(t, map[string]string{"a_b_2": "a b", "_2": "ä"}, renamed)
	args, err := schema.RestoreArguments(json.RawMessage(`{"a_b_2": "1","_2x":9007199254740993,"_2":1.0}`), renamed)
	require.NoError(t, err)
	require.Equal(t, `{"a b":"1","_2x":9007199254740993,"ä":1.0}`, string(args))
	args, err = schema.RestoreArguments(json.RawMessage(`{ "a": 1 }`), nil)
	require.NoError(t, err)
	require.Equal(t, `{ "a": 1 }`, string(args), "bytes as they came")
}

// Branches that lead back to the root have no end; many of them have none that
// is soon.
func TestBranchesThatReferToThemselves(t *testing.T) {
	const one = `{"$ref":"#"}`
	for _, in := range []string{
		`{"allOf":[` + one + `]}`,
		`{"anyOf":[true,` + strings.Repeat(one+",", 50) + one + `]}`,
		strings.Repeat(`{"oneOf":[`, 40) + one + strings.Repeat(`]}`, 40),
		`{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`,
	} {
		_, _, err := schema.Sanitize(json.RawMessage(in))
		require.ErrorContains(t, err, "refer to themselves", in)
	}
	many := `{"anyOf":[` + strings.Repeat(`{"properties":{"a":{"type":"string"}}},true,`, 450) + `{}]}`
	_, _, err := schema.Sanitize(json.RawMessage(many))
	require.NoError(t, err)
}

func FuzzSanitize(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/P"}},"$defs":{"P":{"type":["object","null"],"items":[true,{}]}}}`,
		`{"oneOf":[{"properties":{"a":true}},{"required":["a"]}],"allOf":[{"$ref":"#/oneOf/0"}]}`,
		`{"type":"object","properties":{"a b":{"const":null},"":{"anyOf":[false]}},"required":["a b",""]}`,
		`{"$ref":"#/properties/~1","properties":{"/":{"type":"object"}}}`,
		`{"allOf":[{"$ref":"#"}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		clean, _, err := schema.Sanitize(json.RawMessage(in))
		if err != nil {
			return
		}
		require.True(t, json.Valid(clean), "%s", clean)
		root, err := rawjson.Parse(clean)
		require.NoError(t, err)
		require.Equal(t, "object", root.Text("type"))
		props, err := rawjson.Parse(root.Get("properties"))
		require.NoError(t, err)
		for _, p := range props {
			require.Equal(t, byte('{'), rawjson.Kind(p.Value), "%s", clean)
			require.True(t, schema.IsPlainProperty(p.Key), "%q", p.Key)
		}
		for _, key := range []string{"oneOf", "anyOf", "allOf", "$ref"} {
			require.Nil(t, root.Get(key), "%s", clean)
		}
		again, _, err := schema.Sanitize(clean)
		require.NoError(t, err)
		require.Equal(t, string(clean), string(again))
	})
}

func BenchmarkSanitize(b *testing.B) {
	raw := json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","description":"what"},"b":{"type":"array","items":{"$ref":"#/$defs/P"}}},"required":["a"],"$defs":{"P":{"type":"object","properties":{"p":{"type":"integer"}}}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := schema.Sanitize(raw); err != nil {
			b.Fatal(err)
		}
	}
}
