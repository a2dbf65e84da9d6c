package app

import (
	"context"
	"io"
	"time"
)

// silence is how long a client may say nothing before the downstream servers
// are started all the same.
const silence = 2 * time.Second

// ServeStdio serves one client on in and out until in ends.
func (o *Options) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	o.AnswersFirst = true
	a, err := o.Open()
	if err != nil {
		return err
	}
	defer a.Close()
	if a.NoRoots != "" {
		a.Log.Warn("nothing is writable; start with -C FOLDER", "why", a.NoRoots)
	}
	defer o.WatchConfig(a)()
	defer time.AfterFunc(silence, a.Downstreams.Begin).Stop()
	return a.Server.ServeStdio(ctx, in, out)
}
