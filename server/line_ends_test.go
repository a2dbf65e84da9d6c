package server_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/policy"
	"toolgate/server"
)

// TestNoMessageHasALineBreak: a client whose reader ends lines at a carriage return must
// not take a part of what a server sent for a message of ours.
func TestNoMessageHasALineBreak(t *testing.T) {
	const forged = "\r" + `{"jsonrpc":"2.0","id":7,"result":{}}` + "\r"
	var fromUs []string
	back := func(write func(string, ...any), m line) {
		fromUs = append(fromUs, m.Raw)
		if legacyBack(write, m) {
			return
		}
		switch m.Method {
		case "tools/call":
			write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":`+"%s"+`}}`, forged)
			write(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"x":%s}}`, m.ID, forged)
			write(`{"jsonrpc":"2.0","id":`+"%s"+`,"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}},"x":%[1]s}}`, forged)
			write(`{"jsonrpc":"2.0","id":9,"method":"nope","params":{}}`)
			write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"x":%s}}`, m.ID, forged)
		case "prompts/get":
			write(`{"jsonrpc":"2.0","id":%s,"result":{"messages":[],"x":%s}}`, m.ID, forged)
		case "resources/read":
			write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"none","data":%s}}`, m.ID, forged)
		}
	}
	requests := []string{
		`"method":"tools/call","params":{"name":"mcp__raw__do_it","arguments":` + forged + `,"_meta":{"progressToken":1,"x":` + forged + `}}`,
		`"method":"prompts/get","params":{"name":"mcp__raw__ask_me","arguments":` + forged + `}`,
		`"method":"resources/read","params":{"uri":"raw://a","_meta":{"x":` + forged + `}}`,
	}
	stateless := `"method":"prompts/get","params":{"name":"mcp__raw__ask_me","_meta":{` + modernCaps + `}}`
	check := func(t *testing.T, wrote string) {
		require.NotContains(t, wrote, "\r")
		require.Contains(t, wrote, `"x":{"jsonrpc"`)
		for _, line := range fromUs {
			require.NotContains(t, line, "\r")
		}
	}
	t.Run("stdio", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFront(t, policy.ApproveAlways, back)
			defer f.close()
			f.initialize()
			for _, r := range append(requests, stateless) {
				f.send(`{"jsonrpc":"2.0","id":1,%s}`, r)
				synctest.Wait()
			}
			var all []string
			for text, ok := f.out.line(); ok; text, ok = f.out.line() {
				all = append(all, text)
			}
			// What the end of its call overtakes may not arrive: the question, the log message.
			require.GreaterOrEqual(t, len(all), 5)
			check(t, strings.Join(all, ""))
		})
	})
	t.Run("HTTP", func(t *testing.T) {
		fromUs = nil
		web(t, server.EndpointOptions{}, back, func(t *testing.T, c *webClient, _ *aggregator.Downstreams) {
			all := c.modern(1, "prompts/get", "mcp__raw__ask_me", `"name":"mcp__raw__ask_me"`).text()
			c.initialize()
			for _, r := range requests {
				all += c.post(`{"jsonrpc":"2.0","id":1,%s}`, r).text()
			}
			require.GreaterOrEqual(t, strings.Count(all, `data: {"jsonrpc"`), 5, all)
			check(t, all)
		})
	})
}
