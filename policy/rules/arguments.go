package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// An argPattern is a tool_rule's pattern for one argument: a list of values, or
// patterns for the members of an object.
type argPattern struct {
	values []any                 // string in which * matches any text, float64, bool, nil
	object map[string]argPattern // if not nil, the argument is an object with these members
}

// members returns the members of a JSON object. A duplicate name has several
// values, because it is not known which one a server uses.
func members(raw json.RawMessage) (map[string][]json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not an object")
	}
	out := make(map[string][]json.RawMessage)
	for dec.More() {
		t, _ := dec.Token()
		name, ok := t.(string)
		if !ok {
			return nil, errors.New("not an object")
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		out[name] = append(out[name], value)
	}
	_, err := dec.Token()
	return out, err
}

// fitsMember reports whether the values of a name match: with one, if any value
// does, as for restricting rules; otherwise if all do, as for an allow. The name in
// another case counts too, because many servers ignore case.
func (p argPattern) fitsMember(all map[string][]json.RawMessage, name string, one bool) bool {
	values := all[name]
	if len(values) == 0 && !one {
		return false
	}
	for other, more := range all {
		if other != name && strings.EqualFold(other, name) {
			values = append(slices.Clip(values), more...)
		}
	}
	if one {
		return slices.ContainsFunc(values, func(v json.RawMessage) bool { return p.fits(v, one) })
	}
	return !slices.ContainsFunc(values, func(v json.RawMessage) bool { return !p.fits(v, one) })
}

func (p argPattern) fits(raw json.RawMessage, one bool) bool {
	if p.object != nil {
		values, err := members(raw)
		if err != nil {
			return false
		}
		for name, pattern := range p.object {
			if !pattern.fitsMember(values, name, one) {
				return false
			}
		}
		return true
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return false
	}
	return slices.ContainsFunc(p.values, func(want any) bool {
		pattern, ok1 := want.(string)
		text, ok2 := v.(string)
		if ok1 && ok2 {
			return glob(pattern, text)
		}
		switch v.(type) {
		case nil, bool, float64:
			return want == v
		}
		return false
	})
}

func anyGlob(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return glob(p, s) })
}

// glob reports whether s matches pattern, in which * matches any text.
func glob(pattern, s string) bool {
	first, rest, ok := strings.Cut(pattern, "*")
	if !ok {
		return pattern == s
	}
	s, ok = strings.CutPrefix(s, first)
	if !ok {
		return false
	}
	for {
		var piece string
		piece, rest, ok = strings.Cut(rest, "*")
		if !ok {
			return strings.HasSuffix(s, piece)
		}
		i := strings.Index(s, piece)
		if i < 0 {
			return false
		}
		s = s[i+len(piece):]
	}
}
