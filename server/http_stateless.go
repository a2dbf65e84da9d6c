package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/rawjson"
	"toolgate/internal/stdio"
)

// A statelessResponse is the response to one stateless request: a stream of events,
// the last of which is the answer, or an error without a stream.
type statelessResponse struct {
	mu     sync.Mutex
	w      http.ResponseWriter
	events *eventConn // nil before the first event
	over   bool       // the answer is written, and the writer no longer ours
}

var errAnswered = errors.New("the request has its answer")

// write sends a message that belongs to the request, or its answer. It is a [writeFunc].
func (s *statelessResponse) write(_ context.Context, msg jsonrpc.Message) error {
	data, err := encode(msg)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return errAnswered
	}
	answer, isAnswer := msg.(*jsonrpc.Response)
	s.over = isAnswer
	if isAnswer && s.events == nil {
		rpc, _ := errors.AsType[*jsonrpc.Error](answer.Error)
		if status := statusOf(rpc); status != 0 {
			s.w.Header().Set("Content-Type", "application/json")
			s.w.WriteHeader(status)
			_, err := s.w.Write(data)
			return err
		}
	}
	if s.events == nil {
		s.events = newEventConn(s.w)
	}
	return s.events.write(fmt.Appendf(nil, "event: message\ndata: %s\n\n", data))
}

// answerStateless answers a stateless request.
func answerStateless(ctx context.Context, w http.ResponseWriter, r *request, msg *jsonrpc.Request) {
	response := &statelessResponse{w: w}
	r.write = response.write
	res, err := r.answer(ctx)
	if context.Cause(ctx) == context.Canceled {
		return // the client has hung up, which cancels the request
	}
	// An error means that the client has gone.
	_ = response.write(ctx, &jsonrpc.Response{ID: msg.ID, Result: res, Error: err})
}

// statusOf returns the HTTP status of an error, 0 if it has none of its own
// (specification 2026-07-28, streamable HTTP).
func statusOf(err *jsonrpc.Error) int {
	if err == nil {
		return 0
	}
	switch err.Code {
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
	if ok && resp.Error != nil {
		msg = &jsonrpc.Response{ID: resp.ID, Error: stdio.Coded(resp.Error)}
	}
	if !ok || resp.Error != nil {
		return jsonrpc.EncodeMessage(msg)
	}
	return rawjson.Object{
		{Key: "jsonrpc", Value: rawjson.Quote("2.0")},
		{Key: "id", Value: idJSON(resp.ID)},
		{Key: "result", Value: resp.Result},
	}.Bytes(), nil
}
