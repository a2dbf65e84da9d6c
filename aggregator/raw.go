package aggregator

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"toolgate/internal/rawjson"
)

// A field is one member of a JSON object.
type field struct {
	key   string
	value json.RawMessage
}

// An ordered is a JSON object whose members keep their order and their bytes.
type ordered []field

var errNotObject = errors.New("not a JSON object")

// parseOrdered reads the object b, whose bytes the result shares. Of a key
// that stands twice the last value counts, as for most readers.
func parseOrdered(b []byte) (ordered, error) {
	if kindOf(b) != '{' {
		return nil, errNotObject
	}
	var room [16]rawjson.Member
	members, err := rawjson.Members(b, maxDepth, room[:0])
	if err != nil {
		return nil, err
	}
	o := make(ordered, 0, len(members)+2)
	var at map[string]int // where each key stands, for objects too long to look through
	if len(members) > 32 {
		at = make(map[string]int, len(members))
	}
	for _, m := range members {
		key := string(m.Key)
		if strings.IndexByte(key, '\\') >= 0 {
			key = textOf(json.RawMessage(`"` + key + `"`))
		}
		if at == nil {
			o.set(key, m.Value)
		} else if i, twice := at[key]; twice {
			o[i].value = m.Value
		} else {
			at[key] = len(o)
			o = append(o, field{key, m.Value})
		}
	}
	return o, nil
}

// get returns the value of key, nil when there is none.
func (o ordered) get(key string) json.RawMessage {
	if i := o.index(key); i >= 0 {
		return o[i].value
	}
	return nil
}

func (o ordered) index(key string) int {
	return slices.IndexFunc(o, func(f field) bool { return f.key == key })
}

// set replaces the value of key where it stands, or appends it.
func (o *ordered) set(key string, v json.RawMessage) {
	if i := o.index(key); i >= 0 {
		(*o)[i].value = v
		return
	}
	*o = append(*o, field{key, v})
}

func (o *ordered) remove(key string) {
	*o = slices.DeleteFunc(*o, func(f field) bool { return f.key == key })
}

// text returns the string that key holds, "" for anything else.
func (o ordered) text(key string) string { return textOf(o.get(key)) }

func (o ordered) bytes() json.RawMessage {
	b := []byte{'{'}
	for _, f := range o {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, quote(f.key)...)
		b = append(b, ':')
		b = appendOneLine(b, f.value)
	}
	return append(b, '}')
}

// textOf returns the string that v is, "" for anything else.
func textOf(v json.RawMessage) string {
	if n := len(v); n > 1 && v[0] == '"' && bytes.IndexByte(v, '\\') < 0 && bytes.IndexByte(v[1:], '"') == n-2 && utf8.Valid(v) {
		return string(v[1 : n-1])
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// kindOf returns the first byte of v, which tells its kind: { [ " t f n or a
// digit; 0 for nothing.
func kindOf(v json.RawMessage) byte {
	if v = bytes.TrimLeft(v, " \t\r\n"); len(v) == 0 {
		return 0
	}
	return v[0]
}

// listOf returns the elements of the array v, nil for anything else.
func listOf(v json.RawMessage) []json.RawMessage {
	elements, err := rawjson.Elements(v, maxDepth, nil)
	if err != nil {
		return nil
	}
	list := make([]json.RawMessage, len(elements))
	for i, e := range elements {
		list[i] = e
	}
	return list
}

func arrayOf(list []json.RawMessage) json.RawMessage {
	b := []byte{'['}
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendOneLine(b, v)
	}
	return append(b, ']')
}
