package bytestring_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/bytestring"
)

type value struct {
	S     string
	List  []string
	Map   map[string]string
	Inner *value
	Raw   json.RawMessage
	N     int
	note  string
}

func TestEscape(t *testing.T) {
	for _, s := range []string{"", "a", "ä", "\xff", "a\xffä\x00", "\x00", "\x00ÿ", "\x00\xff"} {
		in := value{S: s, List: []string{"x", s}, Map: map[string]string{"x": s}, Inner: &value{S: s}, Raw: json.RawMessage("1"), N: 3}
		text, err := json.Marshal(bytestring.Escape(in))
		require.NoError(t, err)
		var out value
		require.NoError(t, json.Unmarshal(text, &out))
		require.Equal(t, in, withoutNull(bytestring.Unescape(out)))
	}
	in := value{S: "\xff", List: []string{"\xff"}, note: "kept"}
	require.Equal(t, "kept", bytestring.Escape(in).note)
	require.Equal(t, []string{"\xff"}, in.List, "the original is not changed")
	require.NotEqual(t, bytestring.Escape("\xfe"), bytestring.Escape("\xff"))
}

// withoutNull undoes what encoding/json makes of a nil Raw.
func withoutNull(v value) value {
	if v.Inner != nil && string(v.Inner.Raw) == "null" {
		v.Inner.Raw = nil
	}
	return v
}
