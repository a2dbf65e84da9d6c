package server

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/rawjson"
)

// logTo returns what passes log messages on to the client of a request of the
// stateless era, while the request is under way and at the level that it asks
// for: nil when it asks for none, which in that era means that it wants none.
// They are sent by way of notes.
func (s *Server) logTo(ctx context.Context, c *client, req mcp.Request, notes *outbox) func(json.RawMessage) bool {
	asked, _ := req.GetParams().GetMeta()[mcp.MetaKeyLogLevel].(string)
	least := slices.Index(severities, asked)
	ss, ok := req.GetSession().(*mcp.ServerSession)
	if least < 0 || !ok {
		return nil
	}
	return func(params json.RawMessage) bool {
		var p struct {
			Meta   mcp.Meta        `json:"_meta"`
			Level  string          `json:"level"`
			Logger string          `json:"logger"`
			Data   json.RawMessage `json:"data"`
		}
		if ctx.Err() != nil || rawjson.Unmarshal(params, &p) != nil || slices.Index(severities, p.Level) < least {
			return false
		}
		notes.post(func() {
			var err error
			if c != nil && c.carries {
				err = c.notify(ctx, "notifications/message", params)
			} else {
				err = ss.Log(ctx, &mcp.LoggingMessageParams{
					Meta: p.Meta, Level: mcp.LoggingLevel(p.Level), Logger: p.Logger, Data: p.Data,
				})
			}
			if err != nil { // the client has gone, which others see too
				s.log.Debug("log message not passed on", "err", err)
			}
		})
		return true
	}
}
