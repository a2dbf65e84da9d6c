package httpauth

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// A Listener accepts no more connections than it may keep. When it is full,
// the connection goes that has been there longest without showing a good
// token: those who only knock do not keep out those who belong.
type Listener struct {
	net.Listener
	max int

	mu        sync.Mutex
	unauthenticated *list.List // of *conn, the oldest first
	open      int
}

// LimitListener returns a Listener on l with room for max connections.
func LimitListener(l net.Listener, max int) *Listener {
	return &Listener{Listener: l, max: max, unauthenticated: list.New()}
}

// A conn is one connection, and where it stands among the strangers.
type conn struct {
	net.Conn
	l    *Listener
	once sync.Once
	elem   *list.Element // nil once it has shown a token; under l.mu
}

// Accept waits for a connection that there is room for.
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

// Open returns how many connections there are.
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

// markKnown takes c out of the strangers; l.mu is held.
func (c *conn) markKnown() {
	if c.elem != nil {
		c.l.unauthenticated.Remove(c.elem)
		c.elem = nil
	}
}

type connKey struct{}

// ConnContext is for [http.Server.ConnContext]: it has [Door.Guard] find the
// connection of a request.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// markAuthenticated notes that the connection of a request has shown a good token.
func markAuthenticated(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.l.mu.Lock()
		defer c.l.mu.Unlock()
		c.markKnown()
	}
}
