package rawjson_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"toolgate/internal/rawjson"
)

func TestMembers(t *testing.T) {
	got, err := rawjson.Members([]byte(` { "a" : 1.0 ,"b\u0041":{"c":[1,{"d":"}"}]},"b":"\"","": null} `), 10, nil)
	require.NoError(t, err)
	var all []string
	for _, m := range got {
		all = append(all, string(m.Key)+"="+string(m.Value))
	}
	require.Equal(t, []string{"a=1.0", `b\u0041={"c":[1,{"d":"}"}]}`, `b="\""`, "=null"}, all)

	for _, bad := range []string{``, `[]`, `{`, `{}x`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":01}`, `{"a":"` + "\n" + `"}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":tru}`, `{"a":-}`, `{"a":1.}`, `{"a":1e}`, "{\"a\":\"\xff\"}", `{"a":[1,]}`} {
		_, err := rawjson.Members([]byte(bad), 10, nil)
		require.Error(t, err, bad)
	}
	_, err = rawjson.Members([]byte(`{"a":`+strings.Repeat("[", 10)+strings.Repeat("]", 10)+`}`), 10, nil)
	require.ErrorContains(t, err, "deep")
}

func TestElements(t *testing.T) {
	got := rawjson.List([]byte(` [ 1.0 ,"a,]", {"b":[]},[[]],null ] `))
	var texts []string
	for _, e := range got {
		texts = append(texts, string(e))
	}
	require.Equal(t, []string{"1.0", `"a,]"`, `{"b":[]}`, "[[]]", "null"}, texts)
	for _, bad := range []string{``, `{}`, `[`, `[,]`, `[1,]`, `[1 2]`, `[1]x`, "[\"\xff\"]"} {
		require.Nil(t, rawjson.List([]byte(bad)), bad)
	}
}

// FuzzMembers: it takes what encoding/json takes, and finds the same members.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1,"b":[true,false,null,-0.5e+7,"x\\\"\u00e9"]}`, ` {"a":{"a":{}}} `, `{"a":1,"a":2}`, `{"a":"é"}`, `{"a":+1}`, `{"a":1}{"b":2}`, `{"":""}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := rawjson.Members(b, 10000, nil)
		var want map[string]json.RawMessage
		ok := utf8.Valid(b) && json.Unmarshal(b, &want) == nil && want != nil
		require.Equal(t, ok, err == nil, "%q: %v", b, err)
		if !ok {
			return
		}
		have := map[string]json.RawMessage{}
		for _, m := range got {
			var key string
			require.NoError(t, json.Unmarshal([]byte(`"`+string(m.Key)+`"`), &key))
			have[key] = m.Value
		}
		require.Equal(t, len(want), len(have))
		for k, v := range want {
			require.Equal(t, string(v), string(have[k]))
		}
	})
}

func BenchmarkMembers(b *testing.B) {
	for name, line := range map[string]string{
		"small": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}`,
		"long":  `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("some text ", 1<<20) + `"}]}}`,
	} {
		b.Run(name, func(b *testing.B) {
			var into []rawjson.Member
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				into, _ = rawjson.Members([]byte(line), 512, into[:0])
			}
		})
		b.Run(name+"/encoding-json", func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				json.Valid([]byte(line))
			}
		})
	}
}
