package aggregator

import (
	"context"
	"encoding/json"
	"io"
)

// NewStdioLink is newStdioLink without handlers.
func NewStdioLink(in io.Reader, out io.Writer) *stdioLink { return newStdioLink(in, out, nil) }

// Call sends a request without params.
func (c *stdioLink) Call(ctx context.Context, method string) (json.RawMessage, error) {
	return c.do(ctx, &request{method: method})
}

// For the tests.
var (
	Fits       = fits
	ErrNotSent = errNotSent
)

// IdleTimer is for the tests.
type IdleTimer = idleTimer

// NewIdleTimer is newIdleTimer.
var NewIdleTimer = newIdleTimer

func (t *idleTimer) Restart() { t.restart() }
func (t *idleTimer) Hold()    { t.hold() }
func (t *idleTimer) Resume()  { t.resume() }
func (t *idleTimer) Stop()    { t.stop() }
