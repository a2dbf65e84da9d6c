package aggregator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"toolgate/internal/oauth"
	"toolgate/internal/sse"
	"toolgate/internal/stdio"
)

// An HTTP describes how to reach a server over streamable HTTP.
type HTTP struct {
	URL    string
	Header func() (http.Header, error) // of every request; nil: none
	Tokens *oauth.Source               // of access tokens; nil: none
}

// A tokenError means that there is no access token for a request, which was not sent.
type tokenError struct{ error }

func (e *tokenError) Unwrap() error { return e.error }

// send sends req with the access token. If the server rejects the token, it is renewed
// and req is sent once more.
func (h *HTTP) send(req *http.Request) (*http.Response, error) {
	if h.Tokens == nil {
		return sameHostClient.Do(req)
	}
	ctx := req.Context()
	token, err := h.Tokens.Token(ctx)
	if err != nil {
		return nil, &tokenError{err}
	}
	for try := 0; ; try++ {
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := sameHostClient.Do(req)
		if err != nil {
			return nil, err
		}
		challenges := resp.Header.Values("WWW-Authenticate")
		switch {
		case resp.StatusCode == http.StatusForbidden:
			err = h.Tokens.Forbidden(ctx, challenges)
		case resp.StatusCode == http.StatusUnauthorized && try == 0:
			token, err = h.Tokens.Renew(ctx, token, challenges)
		case resp.StatusCode == http.StatusUnauthorized:
			err = h.Tokens.Spent(ctx, token, challenges)
		}
		if err == nil && resp.StatusCode != http.StatusUnauthorized {
			return resp, nil
		}
		resp.Body.Close()
		if err != nil {
			return nil, &tokenError{err}
		}
		if req = req.Clone(ctx); req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// isLoginError reports whether err means that the user must log in.
func isLoginError(err error) bool {
	_, ok := errors.AsType[*oauth.LoginError](err)
	return ok
}

// sameHostClient follows no redirect to another host: the request's headers may be
// secret, and net/http removes only some of them.
var sameHostClient = &http.Client{CheckRedirect: func(req *http.Request, via []*http.Request) error {
	if first := via[0].URL; req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
		return fmt.Errorf("it redirects to %s://%s, another host; set that as its url if you trust it",
			req.URL.Scheme, req.URL.Host)
	}
	if len(via) >= 5 {
		return errors.New("it redirects without end")
	}
	return nil
}}

// A statusError is an HTTP error status without a JSON-RPC error.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("the server answered %d %s", e.code, http.StatusText(e.code))
	if e.text != "" {
		s += ": " + e.text
	}
	return s
}

// errRequestLost is wrapped when the answer to one request was lost but the connection
// is good.
var errRequestLost = errors.New("the answer was cut off")

// connectHTTP opens a session over HTTP. It tries the protocol that the server used last
// time first, the stateless one if there was none, and the HTTP+SSE transport last.
func (s *session) connectHTTP(ctx context.Context) error {
	handshakes := []func(context.Context) error{s.discover, s.initialize}
	if saved := s.d.catalog(); saved != nil && saved.Version != statelessVersion {
		slices.Reverse(handshakes)
	}
	var err error
	for _, open := range handshakes {
		l := newHTTPLink(s.d.spec.HTTP, s)
		s.link = l
		if err = open(ctx); err == nil {
			l.established(ctx, s.initial.Version, s.stateless)
			return nil
		}
		l.Close(err)
		if err := hopeless(ctx, err); err != nil {
			return err
		}
	}
	st, ok := errors.AsType[*statusError](err)
	if ok && st.code >= 400 && st.code < 500 && s.connectSSE(ctx) == nil {
		return nil
	}
	return err
}

// hopeless returns the error that ends the attempts to connect, nil if another handshake
// may succeed.
func hopeless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if t, ok := errors.AsType[*tokenError](err); ok {
		if _, scope := errors.AsType[*oauth.ScopeError](err); scope || isLoginError(err) {
			return permanentError{t.error}
		}
		return t.error
	}
	st, ok := errors.AsType[*statusError](err)
	if ok && (st.code == http.StatusUnauthorized || st.code == http.StatusForbidden) {
		return permanentError{fmt.Errorf("%w; check its bearer_token_env_var or headers", st)}
	}
	if errors.Is(err, errNotSent) {
		return err // the server is unreachable
	}
	return nil
}

// An httpLink is a connection over streamable HTTP, session-based or stateless.
// Each request is a POST of its own, whose answer is a JSON body or a stream.
type httpLink struct {
	how     *HTTP
	session *session // receives what comes unasked; nil: drop it

	life context.Context
	stop context.CancelCauseFunc
	last atomic.Int64

	mu        sync.Mutex
	id        string // Mcp-Session-Id, "" for none
	version   string // for the header; "" before it is negotiated
	stateless bool
	open      map[string]*openRequest
	work      sync.WaitGroup
}

// An openRequest waits for its answer, which some servers send on another stream.
type openRequest struct {
	answer *envelope // received on another stream
	leave  func()    // ends the request's own stream
}

func newHTTPLink(how *HTTP, s *session) *httpLink {
	l := &httpLink{how: how, session: s, open: map[string]*openRequest{}}
	l.life, l.stop = context.WithCancelCause(context.Background())
	return l
}

func (l *httpLink) Done() <-chan struct{} { return l.life.Done() }

// Close ends the connection and, if there is one, the server's session.
func (l *httpLink) Close(cause error) {
	l.mu.Lock()
	id, closed := l.id, l.life.Err() != nil
	l.stop(fmt.Errorf("%w: %w", ErrClosed, cause))
	l.mu.Unlock()
	if closed {
		return
	}
	if id != "" && !errors.Is(cause, errSessionGone) && !isLoginError(cause) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if req, err := l.request(ctx, http.MethodDelete, nil, nil); err == nil {
			if resp, err := l.how.send(req); err == nil {
				resp.Body.Close()
			}
		}
	}
	l.work.Wait()
}

var errSessionGone = errors.New("the server does not know the session any more")

// listenFirst limits how long the first request waits for the stream of notifications:
// what a server sends while there is none is lost, and a server may answer on the stream
// opened last. Some servers send no headers before the first notification.
const listenFirst = 500 * time.Millisecond

// established ends the handshake. It returns when the server has answered whether it
// offers a stream of notifications.
func (l *httpLink) established(ctx context.Context, version string, stateless bool) {
	l.mu.Lock()
	l.version, l.stateless = version, stateless
	l.mu.Unlock()
	if stateless {
		return
	}
	answered := make(chan struct{})
	// Ends with the link, or when the server offers no such stream.
	l.work.Go(func() { l.listen(sync.OnceFunc(func() { close(answered) })) })
	select {
	case <-answered:
	case <-time.After(listenFirst):
	case <-ctx.Done():
	}
}

// request returns an HTTP request with the headers of the link.
func (l *httpLink) request(ctx context.Context, method string, body []byte, r *request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, l.how.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if l.how.Header != nil {
		h, err := l.how.Header()
		if err != nil {
			return nil, permanentError{err}
		}
		maps.Copy(req.Header, h)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id != "" {
		req.Header.Set("Mcp-Session-Id", l.id)
	}
	version, stateless := l.version, l.stateless
	if r != nil && r.meta.Text(metaVersion) != "" {
		version, stateless = r.meta.Text(metaVersion), true
	}
	if version != "" {
		req.Header.Set("MCP-Protocol-Version", version)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	} else {
		req.Header.Set("Accept", "text/event-stream")
	}
	if stateless && r != nil {
		req.Header.Set("Mcp-Method", r.method)
		name := cmp.Or(r.body.Text("name"), r.body.Text("uri"))
		if name == "" && strings.HasPrefix(r.method, "tasks/") {
			name = r.body.Text("taskId")
		}
		if name != "" {
			req.Header.Set("Mcp-Name", headerText(name))
		}
		for header, value := range r.headers {
			req.Header.Set("Mcp-Param-"+header, headerText(value))
		}
	}
	return req, nil
}

// headerText returns s as a header's value, encoded if necessary.
func headerText(s string) string {
	special := func(r rune) bool { return r < ' ' || r >= 0x7f }
	if s == strings.TrimSpace(s) && !strings.HasPrefix(s, "=?") && !strings.ContainsFunc(s, special) {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

// do sends r and waits for its answer.
func (l *httpLink) do(ctx context.Context, r *request) (json.RawMessage, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.life, func() { cancel(context.Cause(l.life)) })()
	id := strconv.FormatInt(l.last.Add(1), 10)
	body := envelope{ID: json.RawMessage(id), Method: r.method, Params: r.params(id)}.line()
	l.mu.Lock()
	l.open[id] = &openRequest{leave: func() { cancel(nil) }}
	l.mu.Unlock()
	res, err := l.exchange(ctx, body, id, r)
	l.mu.Lock()
	elsewhere := l.open[id].answer
	delete(l.open, id)
	l.mu.Unlock()
	if err != nil && elsewhere != nil {
		return elsewhere.answer()
	}
	if err == nil {
		return res, nil
	}
	stateless := r.meta.Text(metaVersion) != "" // then the end of the stream cancels the request
	if ctx.Err() != nil && l.life.Err() == nil && !stateless && r.method != "initialize" {
		l.work.Go(func() { l.send(cancelled(id, context.Cause(ctx))) }) // ends within seconds
	}
	return nil, l.failure(ctx, err)
}

func (l *httpLink) exchange(ctx context.Context, body []byte, id string, r *request) (json.RawMessage, error) {
	resp, err := l.post(ctx, body, r)
	if err != nil {
		return nil, err
	}
	if r.method == "initialize" {
		l.mu.Lock()
		l.id = resp.Header.Get("Mcp-Session-Id")
		l.mu.Unlock()
	}
	return l.answer(ctx, resp, id, r)
}

// failure returns the cause of err: the end of the link, of ctx or of the session, or err.
func (l *httpLink) failure(ctx context.Context, err error) error {
	switch {
	case l.life.Err() != nil:
		return context.Cause(l.life)
	case ctx.Err() != nil:
		return ctx.Err()
	case isLoginError(err):
		go l.Close(err) // the server is unusable until the user logs in
	case errors.Is(err, errSessionGone):
		go l.Close(errSessionGone) // the next request opens a new session
		return fmt.Errorf("%w: %w: %w", ErrClosed, errNotSent, err)
	}
	return err
}

// send posts what needs no answer.
func (l *httpLink) send(m envelope) error {
	ctx, cancel := context.WithTimeout(l.life, 10*time.Second)
	defer cancel()
	return l.postAndDrain(ctx, m.line())
}

func (l *httpLink) postAndDrain(ctx context.Context, body []byte) error {
	resp, err := l.post(ctx, body, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return nil
}

// Waits that a server may ask for with Retry-After.
const (
	maxRetryAfter = 30 * time.Second
	maxRetries    = 3
)

// post sends body and returns the response, whose body the caller must close. It retries
// as the Retry-After header of a busy server asks.
func (l *httpLink) post(ctx context.Context, body []byte, r *request) (*http.Response, error) {
	for try := 0; ; try++ {
		req, err := l.request(ctx, http.MethodPost, body, r)
		if err != nil {
			return nil, err
		}
		resp, err := l.how.send(req)
		if t, ok := errors.AsType[*tokenError](err); ok {
			return nil, t
		}
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			return nil, fmt.Errorf("%w: %w", errNotSent, err)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errRequestLost, err)
		}
		if resp.StatusCode < 300 {
			return resp, nil
		}
		wait, again := retryAfter(resp)
		if !again || try == maxRetries {
			return nil, l.refusal(resp)
		}
		resp.Body.Close()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// retryAfter returns how long to wait before the request, which was not processed, is
// sent again.
func retryAfter(resp *http.Response) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	text := resp.Header.Get("Retry-After")
	var wait time.Duration
	if n, err := strconv.Atoi(text); err == nil {
		wait = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = time.Until(at)
	} else {
		return 0, false
	}
	return max(wait, 0), wait <= maxRetryAfter
}

// refusal returns the error for an HTTP error status: the JSON-RPC error in its body, if
// there is one.
func (l *httpLink) refusal(resp *http.Response) error {
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what came is shown
	if l.sessionGone(resp) {
		return errSessionGone
	}
	if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		if m, err := parseEnvelope(b); err == nil && m.Error != nil {
			return m.Error
		}
	}
	text, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return &statusError{code: resp.StatusCode, text: text[:min(len(text), 200)]}
}

func (l *httpLink) sessionGone(resp *http.Response) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return resp.StatusCode == http.StatusNotFound && l.id != ""
}

// answer reads the answer to the request with this id.
func (l *httpLink) answer(ctx context.Context, resp *http.Response, id string, r *request) (json.RawMessage, error) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		defer resp.Body.Close()
		b, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage+1))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errRequestLost, err)
		}
		if len(b) > maxMessage {
			return nil, fmt.Errorf("the answer is longer than %d bytes", maxMessage)
		}
		m, err := parseEnvelope(b)
		if err != nil {
			return nil, fmt.Errorf("the answer is no JSON-RPC message: %w", err)
		}
		return m.answer()
	case "text/event-stream":
		return l.stream(ctx, resp, id, r)
	}
	resp.Body.Close()
	return nil, fmt.Errorf("the answer is of type %q, neither JSON nor an event stream", kind)
}

// maxResumes limits how often a stream that ended early is resumed.
const maxResumes = 5

// stream reads events until the answer. A stream that ends before is resumed after its
// last event, if that had an id.
func (l *httpLink) stream(ctx context.Context, resp *http.Response, id string, r *request) (json.RawMessage, error) {
	for resumed := 0; ; resumed++ {
		events := sse.NewReader(resp.Body, maxMessage)
		m, err := l.untilAnswer(events, id, r)
		resp.Body.Close()
		if err == nil {
			return m.answer()
		}
		if ctx.Err() != nil || events.LastID == "" || resumed == maxResumes {
			return nil, fmt.Errorf("%w: %w", errRequestLost, err)
		}
		select {
		case <-time.After(max(events.Retry, 100*time.Millisecond)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		again, gerr := l.get(ctx, events.LastID)
		if gerr != nil {
			return nil, fmt.Errorf("%w: %w", errRequestLost, gerr)
		}
		if resp = again; resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			return nil, fmt.Errorf("%w: %w", errRequestLost, err)
		}
	}
}

// get opens a stream of events, after the one with the id last unless that is "".
func (l *httpLink) get(ctx context.Context, last string) (*http.Response, error) {
	req, err := l.request(ctx, http.MethodGet, nil, nil)
	if err != nil {
		return nil, err
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	return l.how.send(req)
}

// takeElsewhere accepts an answer on another stream than its request's, against the
// specification: ids are unique in a session, and many clients check nothing else.
func (l *httpLink) takeElsewhere(m envelope) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.open[string(bytes.Trim(m.ID, `"`))]; o != nil && o.answer == nil {
		o.answer = &m
		o.leave()
	}
}

// untilAnswer returns the answer to the request id and passes on what comes before it.
func (l *httpLink) untilAnswer(events *sse.Reader, id string, r *request) (envelope, error) {
	for {
		ev, err := events.Next()
		if err != nil {
			return envelope{}, err
		}
		m, err := parseEnvelope(ev.Data)
		if err != nil {
			if len(bytes.TrimSpace(ev.Data)) > 0 {
				text := string(ev.Data[:min(len(ev.Data), 200)])
				l.session.onInvalidLine(&stdio.LineError{Msg: err.Error(), Text: text})
			}
			continue
		}
		switch {
		case m.Method == "" && string(bytes.Trim(m.ID, `"`)) == id:
			return m, nil
		case m.Method == "notifications/progress" && r != nil && r.Progress != nil:
			r.Progress(m.Params) // no other request is answered on this stream
		case m.Method != "":
			l.session.handleUnasked(r, m, l.send)
		case len(m.ID) > 0:
			l.takeElsewhere(m)
		}
	}
}

// listen keeps the stream open on which a session-based server sends what belongs to no
// request. Many servers have none. It calls answered at the first response, and when it
// ends.
func (l *httpLink) listen(answered func()) {
	defer answered()
	last := ""
	for failures := 0; l.life.Err() == nil; {
		wait := backoff(min(failures, 8))
		resp, err := l.get(l.life, last)
		answered()
		if err == nil {
			kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
			if resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
				resp.Body.Close()
				if l.sessionGone(resp) {
					go l.Close(errSessionGone) // waits for this goroutine
				}
				return
			}
			failures = 0
			events := sse.NewReader(resp.Body, maxMessage)
			for err == nil {
				_, err = l.untilAnswer(events, "", nil)
			}
			resp.Body.Close()
			last = cmp.Or(events.LastID, last)
			wait = max(events.Retry, time.Second)
		}
		failures++
		select {
		case <-time.After(wait):
		case <-l.life.Done():
		}
	}
}

// connectSSE opens a session over the HTTP transport of 2024-11-05: one stream
// for all that comes, and an address to post to that its first event names.
func (s *session) connectSSE(ctx context.Context) (err error) {
	how := s.d.spec.HTTP
	l := newHTTPLink(how, nil)
	defer func() {
		if err != nil {
			l.stop(err)
		}
	}()
	release := context.AfterFunc(ctx, func() { l.stop(context.Cause(ctx)) })
	resp, err := l.get(l.life, "")
	if err != nil {
		return err
	}
	context.AfterFunc(l.life, func() { resp.Body.Close() })
	events := sse.NewReader(resp.Body, maxMessage)
	first, err := events.Next()
	if err != nil || first.Kind != "endpoint" || resp.StatusCode != http.StatusOK {
		return &statusError{code: resp.StatusCode}
	}
	endpoint, err := endpointURL(how.URL, string(first.Data))
	if err != nil {
		return err
	}
	in, feed := io.Pipe()
	go func() { // ends with the stream
		for {
			ev, err := events.Next()
			if err != nil {
				feed.CloseWithError(err)
				return
			}
			if _, err := feed.Write(append(bytes.ReplaceAll(ev.Data, []byte("\n"), []byte(" ")), '\n')); err != nil {
				return
			}
		}
	}()
	l.how = &HTTP{URL: endpoint, Header: how.Header, Tokens: how.Tokens}
	lines := newStdioLink(in, l, s)
	context.AfterFunc(l.life, func() { in.CloseWithError(context.Cause(l.life)) })
	go func() { // ends with the connection
		<-lines.Done()
		l.stop(ErrClosed)
	}()
	s.link = lines
	if err := s.initialize(ctx); err != nil {
		lines.Close(err)
		return err
	}
	release() // from here on the stream outlives the handshake
	return nil
}

// endpointURL returns the URL that a server sent as its endpoint. It must be on the same
// host, because the request's headers may be secret.
func endpointURL(base, ref string) (string, error) {
	b, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	u, err := b.Parse(strings.TrimSpace(ref))
	if err != nil {
		return "", err
	}
	if u.Scheme != b.Scheme || u.Host != b.Host {
		return "", fmt.Errorf("the server names the address %s, which is not its own", u)
	}
	return u.String(), nil
}

// Write posts a line, as a [stdioLink] needs it whose other stream is of events.
func (l *httpLink) Write(line []byte) (int, error) {
	if err := l.postAndDrain(l.life, bytes.TrimSpace(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}
