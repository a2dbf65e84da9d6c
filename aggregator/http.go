package aggregator

import (
	"context"
	"errors"
)

// An HTTP says how a server over streamable HTTP is reached.
type HTTP struct{}

func (s *session) connectHTTP(context.Context) error { return errors.New("not yet") }
