package stdio_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"toolgate/internal/stdio"
)

const opening = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// serve runs a server with the tools over lines, the whole input at once, and
// returns what it wrote, by id. It must be called inside a synctest bubble.
func serve(t *testing.T, in io.Reader, tool mcp.ToolHandler) map[string]map[string]any {
	t.Helper()
	srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	srv.AddTool(&mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}, tool)
	var out strings.Builder
	ss, err := srv.Connect(context.Background(), &stdio.Transport{In: in, Out: &out}, nil)
	require.NoError(t, err)
	ss.Wait()
	byID := map[string]map[string]any{}
	for line := range strings.Lines(out.String()) {
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &m), line)
		id, _ := json.Marshal(m["id"])
		byID[string(id)] = m
	}
	return byID
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func TestAnswersOwedAreWrittenBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := opening
		for _, id := range []string{"1", "2", "3"} {
			in += `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"t"}}` + "\n"
		}
		got := serve(t, strings.NewReader(in), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			<-time.After(30 * time.Second) // the bubble's clock
			return text("done"), nil
		})
		for _, id := range []string{`"i"`, "1", "2", "3"} {
			require.Contains(t, got[id], "result", "answer to %s", id)
		}
	})
}

// TestCancelledRequestsGetNoAnswer: nor is one waited for, and the id is free again.
func TestCancelledRequestsGetNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, feed := io.Pipe()
		go func() { // ends with its input
			io.WriteString(feed, opening+`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`+"\n")
			synctest.Wait()
			io.WriteString(feed, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.0}}`+"\n")
			synctest.Wait()
			io.WriteString(feed, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`+"\n")
			io.WriteString(feed, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}`+"\n")
			io.WriteString(feed, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`+"\n")
			feed.Close()
		}()
		began := time.Now()
		got := serve(t, in, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		require.Zero(t, time.Since(began))
		require.Contains(t, got, `"i"`)
		require.Len(t, got, 1)
	})
}

func TestCallsThatOutliveTheDrainAreCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		in := opening + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`
		serve(t, strings.NewReader(in), func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		require.Equal(t, time.Minute, time.Since(start))
	})
}

func TestQuestionsFailWhenTheClientIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		in := opening + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`
		got := serve(t, strings.NewReader(in), func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			_, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
			return text(err.Error()), nil
		})
		require.Contains(t, toJSON(t, got["1"]), "the client has closed its end")
		require.Zero(t, time.Since(start), "nobody waits for an answer that cannot come")
	})
}

func TestBadLinesGetTheirOwnErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := opening + strings.Join([]string{
			`{"jsonrpc":"2.0","id":1,"method":`,
			`{"jsonrpc":"1.0","id":2,"method":"ping"}`,
			`{"id":3,"method":"ping"}`,
			`{"jsonrpc":"2.0","id":{},"method":"ping"}`,
			`{"jsonrpc":"2.0","id":77,"result":{}}`,
			`{"jsonrpc":"2.0","id":5,"method":"no/such"}`,
			`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"nope"}}`,
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}`,
			`{"jsonrpc":"2.0","id":8,"method":"ping"}`,
		}, "\n") + "\n"
		got := serve(t, strings.NewReader(in), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("ran"), nil
		})
		for id, code := range map[string]float64{"1": -32700, "2": -32600, "3": -32600, "null": -32600, "5": -32601, "6": -32602, "7": -32602} {
			require.Contains(t, got[id], "error", "id %s: %v", id, got[id])
			require.Equal(t, code, got[id]["error"].(map[string]any)["code"], "id %s: %v", id, got[id])
		}
		require.Contains(t, got["8"], "result", "the server goes on")
		require.NotContains(t, got, "77", "a stray answer needs none")
	})
}

func TestARepeatedIDIsRefusedWhileTheFirstRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}` + "\n"
		runs := 0
		serve(t, strings.NewReader(opening+call+call), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			runs++
			<-time.After(time.Second)
			return text("ran"), nil
		})
		require.Equal(t, 1, runs)
	})
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// TestDirectTakesSomeMessages: what it takes may be answered in any order and
// at any time, and the SDK answers the rest.
func TestDirectTakesSomeMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := opening
		for i := range 8 {
			in += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"m%d"}`+"\n", i, i%4)
		}
		var out strings.Builder
		last := make(chan struct{})
		tr := &stdio.Transport{In: strings.NewReader(in), Out: &out, Handle: func(r *stdio.Request) bool {
			if string(r.ID) == "7" {
				close(last)
			}
			if r.Method != "m0" && r.Method != "m1" && r.Method != "m3" {
				return false
			}
			go func() {
				if r.Method != "m3" {
					<-last
				}
				r.Answer(json.RawMessage(`{}`))
			}()
			return true
		}}
		ss, err := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil).Connect(t.Context(), tr, nil)
		require.NoError(t, err)
		ss.Wait()
		for i := range 8 {
			if i%4 == 2 {
				require.Regexp(t, fmt.Sprintf(`"id":%d,"error"`, i), out.String())
			} else {
				require.Regexp(t, fmt.Sprintf(`"id":%d,"result":{}`, i), out.String())
			}
		}
	})
}

// TestAnIDIsFreeOnceItIsAnswered: a client that has read an answer may use the
// id again, though we may not know yet that it is written.
func TestAnIDIsFreeOnceItIsAnswered(t *testing.T) {
	for _, direct := range []bool{false, true} {
		srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
		inR, inW := io.Pipe()
		answers := make(chan string)
		out := &slowWriter{answers}
		tr := &stdio.Transport{In: inR, Out: out}
		if direct {
			tr.Handle = func(r *stdio.Request) bool {
				if r.Method != "ping" {
					return false
				}
				go r.Answer(json.RawMessage(`{}`)) // ends when it is written
				return true
			}
		}
		ss, err := srv.Connect(t.Context(), tr, nil)
		require.NoError(t, err)
		ask := func(line string) string {
			_, err := io.WriteString(inW, line)
			require.NoError(t, err)
			return <-answers
		}
		require.Contains(t, ask(opening), `"id":"i"`)
		for range 200 {
			require.Equal(t, `{"jsonrpc":"2.0","id":7,"result":{}}`+"\n", ask(`{"jsonrpc":"2.0","id":7,"method":"ping"}`+"\n"))
		}
		inW.Close()
		ss.Wait()
	}
}

// A slowWriter hands a line over before the writer goes on.
type slowWriter struct{ lines chan string }

func (w *slowWriter) Write(b []byte) (int, error) {
	w.lines <- string(b)
	runtime.Gosched() // the client may well be faster
	return len(b), nil
}
