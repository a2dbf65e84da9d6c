package rawjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"toolgate/internal/rawjson"
)

func TestUnique(t *testing.T) {
	many := manyNames(100_000)
	for _, good := range []string{
		`{}`, `[1,"a","a"]`, `{"a":{"a":1,"b":{"a":2}},"b":[{"a":1},{"a":2}],"c":"a"}`, `{"a":1,"A":2}`,
		`{"a\\u0062":1,"ab":2,"\\":3,"\"":4}`, `{"a":1,"a\u0000":2}`, `{"é":1,"e\u0301":2}`, many + `}`,
	} {
		require.NoError(t, rawjson.Unique([]byte(good)), "%.100s", good)
	}
	for _, tt := range []struct{ name, in, repeated string }{
		{"empty", `{"":1,"":2}`, ""},
		{"twice", `{"a":1,"a":2}`, "a"},
		{"the same value", `{"a":1,"b":2,"a":1}`, "a"},
		{"behind an object", `{"a":{"x":1},"a":2}`, "a"},
		{"in an array", `[1,[{"b":1,"b":1}]]`, "b"},
		{"escaped", `{"command":1,"comm\u0061nd":2}`, "command"},
		{"escaped in two ways", `{"\u002f":1,"\/":2}`, "/"},
		{"a pair of surrogates", `{"😀":1,"\ud83d\ude00":2}`, "😀"},
		{"halves of pairs, which decoders replace", `{"\ud800":1,"\udc00":2}`, "\uFFFD"},
		{"behind many", many + `,"name99":0}`, "name99"},
		{"among many, escaped", many + `,"nam\u00655":0}`, "name5"},
		{"below many", many + `,"o":{"p":{"q":1,"q":2}}}`, "q"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			twice, ok := errors.AsType[*rawjson.DuplicateNameError](rawjson.Unique([]byte(tt.in)))
			require.True(t, ok)
			require.Equal(t, tt.repeated, twice.Name)
		})
	}
	for _, bad := range []string{``, ` `, `{`, `{"a":1}{}`, `{"a":1,}`, "\"\xff\"", strings.Repeat("[", 1000) + strings.Repeat("]", 1000)} {
		require.Error(t, rawjson.Unique([]byte(bad)), bad)
	}
	err := rawjson.Unique(fmt.Appendf(nil, `{"%[1]s":1,"%[1]s":2}`, strings.Repeat("x", 1<<20)))
	require.Less(t, len(err.Error()), 1000, "a name is not repeated whole")
}

// manyNames is an object with n names, without its end.
func manyNames(n int) string {
	var b strings.Builder
	b.WriteString(`{"first":0`)
	for i := range n {
		fmt.Fprintf(&b, `,"name%d":{"a":1,"b":2}`, i)
	}
	return b.String()
}

// FuzzUnique: it takes what encoding/json takes, but for objects in which its
// decoder meets a name again.
func FuzzUnique(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":{"b":1},"b":{"a":1}}`, `[{"a":1},{"a":2}]`, `{"a":[{"b":1,"c":2,"b":3}]}`,
		`{"\ud800":1,"\udfff":2}`, `{"\ud83d\ude00":1,"😀":2}`, `{"":1,"":2}`, `{"a\/b":1,"a/b":2}`, `{"a":"b","b":"a"}`, `{"a":1,"A":2}`, `"a"`, `null`,
		manyNames(20) + `}`, manyNames(20) + `,"name7":1}`, `{"command":"id","command":["ls"]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := rawjson.Unique(b)
		if nests(b) {
			return
		}
		_, twice := errors.AsType[*rawjson.DuplicateNameError](err)
		if valid := utf8.Valid(b) && json.Valid(b); !valid {
			require.Error(t, err)
			return
		}
		require.Equal(t, repeats(t, b), twice, "%q: %v", b, err)
		require.Equal(t, twice, err != nil, "%q: %v", b, err)
	})
}

// nests reports whether b may nest too deep.
func nests(b []byte) bool { return bytes.Count(b, []byte("{"))+bytes.Count(b, []byte("[")) > 500 }

// repeats reports whether encoding/json meets a name twice in one object of b.
func repeats(t *testing.T, b []byte) bool {
	type level struct {
		names map[string]bool // nil for an array
		value bool            // the next token is a value
	}
	levels := []level{{}}
	for dec := json.NewDecoder(bytes.NewReader(b)); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return false
		}
		require.NoError(t, err)
		at := &levels[len(levels)-1]
		if token == json.Delim('}') || token == json.Delim(']') {
			levels = levels[:len(levels)-1]
			continue
		}
		if at.names != nil && !at.value {
			name := token.(string)
			if at.names[name] {
				return true
			}
			at.names[name], at.value = true, true
			continue
		}
		at.value = false
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{names: map[string]bool{}})
		case json.Delim('['):
			levels = append(levels, level{})
		}
	}
}

func BenchmarkUnique(b *testing.B) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":1}`
	for _, bb := range []struct{ name, line string }{
		{"small", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"},` + meta + `}}`},
		{"escaped", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"messag\u0065":"hello"},` + meta + `}}`},
		{"long", `{"input":"` + strings.Repeat("some text ", 1<<20) + `"}`},
		{"many", manyNames(100_000) + `}`},
	} {
		line := []byte(bb.line)
		for _, unique := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/unique=%v", bb.name, unique), func(b *testing.B) {
				s := rawjson.Scanner{Depth: rawjson.DefaultDepth, Unique: unique}
				var members []rawjson.Member
				b.SetBytes(int64(len(line)))
				b.ReportAllocs()
				for b.Loop() {
					var err error
					if members, err = s.Members(line, members[:0]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func TestUnmarshalTakesNamesAsTheyAre(t *testing.T) {
	type inner struct {
		Known string `json:"known"`
	}
	type outer struct {
		Inner inner           `json:"inner"`
		List  []inner         `json:"list"`
		Raw   json.RawMessage `json:"raw"`
	}
	var got outer
	in := []byte(`{"inner":{"known":"a","Known":"b","KNOWN":"c"},"INNER":{"known":"d"},"list":[{"Known":"e"}],"raw": {"n":1.0},"Kelvin":1}`)
	require.NoError(t, rawjson.Unmarshal(in, &got))
	require.Equal(t, outer{Inner: inner{"a"}, List: []inner{{}}, Raw: json.RawMessage(`{"n":1.0}`)}, got)
	require.ErrorContains(t, rawjson.UnmarshalKnown(in, &outer{}), `unknown field "Known"`)
	require.ErrorContains(t, rawjson.UnmarshalKnown([]byte(`{"\u212Anown":"x"}`), &inner{}), "unknown field", "a Kelvin sign is no k")
	require.NoError(t, rawjson.UnmarshalKnown([]byte(` {"kn\u006fwn":"x"} `), &inner{}))
	require.Error(t, rawjson.Unmarshal([]byte(`{} {}`), &inner{}))
	require.Error(t, rawjson.Unmarshal(nil, &inner{}))
}
