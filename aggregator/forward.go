package aggregator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"toolgate/policy"
)

// A Forward is a request of a client that goes to a downstream server as it
// is, such as prompts/get.
type Forward struct {
	Method   string
	Params   json.RawMessage // as the client sent them
	Caller   string
	Client   policy.ClientFunc
	Rounds   bool // the client takes questions in results
	Progress func(json.RawMessage)
	Log      func(json.RawMessage) bool // as [policy.Call] has it
}

// An UnknownError says that no server offers what was asked for.
type UnknownError struct{ What, Name string }

func (e *UnknownError) Error() string { return fmt.Sprintf("unknown %s %q", e.What, e.Name) }

// Resources, Templates and Prompts return what is published, by key. The
// slices are shared and must not be changed.
func (s *Downstreams) Resources() []Named { return s.view().resources }
func (s *Downstreams) Templates() []Named { return s.view().templates }
func (s *Downstreams) Prompts() []Named   { return s.view().prompts }

// Serves reports whether some server declares the capability, or may: one
// that was never seen counts as declaring all.
func (s *Downstreams) Serves(capability ...string) bool {
	return slices.ContainsFunc(s.all(), func(d *Downstream) bool {
		c := d.catalogue()
		return c == nil || c.has(capability...)
	})
}

// Declares reports whether some server is known to declare the capability.
func (s *Downstreams) Declares(capability ...string) bool {
	return slices.ContainsFunc(s.all(), func(d *Downstream) bool { return d.catalogue().has(capability...) })
}

// Instructions returns what the servers say about themselves, by name.
func (s *Downstreams) Instructions() (names, texts []string) {
	for _, d := range s.all() {
		if c := d.catalogue(); c != nil && c.Instructions != "" {
			names, texts = append(names, d.spec.Name), append(texts, c.Instructions)
		}
	}
	return names, texts
}

// Forward passes a request on to the server that it concerns and returns the
// result's bytes. Its errors are an [*RPCError] as the server sent it, an
// [*UnknownError], and those of a server that does not run.
func (s *Downstreams) Forward(ctx context.Context, f Forward) (json.RawMessage, error) {
	body, err := parseOrdered(f.Params)
	if err != nil {
		return nil, &RPCError{Code: -32602, Message: "params is " + err.Error()}
	}
	meta, _ := parseOrdered(body.get("_meta"))
	body.remove("_meta")
	r := &request{method: f.Method, body: body, meta: meta, progress: f.Progress, log: f.Log, caller: f.Caller, client: f.Client, rounds: f.Rounds}
	switch f.Method {
	case "prompts/get":
		server, raw, err := s.prompt(body.text("name"))
		if err != nil {
			return nil, err
		}
		r.body.set("name", quote(raw))
		return s.send(ctx, server, r)
	case "completion/complete":
		return s.complete(ctx, r)
	case "resources/read":
		return s.read(ctx, r, body.text("uri"))
	case "tasks/get", "tasks/result", "tasks/update", "tasks/cancel", "tasks/list":
		return s.forwardTask(ctx, f, r)
	}
	return nil, &RPCError{Code: -32601, Message: f.Method + " is not supported"}
}

func (s *Downstreams) send(ctx context.Context, server string, r *request) (json.RawMessage, error) {
	d, err := s.server(server)
	if err != nil {
		return nil, err
	}
	res, err := d.do(ctx, r, d.spec.requestTimeout(), true)
	if !r.rounds {
		res = forOlderEra(res)
	}
	return res, err
}

// forOlderEra takes out of a complete result what only the newer era has at
// its top: clients of the older one were never told of it.
func forOlderEra(res json.RawMessage) json.RawMessage {
	if !bytes.Contains(res, []byte(`"resultType"`)) {
		return res
	}
	o, err := parseOrdered(res)
	if err != nil || o.text("resultType") != "complete" {
		return res // a field of the server's own
	}
	for _, key := range []string{"resultType", "ttlMs", "cacheScope"} {
		o.remove(key)
	}
	if meta, err := parseOrdered(o.get("_meta")); err == nil {
		meta.remove("io.modelcontextprotocol/serverInfo")
		o.set("_meta", meta.bytes())
		if len(meta) == 0 {
			o.remove("_meta")
		}
	}
	return o.bytes()
}

// requestTimeout is that of requests which call no tool.
func (s Spec) requestTimeout() time.Duration {
	if s.ToolTimeout == nil {
		return 0
	}
	return s.ToolTimeout("")
}

func (s *Downstreams) prompt(name string) (server, raw string, err error) {
	for _, p := range s.Prompts() {
		if p.Key == name {
			return p.Server, p.Raw, nil
		}
	}
	return "", "", &UnknownError{"prompt", name}
}

func (s *Downstreams) complete(ctx context.Context, r *request) (json.RawMessage, error) {
	ref, err := parseOrdered(r.body.get("ref"))
	if err != nil {
		return nil, &RPCError{Code: -32602, Message: "ref is " + err.Error()}
	}
	ref = slices.Clone(ref)
	switch ref.text("type") {
	case "ref/prompt":
		server, raw, err := s.prompt(ref.text("name"))
		if err != nil {
			return nil, err
		}
		ref.set("name", quote(raw))
		r.body.set("ref", ref.bytes())
		return s.send(ctx, server, r)
	case "ref/resource":
		for _, l := range [][]Named{s.Templates(), s.Resources()} {
			if i := slices.IndexFunc(l, func(n Named) bool { return n.Key == ref.text("uri") }); i >= 0 {
				ref.set("uri", quote(l[i].Raw))
				r.body.set("ref", ref.bytes())
				return s.send(ctx, l[i].Server, r)
			}
		}
		return nil, &UnknownError{"resource", ref.text("uri")}
	}
	return nil, &RPCError{Code: -32602, Message: "ref has an unknown type"}
}

// read reads a resource from the server that has it.
func (s *Downstreams) read(ctx context.Context, r *request, uri string) (json.RawMessage, error) {
	owner, err := s.owner(uri)
	if err != nil {
		return nil, err
	}
	r.body.set("uri", quote(owner.Raw))
	return s.send(ctx, owner.Server, r)
}

// owner returns the one server that may have the resource. Where several may,
// none is asked: the answer would depend on which of them runs.
func (s *Downstreams) owner(uri string) (Named, error) {
	list := s.owners(uri)
	switch len(list) {
	case 0:
		return Named{}, &UnknownError{"resource", uri}
	case 1:
		return list[0], nil
	}
	var full []string
	for _, n := range list {
		full = append(full, uriPrefix(n.Server)+n.Raw)
	}
	return Named{}, &RPCError{Code: -32602, Message: fmt.Sprintf("several servers may have the resource %q; ask for one of: %s", uri, strings.Join(full, ", "))}
}

// owners returns the servers that may have the resource: the one that it is
// published for, or that it begins with; else those that list it; else, as it
// may be one of a tool's result, those with a template that fits; else those
// that have resources.
func (s *Downstreams) owners(uri string) []Named {
	for _, n := range s.Resources() {
		if n.Key == uri {
			return []Named{n}
		}
	}
	var list, having []Named
	for _, d := range s.all() {
		if !d.catalogue().has("resources") {
			continue
		}
		if raw, ok := strings.CutPrefix(uri, uriPrefix(d.spec.Name)); ok {
			return []Named{{Key: uri, Server: d.spec.Name, Raw: raw}}
		}
		having = append(having, Named{Key: uri, Server: d.spec.Name, Raw: uri})
	}
	add := func(of Named) {
		if !slices.ContainsFunc(list, func(n Named) bool { return n.Server == of.Server }) {
			list = append(list, Named{Key: uri, Server: of.Server, Raw: uri})
		}
	}
	for _, n := range s.Resources() {
		if n.Raw == uri {
			add(n)
		}
	}
	if len(list) > 0 {
		return list
	}
	for _, t := range s.Templates() {
		if fits(t.Raw, uri) {
			add(t)
		}
	}
	if len(list) > 0 {
		return list
	}
	return having
}

// fits reports whether the URI could come from the template: whether the
// template's fixed parts stand in it in order.
func fits(template, uri string) bool {
	first := true
	for {
		fixed, rest, more := strings.Cut(template, "{")
		if !more {
			return !first && strings.HasSuffix(uri, fixed) || first && uri == fixed
		}
		i := strings.Index(uri, fixed)
		if i < 0 || first && i != 0 {
			return false
		}
		uri, first = uri[i+len(fixed):], false
		if _, template, more = strings.Cut(rest, "}"); !more {
			return false
		}
	}
}

// wishes is what the clients want of the servers beyond answers: what a new
// session is brought to when an old one has ended.
type wishes struct {
	mu         sync.Mutex
	watched    map[watch]int
	levels     map[string]string // log level by caller
	generation chan struct{}     // closed and made anew when watched changes
}

// A watch is a resource whose updates somebody wants.
type watch struct{ server, uri string }

// Subscribe has the updates of a resource told to the listeners until
// Unsubscribe is called as often.
func (s *Downstreams) Subscribe(ctx context.Context, uri string) error {
	o, err := s.owner(uri)
	if err != nil {
		return err
	}
	w := watch{o.Server, o.Raw}
	if !s.wishes.watch(w, 1) {
		return nil // somebody has subscribed already
	}
	if err = s.subscribe(ctx, w, "resources/subscribe"); err != nil {
		s.wishes.watch(w, -1)
	}
	return err
}

// Unsubscribe takes back a Subscribe.
func (s *Downstreams) Unsubscribe(ctx context.Context, uri string) error {
	for _, o := range s.owners(uri) {
		w := watch{o.Server, o.Raw}
		if s.wishes.has(w) {
			if s.wishes.watch(w, -1) {
				return s.subscribe(ctx, w, "resources/unsubscribe")
			}
			return nil
		}
	}
	return nil
}

func (s *Downstreams) subscribe(ctx context.Context, w watch, method string) error {
	d, err := s.server(w.server)
	if err != nil {
		return err
	}
	session, err := d.get(ctx)
	if err != nil {
		return err
	}
	defer d.release()
	if session.modern {
		return nil // its stream of news is opened anew with what is watched
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_, err = session.link.do(ctx, &request{method: method, body: ordered{{"uri", quote(w.uri)}}})
	return err
}

// watch counts a wish, and reports whether it is the first or was the last.
func (w *wishes) watch(what watch, by int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched == nil {
		w.watched = map[watch]int{}
	}
	before := w.watched[what]
	w.watched[what] = before + by
	if w.watched[what] <= 0 {
		delete(w.watched, what)
	}
	edge := before == 0 || before+by == 0
	if edge && w.generation != nil {
		close(w.generation)
		w.generation = nil
	}
	return edge
}

func (w *wishes) has(what watch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watched[what] > 0
}

// of returns what is watched of the server, and a channel that closes when
// that may have changed.
func (w *wishes) of(server string) ([]string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var uris []string
	for k := range w.watched {
		if k.server == server {
			uris = append(uris, k.uri)
		}
	}
	slices.Sort(uris)
	if w.generation == nil {
		w.generation = make(chan struct{})
	}
	return uris, w.generation
}

// logLevels are the levels of MCP, the most talkative first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// level returns the most talkative level that somebody wants, "" for none.
func (w *wishes) level() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	best := ""
	for _, l := range w.levels {
		if best == "" || slices.Index(logLevels, l) < slices.Index(logLevels, best) {
			best = l
		}
	}
	return best
}

// SetLevel has the servers log at the level that a client wants; "" takes the
// wish back. It returns at once.
func (s *Downstreams) SetLevel(client, level string) {
	s.wishes.mu.Lock()
	if s.wishes.levels == nil {
		s.wishes.levels = map[string]string{}
	}
	if level == "" {
		delete(s.wishes.levels, client)
	} else {
		s.wishes.levels[client] = level
	}
	s.wishes.mu.Unlock()
	for _, d := range s.all() {
		if session := d.open(); session != nil {
			go d.setLevel(s.life, session) // ends with the answer
		}
	}
}

// TellRoots tells the servers that the roots of a client have changed.
func (s *Downstreams) TellRoots() {
	for _, d := range s.all() {
		if session := d.open(); session != nil && !session.modern {
			go session.link.notifyRaw("notifications/roots/list_changed", nil) // ends when it is written
		}
	}
}

// open returns the session that is open now, nil when there is none.
func (d *Downstream) open() *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.session
}

func (d *Downstream) setLevel(ctx context.Context, s *session) {
	if s.modern || !s.opened.has("logging") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if !s.talk.turn(ctx) {
		return
	}
	defer s.talk.release()
	level := s.talk.wanted(d.set.wishes.level())
	if level == "" || level == s.talk.told {
		return
	}
	if _, err := s.link.do(ctx, &request{method: "logging/setLevel", body: ordered{{"level", quote(level)}}}); err != nil {
		d.log.Debug("log level not set", "err", err)
		return
	}
	s.talk.told = level
}

// restore brings a new session to the state that the last one had. It returns
// when ctx ends, for a server of the newer era whose news it listens to.
func (d *Downstream) restore(ctx context.Context, s *session) {
	d.setLevel(ctx, s)
	if s.modern {
		s.listen(ctx)
		return
	}
	uris, _ := d.set.wishes.of(d.spec.Name)
	for _, uri := range uris {
		if err := d.set.subscribe(ctx, watch{d.spec.Name, uri}, "resources/subscribe"); err != nil {
			d.log.Warn("subscription not renewed", "uri", uri, "err", err)
		}
	}
}

// listen keeps a stream of news open with a server of the newer era that
// declares some.
func (s *session) listen(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		uris, changed := s.d.set.wishes.of(s.d.spec.Name)
		want := ordered{}
		for _, l := range [][2]string{{"tools", "toolsListChanged"}, {"prompts", "promptsListChanged"}, {"resources", "resourcesListChanged"}} {
			if s.opened.has(l[0], "listChanged") {
				want.set(l[1], json.RawMessage("true"))
			}
		}
		if len(uris) > 0 && s.opened.has("resources", "subscribe") {
			b, err := json.Marshal(uris)
			if err != nil {
				return
			}
			want.set("resourceSubscriptions", b)
		}
		if len(want) == 0 {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		lctx, cancel := context.WithCancel(ctx)
		stop := make(chan struct{})
		go func() { // ends with the stream
			select {
			case <-changed:
				cancel()
			case <-stop:
			}
		}()
		_, err := s.link.do(lctx, &request{method: "subscriptions/listen", body: ordered{{"notifications", want.bytes()}}, meta: s.stamp(nil)})
		close(stop)
		again := lctx.Err() != nil
		cancel()
		if again {
			continue // what is watched has changed, or ctx has ended
		}
		if _, refused := errors.AsType[*RPCError](err); refused {
			return // its lists are polled
		}
		if _, refused := errors.AsType[*statusError](err); refused {
			return
		}
		failures++
		select {
		case <-time.After(backoff(failures)):
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// PublicURI returns the URI under which clients know a server's resource.
func (s *Downstreams) PublicURI(server, raw string) string {
	for _, n := range s.Resources() {
		if n.Server == server && n.Raw == raw {
			return n.Key
		}
	}
	return raw
}
