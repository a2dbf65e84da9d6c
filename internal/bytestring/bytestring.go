// Package bytestring carries strings that are not valid UTF-8, such as paths, through
// JSON, which would replace their bytes.
//
//	text, err := json.Marshal(bytestring.Escape(config))
//	…
//	err = json.Unmarshal(text, &config)
//	config = bytestring.Unescape(config)
package bytestring

import (
	"reflect"
	"strings"
	"unicode/utf8"
)

// mark begins an escaped string. No path, argument or variable contains it.
const mark = "\x00"

// Escape returns a copy of v with its strings escaped: those in exported fields of
// structs, in slices, behind pointers and as values of maps. Valid UTF-8 stays as it is, unless it
// begins with a zero byte.
func Escape[T any](v T) T { return mapStrings(v, escape) }

// Unescape returns a copy of v in which what [Escape] did is undone.
func Unescape[T any](v T) T { return mapStrings(v, unescape) }

// escape returns s, or the mark and one character for each byte.
func escape(s string) string {
	if utf8.ValidString(s) && !strings.HasPrefix(s, mark) {
		return s
	}
	escaped := []rune(mark)
	for _, c := range []byte(s) {
		escaped = append(escaped, rune(c))
	}
	return string(escaped)
}

func unescape(s string) string {
	rest, ok := strings.CutPrefix(s, mark)
	if !ok {
		return s
	}
	var bytes []byte
	for _, c := range rest {
		bytes = append(bytes, byte(c))
	}
	return string(bytes)
}

func mapStrings[T any](v T, change func(string) string) T {
	return mapped(reflect.ValueOf(&v).Elem(), change).Interface().(T)
}

// mapped returns a copy of v with change applied to its strings.
func mapped(v reflect.Value, change func(string) string) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(change(v.String()))
	case reflect.Slice:
		if v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8 {
			return out
		}
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(mapped(v.Index(i), change))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(mapped(v.Field(i), change))
			}
		}
	case reflect.Map:
		if v.IsNil() {
			return out
		}
		out.Set(reflect.MakeMap(v.Type()))
		for key, value := range v.Seq2() {
			out.SetMapIndex(key, mapped(value, change))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(mapped(v.Elem(), change))
		}
	}
	return out
}
