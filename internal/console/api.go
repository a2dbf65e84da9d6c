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

func (c *Console) routes() {
	p := c.opts.Prefix
	c.mux.HandleFunc("GET "+p+"/", c.static)
	c.mux.HandleFunc("POST "+p+"/login", mutating(c.login))
	c.mux.HandleFunc("POST "+p+"/code", c.issueCode)
	c.mux.HandleFunc("POST "+p+"/logout", mutating(c.logout))
	get := func(path string, f func(http.ResponseWriter, *http.Request, *browserSession)) {
		c.mux.HandleFunc("GET "+p+"/api/"+path, c.authenticated(f))
	}
	post := func(path string, f func(http.ResponseWriter, *http.Request, *browserSession)) {
		c.mux.HandleFunc("POST "+p+"/api/"+path, mutating(c.authenticated(f)))
	}
	get("about", c.about)
	get("events", c.events)
	post("approvals/{id}", c.decide)
	get("calls/{id}/output", c.callOutput)
	get("servers/{name}", c.serverTools)
	post("servers/{name}/restart", c.restart)
	post("servers/{name}/accept", c.accept)
	get("sessions/{worker}/{id}", c.sessionOutput)
	post("rules/remove", c.removeRule)
	post("rules/forget", c.forget)
}

// read decodes a JSON request strictly. If that fails, it writes the error response and
// returns false.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		fail(w, http.StatusRequestEntityTooLarge, fmt.Errorf("the request is longer than %d bytes", maxBody))
		return false
	}
	if rawjson.Unique(body) != nil || rawjson.UnmarshalKnown(body, v) != nil {
		fail(w, http.StatusBadRequest, errors.New("invalid request"))
		return false
	}
	return true
}

func reply(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		fail(w, http.StatusInternalServerError, fmt.Errorf("bug: encoding the response: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(b)
}

func fail(w http.ResponseWriter, status int, err error) {
	b, _ := json.Marshal(map[string]string{"error": err.Error()}) // strings marshal
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}

var errUnavailable = errors.New("not available in this console")

func (c *Console) about(w http.ResponseWriter, _ *http.Request, v *browserSession) {
	reply(w, struct {
		About
		Until any      `json:"until"`
		Views []string `json:"views"`
	}{c.opts.About, v.until, c.views()})
}

// views returns the names of the available views.
func (c *Console) views() []string {
	var list []string
	for _, v := range []struct {
		name  string
		there bool
	}{
		{"approvals", c.opts.Approvals != nil},
		{"calls", c.opts.Calls != nil},
		{"servers", c.opts.Servers != nil},
		{"sessions", c.opts.Sessions != nil},
		{"rules", c.opts.Rules != nil},
	} {
		if v.there {
			list = append(list, v.name)
		}
	}
	return list
}

// isFullID reports whether id is a complete approval ID. The command line accepts a
// prefix, but by now that could match another question.
func isFullID(id string) bool {
	return len(id) == 8 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

func (c *Console) decide(w http.ResponseWriter, r *http.Request, _ *browserSession) {
	var in struct {
		Answer gate.Answer `json:"answer"`
	}
	if !read(w, r, &in) {
		return
	}
	id := r.PathValue("id")
	if c.opts.Approvals == nil || !isFullID(id) {
		fail(w, http.StatusNotFound, fmt.Errorf("%w: %q", approvals.ErrUnknown, id))
		return
	}
	e, err := c.opts.Approvals.Decide(id, in.Answer)
	switch {
	case errors.Is(err, approvals.ErrUnknown):
		fail(w, http.StatusNotFound, err)
	case errors.Is(err, approvals.ErrAnswered):
		fail(w, http.StatusConflict, err)
	case err != nil:
		fail(w, http.StatusBadRequest, err)
	default:
		c.log.Info("console: answered", "approval", e.ID, "answer", in.Answer)
		reply(w, map[string]any{"id": e.ID, "answer": in.Answer})
	}
}

func (c *Console) callOutput(w http.ResponseWriter, r *http.Request, _ *browserSession) {
	if c.opts.Calls == nil {
		fail(w, http.StatusNotFound, errUnavailable)
		return
	}
	text, ok := c.opts.Calls.Output(r.PathValue("id"))
	reply(w, map[string]any{"kept": ok, "text": text})
}

func (c *Console) serverTools(w http.ResponseWriter, r *http.Request, _ *browserSession) {
	if c.opts.Servers == nil {
		fail(w, http.StatusNotFound, errUnavailable)
		return
	}
	tools, digest, err := c.opts.Servers.Tools(r.PathValue("name"))
	if err != nil {
		fail(w, http.StatusNotFound, err)
		return
	}
	if tools == nil {
		tools = []ServerTool{}
	}
	reply(w, map[string]any{"tools": tools, "digest": digest})
}

func (c *Console) restart(w http.ResponseWriter, r *http.Request, _ *browserSession) {
	c.serverAction(w, r, &struct{}{}, func(name string) error { return c.opts.Servers.Restart(name) })
}

func (c *Console) accept(w http.ResponseWriter, r *http.Request, _ *browserSession) {
	var in struct {
		Digest string `json:"digest"`
	}
	c.serverAction(w, r, &in, func(name string) error { return c.opts.Servers.Accept(name, in.Digest) })
}

func (c *Console) serverAction(w http.ResponseWriter, r *http.Request, in any, do func(name string) error) {
	if !read(w, r, in) {
		return
	}
	if c.opts.Servers == nil {
		fail(w, http.StatusNotFound, errUnavailable)
		return
	}
	name := r.PathValue("name")
	if err := do(name); err != nil {
		fail(w, http.StatusConflict, err)
		return
	}
	c.log.Info("console: server", "downstream", name, "path", r.URL.Path)
	reply(w, map[string]any{})
}

func (c *Console) sessionOutput(w http.ResponseWriter, r *http.Request, _ *browserSession) {
	from, err := strconv.ParseInt(r.FormValue("from"), 10, 64)
	if c.opts.Sessions == nil || err != nil {
		fail(w, http.StatusNotFound, errUnavailable)
		return
	}
	out, err := c.opts.Sessions.Output(r.Context(), r.PathValue("worker"), r.PathValue("id"), from)
	if err != nil {
		fail(w, http.StatusNotFound, err)
		return
	}
	reply(w, out)
}

func (c *Console) removeRule(w http.ResponseWriter, r *http.Request, _ *browserSession) {
	var in struct {
		Line int    `json:"line"`
		Text string `json:"text"`
	}
	if !read(w, r, &in) {
		return
	}
	if c.opts.Rules == nil {
		fail(w, http.StatusNotFound, errUnavailable)
		return
	}
	if err := c.opts.Rules.Remove(in.Line, in.Text); err != nil {
		fail(w, http.StatusConflict, err)
		return
	}
	c.log.Info("console: a rule was removed", "rule", in.Text)
	reply(w, map[string]any{})
}

func (c *Console) forget(w http.ResponseWriter, r *http.Request, _ *browserSession) {
	var in gate.SessionApproval
	if !read(w, r, &in) {
		return
	}
	if c.opts.Rules == nil {
		fail(w, http.StatusNotFound, errUnavailable)
		return
	}
	if err := c.opts.Rules.Forget(in); err != nil {
		fail(w, http.StatusConflict, err)
		return
	}
	c.log.Info("console: an answer was forgotten", "caller", in.Caller, "key", in.Key)
	reply(w, map[string]any{})
}
