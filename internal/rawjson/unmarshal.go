package rawjson

import (
	"errors"

	"github.com/segmentio/encoding/json"
)

// Unmarshal is json.Unmarshal but for names: a struct's field is set by its name
// alone, in the case that it has. encoding/json takes a name in any case, so
// that it reads another value than a hook, a rule, the record or the SDK, which
// decodes what a client sends by the same package as this.
//
// A type's own UnmarshalJSON sees to its names itself.
func Unmarshal(b []byte, v any) error { return unmarshal(b, v, 0) }

// UnmarshalKnown is [Unmarshal] that refuses names which have no field.
func UnmarshalKnown(b []byte, v any) error { return unmarshal(b, v, json.DisallowUnknownFields) }

func unmarshal(b []byte, v any, flags json.ParseFlags) error {
	rest, err := json.Parse(b, v, flags|json.DontMatchCaseInsensitiveStructFields)
	if err == nil && len(rest) > 0 {
		err = errors.New("json: there is more than one value")
	}
	return err
}
