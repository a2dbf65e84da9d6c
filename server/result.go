package server

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/internal/rawjson"
)

// complete returns the result of a stateless request with the members that the
// protocol version asks for. They are put in front; all else keeps its bytes.
func complete(result json.RawMessage, info json.RawMessage) (json.RawMessage, error) {
	var own rawjson.Object
	// Most results have neither, and are not parsed.
	if rawjson.Mentions(result, "resultType") || rawjson.Mentions(result, "_meta") {
		var err error
		if own, err = rawjson.Parse(result); err != nil {
			return nil, err
		}
	}
	var front rawjson.Object
	if own.Get("resultType") == nil {
		front.Set("resultType", rawjson.Quote("complete"))
	}
	if own.Get("_meta") == nil {
		front.Set("_meta", rawjson.Object{{Key: mcp.MetaKeyServerInfo, Value: info}}.Bytes())
	}
	if len(front) == 0 {
		return result, nil
	}
	b, rest := front.Bytes(), bytes.TrimSpace(result)[1:]
	if bytes.TrimSpace(rest)[0] == '}' {
		return b, nil
	}
	b[len(b)-1] = ','
	return append(b, rest...), nil
}

// resultOf returns a result of our own as JSON.
func resultOf(res *mcp.CallToolResult) json.RawMessage {
	b, err := json.Marshal(res)
	if err != nil {
		panic("bug: own result does not marshal: " + err.Error())
	}
	return b
}

// listTTL is how long a stateless client may use a list without asking again, in
// milliseconds.
const listTTL = 30_000

// list returns a list result whose elements keep their bytes.
func (r *request) list(key string, elements []json.RawMessage) json.RawMessage {
	res := rawjson.Object{{Key: key, Value: rawjson.Array(elements)}}
	if r.stateless {
		res.Set("ttlMs", fmt.Append(nil, listTTL))
		res.Set("cacheScope", rawjson.Quote("private"))
	}
	return res.Bytes()
}

func definitions(list []aggregator.Named) []json.RawMessage {
	var defs []json.RawMessage
	for _, n := range list {
		defs = append(defs, n.Definition)
	}
	return defs
}

// marshal is json.Marshal without its escapes for HTML.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
