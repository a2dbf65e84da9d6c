package server

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/rawjson"
)

// A rawResult is a CallToolResult whose bytes are passed on as they are. The
// SDK's own type would refuse unknown content and send numbers through
// float64. For clients of the stateless era the fields that it asks for are
// put in front.
type rawResult struct {
	mcp.ResultBase // holds the _meta that the SDK adds: serverInfo
	raw            json.RawMessage
	modern         bool

	// keep, if set, takes the bytes and gives what the SDK is to carry in
	// their place, because it would compact and escape them.
	keep func(json.RawMessage) json.RawMessage
}

// rawOf returns res in raw form. A result that we made always marshals.
func rawOf(res *mcp.CallToolResult, modern bool) *rawResult {
	b, err := json.Marshal(res)
	if err != nil {
		panic("bug: own result does not marshal: " + err.Error())
	}
	return &rawResult{raw: b, modern: modern}
}

// MarshalJSON returns the result with the fields that belong to this hop.
func (r *rawResult) MarshalJSON() ([]byte, error) {
	b, err := r.bytes()
	if err != nil || r.keep == nil {
		return b, err
	}
	return r.keep(b), nil
}

func (r *rawResult) bytes() (json.RawMessage, error) {
	if !r.modern {
		return r.raw, nil
	}
	if !bytes.Contains(r.raw, []byte(`"resultType"`)) && !bytes.Contains(r.raw, []byte(`"_meta"`)) {
		front := map[string]any{"resultType": "complete"} // by far the most, without decoding
		if len(r.Meta) > 0 {
			front["_meta"] = r.Meta
		}
		return splice(front, r.raw)
	}
	var have struct {
		ResultType json.RawMessage `json:"resultType"`
		Meta       json.RawMessage `json:"_meta"`
	}
	if err := rawjson.Unmarshal(r.raw, &have); err != nil {
		return nil, err
	}
	front := map[string]any{}
	if have.ResultType == nil {
		front["resultType"] = "complete"
	}
	if have.Meta == nil && len(r.Meta) > 0 {
		front["_meta"] = r.Meta
	}
	return splice(front, r.raw)
}

// splice returns the JSON object raw with the fields of front before its own.
func splice(front map[string]any, raw json.RawMessage) ([]byte, error) {
	if len(front) == 0 {
		return raw, nil
	}
	b, err := json.Marshal(front)
	if err != nil {
		return nil, err
	}
	rest := raw[1:] // behind the brace
	if len(rest) > 1 {
		b[len(b)-1] = ','
		return append(b, rest...), nil
	}
	return b, nil
}

// withMember returns the JSON object raw with value in place of its member
// key, and all else as the bytes it is.
func withMember(raw json.RawMessage, key string, value json.RawMessage) json.RawMessage {
	members, err := rawjson.Members(raw, rawjson.MaxDepth, nil)
	if err != nil {
		return raw
	}
	b := append(make([]byte, 0, len(raw)+len(value)+len(key)+8), '{', '"')
	b = append(append(append(b, key...), '"', ':'), value...)
	for _, m := range members {
		if string(m.Key) != key {
			b = append(append(append(b, ',', '"'), m.Key...), '"', ':')
			b = append(b, m.Value...)
		}
	}
	return append(b, '}')
}
