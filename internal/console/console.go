// Package console is a web page that shows pending approvals and past calls, and on which
// a person answers. It is an [http.Handler].
//
//	c := console.New(console.Options{Approvals: queue, Record: stateDir})
//	defer c.Close()
//	mux.Handle("/console/", c)
//	link := c.Link("http://127.0.0.1:8321") // logs one browser in, once
//
// The page is static and contacts no other server. A browser logs in with a single-use
// code that is valid for two minutes. After that, each request needs a cookie that
// scripts cannot read and a token that other origins cannot read. Neither suffices alone,
// because cookies are shared between the ports of a host. Requests with a foreign Host or
// from another origin are rejected first.
//
// The page shows text from a model as text, never as markup, and shows invisible and
// bidirectional control characters as code points.
package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"toolgate/internal/approvals"
	"toolgate/internal/gate"
)

// prefix is the path at which a console is mounted.
const prefix = "/console"

// Options configure a [Console]. A view whose source is nil is not available.
type Options struct {
	About     About
	Hosts     []string // allowed host names, besides the loopback
	Approvals *approvals.Queue
	Record    string   // folder of the record of calls
	Outputs   *Outputs // results of these calls; may be nil
	Servers   Servers
	Sessions  Sessions
	Rules     Rules
	Log       *slog.Logger // nil: nothing is logged
}

// About describes the gate that the console belongs to.
type About struct {
	Version   string    `json:"version"`
	Workspace string    `json:"workspace,omitempty"`
	PID       int       `json:"pid,omitempty"`
	Started   time.Time `json:"started,omitzero"`
}

// A Server is a downstream server.
type Server struct {
	Name    string   `json:"name"`
	State   string   `json:"state"`
	Error   string   `json:"error,omitempty"`
	Tools   int      `json:"tools"`
	Faults  []string `json:"faults,omitempty"`
	Level   string   `json:"level,omitempty"`
	Version string   `json:"version,omitempty"`
	Changed int      `json:"changed"` // tools to be reviewed
}

// A ServerTool is one tool of a server. Before is its last accepted definition, if it has changed.
type ServerTool struct {
	Name    string          `json:"name"`
	Changed bool            `json:"changed,omitempty"`
	Flags   []string        `json:"flags,omitempty"`
	Before  json.RawMessage `json:"before,omitempty"`
	Now     json.RawMessage `json:"now"`
}

// Servers are the downstream servers.
type Servers interface {
	List() []Server

	// Tools returns a server's tools and a digest of them.
	Tools(name string) (tools []ServerTool, digest string, err error)

	// Accept accepts the tools if their digest is still that returned by Tools.
	Accept(name, digest string) error

	Restart(name string) error
}

// A Session is a command that runs in the background or whose output is kept.
type Session struct {
	Worker  string `json:"worker"` // unique ID of the worker
	ID      string `json:"id"`
	Caller  string `json:"caller"`
	Mode    string `json:"mode"` // sandbox mode of the worker
	Level   string `json:"level"`
	State   string `json:"state"`
	Age     string `json:"age"`
	Command string `json:"command"`
}

// An Output is part of a session's output.
type Output struct {
	Text  string `json:"text"`
	From  int64  `json:"from"`
	To    int64  `json:"to"`
	Total int64  `json:"total"`
	Lost  int64  `json:"lost,omitempty"` // bytes before To that were not kept
}

// Sessions are the sessions of all workers.
type Sessions interface {
	List(context.Context) []Session
	Output(ctx context.Context, worker, id string, from int64) (Output, error)
}

// A RuleFile is one rule file.
type RuleFile struct {
	Name  string `json:"name"`
	Text  string `json:"text"`
	Kept  bool   `json:"kept,omitempty"` // the answer "always" writes to it, and lines can be removed
	Fault string `json:"fault,omitempty"`
}

// Rules are the user's rules.
type Rules interface {
	Files() ([]RuleFile, error)

	// Remove removes a line from the file that "always" writes to, if the line still has that text. Lines count from 1.
	Remove(line int, text string) error

	// Remembered returns the answers that are valid for a session. Forget revokes one.
	Remembered() []gate.SessionApproval
	Forget(gate.SessionApproval) error
}

// A Console serves the page and its API. The caller must close it. It may be used concurrently.
type Console struct {
	opts   Options
	log    *slog.Logger
	logins *logins
	secret []byte
	mux    *http.ServeMux

	life    context.Context
	stop    context.CancelFunc
	streams sync.WaitGroup // open event streams
}

//go:embed page
var files embed.FS

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// New returns a Console.
func New(o Options) *Console {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Console{
		opts:   o,
		log:    o.Log,
		logins: newLogins(),
		secret: make([]byte, 32),
		mux:    http.NewServeMux(),
	}
	rand.Read(c.secret) // never fails
	c.life, c.stop = context.WithCancel(context.Background())
	c.routes()
	return c
}

// Close ends all streams and sessions and rejects further requests.
func (c *Console) Close() {
	c.stop()
	c.logins.close()
	c.streams.Wait()
}

// Link returns a login link for one browser. It is valid once and for two minutes. Base
// is a URL without path, such as "http://127.0.0.1:8321".
func (c *Console) Link(base string) string {
	return base + prefix + "/#code=" + c.logins.newCode()
}

// contentSecurityPolicy forbids inline code, external resources, markup from strings and framing.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentSecurityPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
	if err := c.checkOrigin(r); err != nil {
		c.log.Warn("console: request refused", "why", err, "from", r.RemoteAddr)
		fail(w, &failure{http.StatusForbidden, err})
		return
	}
	if c.life.Err() != nil { // 503, so that the page does not log out
		fail(w, &failure{http.StatusServiceUnavailable, errors.New("toolgate is ending")})
		return
	}
	c.mux.ServeHTTP(w, r)
}

// static serves the files of the page, which contain nothing secret.
func (c *Console) static(w http.ResponseWriter, r *http.Request) {
	name := cmp.Or(strings.TrimPrefix(r.URL.Path, prefix+"/"), "index.html")
	body, err := files.ReadFile("page/" + name)
	if err != nil {
		fail(w, &failure{http.StatusNotFound, errors.New("not found")})
		return
	}
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	w.Write(body)
}
