// Package netproxy is the proxy through which confined commands reach the hosts
// that the policy allows, and no others.
//
//	p := netproxy.New(netproxy.Options{Hosts: profile.Hosts, Rules: book.Rules})
//	go p.Serve(cmd.Listener()) // of a sandbox.Cmd
//	defer p.Close()
//
// It runs in the gate and takes HTTP with absolute addresses, HTTP CONNECT and
// SOCKS5 on one listener, told apart by the first byte. A name is decided on
// as it was asked for, then each address that it leads to, and it is the
// decided address that is connected to: nothing is looked up twice.
//
// # Limits
//
// What is said to an allowed host is not looked at. Whoever may reach a host
// that keeps what strangers send it may send it anything, and behind some
// names stand many servers. UDP is not passed on.
package netproxy

import (
	"context"
	"encoding/json"
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

	"toolgate/internal/gate"
	"toolgate/policy"
	"toolgate/policy/rules"
)

// Options say what a Proxy lets through. The zero value lets nothing through.
type Options struct {
	Hosts policy.Hosts
	Rules func() *rules.Rules // nil: there are none

	// Ask asks a person about a host where a rule says so, and returns the
	// answer, with no error for yes. Nil: nobody can be asked.
	Ask func(context.Context, policy.HostTarget, policy.HostDecision) (answer string, err error)

	// Lookup returns the addresses of a name; nil asks the system.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)

	// Dial connects to an address; nil asks the system.
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
	handed    *handedConns // connections that speak HTTP
	ctx       context.Context
	cancel    context.CancelFunc
	slots     chan struct{}
	work      sync.WaitGroup

	record  record
	asking  asking
	machine machine

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool // to be closed by Close
}

// New returns a Proxy. Close it.
func New(o Options) *Proxy {
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
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Proxy{o: o, handed: newHandedConns(), slots: make(chan struct{}, maxConns), conns: map[net.Conn]bool{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.setUpHTTP()
	return p
}

// Serve accepts connections from l until l or the Proxy is closed, and closes
// l.
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
			// Out of descriptors, for one: others end and give theirs back.
			p.o.Log.Warn("accepting a connection of a command", "err", err)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-p.ctx.Done():
			}
			continue
		}
		c := &clientConn{Conn: conn}
		c.gone = sync.OnceFunc(func() {
			p.forget(c)
			<-p.slots
		})
		if !p.keep(c) {
			c.Close()
			return net.ErrClosed
		}
		p.work.Go(func() { p.serve(c) }) // ends with the connection, or with Close
	}
}

// Close ends all connections and waits for that.
func (p *Proxy) Close() {
	p.cancel()
	p.mu.Lock()
	p.closed = true
	open := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
	p.http.Close()
	p.transport.CloseIdleConnections()
	p.work.Wait()
}

// keep notes a connection that Close is to close. It is false when it is too
// late for that.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// serve tells by the first byte what a client speaks.
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
	c.first = first
	if !p.handed.hand(c) {
		c.Close()
	}
}

// A Refusal says that a host was refused, and why.
type Refusal struct {
	Target policy.HostTarget
	Reason string
	Hint   string // what would allow it, may be empty
	Rule   string // what decided, may be empty
}

func (r *Refusal) Error() string {
	s := fmt.Sprintf("the sandbox refused the host %s: %s", r.Target, r.Reason)
	if r.Hint != "" {
		s += "; " + r.Hint
	}
	return s
}

// rules returns the rules in force.
func (p *Proxy) rules() *rules.Rules {
	if p.o.Rules == nil {
		return nil
	}
	return p.o.Rules()
}

// An asker is who wants to reach something.
type asker struct {
	command string // the name in its environment, "" when it does not say
	target  policy.HostTarget
	answer  string // of a person, "" when nobody was asked
}

// permit returns who asks when t may be reached as far as its name tells, and
// a *[Refusal] when not.
func (p *Proxy) permit(ctx context.Context, command string, t policy.HostTarget) (asker, error) {
	who := asker{command: command, target: t}
	d := p.o.Hosts.Decide(p.rules(), t)
	switch d.Verdict {
	case policy.Allow:
		return who, nil
	case policy.Ask:
		err := errors.New("nobody can be asked")
		if p.o.Ask != nil {
			who.answer, err = p.asking.ask(ctx, p.ctx, t, func(ctx context.Context) (string, error) { return p.o.Ask(ctx, t, d) })
		}
		if err == nil {
			return who, nil
		}
		if refused, ok := errors.AsType[*gate.RefusedError](err); ok {
			d.Reason, d.Hint = refused.Reason, refused.Hint
		} else {
			d.Reason += ", and " + err.Error()
		}
	}
	return who, p.refuse(who, &Refusal{t, d.Reason, d.Hint, d.Rule})
}

// refuse notes r and returns it.
func (p *Proxy) refuse(who asker, r *Refusal) error {
	p.o.Log.Info("host refused", "host", r.Target.Host, "port", r.Target.Port, "protocol", r.Target.Protocol, "why", r.Reason)
	p.record.add(who.command, policy.HostUse{HostTarget: r.Target, Refused: true, Reason: r.Reason, Hint: r.Hint, Rule: r.Rule, Asked: who.answer})
	return r
}

// reached notes that t was reached.
func (p *Proxy) reached(who asker, t policy.HostTarget) {
	p.o.Log.Debug("host reached", "host", t.Host, "port", t.Port, "protocol", t.Protocol)
	p.record.add(who.command, policy.HostUse{HostTarget: t, Asked: who.answer})
}

// connect connects to t, which permit has let pass.
func (p *Proxy) connect(ctx context.Context, who asker, t policy.HostTarget) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := p.dialAny(ctx, t)
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return nil, p.refuse(who, refusal)
	}
	if err != nil {
		p.record.add(who.command, policy.HostUse{HostTarget: t, Failed: err.Error(), Asked: who.answer})
	}
	return conn, err
}

// dialAny connects to one of the addresses of t that may be reached.
func (p *Proxy) dialAny(ctx context.Context, t policy.HostTarget) (net.Conn, error) {
	addrs, err := p.addresses(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", t.Host, err)
	}
	var refusal *Refusal
	var failed error
	rules, own := p.rules(), p.machine.addresses()
	for i, addr := range addrs {
		if d := p.o.Hosts.DecideAddress(rules, t, addr, own[addr.Unmap()]); d.Verdict != policy.Allow {
			refusal = &Refusal{t, d.Reason, d.Hint, d.Rule}
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
	return nil, fmt.Errorf("looking up %s: it has no address", t.Host)
}

// addresses returns what t may be reached at, the public ones and others.
func (p *Proxy) addresses(ctx context.Context, t policy.HostTarget) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(t.Host); err == nil {
		return []netip.Addr{addr}, nil
	}
	switch {
	case t.Host == "localhost":
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	case strings.Contains(t.Host, "."):
		return p.o.Lookup(ctx, t.Host+".") // rooted: no search domain is tried
	}
	return p.o.Lookup(ctx, t.Host)
}

// A machine is the one this runs on.
type machine struct {
	mu   sync.Mutex
	read time.Time
	own  map[netip.Addr]bool
}

// machineAge is how old the addresses of a machine may be: to read them takes
// as long as to connect.
const machineAge = 10 * time.Second

// addresses returns the addresses of this machine: behind a public one of them
// may be what listens for its own network.
func (m *machine) addresses() map[netip.Addr]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.own != nil && time.Since(m.read) < machineAge {
		return m.own
	}
	m.own, m.read = map[netip.Addr]bool{}, time.Now()
	list, _ := net.InterfaceAddrs() // none: the others are refused all the same
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			m.own[prefix.Addr().Unmap()] = true
		}
	}
	return m.own
}

// dial connects to one of left addresses that are still to be tried.
func (p *Proxy) dial(ctx context.Context, addr netip.AddrPort, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	return p.o.Dial(ctx, addr)
}

// Uses returns the hosts that were reached or refused since a time, the
// oldest first.
func (p *Proxy) Uses(since time.Time) []policy.HostUse {
	return p.record.list(since, func(string) bool { return true })
}

// usesOf is Uses for one command, and for those that did not say which they
// are.
func (p *Proxy) usesOf(command string, since time.Time) []policy.HostUse {
	return p.record.list(since, func(c string) bool { return c == command || c == "" })
}

// A record is what happened lately.
type record struct {
	mu   sync.Mutex
	uses []recorded
}

type recorded struct {
	command string
	last    time.Time
	use     policy.HostUse
}

// maxRecord bounds a record.
const maxRecord = 1000

func (r *record) add(command string, u policy.HostUse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u.Count = 1
	for i, old := range r.uses {
		same := old.use
		same.Count = 1
		if old.command == command && same == u {
			u.Count = old.use.Count + 1
			r.uses = append(r.uses[:i], r.uses[i+1:]...)
			break
		}
	}
	if len(r.uses) == maxRecord {
		r.uses = append(r.uses[:0], r.uses[1:]...)
	}
	r.uses = append(r.uses, recorded{command, time.Now(), u})
}

func (r *record) list(since time.Time, of func(command string) bool) []policy.HostUse {
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

// asking has one question at a time under way for each target: a program opens
// many connections at once.
type asking struct {
	mu   sync.Mutex
	open map[policy.HostTarget]*question
}

type question struct {
	done   chan struct{}
	answer string
	err    error
}

// ask returns what put returns. The question goes on when ctx, that of one who
// waits for it, ends; it ends with life.
func (a *asking) ask(ctx, life context.Context, t policy.HostTarget, put func(context.Context) (string, error)) (string, error) {
	a.mu.Lock()
	q := a.open[t]
	if q == nil {
		q = &question{done: make(chan struct{})}
		if a.open == nil {
			a.open = map[policy.HostTarget]*question{}
		}
		a.open[t] = q
		go func() { // ends with the answer
			ctx, cancel := context.WithTimeout(life, askTimeout)
			defer cancel()
			q.answer, q.err = put(ctx)
			a.mu.Lock()
			delete(a.open, t)
			a.mu.Unlock()
			close(q.done)
		}()
	}
	a.mu.Unlock()
	select {
	case <-q.done:
		return q.answer, q.err
	case <-ctx.Done():
		return "", errors.New("the program did not wait for the answer")
	}
}

// marshalUses writes uses for [Uses].
func marshalUses(uses []policy.HostUse) []byte {
	b, err := json.Marshal(uses)
	if err != nil {
		panic("bug: a host use does not marshal: " + err.Error()) // strings and numbers
	}
	return b
}
