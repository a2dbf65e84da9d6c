package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// maxConnections limits the connections from other processes on this machine.
const maxConnections = 128

// CheckAddress returns an error unless address is a port on a loopback address.
func CheckAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("console address %q: not HOST:PORT", address)
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return fmt.Errorf("console address %q: not a loopback address; use 127.0.0.1 or [::1]", address)
	}
	return nil
}

// Serve serves the console at address, default "127.0.0.1:0", and announces it in dir.
// It returns the URL without path. The caller must call stop, which ends the server and
// closes the console.
func (c *Console) Serve(address, dir string) (url string, stop func(), err error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	if err := CheckAddress(address); err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("serving the console: %w", err)
	}
	url = "http://" + l.Addr().String()
	remove, err := c.Announce(dir, url)
	if err != nil {
		l.Close()
		return "", nil, err
	}
	srv := &http.Server{
		Handler:           c,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       20 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(c.log.Handler(), slog.LevelDebug),
	}
	var done sync.WaitGroup
	done.Go(func() { // ends with Shutdown or Close
		if err := srv.Serve(netutil.LimitListener(l, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
			c.log.Warn("console: server ended", "err", err)
		}
	})
	return url, func() {
		remove()
		c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			srv.Close()
		}
		done.Wait()
	}, nil
}
