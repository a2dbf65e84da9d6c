package rawjson

import (
	"errors"

	"github.com/segmentio/encoding/json"
)

// Unmarshal is json.Unmarshal with case-sensitive names. encoding/json ignores case, so it
// could read another value than a hook, a rule, the audit log or the SDK, which decodes
// messages with the same package as this.
//
// It does not apply within a type that has its own UnmarshalJSON.
func Unmarshal(b []byte, v any) error { return unmarshal(b, v, 0) }

// UnmarshalKnown is [Unmarshal], except that unknown names are an error.
func UnmarshalKnown(b []byte, v any) error { return unmarshal(b, v, json.DisallowUnknownFields) }

func unmarshal(b []byte, v any, flags json.ParseFlags) error {
	rest, err := json.Parse(b, v, flags|json.DontMatchCaseInsensitiveStructFields)
	if err == nil && len(rest) > 0 {
		err = errors.New("json: there is more than one value")
	}
	return err
}
