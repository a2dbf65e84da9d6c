package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"toolgate/internal/gate"
)

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func text(s string) textContent { return textContent{Type: "text", Text: s} }

// marshal encodes values that cannot fail to encode.
func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("bug: own result does not marshal: " + err.Error())
	}
	return b
}

// contentList returns the key of the list in the call's result that the model reads,
// and s as an element of it. The key is "" if the result holds no text.
func contentList(c gate.Call, s string) (list string, element json.RawMessage) {
	switch {
	case !c.Action.Request:
		return "content", marshal(text(s))
	case c.Action.Tool == "prompts/get":
		return "messages", marshal(map[string]any{"role": "user", "content": text(s)})
	case c.Action.Tool == "resources/read":
		var in struct {
			URI string `json:"uri"`
		}
		_ = json.Unmarshal(c.Arguments, &in) // validated before
		return "contents", marshal(map[string]string{"uri": in.URI, "mimeType": "text/plain", "text": s})
	}
	return "", nil
}

// resultOf returns the result that a hook provided: v is a whole result or its text.
func resultOf(c gate.Call, v json.RawMessage) (json.RawMessage, error) {
	list, _ := contentList(c, "")
	if list == "" {
		return nil, errors.New("a hook changed the output, but the result of " + c.Action.Tool + " holds no text")
	}
	var whole map[string]json.RawMessage
	var elements []json.RawMessage
	if json.Unmarshal(v, &whole) == nil && json.Unmarshal(whole[list], &elements) == nil && elements != nil {
		return v, nil
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		s = string(v)
	}
	_, element := contentList(c, s)
	return marshal(map[string][]json.RawMessage{list: {element}}), nil
}

// appendText adds s to the result if it can hold text. All other bytes are preserved.
func appendText(c gate.Call, result json.RawMessage, s string) (json.RawMessage, error) {
	in, piece := contentList(c, s)
	if in == "" {
		return result, nil
	}
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
		if key != in {
			continue
		}
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return nil, err
		}
		if len(list) > 0 {
			piece = append([]byte{','}, piece...)
		}
		bracket := int(dec.InputOffset()) - 1
		return slices.Concat(result[:bracket], piece, result[bracket:]), nil
	}
	return nil, errors.New("the result has no " + in)
}
