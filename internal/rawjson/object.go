// Package rawjson reads and edits JSON without re-encoding it: values keep their bytes,
// so numbers, the order of members and unknown members survive.
//
//	o, err := rawjson.Parse(params)
//	o.Set("name", rawjson.Quote(name))
//	params = o.Bytes()
//
// [Members] and [List] locate the parts of an object or array, and [Unique] refuses an
// object that has a name twice. All of them check the whole value.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep Parse and List let a value nest.
const MaxDepth = 10_000

// ErrNotObject is the error of Parse for a value that is not an object.
var ErrNotObject = errors.New("not a JSON object")

// A Field is one member of a JSON object.
type Field struct {
	Key   string
	Value json.RawMessage
}

// An Object is a JSON object whose members keep their order and their bytes.
type Object []Field

// Parse reads the object b. The values are slices of b. If a key occurs twice,
// the last value wins, at the place of the first.
func Parse(b []byte) (Object, error) {
	if Kind(b) != '{' {
		return nil, ErrNotObject
	}
	var room [16]Member
	members, err := Members(b, MaxDepth, room[:0])
	if err != nil {
		return nil, err
	}
	o := make(Object, 0, len(members)+2)
	var at map[string]int // index of each key, for objects too long for a linear search
	if len(members) > 32 {
		at = make(map[string]int, len(members))
	}
	for _, m := range members {
		key := m.Name()
		if at == nil {
			o.Set(key, m.Value)
		} else if i, twice := at[key]; twice {
			o[i].Value = m.Value
		} else {
			at[key] = len(o)
			o = append(o, Field{key, m.Value})
		}
	}
	return o, nil
}

// Get returns the value of key, nil when there is none.
func (o Object) Get(key string) json.RawMessage {
	if i := o.index(key); i >= 0 {
		return o[i].Value
	}
	return nil
}

// index returns the position of key, -1 when there is none.
func (o Object) index(key string) int {
	return slices.IndexFunc(o, func(f Field) bool { return f.Key == key })
}

// Set replaces the value of key in place, or appends the member.
func (o *Object) Set(key string, v json.RawMessage) {
	if i := o.index(key); i >= 0 {
		(*o)[i].Value = v
		return
	}
	*o = append(*o, Field{key, v})
}

// SetObject sets key to v, or removes key if v is empty.
func (o *Object) SetObject(key string, v Object) {
	if len(v) == 0 {
		o.Delete(key)
		return
	}
	o.Set(key, v.Bytes())
}

// Default appends the member unless o has the key.
func (o *Object) Default(key string, v json.RawMessage) {
	if o.index(key) < 0 {
		*o = append(*o, Field{key, v})
	}
}

// Delete removes the members with these keys, as far as they are present.
func (o *Object) Delete(keys ...string) {
	*o = slices.DeleteFunc(*o, func(f Field) bool { return slices.Contains(keys, f.Key) })
}

// Text returns the string value of key, "" when it is absent or not a string.
func (o Object) Text(key string) string { return Text(o.Get(key)) }

// Bytes returns the object as JSON on one line. A value without line breaks is
// copied as is, and a field without a value is left out.
func (o Object) Bytes() json.RawMessage {
	size := 2
	for _, f := range o {
		size += len(f.Key) + len(f.Value) + len(`"":,`)
	}
	b := append(make([]byte, 0, size), '{')
	for _, f := range o {
		if len(f.Value) == 0 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, Quote(f.Key)...)
		b = append(b, ':')
		b = appendLine(b, f.Value)
	}
	return append(b, '}')
}

// Text returns the value of the JSON string v, "" when v is not a string.
func Text(v json.RawMessage) string {
	if Kind(v) != '"' {
		return ""
	}
	n := len(v)
	isPlain := n > 1 && v[0] == '"' && bytes.IndexByte(v[1:], '"') == n-2
	if isPlain && bytes.IndexByte(v, '\\') < 0 && utf8.Valid(v) {
		return string(v[1 : n-1])
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// Mentions reports whether the JSON value b may have a member with this name, at any
// depth. It is quick: what it reports may also be text.
func Mentions(b []byte, name string) bool {
	// A name may have escaped letters and slashes.
	return bytes.Contains(b, []byte(name)) || bytes.Contains(b, []byte(`\u00`)) ||
		strings.Contains(name, "/") && bytes.Contains(b, []byte(`\/`))
}

// Kind returns the first byte of v after white space, which tells its type:
// '{', '[', '"', 't', 'f', 'n', '-' or a digit. It returns 0 for an empty v.
func Kind(v json.RawMessage) byte {
	if v = bytes.TrimLeft(v, " \t\r\n"); len(v) == 0 {
		return 0
	}
	return v[0]
}

// List returns the elements of the array v as slices of v, nil when v is
// not an array.
func List(v json.RawMessage) []json.RawMessage {
	s := Scanner{Depth: MaxDepth}
	if s.begin(v); s.peek() != '[' {
		return nil
	}
	list := []json.RawMessage{}
	if s.array(func(e json.RawMessage) { list = append(list, e) }) != nil || s.end() != nil {
		return nil
	}
	return list
}

// Strings returns the elements of the array v that are strings.
func Strings(v json.RawMessage) []string {
	var list []string
	for _, e := range List(v) {
		if Kind(e) == '"' {
			list = append(list, Text(e))
		}
	}
	return list
}

// Array returns a JSON array of the elements in list.
func Array(list []json.RawMessage) json.RawMessage {
	b := []byte{'['}
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLine(b, v)
	}
	return append(b, ']')
}

// StringArray returns a JSON array of the strings in list.
func StringArray(list []string) json.RawMessage {
	elements := make([]json.RawMessage, len(list))
	for i, s := range list {
		elements[i] = Quote(s)
	}
	return Array(elements)
}

// Line returns v on one line: v itself, or if it has line breaks a copy without the white
// space between tokens. A carriage return counts as one, because some readers of lines
// end a line there. v must be valid; if it has line breaks and is not, Line returns null.
//
// U+2028 and U+2029 stay. They occur in strings only, so what follows them in a reader
// that ends lines there is never JSON.
func Line(v json.RawMessage) json.RawMessage {
	if !hasBreak(v) {
		return v
	}
	return appendLine(nil, v)
}

func hasBreak(v []byte) bool { return bytes.IndexByte(v, '\n') >= 0 || bytes.IndexByte(v, '\r') >= 0 }

// appendLine appends [Line] of v to b.
func appendLine(b []byte, v json.RawMessage) []byte {
	if !hasBreak(v) {
		return append(b, v...)
	}
	buf := bytes.NewBuffer(b)
	if json.Compact(buf, v) != nil {
		return append(b, "null"...)
	}
	return buf.Bytes()
}

// Quote returns s as a JSON string.
func Quote(s string) json.RawMessage {
	if isPlain(s) {
		b := make([]byte, 0, len(s)+2)
		return append(append(append(b, '"'), s...), '"')
	}
	b, _ := json.Marshal(s) // a string always marshals
	return b
}

// isPlain reports whether s needs no escaping in JSON.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}
