package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator/schema"
)

func TestShrink(t *testing.T) {
	clean, _, err := schema.Sanitize(json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","description":"` + strings.Repeat("long ", 50) + `"},"b":{"$ref":"#/$defs/B"},"c":{"type":"object","properties":{"d":{"type":"object","properties":{"e":{"type":"object","properties":{"f":{"type":"string"}}}}}}}},"required":["a"],"$defs":{"B":{"type":"object","properties":{"` + strings.Repeat("x", 60) + `":{"type":"string"}}}}}`))
	require.NoError(t, err)
	for _, tt := range []struct {
		limit      int
		took, want string
	}{
		{0, "", string(clean)},
		{len(clean), "", string(clean)},
		{400, "descriptions", `{"type":"object","properties":{"a":{"type":"string"},"b":{"$ref":"#/$defs/B"},"c":{"type":"object","properties":{"d":{"type":"object","properties":{"e":{"type":"object","properties":{"f":{"type":"string"}}}}}}}},"required":["a"],"$defs":{"B":{"type":"object","properties":{"` + strings.Repeat("x", 60) + `":{"type":"string"}}}}}`},
		{250, "descriptions and definitions", `{"type":"object","properties":{"a":{"type":"string"},"b":{},"c":{"type":"object","properties":{"d":{"type":"object","properties":{"e":{"type":"object","properties":{"f":{"type":"string"}}}}}}}},"required":["a"]}`},
		{160, "descriptions, definitions and everything below two levels", `{"type":"object","properties":{"a":{"type":"string"},"b":{},"c":{"type":"object","properties":{"d":{"type":"object","properties":{"e":{}}}}}},"required":["a"]}`},
		{100, "everything", `{"type":"object","properties":{}}`},
	} {
		got, took := schema.Shrink(clean, tt.limit)
		require.Equal(t, tt.took, took)
		require.Equal(t, tt.want, string(got))
	}
}
