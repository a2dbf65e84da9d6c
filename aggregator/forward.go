package aggregator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// An UnknownError reports that no server offers the resource or prompt.
type UnknownError struct{ What, Name string }

func (e *UnknownError) Error() string { return fmt.Sprintf("unknown %s %q", e.What, e.Name) }

// Resources returns the published resources, sorted by key. The caller must not
// modify the slice.
func (s *Downstreams) Resources() []Named { return s.view().resources }

// Templates is Resources for resource templates.
func (s *Downstreams) Templates() []Named { return s.view().templates }

// Prompts is Resources for prompts.
func (s *Downstreams) Prompts() []Named { return s.view().prompts }

// Serves reports whether some server declares the capability or has not been
// listed yet.
func (s *Downstreams) Serves(capability ...string) bool {
	return slices.ContainsFunc(s.all(), func(d *Downstream) bool {
		c := d.catalog()
		return c == nil || c.has(capability...)
	})
}

// Declares reports whether some server is known to declare the capability.
func (s *Downstreams) Declares(capability ...string) bool {
	return slices.ContainsFunc(s.all(), func(d *Downstream) bool { return d.catalog().has(capability...) })
}

// Instructions returns the instructions of the servers that have some, with their
// names, sorted by name.
func (s *Downstreams) Instructions() (names, texts []string) {
	for _, d := range s.all() {
		if c := d.catalog(); c != nil && c.Instructions != "" {
			names, texts = append(names, d.spec.Name), append(texts, c.Instructions)
		}
	}
	return names, texts
}

// Requests that the policy decides like tools, besides [ReadResource]. They cannot
// clash with tools of a server, whose names contain no slash.
const (
	GetPrompt   = "prompts/get"
	Complete    = "completion/complete"
	Subscribe   = "resources/subscribe"
	Unsubscribe = "resources/unsubscribe"
)

// A Target is the server that a request goes to.
type Target struct {
	Server    string
	Arguments json.RawMessage // the params with the server's own names, without _meta and inputs
}

// Target returns the server that a request goes to. Errors are an [*RPCError] for
// params that are invalid or ambiguous, and an [*UnknownError] if no server offers
// the resource or prompt.
func (s *Downstreams) Target(method string, params json.RawMessage) (Target, error) {
	body, err := rawjson.Parse(params)
	if err != nil {
		return Target{}, &RPCError{Code: -32602, Message: "params is " + err.Error()}
	}
	body.Delete("_meta", "requestState", "inputResponses")
	var n Named
	switch method {
	case GetPrompt:
		n, err = s.prompt(body.Text("name"))
		body.Set("name", rawjson.Quote(n.Raw))
	case Complete:
		var ref rawjson.Object
		n, ref, err = s.completes(body)
		body.Set("ref", ref.Bytes())
	case ReadResource, Subscribe:
		n, err = s.owner(body.Text("uri"))
		body.Set("uri", rawjson.Quote(n.Raw))
	default:
		err = &RPCError{Code: -32601, Message: method + " is not supported"}
	}
	if err != nil {
		return Target{}, err
	}
	return Target{n.Server, body.Bytes()}, nil
}

// DescribeRequest returns the action of a request that is not a tool call, for the
// policy. All such requests are read-only. Completions and subscriptions are
// decided like the read or prompt that they belong to.
func (s *Downstreams) DescribeRequest(server, method string, args json.RawMessage) (policy.Action, error) {
	body, err := rawjson.Parse(args)
	if err != nil {
		return policy.Action{}, fmt.Errorf("params is %w", err)
	}
	as := method
	switch method {
	case Subscribe:
		as = ReadResource
	case Complete:
		if as, body, err = completed(body); err != nil {
			return policy.Action{}, err
		}
	}
	a := s.Describe(Tool{Server: server, Raw: as, Claims: policy.Claims{ReadOnly: new(true)}})
	a.Request, a.Tool, a.Unasked = true, method, method == Complete
	if as != method {
		a.As, a.Arguments = as, body.Bytes()
	}
	return a, nil
}

// completed returns the method that a completion is for, and the completion's
// params merged with the known params of that method.
func completed(body rawjson.Object) (method string, both rawjson.Object, err error) {
	ref, err := rawjson.Parse(body.Get("ref"))
	if err != nil {
		return "", nil, fmt.Errorf("ref is %w", err)
	}
	argument, _ := rawjson.Parse(body.Get("argument"))
	about, _ := rawjson.Parse(body.Get("context"))
	values, _ := rawjson.Parse(about.Get("arguments"))
	if value := argument.Get("value"); value != nil {
		values.Set(argument.Text("name"), value)
	}
	switch ref.Text("type") {
	case "ref/prompt":
		body.Set("name", rawjson.Quote(ref.Text("name")))
		body.Set("arguments", values.Bytes())
		return GetPrompt, body, nil
	case "ref/resource":
		body.Set("uri", rawjson.Quote(ref.Text("uri")))
		return ReadResource, body, nil
	}
	return "", nil, errors.New("ref has an unknown type")
}

// runRequest runs a request that is not a tool call. A JSON-RPC error of the server
// is returned as an [*RPCError].
func (s *Downstreams) runRequest(ctx context.Context, c gate.Call, d *Downstream) (gate.Outcome, error) {
	body, err := rawjson.Parse(c.Arguments)
	if err != nil {
		return gate.Outcome{}, fmt.Errorf("params is %w", err)
	}
	if c.Action.Tool == Subscribe {
		err := s.subscribe(ctx, subscription{d.spec.Name, body.Text("uri")})
		return gate.Outcome{Result: json.RawMessage("{}"), Level: d.currentSession().level()}, err
	}
	res, err := s.send(ctx, d, newRequest(c, c.Action.Tool, body))
	if err == nil && rawjson.Kind(res) != '{' {
		err = fmt.Errorf("the answer of the server %s is %w", d.spec.Name, rawjson.ErrNotObject)
	}
	if err != nil {
		return gate.Outcome{}, err
	}
	return gate.Outcome{Result: res, Level: d.currentSession().level()}, nil
}

// send sends r to d and returns the result in the form that r's client understands.
func (s *Downstreams) send(ctx context.Context, d *Downstream, r *request) (json.RawMessage, error) {
	r.timeout, r.repeatable = d.spec.timeout(""), true
	res, err := d.do(ctx, r)
	if !r.Stateless {
		res = withoutStatelessFields(res)
	}
	return res, err
}

// withoutStatelessFields removes from a complete result the top-level fields that
// only the stateless protocol defines.
func withoutStatelessFields(res json.RawMessage) json.RawMessage {
	if !rawjson.Mentions(res, "resultType") {
		return res
	}
	o, err := rawjson.Parse(res)
	if err != nil || o.Text("resultType") != "complete" {
		return res // not the protocol's resultType
	}
	o.Delete("resultType", "ttlMs", "cacheScope")
	if meta, err := rawjson.Parse(o.Get("_meta")); err == nil {
		meta.Delete("io.modelcontextprotocol/serverInfo")
		o.SetObject("_meta", meta)
	}
	return o.Bytes()
}

// timeout returns the timeout of calls of a tool, or of other requests for "".
func (s Spec) timeout(tool string) time.Duration {
	if s.ToolTimeout == nil {
		return 0
	}
	return s.ToolTimeout(tool)
}

func (s *Downstreams) prompt(name string) (Named, error) {
	if p, ok := withKey(s.Prompts(), name); ok {
		return p, nil
	}
	return Named{}, &UnknownError{"prompt", name}
}

// withKey returns the element of list that has the key.
func withKey(list []Named, key string) (Named, bool) {
	i := slices.IndexFunc(list, func(n Named) bool { return n.Key == key })
	if i < 0 {
		return Named{}, false
	}
	return list[i], true
}

// completes returns the prompt, template or resource that a completion refers to, and
// the reference with the server's own name for it.
func (s *Downstreams) completes(body rawjson.Object) (n Named, ref rawjson.Object, err error) {
	ref, err = rawjson.Parse(body.Get("ref"))
	if err != nil {
		return n, nil, &RPCError{Code: -32602, Message: "ref is " + err.Error()}
	}
	switch ref.Text("type") {
	case "ref/prompt":
		n, err = s.prompt(ref.Text("name"))
		ref.Set("name", rawjson.Quote(n.Raw))
		return n, ref, err
	case "ref/resource":
		uri := ref.Text("uri")
		n, ok := withKey(s.Templates(), uri)
		if !ok {
			n, ok = withKey(s.Resources(), uri)
		}
		if !ok {
			return n, nil, &UnknownError{"resource", uri}
		}
		ref.Set("uri", rawjson.Quote(n.Raw))
		return n, ref, nil
	}
	return n, nil, &RPCError{Code: -32602, Message: "ref has an unknown type"}
}

// owner returns the server that has the resource. It is an error if several may
// have it, because the answer would depend on which of them is running.
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
	msg := fmt.Sprintf("several servers may have the resource %q; ask for one of: %s", uri, strings.Join(full, ", "))
	return Named{}, &RPCError{Code: -32602, Message: msg}
}

// owners returns the servers that may have the resource, the first of these that
// is not empty: the one that published it or whose prefix the URI has; those that
// list it; those with a matching template (the URI may come from a tool's result);
// those that have resources at all.
func (s *Downstreams) owners(uri string) []Named {
	if n, ok := withKey(s.Resources(), uri); ok {
		return []Named{n}
	}
	var having []Named
	for _, d := range s.all() {
		if !d.catalog().has("resources") {
			continue
		}
		if raw, ok := strings.CutPrefix(uri, uriPrefix(d.spec.Name)); ok {
			return []Named{{Key: uri, Server: d.spec.Name, Raw: raw}}
		}
		having = append(having, Named{Key: uri, Server: d.spec.Name, Raw: uri})
	}
	owning := func(published []Named, match func(Named) bool) (list []Named) {
		for _, p := range published {
			if match(p) && !slices.ContainsFunc(list, func(n Named) bool { return n.Server == p.Server }) {
				list = append(list, Named{Key: uri, Server: p.Server, Raw: uri})
			}
		}
		return list
	}
	if list := owning(s.Resources(), func(n Named) bool { return n.Raw == uri }); len(list) > 0 {
		return list
	}
	if list := owning(s.Templates(), func(n Named) bool { return fits(n.Raw, uri) }); len(list) > 0 {
		return list
	}
	return having
}

// fits reports whether the URI may match the template, that is whether it has the
// template's literal parts in order.
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

// PublicURI returns the URI under which a server's resource is published, raw if it
// is not listed.
func (s *Downstreams) PublicURI(server, raw string) string {
	for _, n := range s.Resources() {
		if n.Server == server && n.Raw == raw {
			return n.Key
		}
	}
	return raw
}
