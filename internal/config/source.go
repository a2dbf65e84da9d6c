package config

import (
	"cmp"
	"errors"
	"strings"

	"toolgate/policy"
)

// A source is the text of a config and the name of the file that it is from.
type source struct {
	name string
	text []byte
}

// fault returns an *[Error] at a line of the source, 0 if it is unknown.
func (src source) fault(line int, msg, hint string) error {
	return &Error{File: src.name, Line: line, Msg: msg, Hint: hint}
}

// hint returns the hint of err, or "".
func hint(err error) string {
	if v, ok := errors.AsType[*policy.ValueError](err); ok {
		return v.Hint()
	}
	if n, ok := errors.AsType[*NetworkError](err); ok {
		return n.Hint
	}
	return ""
}

// A setting is a line that begins a table, where key is "", or that sets a key of it. Names are without quotes.
type setting struct{ table, key, value string }

// find returns the first line whose setting matches, or 0 if there is none.
func (src source) find(matches func(setting) bool) int {
	unquote := strings.NewReplacer(`"`, "", "'", "")
	at := setting{}
	for i, line := range strings.Split(string(src.text), "\n") {
		line = strings.TrimSpace(line)
		key, value, isKey := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "["):
			head, _, _ := strings.Cut(strings.TrimLeft(line, "["), "]")
			at = setting{table: unquote.Replace(head)}
		case isKey:
			at.key, at.value = unquote.Replace(strings.TrimSpace(key)), value
		default:
			continue
		}
		if matches(at) {
			return i + 1
		}
	}
	return 0
}

// lineOf returns the first line that sets key, in any table, or 0.
func (src source) lineOf(key string) int {
	return src.find(func(s setting) bool { return s.key == key })
}

// lineOfValue returns the line that sets key to value, else the first line that sets key, or 0.
func (src source) lineOfValue(key, value string) int {
	exact := src.find(func(s setting) bool { return s.key == key && value != "" && strings.Contains(s.value, value) })
	return cmp.Or(exact, src.lineOf(key))
}

// lineIn returns the line that sets key in a table, else the line of the table, or 0.
func (src source) lineIn(table, key string) int {
	exact := src.find(func(s setting) bool { return s.table == table && s.key == key })
	return cmp.Or(exact, src.find(func(s setting) bool { return s.table == table }))
}

// lineBelow returns the line that sets key in the table or in a subtable, else the line of
// the subtable whose name holds key, else the line of the table, or 0.
func (src source) lineBelow(table, key string) int {
	below := func(s setting) bool { return s.table == table || strings.HasPrefix(s.table, table+".") }
	return cmp.Or(
		src.find(func(s setting) bool { return below(s) && s.key == key }),
		src.find(func(s setting) bool { return below(s) && strings.Contains(s.table, key) }),
		src.find(below),
	)
}
