// Package netproxy is the proxy through which sandboxed commands reach the network
// hosts that the policy allows.
//
//	p := netproxy.New(netproxy.Options{Hosts: profile.Hosts, Rules: book.Rules})
//	go p.Serve(cmd.Listener()) // of a sandbox.Cmd
//	defer p.Close()
//
// It runs in the gate. On one listener it serves HTTP with absolute URLs, HTTP CONNECT
// and SOCKS5, distinguished by the first byte. It checks the requested name and then
// each address that the name resolves to, and connects to the checked address: a name
// is never resolved twice.
//
// # Limits
//
// The proxy does not inspect traffic to an allowed host. A command can send any data
// to a host that stores what others upload, and one name can stand for many servers.
// UDP is not supported.
package netproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"toolgate/internal/gate"
	"toolgate/policy"
	"toolgate/policy/rules"
)

// Options configure a Proxy. The zero value denies every host.
type Options struct {
	Hosts policy.Hosts
	Rules func() *rules.Rules // nil: no rules

	// Ask asks a person about a host for which a rule requires it. It returns
	// the answer, and an error unless that is yes. Nil: the host is denied.
	Ask func(context.Context, policy.HostTarget, policy.HostDecision) (answer string, err error)

	// Lookup resolves a name; nil uses the system resolver.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)

	// Dial connects to an address; nil uses a [net.Dialer].
	Dial func(context.Context, netip.AddrPort) (net.Conn, error)

	Log *slog.Logger // nil: nothing is logged
}

// Limits of a Proxy.
const (
	maxConns      = 256
	maxHeader     = 64 << 10
	headerTimeout = 10 * time.Second
	dialTimeout   = 30 * time.Second
	idleTimeout   = time.Minute // between two requests
	askTimeout    = 10 * time.Minute
)

// A Proxy serves the commands of one worker. It may be used concurrently.
type Proxy struct {
	o         Options
	http      *http.Server
	forward   http.Handler
	transport *http.Transport
	httpConns *connListener // connections that use HTTP
	ctx       context.Context
	cancel    context.CancelFunc
	slots     chan struct{}
	wg        sync.WaitGroup

	history    history
	questions  singleflight.Group // a program opens many connections to one target at once
	localAddrs localAddrs

	mu    sync.Mutex
	conns map[net.Conn]bool // open connections, closed by Close
}

// New returns a Proxy. The caller must close it.
func New(o Options) *Proxy {
	if o.Rules == nil {
		o.Rules = func() *rules.Rules { return nil }
	}
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr.String())
		}
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	p := &Proxy{o: o, slots: make(chan struct{}, maxConns), conns: map[net.Conn]bool{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.httpConns = &connListener{conns: make(chan net.Conn), closed: p.ctx.Done()}
	p.initHTTP()
	return p
}

// Serve accepts connections from l until l or the Proxy is closed. It closes l and
// returns [net.ErrClosed].
func (p *Proxy) Serve(l net.Listener) error {
	defer l.Close()
	stop := context.AfterFunc(p.ctx, func() { l.Close() })
	defer stop()
	for {
		select {
		case p.slots <- struct{}{}:
		case <-p.ctx.Done():
			return net.ErrClosed
		}
		conn, err := l.Accept()
		if err != nil {
			<-p.slots
			if errors.Is(err, net.ErrClosed) || p.ctx.Err() != nil {
				return net.ErrClosed
			}
			// Temporary, such as being out of file descriptors.
			p.o.Log.Warn("accepting a connection of a command", "err", err)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-p.ctx.Done():
			}
			continue
		}
		c := &clientConn{Conn: conn}
		c.onClose = sync.OnceFunc(func() {
			p.untrack(c)
			<-p.slots
		})
		if !p.track(c) {
			c.Close()
			return net.ErrClosed
		}
		p.wg.Go(func() { p.serve(c) }) // ends with the connection, or with Close
	}
}

// Close closes all connections and waits until they are served.
func (p *Proxy) Close() {
	p.cancel()
	p.mu.Lock()
	open := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
	p.http.Close()
	p.transport.CloseIdleConnections()
	p.wg.Wait()
}

// track registers a connection for Close. It returns false if the proxy is closed.
func (p *Proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) untrack(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// serve detects the protocol by the first byte.
func (p *Proxy) serve(c *clientConn) {
	c.SetDeadline(time.Now().Add(headerTimeout))
	first := make([]byte, 1)
	if _, err := c.Conn.Read(first); err != nil {
		c.Close()
		return
	}
	if first[0] == socksVersion {
		defer c.Close()
		p.serveSOCKS(c)
		return
	}
	c.SetDeadline(time.Time{})
	c.prefix = first
	select {
	case p.httpConns.conns <- c:
	case <-p.ctx.Done():
		c.Close()
	}
}

// A Refusal is the error for a host that the policy denies.
type Refusal struct {
	Target policy.HostTarget
	policy.HostDecision
}

func (r *Refusal) Error() string {
	s := fmt.Sprintf("the sandbox refused the host %s: %s", r.Target, r.Reason)
	if r.Hint != "" {
		s += "; " + r.Hint
	}
	return s
}

// A requester is a command that wants to reach a host.
type requester struct {
	command string // the name from its environment, "" if unknown
	target  policy.HostTarget
	answer  string // of a person, "" if nobody was asked
}

// authorize checks the name of t. It returns the requester if t is allowed, and a
// *[Refusal] otherwise.
func (p *Proxy) authorize(ctx context.Context, command string, t policy.HostTarget) (requester, error) {
	who := requester{command: command, target: t}
	d := p.o.Hosts.Decide(p.o.Rules(), t)
	switch d.Verdict {
	case policy.Allow:
		return who, nil
	case policy.Ask:
		var err error
		if who.answer, err = p.ask(ctx, t, d); err == nil {
			return who, nil
		}
		if refused, ok := errors.AsType[*gate.RefusedError](err); ok {
			d.Reason, d.Hint = refused.Reason, refused.Hint
		} else {
			d.Reason += ", and " + err.Error()
		}
	}
	return who, p.recordRefusal(who, &Refusal{t, d})
}

// ask asks about t, or joins a pending question about it. The question continues when
// ctx ends, because others may wait for it; it ends with the Proxy.
func (p *Proxy) ask(ctx context.Context, t policy.HostTarget, d policy.HostDecision) (answer string, err error) {
	if p.o.Ask == nil {
		return "", errors.New("nobody can be asked")
	}
	result := p.questions.DoChan(t.Protocol+" "+t.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(p.ctx, askTimeout)
		defer cancel()
		return p.o.Ask(ctx, t, d)
	})
	select {
	case r := <-result:
		return r.Val.(string), r.Err
	case <-ctx.Done():
		return "", errors.New("the program did not wait for the answer")
	}
}

// recordRefusal logs and records r, and returns it.
func (p *Proxy) recordRefusal(who requester, r *Refusal) error {
	t := r.Target
	p.o.Log.Info("host refused", "host", t.Host, "port", t.Port, "protocol", t.Protocol, "why", r.Reason)
	p.history.add(who.command, policy.HostUse{
		HostTarget: t, Refused: true, Reason: r.Reason, Hint: r.Hint, Rule: r.Rule, Asked: who.answer,
	})
	return r
}

// recordReached logs and records that t was reached.
func (p *Proxy) recordReached(who requester, t policy.HostTarget) {
	p.o.Log.Debug("host reached", "host", t.Host, "port", t.Port, "protocol", t.Protocol)
	p.history.add(who.command, policy.HostUse{HostTarget: t, Asked: who.answer})
}

// connect connects to t, which has been authorized.
func (p *Proxy) connect(ctx context.Context, who requester, t policy.HostTarget) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := p.dialAny(ctx, t)
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return nil, p.recordRefusal(who, refusal)
	}
	if err != nil {
		p.history.add(who.command, policy.HostUse{HostTarget: t, Failed: err.Error(), Asked: who.answer})
	}
	return conn, err
}

// dialAny connects to the first allowed address of t that accepts.
func (p *Proxy) dialAny(ctx context.Context, t policy.HostTarget) (net.Conn, error) {
	addrs, err := p.addresses(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", t.Host, err)
	}
	var refusal *Refusal
	var failed error
	rules, own := p.o.Rules(), p.localAddrs.get()
	for i, addr := range addrs {
		if d := p.o.Hosts.DecideAddress(rules, t, addr, own[addr.Unmap()]); d.Verdict != policy.Allow {
			refusal = &Refusal{t, d}
			continue
		}
		conn, err := p.dial(ctx, netip.AddrPortFrom(addr, t.Port), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		failed = err
	}
	switch {
	case failed != nil:
		return nil, failed
	case refusal != nil:
		return nil, refusal
	}
	return nil, fmt.Errorf("looking up %s: no addresses", t.Host)
}

// addresses resolves t.
func (p *Proxy) addresses(ctx context.Context, t policy.HostTarget) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(t.Host); err == nil {
		return []netip.Addr{addr}, nil
	}
	switch {
	case t.Host == "localhost":
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	case strings.Contains(t.Host, "."):
		return p.o.Lookup(ctx, t.Host+".") // fully qualified: no search domains
	}
	return p.o.Lookup(ctx, t.Host)
}

// localAddrs caches the addresses of this machine.
type localAddrs struct {
	mu   sync.Mutex
	read time.Time
	own  map[netip.Addr]bool
}

// localAddrsTTL is how long the addresses are cached: reading them takes as long as connecting.
const localAddrsTTL = 10 * time.Second

// get returns the addresses of this machine. Even a public one may belong to a service
// that is meant for the local network only.
func (m *localAddrs) get() map[netip.Addr]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.own != nil && time.Since(m.read) < localAddrsTTL {
		return m.own
	}
	m.own, m.read = map[netip.Addr]bool{}, time.Now()
	list, _ := net.InterfaceAddrs() // if it fails, private addresses are still refused
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			m.own[prefix.Addr().Unmap()] = true
		}
	}
	return m.own
}

// dial connects to addr, with an equal share of the remaining time for each of left addresses.
func (p *Proxy) dial(ctx context.Context, addr netip.AddrPort, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	return p.o.Dial(ctx, addr)
}

// Uses returns the hosts that were reached or refused since the given time, oldest first.
func (p *Proxy) Uses(since time.Time) []policy.HostUse {
	return p.history.list(since, func(string) bool { return true })
}

// usesOf is [Proxy.Uses] for one command, including uses by unidentified commands.
func (p *Proxy) usesOf(command string, since time.Time) []policy.HostUse {
	return p.history.list(since, func(c string) bool { return c == command || c == "" })
}

// A history holds the most recent uses of hosts.
type history struct {
	mu   sync.Mutex
	uses []historyEntry
}

type historyEntry struct {
	command string
	last    time.Time
	use     policy.HostUse
}

// maxHistory limits the number of entries in a history.
const maxHistory = 1000

func (r *history) add(command string, u policy.HostUse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u.Count = 1
	for i, old := range r.uses {
		same := old.use
		same.Count = 1
		if old.command == command && same == u {
			u.Count = old.use.Count + 1
			r.uses = slices.Delete(r.uses, i, i+1)
			break
		}
	}
	if len(r.uses) == maxHistory {
		r.uses = slices.Delete(r.uses, 0, 1)
	}
	r.uses = append(r.uses, historyEntry{command, time.Now(), u})
}

func (r *history) list(since time.Time, of func(command string) bool) []policy.HostUse {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []policy.HostUse
	for _, u := range r.uses {
		if !u.last.Before(since) && of(u.command) {
			list = append(list, u.use)
		}
	}
	return list
}
