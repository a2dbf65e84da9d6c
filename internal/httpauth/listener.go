package httpauth

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// A Listener limits the number of open connections. When it is full, a new
// connection evicts the oldest one that has not authenticated, so that anonymous
// clients cannot lock out callers with a token.
type Listener struct {
	net.Listener
	max int

	mu              sync.Mutex
	unauthenticated *list.List // of *conn, the oldest first
	open            int
}

// LimitListener returns a Listener that keeps at most max connections of l open.
func LimitListener(l net.Listener, max int) *Listener {
	return &Listener{Listener: l, max: max, unauthenticated: list.New()}
}

// A conn is one connection with its place in the list of unauthenticated ones.
type conn struct {
	net.Conn
	l    *Listener
	once sync.Once
	elem *list.Element // nil once authenticated; protected by l.mu
}

// Accept implements [net.Listener]. A connection for which no other can be evicted
// is closed at once.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		var out *conn
		if l.open >= l.max {
			if e := l.unauthenticated.Front(); e != nil {
				out = e.Value.(*conn)
			} else {
				l.mu.Unlock()
				c.Close()
				continue
			}
		}
		l.open++
		in := &conn{Conn: c, l: l}
		in.elem = l.unauthenticated.PushBack(in)
		l.mu.Unlock()
		if out != nil {
			out.Close()
		}
		return in, nil
	}
}

// Open returns the number of open connections.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Close closes the connection.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.l.mu.Lock()
		defer c.l.mu.Unlock()
		c.l.open--
		c.markKnown()
	})
	return c.Conn.Close()
}

// markKnown removes c from the unauthenticated connections. l.mu must be held.
func (c *conn) markKnown() {
	if c.elem != nil {
		c.l.unauthenticated.Remove(c.elem)
		c.elem = nil
	}
}

type connKey struct{}

// ConnContext must be set as [http.Server.ConnContext], so that
// [Authenticator.Require] can mark the connection of a request as authenticated.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// markAuthenticated exempts the connection of a request from eviction.
func markAuthenticated(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.l.mu.Lock()
		defer c.l.mu.Unlock()
		c.markKnown()
	}
}
