package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func text(s string) textContent { return textContent{Type: "text", Text: s} }

// marshal is for what always marshals.
func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("bug: own result does not marshal: " + err.Error())
	}
	return b
}

// errorResult returns a result that says that something went wrong.
func errorResult(s string) json.RawMessage {
	return marshal(struct {
		Content []textContent `json:"content"`
		IsError bool          `json:"isError"`
	}{[]textContent{text(s)}, true})
}

// resultOf returns the result that a hook gave: a whole result, or what is to
// be its text.
func resultOf(v json.RawMessage) json.RawMessage {
	var whole struct {
		Content []json.RawMessage `json:"content"`
	}
	if json.Unmarshal(v, &whole) == nil && whole.Content != nil {
		return v
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		s = string(v)
	}
	return marshal(struct {
		Content []textContent `json:"content"`
	}{[]textContent{text(s)}})
}

// appendText adds a piece of text to a result. Every other byte of it stays.
func appendText(result json.RawMessage, s string) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(result))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("the result is not an object")
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		if key != "content" {
			continue
		}
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return nil, err
		}
		piece := marshal(text(s))
		if len(list) > 0 {
			piece = append([]byte{','}, piece...)
		}
		bracket := int(dec.InputOffset()) - 1
		return slices.Concat(result[:bracket], piece, result[bracket:]), nil
	}
	return nil, errors.New("the result has no content")
}
