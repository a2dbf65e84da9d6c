package console_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/approvals"
	"toolgate/internal/audit"
	"toolgate/internal/console"
	"toolgate/internal/gate"
	"toolgate/policy"
)

// house is a small thing for each of the other sources, which notes what was
// asked of it.
type house struct {
	mu   sync.Mutex
	done []string
}

func (h *house) note(words ...any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, strings.TrimSpace(fmt.Sprintln(words...)))
	return nil
}

func (h *house) noted() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.done...)
}

type servers struct{ *house }

func (s servers) List() []console.Server {
	return []console.Server{{Name: "git", State: "ready", Tools: 1}}
}

func (s servers) Tools(name string) ([]console.ServerTool, string, error) {
	if name != "git" {
		return nil, "", errors.New("there is no such server")
	}
	return []console.ServerTool{{Name: "log", Now: json.RawMessage(`{"name":"log"}`)}}, "digest", nil
}

func (s servers) Accept(name, digest string) error { return s.note("accept", name, digest) }
func (s servers) Restart(name string) error        { return s.note("restart", name) }

type sessions struct{ *house }

func (s sessions) List(context.Context) []console.Session {
	return []console.Session{{Worker: "w", ID: "1", State: "running", Command: "top"}}
}

func (s sessions) Output(_ context.Context, worker, id string, from int64) (console.Output, error) {
	return console.Output{Text: worker + id, From: from, To: 2, Total: 2}, nil
}

type rules struct{ *house }

func (r rules) Files() ([]console.RuleFile, error)  { return nil, nil }
func (r rules) Remove(line int, text string) error  { return r.note("remove", line, text) }
func (r rules) Remembered() []gate.SessionApproval  { return nil }
func (r rules) Forget(m gate.SessionApproval) error { return r.note("forget", m.Caller, m.Key) }

// A fixture is a console with everything behind it.
type fixture struct {
	*console.Console
	t       *testing.T
	list    *approvals.Queue
	outputs console.Outputs
	log     *audit.Log
	house   *house
}

const host = "127.0.0.1:8321"

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := t.TempDir()
	f := &fixture{t: t, house: &house{}}
	var err error
	f.list, err = approvals.Open(filepath.Join(dir, "approvals"))
	require.NoError(t, err)
	f.list.Wait = -1
	f.list.Format = func(q gate.Question) string { return "may " + q.Action.Tool + " run?" }
	f.log, err = audit.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { f.log.Close() })
	f.Console = console.New(console.Options{
		About:     console.About{Version: "v", Workspace: "/ws"},
		Approvals: f.list,
		Record:    dir,
		Outputs:   &f.outputs,
		Servers:   servers{f.house},
		Sessions:  sessions{f.house},
		Rules:     rules{f.house},
	})
	t.Cleanup(f.Close)
	return f
}

// question puts one on the waiting list and returns its id.
func (f *fixture) question(binding string) string {
	f.t.Helper()
	_, err := f.list.Ask(f.t.Context(), gate.QueuedQuestion{Binding: binding, Caller: "c", Question: gate.Question{Action: policy.Action{Tool: "shell"}, AlwaysRule: "rule"}})
	still, ok := errors.AsType[*gate.PendingError](err)
	require.True(f.t, ok, "%v", err)
	return still.ID
}

func (f *fixture) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// post is a request as the page sends it.
func post(path, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://"+host+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", "http://"+host)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r
}

func get(path string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://"+host+path, nil)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r
}

// code returns the code in a new link.
func (f *fixture) code() string {
	_, code, ok := strings.Cut(f.Link("http://"+host), "/console/#code=")
	require.True(f.t, ok)
	return code
}

func login(code string) *http.Request {
	return post("/console/login", fmt.Sprintf(`{"code":%q}`, code))
}

// A guest is a browser that was let in.
type guest struct {
	cookie *http.Cookie
	token  string
}

func (f *fixture) enter() guest {
	f.t.Helper()
	w := f.do(login(f.code()))
	require.Equal(f.t, http.StatusOK, w.Code, w.Body)
	var in struct{ Token string }
	require.NoError(f.t, json.Unmarshal(w.Body.Bytes(), &in))
	cookies := w.Result().Cookies()
	require.Len(f.t, cookies, 1)
	return guest{cookies[0], in.Token}
}

func (g guest) in(r *http.Request) *http.Request {
	r.AddCookie(g.cookie)
	r.Header.Set(console.TokenHeader, g.token)
	return r
}

func TestACodeIsGoodOnce(t *testing.T) {
	f := newFixture(t)
	code := f.code()
	require.Equal(t, http.StatusUnauthorized, f.do(login("AAAAAAAAAAAAAAAAAAAAAAAAAA")).Code, "a wrong one")
	require.Equal(t, http.StatusUnauthorized, f.do(login("")).Code, "none")
	w := f.do(login(code))
	require.Equal(t, http.StatusOK, w.Code)
	c := w.Result().Cookies()[0]
	require.True(t, c.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, c.SameSite)
	require.Equal(t, "/console/", c.Path)
	require.NotContains(t, w.Body.String(), c.Value, "a script of the page must not have both halves")
	require.Equal(t, http.StatusUnauthorized, f.do(login(code)).Code, "the same again")
	require.Equal(t, http.StatusUnauthorized, f.do(login(strings.ToLower(f.code()))).Code, "nearly the right one")
}

func TestCodesAndVisitsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		late, inTime := f.code(), f.code()
		time.Sleep(2*time.Minute - time.Second)
		require.Equal(t, http.StatusOK, f.do(login(inTime)).Code)
		time.Sleep(time.Second)
		require.Equal(t, http.StatusUnauthorized, f.do(login(late)).Code)
		g := f.enter()
		require.Equal(t, http.StatusOK, f.do(g.in(get("/console/api/about"))).Code)
		time.Sleep(12 * time.Hour)
		require.Equal(t, http.StatusUnauthorized, f.do(g.in(get("/console/api/about"))).Code)
	})
}

// Only so many codes and browsers are kept: the oldest go.
func TestCodesAndVisitsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		first, g := f.code(), f.enter()
		for range 16 {
			time.Sleep(time.Second)
			f.enter()
		}
		require.Equal(t, http.StatusUnauthorized, f.do(g.in(get("/console/api/about"))).Code)
		for range 16 {
			time.Sleep(time.Second)
			f.code()
		}
		require.Equal(t, http.StatusUnauthorized, f.do(login(first)).Code)
	})
}

// Wrong codes are answered slowly, and only some at once; a right one is not
// held up by them.
func TestWrongCodesAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		began := time.Now()
		var all sync.WaitGroup
		codes := make(chan int, 100)
		for range cap(codes) {
			all.Go(func() { codes <- f.do(login("WRONG")).Code })
		}
		synctest.Wait()
		require.Equal(t, http.StatusOK, f.do(login(f.code())).Code)
		require.Zero(t, time.Since(began))
		all.Wait()
		close(codes)
		count := map[int]int{}
		for c := range codes {
			count[c]++
		}
		require.Equal(t, map[int]int{http.StatusUnauthorized: 8, http.StatusTooManyRequests: 92}, count)
		require.Equal(t, 300*time.Millisecond, time.Since(began))
	})
}

// everything that is not static.
func requests(id string) map[string]func() *http.Request {
	return map[string]func() *http.Request{
		"about":   func() *http.Request { return get("/console/api/about") },
		"events":  func() *http.Request { return get("/console/api/events") },
		"output":  func() *http.Request { return get("/console/api/calls/x/output") },
		"tools":   func() *http.Request { return get("/console/api/servers/git") },
		"session": func() *http.Request { return get("/console/api/sessions/w/1?from=0") },
		"answer":  func() *http.Request { return post("/console/api/approvals/"+id, `{"answer":"once"}`) },
		"restart": func() *http.Request { return post("/console/api/servers/git/restart", `{}`) },
		"accept":  func() *http.Request { return post("/console/api/servers/git/accept", `{"digest":"digest"}`) },
		"remove":  func() *http.Request { return post("/console/api/rules/remove", `{"line":1,"text":"x"}`) },
		"forget":  func() *http.Request { return post("/console/api/rules/forget", `{"caller":"c","key":"k"}`) },
		"logout":  func() *http.Request { return post("/console/logout", `{}`) },
	}
}

func TestNobodyGetsInWithoutBothHalves(t *testing.T) {
	f := newFixture(t)
	id := f.question("b")
	g, other := f.enter(), f.enter()
	for name, make := range requests(id) {
		for what, change := range map[string]func(*http.Request){
			"nothing":          func(*http.Request) {},
			"the cookie alone": func(r *http.Request) { r.AddCookie(g.cookie) },
			"the token alone":  func(r *http.Request) { r.Header.Set(console.TokenHeader, g.token) },
			"another's token":  func(r *http.Request) { guest{g.cookie, other.token}.in(r) },
			"another cookie":   func(r *http.Request) { guest{&http.Cookie{Name: g.cookie.Name, Value: "x"}, g.token}.in(r) },
			"another's cookie": func(r *http.Request) { guest{other.cookie, g.token}.in(r) },
			"a cookie by another name": func(r *http.Request) {
				guest{&http.Cookie{Name: "toolgate-console", Value: g.cookie.Value}, g.token}.in(r)
			},
			"the token in the address": func(r *http.Request) {
				r.AddCookie(g.cookie)
				r.URL.RawQuery = "token=" + g.token
			},
		} {
			r := make()
			change(r)
			w := f.do(r)
			require.Equal(t, http.StatusUnauthorized, w.Code, "%s with %s: %s", name, what, w.Body)
		}
	}
	waiting, err := f.list.Waiting()
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	require.Empty(t, f.house.noted())
	require.Equal(t, http.StatusOK, f.do(g.in(requests(id)["answer"]())).Code, "and the rows above are no mistake of the test's")
}

// What another page makes a browser send is refused, though the browser would
// send the cookie along.
func TestOtherPagesAreRefused(t *testing.T) {
	f := newFixture(t)
	id := f.question("b")
	g := f.enter()
	for what, change := range map[string]func(*http.Request){
		"another origin":             func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"another port of this host":  func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:9999") },
		"another scheme":             func(r *http.Request) { r.Header.Set("Origin", "https://"+host) },
		"another name of this host":  func(r *http.Request) { r.Header.Set("Origin", "http://localhost:8321") },
		"an opaque origin":           func(r *http.Request) { r.Header.Set("Origin", "null") },
		"two origins":                func(r *http.Request) { r.Header["Origin"] = []string{"http://" + host, "http://" + host} },
		"no origin where it is sent": func(r *http.Request) { r.Header.Del("Origin") },
		"another site":               func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another port by fetch":      func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"another site that navigates": func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
		},
		"a rebound name": func(r *http.Request) {
			r.Host = "evil.example:8321"
			r.Header.Set("Origin", "http://evil.example:8321")
		},
		"a name like ours": func(r *http.Request) {
			r.Host = "localhost.evil.example"
			r.Header.Set("Origin", "http://localhost.evil.example")
		},
		"an address on the network": func(r *http.Request) { r.Host = "192.168.1.5:8321"; r.Header.Set("Origin", "http://192.168.1.5:8321") },
		"all addresses":             func(r *http.Request) { r.Host = "0.0.0.0:8321"; r.Header.Set("Origin", "http://0.0.0.0:8321") },
		"no host":                   func(r *http.Request) { r.Host = "" },
	} {
		for name, make := range requests(id) {
			r := g.in(make())
			if r.Method == http.MethodGet && what == "no origin where it is sent" {
				continue // a browser sends none with a GET
			}
			if r.Method == http.MethodGet && strings.Contains(what, "navigates") {
				continue // that may be shown; without the token it is not, see above
			}
			change(r)
			w := f.do(r)
			require.Equal(t, http.StatusForbidden, w.Code, "%s from %s: %s", name, what, w.Body)
			require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
		}
	}
	// Nor is the page itself shown under a name that is not ours.
	r := get("/console/")
	r.Host = "evil.example"
	require.Equal(t, http.StatusForbidden, f.do(r).Code)

	// A form cannot send JSON.
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"} {
		r := g.in(post("/console/api/approvals/"+id, `{"answer":"once"}`))
		r.Header.Set("Content-Type", kind)
		require.Equal(t, http.StatusUnsupportedMediaType, f.do(r).Code, kind)
	}
	// Nor is there a way that GET changes anything, or a preflight passes.
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		r := g.in(httptest.NewRequest(method, "http://"+host+"/console/api/approvals/"+id, nil))
		w := f.do(r)
		require.NotEqual(t, http.StatusOK, w.Code, method)
		require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
	}
	waiting, err := f.list.Waiting()
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	require.Empty(t, f.house.noted())
}

func TestHosts(t *testing.T) {
	c := console.New(console.Options{Hosts: []string{"gate.example"}})
	t.Cleanup(c.Close)
	for host, want := range map[string]int{
		"127.0.0.1:1": 200, "127.0.0.1": 200, "127.1.2.3:1": 200, "[::1]:1": 200, "localhost:1": 200, "gate.example": 200, "gate.example:443": 200,
		"evil.example": 403, "gate.example.evil.example": 403, "LOCALHOST.evil": 403, "2130706433": 403, "0x7f.1": 403, "10.0.0.1": 403, "[::]:1": 403, "": 403, "localhost:1:1": 403,
	} {
		r := get("/console/")
		r.Host = host
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, host)
	}
}

func TestThePageIsClosed(t *testing.T) {
	f := newFixture(t)
	for path, kind := range map[string]string{"": "text/html", "index.html": "text/html", "app.js": "text/javascript", "style.css": "text/css", "icon.svg": "image/svg+xml"} {
		w := f.do(get("/console/" + path))
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Contains(t, w.Header().Get("Content-Type"), kind)
		csp := w.Header().Get("Content-Security-Policy")
		require.Contains(t, csp, "default-src 'none'")
		require.Contains(t, csp, "require-trusted-types-for 'script'")
		require.Contains(t, csp, "frame-ancestors 'none'")
		require.NotContains(t, csp, "unsafe")
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		require.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
		require.NotContains(t, w.Body.String(), "://"+"cdn")
		require.NotContains(t, w.Body.String(), "<script>")
		require.NotContains(t, w.Body.String(), "innerHTML")
	}
	for _, path := range []string{"../go.mod", "%2e%2e/go.mod", "..%2fgo.mod", "page/app.js", "app.js/", "/etc/passwd", "//etc/passwd", "app.js%00", "api", "api/", ".", "..", "%5c..%5cgo.mod", "APP.JS"} {
		w := f.do(get("/console/" + path))
		require.NotEqual(t, http.StatusOK, w.Code, path)
		require.NotContains(t, w.Body.String(), "module toolgate", path)
	}
}

func TestAnswers(t *testing.T) {
	for _, answer := range []gate.Answer{gate.Once, gate.Session, gate.Always, gate.No} {
		f := newFixture(t)
		g, id := f.enter(), f.question("b")
		answered := func(id, answer string) *httptest.ResponseRecorder {
			return f.do(g.in(post("/console/api/approvals/"+id, fmt.Sprintf(`{"answer":%q}`, answer))))
		}
		for _, bad := range []string{id[:4], id[:7], "nosuchid", "..", "%2e%2e", "*", "********", "..%2f" + id, id + ".json"} {
			require.NotEqual(t, http.StatusOK, answered(bad, string(answer)).Code, bad)
		}
		for _, bad := range []string{"", "yes", "ONCE", "allow"} {
			require.Equal(t, http.StatusBadRequest, answered(id, bad).Code, bad)
		}
		for _, body := range []string{``, `{`, `[]`, `{"answer":"once","x":1}`, `{"Answer":"once"}`, `{"answer":"no","answer":"once"}`, `{"answer":"no","\u0061nswer":"once"}`, `{"answer":"once"}{}`, `{"answer":true}`, "{\"answer\":\"once\xff\"}"} {
			require.Equal(t, http.StatusBadRequest, f.do(g.in(post("/console/api/approvals/"+id, body))).Code, body)
		}
		require.Equal(t, http.StatusRequestEntityTooLarge, f.do(g.in(post("/console/api/approvals/"+id, strings.Repeat(" ", 65<<10)))).Code)
		w := answered(id, string(answer))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Equal(t, http.StatusNotFound, answered(id, "once").Code, "the first answer holds")
		got, err := f.list.Ask(t.Context(), gate.QueuedQuestion{Binding: "b", Caller: "c"})
		require.NoError(t, err)
		require.Equal(t, answer, got)
	}
}

func TestActions(t *testing.T) {
	f := newFixture(t)
	g := f.enter()
	for _, name := range []string{"restart", "accept", "remove", "forget"} {
		w := f.do(g.in(requests("")[name]()))
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", name, w.Body)
	}
	require.Equal(t, []string{"restart git", "accept git digest", "remove 1 x", "forget c k"}, f.house.noted())
	w := f.do(g.in(requests("")["tools"]()))
	require.JSONEq(t, `{"digest":"digest","tools":[{"name":"log","now":{"name":"log"}}]}`, w.Body.String())
	w = f.do(g.in(requests("")["session"]()))
	require.JSONEq(t, `{"text":"w1","from":0,"to":2,"total":2}`, w.Body.String())
	require.Equal(t, http.StatusOK, f.do(g.in(requests("")["logout"]())).Code)
	require.Equal(t, http.StatusUnauthorized, f.do(g.in(requests("")["restart"]())).Code)
}

// A page that asks while the gate ends must not think that it was put out.
func TestEnding(t *testing.T) {
	f := newFixture(t)
	g := f.enter()
	f.Close()
	require.Equal(t, http.StatusServiceUnavailable, f.do(g.in(get("/console/api/about"))).Code)
	require.Equal(t, http.StatusServiceUnavailable, f.do(login(f.code())).Code)
}

// events reads a stream of a real server, one event at a time.
type events struct {
	t *testing.T
	r *bufio.Reader
	c io.Closer
}

func (f *fixture) open(url string, g guest) (*events, int) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, url+"/console/api/events", nil)
	require.NoError(f.t, err)
	res, err := http.DefaultClient.Do(g.in(r))
	require.NoError(f.t, err)
	f.t.Cleanup(func() { res.Body.Close() })
	return &events{f.t, bufio.NewReader(res.Body), res.Body}, res.StatusCode
}

// next returns the data of the next event of that name.
func (e *events) next(name string) string {
	e.t.Helper()
	for {
		line, err := e.r.ReadString('\n')
		require.NoError(e.t, err)
		if line != "event: "+name+"\n" {
			continue
		}
		data, err := e.r.ReadString('\n')
		require.NoError(e.t, err)
		return strings.TrimPrefix(data, "data: ")
	}
}

func (f *fixture) serve() string {
	f.t.Helper()
	url, stop, err := f.Serve("", filepath.Join(f.t.TempDir(), "consoles"))
	require.NoError(f.t, err)
	f.t.Cleanup(stop)
	return url
}

func TestEvents(t *testing.T) {
	f := newFixture(t)
	f.log.Record(gate.Event{Time: time.Now(), ID: "before", Tool: "shell", Outcome: "ok", Args: json.RawMessage(`{"x":"</script><!--\u2028"}`)})
	e, status := f.open(f.serve(), f.enter())
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, e.next("approvals"), `"list":[]`)
	require.Contains(t, e.next("servers"), `"name":"git"`)
	require.Contains(t, e.next("sessions"), `"command":"top"`)
	require.Contains(t, e.next("rules"), `"list":[]`)
	first := e.next("call")
	require.Contains(t, first, `"id":"before"`)
	require.NotContains(t, first, "<", "nothing in JSON that HTML could take for its own")
	id := f.question("b")
	require.Contains(t, e.next("approvals"), id)
	_, err := f.list.Decide(id, gate.No)
	require.NoError(t, err)
	require.Contains(t, e.next("approvals"), `"list":[]`)
	f.log.Record(gate.Event{Time: time.Now(), ID: "after", Tool: "shell", Outcome: "refused"})
	require.Contains(t, e.next("call"), `"id":"after"`)
}

func TestStreamsAreFewAndEnd(t *testing.T) {
	f := newFixture(t)
	url := f.serve()
	g := f.enter()
	var open []*events
	for range 6 {
		e, status := f.open(url, g)
		require.Equal(t, http.StatusOK, status)
		e.next("approvals")
		open = append(open, e)
	}
	_, status := f.open(url, g)
	require.Equal(t, http.StatusTooManyRequests, status)
	open[0].c.Close()
	require.Eventually(t, func() bool {
		e, status := f.open(url, g)
		if status == http.StatusOK {
			open[0] = e
		}
		return status == http.StatusOK
	}, 30*time.Second, 20*time.Millisecond, "a stream that ended makes room")

	// All browsers together have a limit, too.
	all := len(open)
	for range 4 {
		g := f.enter()
		for range 6 {
			if _, status := f.open(url, g); status == http.StatusOK {
				all++
			}
		}
	}
	require.Equal(t, 24, all)

	// Who leaves hears no more.
	require.Equal(t, http.StatusOK, f.do(g.in(post("/console/logout", `{}`))).Code)
	for _, e := range open {
		_, err := io.Copy(io.Discard, e.r)
		require.NoError(t, err, "the stream has an end")
	}
}

func TestNotices(t *testing.T) {
	f := newFixture(t)
	dir := filepath.Join(t.TempDir(), "consoles")
	url, stop, err := f.Serve("127.0.0.1:0", dir)
	require.NoError(t, err)
	t.Cleanup(func() { stop() })
	all, err := console.Announcements(dir)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, url, all[0].URL)
	require.Equal(t, "/ws", all[0].Workspace)
	if runtime.GOOS != "windows" {
		names, err := os.ReadDir(dir)
		require.NoError(t, err)
		info, err := names[0].Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	link, err := all[0].Link(t.Context())
	require.NoError(t, err)
	_, code, _ := strings.Cut(link, "#code=")
	require.Equal(t, http.StatusOK, f.do(login(code)).Code)

	// Who does not know the secret gets none, nor does a browser.
	body := `{"nonce":"AAAAAAAAAAAAAAAAAAAAAAAAAA","proof":"00"}`
	r := httptest.NewRequest(http.MethodPost, "http://"+host+"/console/code", strings.NewReader(body))
	require.Equal(t, http.StatusUnauthorized, f.do(r).Code)
	require.Equal(t, http.StatusForbidden, f.do(post("/console/code", body)).Code)

	stop()
	left, err := console.Announcements(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = all[0].Link(t.Context())
	require.ErrorIs(t, err, console.ErrGone)

	_, err = newFixture(t).Announce(dir, newFixture(t).serve())
	require.NoError(t, err)
	all, err = console.Announcements(dir)
	require.NoError(t, err)
	_, err = all[0].Link(t.Context())
	require.ErrorIs(t, err, console.ErrGone, "another console than the one that the notice is of")
}

// What listens on the port of a gate that died cannot pass for it, and learns
// nothing that would let it in elsewhere.
func TestAnImpostorIsFoundOut(t *testing.T) {
	f := newFixture(t)
	dir := t.TempDir()
	var heard []string
	impostor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		heard = append(heard, string(b))
		io.WriteString(w, `{"code":"AAAA","proof":"00"}`)
	}))
	t.Cleanup(impostor.Close)
	_, err := f.Announce(dir, impostor.URL)
	require.NoError(t, err)
	all, err := console.Announcements(dir)
	require.NoError(t, err)
	_, err = all[0].Link(t.Context())
	require.ErrorIs(t, err, console.ErrGone)
	require.Len(t, heard, 1)
	require.NotContains(t, heard[0], all[0].Secret)
	left, err := console.Announcements(dir)
	require.NoError(t, err)
	require.Empty(t, left, "and is not asked again")
}

func TestAddresses(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:0": true, "127.0.0.1:8321": true,
		"0.0.0.0:0": false, ":0": false, "[::]:0": false, "192.168.1.5:0": false, "localhost:0": false, "example.com:1": false, "127.0.0.1": false, "": false,
	} {
		err := console.CheckAddress(address)
		require.Equal(t, ok, err == nil, "%s: %v", address, err)
	}
	_, _, err := newFixture(t).Serve("0.0.0.0:0", t.TempDir())
	require.ErrorContains(t, err, "not a loopback address")
}

// A header that never ends, or is too long, does not stay.
func TestSlowAndLongHeaders(t *testing.T) {
	f := newFixture(t)
	url := f.serve()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET /console/ HTTP/1.1\r\nHost: %s\r\nX-Long: %s\r\n\r\n", strings.TrimPrefix(url, "http://"), bytes.Repeat([]byte("x"), 64<<10))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, res.StatusCode)
	slow, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { slow.Close() })
	fmt.Fprint(slow, "GET /console/ HTTP/1.1\r\nHost: ")
	_, err = io.ReadAll(slow)
	require.NoError(t, err, "the server ends it")
}

func TestOutputs(t *testing.T) {
	var o console.Outputs
	_, ok := o.Get("none")
	require.False(t, ok)
	o.Keep("a", json.RawMessage(`{"content":[{"type":"text","text":"key ghp_abcdefghijklmnopqrstuvwxyz0123456789 end"},{"type":"image","mimeType":"image/png","data":"AAAA"}]}`))
	text, ok := o.Get("a")
	require.True(t, ok)
	require.Equal(t, "key [redacted] end[image image/png, 3 bytes]\n", text)
	secret := "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	for at := 8000; at < 8700; at += 37 {
		b, err := json.Marshal(map[string]any{"content": []map[string]string{{"type": "text", "text": strings.Repeat("x ", at/2) + secret + strings.Repeat(" y", 20000)}}})
		require.NoError(t, err)
		o.Keep("long", b)
		text, _ = o.Get("long")
		require.Less(t, len(text), 17<<10)
		require.NotContains(t, text, "ghp_", at)
	}
	for i := range 500 {
		o.Keep(fmt.Sprint(i), json.RawMessage(`{"content":[{"type":"text","text":"x"}]}`))
	}
	_, ok = o.Get("a")
	require.False(t, ok)
	_, ok = o.Get("499")
	require.True(t, ok)
	o.Keep("bad", json.RawMessage(`{`))
	_, ok = o.Get("bad")
	require.False(t, ok)
}
