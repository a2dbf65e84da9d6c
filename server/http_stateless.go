package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"toolgate/internal/rawjson"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// answerStateless answers a stateless request with a stream of events, the last
// of which is the answer. Errors that have a status are answered without a
// stream, unless it has begun.
func answerStateless(ctx context.Context, w http.ResponseWriter, r *request, msg *jsonrpc.Request) {
	var mu sync.Mutex
	var events *eventConn
	r.write = func(_ context.Context, m jsonrpc.Message) error {
		data, err := encode(m)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if events == nil {
			events = newEventConn(w)
		}
		return events.write(fmt.Appendf(nil, "event: message\ndata: %s\n\n", data))
	}
	res, err := r.answer(ctx)
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok && events == nil && statusOf(rpc.Code) != 0 {
		writeJSON(w, statusOf(rpc.Code), &jsonrpc.Response{ID: msg.ID, Error: rpc})
		return
	}
	// An error means that the client has gone.
	_ = r.write(ctx, &jsonrpc.Response{ID: msg.ID, Result: res, Error: err})
}

// statusOf returns the HTTP status of an error, 0 if it has none of its own
// (specification 2026-07-28, streamable HTTP).
func statusOf(code int64) int {
	switch code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case jsonrpc.CodeInvalidParams, mcp.CodeUnsupportedProtocolVersion, mcp.CodeMissingRequiredClientCapabilities:
		return http.StatusBadRequest
	}
	return 0
}

// encode returns a message as one line. The bytes of a result stay as they are,
// unless it spans several lines.
func encode(msg jsonrpc.Message) ([]byte, error) {
	resp, ok := msg.(*jsonrpc.Response)
	if !ok || resp.Error != nil {
		return jsonrpc.EncodeMessage(msg)
	}
	b := make([]byte, 0, len(resp.Result)+64)
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), idJSON(resp.ID)...)
	b = append(b, `,"result":`...)
	return append(rawjson.AppendLine(b, resp.Result), '}'), nil
}

func writeJSON(w http.ResponseWriter, status int, msg jsonrpc.Message) {
	b, err := encode(msg)
	if err != nil {
		b = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}
