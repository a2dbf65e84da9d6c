package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"toolgate/internal/approvals"
	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
)

const maxBody = 64 << 10 // bytes of a request

// A handler answers a request with a value that is sent as JSON; a nil value is not sent.
// An error that is a *[failure] decides the status.
type handler func(http.ResponseWriter, *http.Request) (any, error)

// A sessionHandler is a handler for a logged-in browser.
type sessionHandler func(http.ResponseWriter, *http.Request, *browserSession) (any, error)

// A failure is an error with the status of its response.
type failure struct {
	status int
	error
}

func (c *Console) routes() {
	handle := func(pattern string, h handler) {
		method, path, _ := strings.Cut(pattern, " ")
		if method == http.MethodPost {
			h = mutating(h)
		}
		c.mux.Handle(method+" "+prefix+path, h)
	}
	api := func(pattern string, available bool, f sessionHandler) {
		if !available {
			f = func(http.ResponseWriter, *http.Request, *browserSession) (any, error) { return nil, errUnavailable }
		}
		handle(pattern, c.authenticated(f))
	}
	c.mux.HandleFunc("GET "+prefix+"/", c.static)
	c.mux.Handle("POST "+prefix+"/code", handler(c.issueCode))
	handle("POST /login", c.login)
	api("POST /logout", true, c.logout)
	api("GET /api/about", true, c.about)
	api("GET /api/events", true, c.events)
	api("POST /api/approvals/{id}", true, c.decide)
	api("GET /api/calls/{id}/output", c.opts.Record != "", c.callOutput)
	api("GET /api/servers/{name}", c.opts.Servers != nil, c.serverTools)
	api("POST /api/servers/{name}/restart", c.opts.Servers != nil, c.restart)
	api("POST /api/servers/{name}/accept", c.opts.Servers != nil, c.accept)
	api("GET /api/sessions/{worker}/{id}", c.opts.Sessions != nil, c.sessionOutput)
	api("POST /api/rules/remove", c.opts.Rules != nil, c.removeRule)
	api("POST /api/rules/forget", c.opts.Rules != nil, c.forget)
}

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, err := h(w, r)
	if err != nil {
		fail(w, err)
		return
	}
	if v == nil {
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		fail(w, fmt.Errorf("bug: encoding the response: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(b)
}

// fail sends err, as an internal error unless it is a *[failure].
func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if f, ok := errors.AsType[*failure](err); ok {
		status = f.status
	}
	b, _ := json.Marshal(map[string]string{"error": err.Error()}) // strings marshal
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}

// read decodes a JSON request strictly.
func read(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return &failure{http.StatusRequestEntityTooLarge, fmt.Errorf("the request is longer than %d bytes", maxBody)}
	}
	if rawjson.Unique(body) != nil || rawjson.UnmarshalKnown(body, v) != nil {
		return &failure{http.StatusBadRequest, errors.New("invalid request")}
	}
	return nil
}

var errUnavailable = &failure{http.StatusNotFound, errors.New("not available in this console")}

func (c *Console) about(_ http.ResponseWriter, _ *http.Request, v *browserSession) (any, error) {
	var views []string
	for _, view := range []struct {
		name  string
		there bool
	}{
		{"approvals", c.opts.Approvals != nil},
		{"calls", c.opts.Record != ""},
		{"servers", c.opts.Servers != nil},
		{"sessions", c.opts.Sessions != nil},
		{"rules", c.opts.Rules != nil},
	} {
		if view.there {
			views = append(views, view.name)
		}
	}
	return struct {
		About
		Until any      `json:"until"`
		Views []string `json:"views"`
	}{c.opts.About, v.until, views}, nil
}

// isFullID reports whether id is a complete approval ID. The command line accepts a
// prefix, but by now that could match another question.
func isFullID(id string) bool {
	return len(id) == 8 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

func (c *Console) decide(w http.ResponseWriter, r *http.Request, _ *browserSession) (any, error) {
	var in struct {
		Answer gate.Answer `json:"answer"`
	}
	if err := read(w, r, &in); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	if c.opts.Approvals == nil || !isFullID(id) {
		return nil, &failure{http.StatusNotFound, fmt.Errorf("%w: %q", approvals.ErrUnknown, id)}
	}
	e, err := c.opts.Approvals.Decide(id, in.Answer)
	switch {
	case errors.Is(err, approvals.ErrUnknown):
		return nil, &failure{http.StatusNotFound, err}
	case errors.Is(err, approvals.ErrAnswered):
		return nil, &failure{http.StatusConflict, err}
	case err != nil:
		return nil, &failure{http.StatusBadRequest, err}
	}
	c.log.Info("console: answered", "approval", e.ID, "answer", in.Answer)
	return map[string]any{"id": e.ID, "answer": in.Answer}, nil
}

func (c *Console) callOutput(_ http.ResponseWriter, r *http.Request, _ *browserSession) (any, error) {
	text, ok := c.opts.Outputs.Get(r.PathValue("id"))
	return map[string]any{"kept": ok, "text": text}, nil
}

func (c *Console) serverTools(_ http.ResponseWriter, r *http.Request, _ *browserSession) (any, error) {
	tools, digest, err := c.opts.Servers.Tools(r.PathValue("name"))
	if err != nil {
		return nil, &failure{http.StatusNotFound, err}
	}
	return map[string]any{"tools": orEmpty(tools), "digest": digest}, nil
}

func (c *Console) restart(w http.ResponseWriter, r *http.Request, _ *browserSession) (any, error) {
	return c.changeServer(w, r, &struct{}{}, func(name string) error { return c.opts.Servers.Restart(name) })
}

func (c *Console) accept(w http.ResponseWriter, r *http.Request, _ *browserSession) (any, error) {
	var in struct {
		Digest string `json:"digest"`
	}
	return c.changeServer(w, r, &in, func(name string) error { return c.opts.Servers.Accept(name, in.Digest) })
}

func (c *Console) changeServer(
	w http.ResponseWriter, r *http.Request, in any, change func(name string) error,
) (any, error) {
	if err := read(w, r, in); err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	if err := change(name); err != nil {
		return nil, &failure{http.StatusConflict, err}
	}
	c.log.Info("console: server", "downstream", name, "path", r.URL.Path)
	return map[string]any{}, nil
}

func (c *Console) sessionOutput(_ http.ResponseWriter, r *http.Request, _ *browserSession) (any, error) {
	from, err := strconv.ParseInt(r.FormValue("from"), 10, 64)
	if err != nil {
		return nil, errUnavailable
	}
	out, err := c.opts.Sessions.Output(r.Context(), r.PathValue("worker"), r.PathValue("id"), from)
	if err != nil {
		return nil, &failure{http.StatusNotFound, err}
	}
	return out, nil
}

func (c *Console) removeRule(w http.ResponseWriter, r *http.Request, _ *browserSession) (any, error) {
	var in struct {
		Line int    `json:"line"`
		Text string `json:"text"`
	}
	if err := read(w, r, &in); err != nil {
		return nil, err
	}
	if err := c.opts.Rules.Remove(in.Line, in.Text); err != nil {
		return nil, &failure{http.StatusConflict, err}
	}
	c.log.Info("console: a rule was removed", "rule", in.Text)
	return map[string]any{}, nil
}

func (c *Console) forget(w http.ResponseWriter, r *http.Request, _ *browserSession) (any, error) {
	var in gate.SessionApproval
	if err := read(w, r, &in); err != nil {
		return nil, err
	}
	if err := c.opts.Rules.Forget(in); err != nil {
		return nil, &failure{http.StatusConflict, err}
	}
	c.log.Info("console: an answer was forgotten", "caller", in.Caller, "key", in.Key)
	return map[string]any{}, nil
}
