package netproxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/proxy"

	"toolgate/internal/gate"
	"toolgate/internal/netproxy"
	"toolgate/policy"
	"toolgate/policy/rules"
)

// public is an address that may be reached; in these tests a server on
// loopback stands there.
var public = netip.MustParseAddr("93.184.215.14")

// A world is what a proxy can reach: names, and servers on loopback that stand
// behind public addresses.
type world struct {
	names map[string][]netip.Addr

	mu      sync.Mutex
	servers map[netip.AddrPort]string // where to go instead
	lookups []string
	dialled []netip.AddrPort
}

func (w *world) lookup(_ context.Context, name string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups = append(w.lookups, name)
	addrs, ok := w.names[strings.TrimSuffix(name, ".")]
	if !ok {
		return nil, errors.New("no such host")
	}
	return addrs, nil
}

func (w *world) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, addr)
	to, ok := w.servers[addr]
	w.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("nothing at %v", addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", to)
}

func (w *world) dials() []netip.AddrPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dialled
}

// start serves a proxy in w and returns its address.
func start(t testing.TB, w *world, allow, deny, ruleText string) (*netproxy.Proxy, string) {
	t.Helper()
	o := netproxy.Options{Lookup: w.lookup, Dial: w.dial}
	var err error
	o.Hosts, err = policy.NewHosts(strings.Fields(allow), strings.Fields(deny))
	require.NoError(t, err)
	parsed, err := rules.Parse("u.rules", []byte(ruleText))
	require.NoError(t, err)
	o.Rules = func() *rules.Rules { return parsed }
	return serve(t, o)
}

func serve(t testing.TB, o netproxy.Options) (*netproxy.Proxy, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := netproxy.New(o)
	var served sync.WaitGroup
	served.Go(func() { p.Serve(l) })
	t.Cleanup(func() {
		p.Close()
		served.Wait()
	})
	return p, l.Addr().String()
}

// behind puts a server behind addresses of w.
func (w *world) behind(server string, addrs ...netip.AddrPort) {
	if w.servers == nil {
		w.servers = map[netip.AddrPort]string{}
	}
	for _, a := range addrs {
		w.servers[a] = server
	}
}

// through returns a client that uses the proxy at addr in one of its ways.
func through(t testing.TB, way, addr string) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	if way == "socks5" {
		d, err := proxy.SOCKS5("tcp", addr, &proxy.Auth{User: "me", Password: "x"}, nil)
		require.NoError(t, err)
		tr.DialContext = d.(proxy.ContextDialer).DialContext
	} else {
		tr.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: addr, User: url.UserPassword("me", "x")})
	}
	return &http.Client{Transport: tr}
}

func newWorld(t testing.TB) (w *world, plain, secure *httptest.Server) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s%s %q %q", r.Method, r.Host, r.RequestURI, body, r.Header.Get("Proxy-Authorization"))
	})
	plain, secure = httptest.NewServer(echo), httptest.NewTLSServer(echo)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	w = &world{names: map[string][]netip.Addr{
		"example.com":     {public},
		"www.example.com": {public},
		"evil.com":        {public},
		"inside.example":  {netip.MustParseAddr("10.0.0.1")},
		"mixed.example":   {netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::ffff:127.0.0.1"), public},
		"meta.example":    {netip.MustParseAddr("169.254.169.254")},
		"nat64.example":   {netip.MustParseAddr("64:ff9b::7f00:1")},
	}}
	w.behind(plain.Listener.Addr().String(), netip.AddrPortFrom(public, 80), netip.AddrPortFrom(public, 8080), netip.MustParseAddrPort("127.0.0.1:80"), netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("169.254.169.254:80"))
	w.behind(secure.Listener.Addr().String(), netip.AddrPortFrom(public, 443), netip.MustParseAddrPort("127.0.0.1:443"))
	return w, plain, secure
}

func TestWaysThrough(t *testing.T) {
	for _, way := range []string{"http", "socks5"} {
		t.Run(way, func(t *testing.T) {
			w, _, _ := newWorld(t)
			p, addr := start(t, w, "example.com", "", "")
			c := through(t, way, addr)
			for _, tt := range []struct{ url, want string }{
				{"http://example.com/a?b", `POST example.com/a?b "body" ""`},
				{"http://EXAMPLE.com.:8080/a", `POST EXAMPLE.com.:8080/a "body" ""`},
				{"https://example.com/a", `POST example.com/a "body" ""`},
			} {
				res, err := c.Post(tt.url, "text/plain", strings.NewReader("body"))
				require.NoError(t, err)
				text, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				res.Body.Close()
				want := tt.want
				if way == "http" { // written anew, with the host in its one form
					want = strings.ReplaceAll(want, "EXAMPLE.com.", "example.com")
				}
				require.Equal(t, want, string(text))
			}
			for _, dialled := range w.dials() {
				require.Equal(t, public, dialled.Addr())
			}
			uses := p.Uses(time.Time{})
			require.Len(t, uses, 3)
			for _, u := range uses {
				require.False(t, u.Refused)
				require.Equal(t, "example.com", u.Host)
			}
		})
	}
}

func TestRefusedHosts(t *testing.T) {
	const rules = `network_rule(host="ruled.example", protocol="https", decision="forbidden", justification="ask Ann")`
	for _, tt := range []struct{ url, why string }{
		{"http://evil.com/", "it is not on the list of allowed hosts; the user can allow it with the rule network_rule(host="},
		{"https://evil.com/", "it is not on the list"},
		{"https://www.example.com/", "it is not on the list"},
		{"https://denied.example.org/", "it is on the list of denied hosts"},
		{"https://ruled.example/", "a rule forbids it (ask Ann)"},
		{"http://inside.example/", "it leads to 10.0.0.1, a private address"},
		{"http://meta.example/", "it leads to 169.254.169.254, a link-local address"},
		{"https://nat64.example/", "a loopback address"},
		{"http://127.0.0.1/", "it is not on the list"},
		{"http://[::1]/", "it is not on the list"},
		{"http://[::ffff:127.0.0.1]/", "it is not on the list"},
		{"http://localhost/", "it is not on the list"},
		{"http://93.184.215.14/", "it is not on the list"},
	} {
		for _, way := range []string{"http", "socks5"} {
			t.Run(way+" "+tt.url, func(t *testing.T) {
				w, _, _ := newWorld(t)
				p, addr := start(t, w, "example.com **.example.org ruled.example inside.example meta.example nat64.example", "denied.example.org", rules)
				res, err := through(t, way, addr).Get(tt.url)
				if err == nil { // plain HTTP has a body to say it in
					text, err := io.ReadAll(res.Body)
					require.NoError(t, err)
					res.Body.Close()
					require.Equal(t, http.StatusForbidden, res.StatusCode)
					require.Contains(t, string(text), tt.why)
				}
				require.Empty(t, w.dials(), "nothing was connected to")
				uses := p.Uses(time.Time{})
				require.Len(t, uses, 1)
				require.True(t, uses[0].Refused)
				require.Contains(t, uses[0].Reason+"; "+uses[0].Hint, tt.why)
			})
		}
	}
}

// The body of a refused CONNECT says why, too, for those who read it.
func TestRefusedTunnel(t *testing.T) {
	w, _, _ := newWorld(t)
	_, addr := start(t, w, "", "", "")
	answer := say(t, addr, "CONNECT evil.com:443 HTTP/1.1\r\nHost: evil.com:443\r\n\r\n")
	require.Contains(t, answer, "HTTP/1.1 403 Forbidden\r\n")
	require.Contains(t, answer, "X-Proxy-Error: blocked-by-policy\r\n")
	require.Contains(t, answer, `toolgate: the sandbox refused the host evil.com: it is not on the list of allowed hosts; the user can allow it with the rule network_rule(host="evil.com", protocol="https", decision="allow")`)
}

// A name is looked up once for each connection, and what is connected to is
// what was decided on.
func TestRebinding(t *testing.T) {
	w, _, _ := newWorld(t)
	_, addr := start(t, w, "rebound.example mixed.example", "", "")
	c := through(t, "http", addr)

	w.names["rebound.example"] = []netip.Addr{public}
	res, err := c.Get("http://rebound.example/")
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, []string{"rebound.example."}, w.lookups, "rooted, and once")
	require.Equal(t, []netip.AddrPort{netip.AddrPortFrom(public, 80)}, w.dials())

	w.mu.Lock()
	w.names["rebound.example"] = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	w.mu.Unlock()
	_, err = c.Get("https://rebound.example/")
	require.ErrorContains(t, err, "Forbidden")
	require.Len(t, w.dials(), 1)

	// Of several addresses those are left out that may not be reached.
	res, err = c.Get("http://mixed.example/")
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, netip.AddrPortFrom(public, 80), w.dials()[1])
	require.Len(t, w.dials(), 2)
}

// say sends raw bytes to addr, and that there will be no more, and returns all
// that comes back.
func say(t testing.TB, addr, text string) string { return exchange(t, addr, text, true) }

func exchange(t testing.TB, addr, text string, end bool) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	if end {
		c.(*net.TCPConn).CloseWrite() // which fails when it has answered and gone
	}
	answer, _ := io.ReadAll(c) // a reset is an answer as well
	return string(answer)
}

// What two readers could take for two requests, or for one to another host,
// does not pass.
func TestNoSmuggling(t *testing.T) {
	for _, tt := range []struct{ name, request, answer string }{
		{"a user name in CONNECT", "CONNECT example.com:443@evil.com:443 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		{"a user name", "GET http://example.com@evil.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"a user name and a password", "GET http://example.com:80@evil.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"a backslash", "GET http://example.com\\@evil.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"an escaped NUL", "GET http://evil.com%00.example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"a NUL", "CONNECT evil.com\x00.example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"a space", "CONNECT evil.com .example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"no port", "CONNECT example.com HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"a path in CONNECT", "CONNECT example.com:443/x HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"CONNECT to a URL", "CONNECT http://evil.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"another host in the header", "GET http://evil.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "403"},
		{"another scheme", "GET https://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"ftp", "GET ftp://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"a file", "GET file:///etc/passwd HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"no address", "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", "400"},
		{"two hosts", "GET http://example.com/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
		{"two lengths", "POST http://example.com/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400"},
		{"two codings", "POST http://example.com/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "501"},
		{"a strange coding", "POST http://example.com/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "501"},
		{"a space before the colon", "POST http://example.com/ HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\na", "400"},
		{"a negative length", "POST http://example.com/ HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\na", "400"},
		{"a NUL in a header", "GET http://example.com/ HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", "400"},
		{"a newline in the address", "GET http://example.com/\nX: y HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"},
		{"long headers", "GET http://example.com/ HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n", "431"},
		{"SOCKS4", "\x04\x01\x00\x50\x5d\xb8\xd7\x0e\x00", "400"},
		{"nonsense", "\x16\x03\x01\x00\x00\r\n\r\n", "400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, _, _ := newWorld(t)
			_, addr := start(t, w, "example.com", "", "")
			answer := say(t, addr, tt.request)
			status, _, _ := strings.Cut(strings.TrimPrefix(answer, "HTTP/1.1 "), " ")
			require.Equal(t, tt.answer, status, answer)
			require.Empty(t, w.dials())
		})
	}
}

// A request arrives as one, whatever it looked like.
func TestForwardedAnew(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	got := make(chan string, 10)
	go func() { // ends with l
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			// All that comes until the proxy has nothing more to say.
			req, err := http.ReadRequest(bufio.NewReader(c))
			if err == nil {
				body, _ := io.ReadAll(req.Body)
				got <- fmt.Sprintf("%s %s %s %v %q", req.Method, req.Host, req.RequestURI, req.Header, body)
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
			c.Close()
		}
	}()
	w, _, _ := newWorld(t)
	w.behind(l.Addr().String(), netip.AddrPortFrom(public, 80))
	_, addr := start(t, w, "example.com", "", "")
	for _, tt := range []struct{ name, request, want string }{
		{"length and chunks", "POST http://example.com/a HTTP/1.1\r\nHost: evil.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\nProxy-Authorization: Basic bWU6eA==\r\nTe: trailers\r\nUser-Agent: u\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
			`POST example.com /a map[Te:[trailers] User-Agent:[u]] "abc"`},
		{"an old version", "GET http://EXAMPLE.com:80/b HTTP/1.0\r\nUser-Agent: u\r\n\r\n", `GET example.com /b map[User-Agent:[u]] ""`},
		{"a folded header", "GET http://example.com/c HTTP/1.1\r\nHost: x\r\nUser-Agent: u\r\nX: a\r\n b\r\nConnection: close\r\n\r\n", `GET example.com /c map[User-Agent:[u] X:[a b]] ""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := exchange(t, addr, tt.request, false)
			require.Contains(t, answer, "200 OK")
			require.Equal(t, tt.want, <-got)
		})
	}
}

// What follows a request to an allowed host on the same connection is decided
// on for itself.
func TestEveryRequestIsDecided(t *testing.T) {
	w, _, _ := newWorld(t)
	_, addr := start(t, w, "example.com", "", "")
	answer := exchange(t, addr, "GET http://example.com/1 HTTP/1.1\r\nHost: example.com\r\n\r\nGET http://evil.com/2 HTTP/1.1\r\nHost: evil.com\r\nConnection: close\r\n\r\n", false)
	require.Contains(t, answer, "HTTP/1.1 200 OK")
	require.Contains(t, answer, "HTTP/1.1 403 Forbidden")
	require.Len(t, w.dials(), 1)
}

func TestSOCKS(t *testing.T) {
	name := func(s string) string { return "\x03" + string(rune(len(s))) + s }
	for _, tt := range []struct {
		name, sent string
		reply      string // of the request, after greeting
	}{
		{"a name", "\x05\x01\x00\x05\x01\x00" + name("example.com") + "\x00\x50", "\x05\x00\x00\x01"},
		{"an address that is not listed", "\x05\x01\x00\x05\x01\x00\x01\x5d\xb8\xd7\x0e\x00\x50", "\x05\x02\x00\x01"},
		{"an IPv4 address as IPv6", "\x05\x01\x00\x05\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x7f\x00\x00\x01\x00\x50", "\x05\x02\x00\x01"},
		{"a NUL in the name", "\x05\x01\x00\x05\x01\x00" + name("evil.com\x00.example.com") + "\x00\x50", "\x05\x02\x00\x01"},
		{"a newline in the name", "\x05\x01\x00\x05\x01\x00" + name("example.com\r\n") + "\x00\x50", "\x05\x02\x00\x01"},
		{"a user in the name", "\x05\x01\x00\x05\x01\x00" + name("example.com@evil.com") + "\x00\x50", "\x05\x02\x00\x01"},
		{"no name", "\x05\x01\x00\x05\x01\x00\x03\x00\x00\x50", "\x05\x02\x00\x01"},
		{"no port", "\x05\x01\x00\x05\x01\x00" + name("example.com") + "\x00\x00", "\x05\x02\x00\x01"},
		{"BIND", "\x05\x01\x00\x05\x02\x00" + name("example.com") + "\x00\x50", "\x05\x07\x00\x01"},
		{"UDP", "\x05\x01\x00\x05\x03\x00" + name("example.com") + "\x00\x50", "\x05\x07\x00\x01"},
		{"another version", "\x05\x01\x00\x04\x01\x00\x03", "\x05\x01\x00\x01"},
		{"another kind of address", "\x05\x01\x00\x05\x01\x00\x02", "\x05\x08\x00\x01"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, _, _ := newWorld(t)
			_, addr := start(t, w, "example.com", "", "")
			answer := say(t, addr, tt.sent)
			require.Greater(t, len(answer), 6, "%q", answer)
			require.Equal(t, "\x05\x00", answer[:2])
			require.Equal(t, tt.reply, answer[2:6])
			require.Equal(t, tt.reply[1] == 0, len(w.dials()) == 1)
		})
	}
	w, _, _ := newWorld(t)
	_, addr := start(t, w, "example.com", "", "")
	require.Equal(t, "\x05\xff", say(t, addr, "\x05\x01\x01"), "no method in common")
}

// A question is put once, however many connections wait for its answer.
func TestAsking(t *testing.T) {
	w, _, _ := newWorld(t)
	parsed, err := rules.Parse("u.rules", []byte(`network_rule(host="example.com", protocol="http", decision="prompt")`))
	require.NoError(t, err)
	var asked atomic.Int32
	answer := make(chan error)
	p, addr := serve(t, netproxy.Options{
		Lookup: w.lookup, Dial: w.dial,
		Rules: func() *rules.Rules { return parsed },
		Ask: func(ctx context.Context, at policy.HostTarget, d policy.HostDecision) (string, error) {
			asked.Add(1)
			require.Equal(t, "example.com", at.String())
			require.Contains(t, d.Reason, "a rule asks first")
			select {
			case err := <-answer:
				return "once", err
			case <-ctx.Done():
				return "", ctx.Err()
			}
		},
	})
	get := func() int {
		res, err := through(t, "http", addr).Get("http://example.com/")
		require.NoError(t, err)
		res.Body.Close()
		return res.StatusCode
	}
	codes := make(chan int)
	for range 5 {
		go func() { codes <- get() }()
	}
	answer <- nil
	require.Equal(t, http.StatusOK, <-codes)
	for range 4 { // one that came late was asked about anew
		select {
		case answer <- nil:
			require.Equal(t, http.StatusOK, <-codes)
		case code := <-codes:
			require.Equal(t, http.StatusOK, code)
		}
	}
	before := asked.Load()
	require.LessOrEqual(t, before, int32(5))
	go func() { codes <- get() }()
	answer <- &gate.RefusedError{Reason: "the user said no"}
	require.Equal(t, http.StatusForbidden, <-codes)
	require.Equal(t, before+1, asked.Load())
	uses := p.Uses(time.Time{})
	require.Len(t, uses, 2)
	require.Equal(t, "once", uses[0].Asked)
	require.Equal(t, "the user said no", uses[1].Reason)
}

// A tunnel passes each side's end on, and ends with the proxy.
func TestTunnel(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() { // ends with l
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with c
				defer c.Close()
				text, err := io.ReadAll(c) // until the client has said that it is done
				fmt.Fprintf(c, "%d bytes, %v", len(text), err)
			}()
		}
	}()
	w := &world{names: map[string][]netip.Addr{"example.com": {public}}}
	w.behind(l.Addr().String(), netip.AddrPortFrom(public, 443))
	p, addr := start(t, w, "example.com", "", "")
	early := strings.Repeat("x", 2<<20) // sent before the tunnel stands
	require.Contains(t, say(t, addr, "CONNECT example.com:443 HTTP/1.1\r\n\r\n"+early), "\r\n\r\n2097152 bytes, <nil>")

	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	io.WriteString(c, "CONNECT example.com:443 HTTP/1.1\r\n\r\n")
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "200")
	p.Close()
	_, err = io.ReadAll(r)
	_ = err // an end or a reset, but it ends
}

// A pipes is a listener of connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipes) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Who does not finish a request is not waited for.
func TestSlowClients(t *testing.T) {
	for _, sent := range []string{"", "\x05", "\x05\x01\x00", "\x05\x01\x00\x05\x01", "G", "GET http://example.com/ HTTP/1.1\r\nX: "} {
		t.Run(fmt.Sprintf("%q", sent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p := newPipes(), netproxy.New(netproxy.Options{})
				go p.Serve(l)
				defer p.Close()
				c, inside := net.Pipe()
				l.conns <- inside
				began := time.Now()
				go io.WriteString(c, sent)
				io.ReadAll(c)
				require.LessOrEqual(t, time.Since(began), 30*time.Second)
				require.Greater(t, time.Since(began), time.Second)
			})
		})
	}
}

// There is a number of connections that a command can have at once, and what
// ends makes room.
func TestConnectionLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := newPipes(), netproxy.New(netproxy.Options{})
		go p.Serve(l)
		defer p.Close()
		var open []net.Conn
		for range 256 {
			c, inside := net.Pipe()
			l.conns <- inside
			open = append(open, c)
		}
		_, inside := net.Pipe()
		synctest.Wait()
		select {
		case l.conns <- inside:
			t.Fatal("one connection too many")
		default:
		}
		open[7].Close()
		synctest.Wait()
		select {
		case l.conns <- inside:
		default:
			t.Fatal("there is no room again")
		}
	})
}

// FuzzClient sends whatever it likes, and nothing but what is listed is ever
// connected to.
func FuzzClient(f *testing.F) {
	for _, seed := range []string{
		"CONNECT example.com:443 HTTP/1.1\r\n\r\nabc",
		"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"GET http://evil.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"POST http://example.com/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\na\r\n0\r\n\r\nGET http://evil.com/ HTTP/1.1\r\n\r\n",
		"CONNECT example.com:443@evil.com:443 HTTP/1.1\r\n\r\n",
		"\x05\x01\x00\x05\x01\x00\x03\x0bexample.com\x00\x50",
		"\x05\x02\x00\x02\x01\x01a\x01b\x05\x01\x00\x03\x08evil.com\x00\x50",
		"\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50",
		"\x05\x01\x00\x05\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x7f\x00\x00\x01\x00\x50",
		"GET /uses?since=1 HTTP/1.1\r\nProxy-Authorization: Basic bWU6eA==\r\n\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		w := &world{names: map[string][]netip.Addr{"example.com": {public}, "evil.com": {netip.MustParseAddr("8.8.8.8")}, "localhost": {netip.MustParseAddr("127.0.0.1")}}}
		hosts, err := policy.NewHosts([]string{"example.com"}, nil)
		require.NoError(t, err)
		l, p := newPipes(), netproxy.New(netproxy.Options{Hosts: hosts, Lookup: w.lookup, Dial: w.dial})
		go p.Serve(l)
		c, inside := net.Pipe()
		l.conns <- inside
		go io.Copy(io.Discard, c)
		io.WriteString(c, sent)
		c.Close()
		p.Close()
		for _, at := range w.dials() {
			require.Equal(t, public, at.Addr(), "%q", sent)
		}
	})
}

// BenchmarkConnect makes a connection and exchanges a byte on it: direct, and
// in each way through the proxy.
func BenchmarkConnect(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	go func() { // ends with l
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with c
				io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	w := &world{names: map[string][]netip.Addr{"example.com": {public}}}
	w.behind(l.Addr().String(), netip.AddrPortFrom(public, 443))
	_, addr := start(b, w, "example.com", "", "")
	socks, err := proxy.SOCKS5("tcp", addr, nil, nil)
	require.NoError(b, err)
	dials := []struct {
		name string
		dial func() (net.Conn, error)
	}{
		{"direct", func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }},
		{"connect", func() (net.Conn, error) {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				return nil, err
			}
			io.WriteString(c, "CONNECT example.com:443 HTTP/1.1\r\n\r\n")
			answer := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
			_, err = io.ReadFull(c, answer)
			return c, err
		}},
		{"socks5", func() (net.Conn, error) { return socks.Dial("tcp", "example.com:443") }},
	}
	for _, d := range dials {
		b.Run(d.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c, err := d.dial()
				if err != nil {
					b.Fatal(err)
				}
				c.Write([]byte{1})
				if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
					b.Fatal(err)
				}
				c.Close()
			}
		})
	}
	for _, d := range dials {
		b.Run("copy/"+d.name, func(b *testing.B) {
			c, err := d.dial()
			require.NoError(b, err)
			defer c.Close()
			const size = 1 << 20
			out, in := make([]byte, size), make([]byte, size)
			b.SetBytes(2 * size)
			for b.Loop() {
				go c.Write(out)
				if _, err := io.ReadFull(c, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
