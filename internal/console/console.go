// Package console is the page on which a person sees what waits for a yes and
// what happened, and answers: a handler that can be mounted on any server.
//
//	c := console.New(console.Options{Approvals: list, Calls: record})
//	defer c.Close()
//	mux.Handle("/console/", c)
//	link := c.Link("http://127.0.0.1:8321") // lets one browser in, once
//
// The page is static and asks nobody but this server for anything. A browser
// gets in with a code that is good once and for two minutes, and from then on
// shows two things with each request: a cookie that no script can read, and a
// token that no other origin can. Either alone is worth nothing, because
// cookies do not tell the ports of a host apart. Requests that name a host which is
// not ours, or come from another origin, are refused before anything else.
//
// What a model wrote is text on this page, never markup, and characters that
// hide or turn others are shown by their number.
package console

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"toolgate/internal/approvals"
	"toolgate/internal/audit"
	"toolgate/internal/gate"
)

// Options configure a [Console]. A view whose source is nil says that it is
// not to be had here.
type Options struct {
	About     About
	Prefix    string   // path that it is mounted at, "/console" when empty
	Hosts     []string // names, beside those of the loopback, that it may be reached by
	Approvals Approvals
	Calls     Calls
	Servers   Servers
	Sessions  Sessions
	Rules     Rules
	Log       *slog.Logger // nil: nothing is logged
}

// About is what the page says of the gate it belongs to.
type About struct {
	Version   string    `json:"version"`
	Workspace string    `json:"workspace,omitempty"`
	PID       int       `json:"pid,omitempty"`
	Started   time.Time `json:"started,omitzero"`
}

// Approvals are the questions that wait; *[approvals.List] is one.
type Approvals interface {
	Waiting() ([]approvals.Entry, error)
	Decide(id string, a gate.Answer) (approvals.Entry, error)
}

// Calls are the record of calls.
type Calls interface {
	// Follow calls each with the last so many calls, oldest first, and with
	// those that come, until ctx ends or each errs.
	Follow(ctx context.Context, last int, each func(audit.Entry) error) error

	// Output returns what a call answered, as far as it was kept.
	Output(id string) (text string, ok bool)
}

// A Server is a downstream server in the list.
type Server struct {
	Name    string   `json:"name"`
	State   string   `json:"state"`
	Error   string   `json:"error,omitempty"`
	Tools   int      `json:"tools"`
	Faults  []string `json:"faults,omitempty"`
	Level   string   `json:"level,omitempty"`
	Version string   `json:"version,omitempty"`
	Changed int      `json:"changed"` // tools to be looked at
}

// A ServerTool is one tool of a server, with what was seen of it before when
// it has changed.
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

	// Tools returns a server's tools, and a digest of all that is returned.
	Tools(name string) (tools []ServerTool, digest string, err error)

	// Accept accepts the tools that Tools returned with the digest, and
	// nothing else.
	Accept(name, digest string) error

	Restart(name string) error
}

// A Session is a command that runs on, or whose output is kept.
type Session struct {
	Worker  string `json:"worker"` // names the worker among all
	ID      string `json:"id"`
	Caller  string `json:"caller"`
	Mode    string `json:"mode"` // sandbox mode of the worker
	Level   string `json:"level"`
	State   string `json:"state"`
	Age     string `json:"age"`
	Command string `json:"command"`
}

// An Output is a part of what a session printed.
type Output struct {
	Text  string `json:"text"`
	From  int64  `json:"from"`
	To    int64  `json:"to"`
	Total int64  `json:"total"`
	Lost  int64  `json:"lost,omitempty"` // bytes before To that were not kept
}

// Sessions are the commands of the workers.
type Sessions interface {
	List(context.Context) []Session
	Output(ctx context.Context, worker, id string, from int64) (Output, error)
}

// A RuleFile is one file of rules.
type RuleFile struct {
	Name  string `json:"name"`
	Text  string `json:"text"`
	Kept  bool   `json:"kept,omitempty"` // "always" writes to it, and lines can be removed
	Fault string `json:"fault,omitempty"`
}

// Rules are the user's rules.
type Rules interface {
	Files() ([]RuleFile, error)

	// Remove removes a line, counted from 1, of the file that "always" writes
	// to, if it still has that text.
	Remove(line int, text string) error

	// Remembered returns the answers that hold for a session, and Forget
	// takes one back.
	Remembered() []gate.SessionApproval
	Forget(gate.SessionApproval) error
}

// A Console serves the page and what it asks for. Close it. It may be used
// concurrently.
type Console struct {
	opts   Options
	log    *slog.Logger
	door   *door
	pages  map[string]page
	secret []byte
	mux    *http.ServeMux

	life context.Context
	stop context.CancelFunc
	busy sync.WaitGroup // streams
}

//go:embed page
var files embed.FS

// A page is a static file.
type page struct {
	kind string
	body []byte
}

var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// New returns a console.
func New(o Options) *Console {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Prefix == "" {
		o.Prefix = "/console"
	}
	c := &Console{opts: o, log: o.Log, door: newDoor(o.Prefix), pages: map[string]page{}, secret: newSecret(), mux: http.NewServeMux()}
	c.life, c.stop = context.WithCancel(context.Background())
	list, err := fs.ReadDir(files, "page")
	if err != nil {
		panic("console.New: " + err.Error()) // it is in the binary
	}
	for _, f := range list {
		body, err := files.ReadFile("page/" + f.Name())
		if err != nil {
			panic("console.New: " + err.Error())
		}
		c.pages[f.Name()] = page{kinds[path.Ext(f.Name())], body}
	}
	c.pages[""] = c.pages["index.html"]
	c.routes()
	return c
}

// Close ends all streams and lets nobody in any more.
func (c *Console) Close() {
	c.stop()
	c.door.close()
	c.busy.Wait()
}

// Link returns a link below base, such as "http://127.0.0.1:8321", that lets
// one browser in, once and within two minutes.
func (c *Console) Link(base string) string {
	return base + c.opts.Prefix + "/#code=" + c.door.code()
}

// policyHeader is the page's own Content-Security-Policy: nothing inline,
// nothing from elsewhere, no markup out of strings, no frame around it.
const policyHeader = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policyHeader)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
	if err := c.checkOrigin(r); err != nil {
		c.log.Warn("console: a request was refused", "why", err, "from", r.RemoteAddr)
		fail(w, http.StatusForbidden, err)
		return
	}
	if c.life.Err() != nil { // no page must take it for a refusal
		fail(w, http.StatusServiceUnavailable, errors.New("toolgate is ending"))
		return
	}
	c.mux.ServeHTTP(w, r)
}

// static serves the page's files, which hold nothing secret.
func (c *Console) static(w http.ResponseWriter, r *http.Request) {
	p, ok := c.pages[strings.TrimPrefix(r.URL.Path, c.opts.Prefix+"/")]
	if !ok {
		fail(w, http.StatusNotFound, errNotFound)
		return
	}
	w.Header().Set("Content-Type", p.kind)
	w.Write(p.body)
}
