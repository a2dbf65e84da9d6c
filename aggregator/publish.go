package aggregator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"toolgate/aggregator/schema"
	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// A Tool is a downstream tool as it is published.
type Tool struct {
	Name   string // under which clients call it
	Server string
	Raw    string // its name on its server

	// Definition is the tool as tools/list answers it: the server's own bytes
	// but for the name and what of the input schema some client cannot take.
	Definition json.RawMessage

	Title       string
	Description string
	Claims      policy.Claims

	schemas *schemaCache         // of Definition, for clients that take less
	tasks   string               // how it runs as a task: "", "optional", "required"
	renamed map[string]string    // published property → raw one
	headers []schema.HeaderParam // arguments that go into headers, of a server of the newer era over HTTP
}

// A Named is a resource, a template or a prompt as it is published.
type Named struct {
	Key        string // the URI, URI template or name under which clients ask for it
	Server     string
	Raw        string // the same on its server
	Definition json.RawMessage
}

// A published is everything that the running servers offer, in the form that
// clients see. It never changes once made.
type published struct {
	tools     []Tool
	byName    map[string]*Tool
	resources []Named
	templates []Named
	prompts   []Named
	faults    map[string][]string // by server: what was left out, and why
}

// publishAll makes the published form of the servers' catalogues. reserved are
// tool names that are taken already.
func publishAll(servers []*Downstream, reserved map[string]bool) *published {
	p := &published{byName: map[string]*Tool{}, faults: map[string][]string{}}
	takenBy := map[string]string{}
	for name := range reserved {
		takenBy[name] = "the built-in tools"
	}
	for _, d := range servers {
		c := d.catalog()
		if c == nil {
			continue
		}
		m := d.publish(c)
		p.faults[d.spec.Name] = slices.Clone(m.faults)
		for _, t := range m.tools {
			if other, taken := takenBy[t.Name]; taken {
				p.fault(d.spec.Name, "%s is left out: %s has a tool of that name too; set another prefix", t.Name, other)
				continue
			}
			takenBy[t.Name] = "the server " + d.spec.Name
			p.tools = append(p.tools, t)
		}
		p.prompts = append(p.prompts, m.prompts...)
		p.resources = append(p.resources, m.resources...)
		p.templates = append(p.templates, m.templates...)
	}
	slices.SortFunc(p.tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	for i := range p.tools {
		p.byName[p.tools[i].Name] = &p.tools[i]
	}
	p.prompts = distinct(p, p.prompts, "prompt")
	p.resources = mapURIs(p.resources, "uri", servers)
	p.templates = mapURIs(p.templates, "uriTemplate", servers)
	return p
}

// A publishedServer is the published form of one server's catalogue, kept because the
// others' catalogues change more often than it does.
type publishedServer struct {
	from                          *Catalog
	tools                         []Tool
	faults                        []string
	prompts, resources, templates []Named
}

// publishAll returns the published form of d's catalogue.
func (d *Downstream) publish(c *Catalog) *publishedServer {
	if d.published == nil || d.published.from != c {
		m := &publishedServer{from: c}
		m.tools, m.faults = d.publishTools(c)
		m.prompts = d.publishPrompts(c)
		m.resources = d.named(c.Resources, "uri")
		m.templates = d.named(c.Templates, "uriTemplate")
		d.published = m
	}
	return d.published
}

func (p *published) fault(server, format string, args ...any) {
	p.faults[server] = append(p.faults[server], fmt.Sprintf(format, args...))
}

// prefix returns what the names of d's tools begin with.
func (d *Downstream) prefix() string {
	if d.spec.Prefix != nil {
		return policy.PlainName(*d.spec.Prefix)
	}
	return schema.DefaultPrefix(d.spec.Name)
}

// names returns the published names of raw ones.
func (d *Downstream) names(raw []string) map[string]string {
	if !d.spec.Verbatim {
		return schema.PublicNames(d.spec.Name, d.prefix(), d.spec.NameBudget, raw)
	}
	same := map[string]string{}
	for _, r := range raw {
		same[r] = r
	}
	return same
}

// publishTools returns d's tools in published form, and what was left out.
func (d *Downstream) publishTools(c *Catalog) (tools []Tool, faults []string) {
	type entry struct {
		name string
		def  rawjson.Object
	}
	var entries []entry
	var raw []string
	for i, b := range c.Tools {
		def, err := rawjson.Parse(b)
		name := def.Text("name")
		if err != nil || name == "" {
			faults = append(faults, fmt.Sprintf("tool %d is left out: it has no name", i+1))
			continue
		}
		if slices.Contains(raw, name) {
			faults = append(faults, fmt.Sprintf("%s is listed twice; the first one counts", name))
			continue
		}
		raw = append(raw, name)
		if d.spec.Published == nil || d.spec.Published(name) {
			entries = append(entries, entry{name, def})
		}
	}
	names := d.names(raw)
	for r, name := range names {
		if !d.spec.Verbatim && slices.Contains(d.set.opts.Reserved, name) {
			names[r] = schema.HashedName(d.spec.Name, d.prefix(), d.spec.NameBudget, r)
		}
	}
	seen, err := loadPins(pinFile(d.set.opts.StateDir, d.spec.Name))
	if err != nil {
		return nil, append(faults, fmt.Sprintf("all are left out: %v", err))
	}
	for _, e := range entries {
		err := d.checkPin(seen, e.name, e.def)
		var t Tool
		if err == nil {
			t, err = d.publishTool(c, e.name, names[e.name], e.def)
		}
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s is left out: %v", e.name, err))
			continue
		}
		tools = append(tools, t)
	}
	return tools, faults
}

func (d *Downstream) publishTool(c *Catalog, raw, name string, def rawjson.Object) (Tool, error) {
	t := Tool{Name: name, Server: d.spec.Name, Raw: raw, Title: def.Text("title"), Description: def.Text("description")}
	if d.spec.HTTP != nil && c.Version >= statelessVersion {
		var err error
		if t.headers, err = schema.HeaderParams(def.Get("inputSchema")); err != nil {
			return t, err
		}
	}
	if t.tasks = taskSupport(c, def); !d.spec.Verbatim {
		publishTaskSupport(&def, t.tasks)
	}
	input, renamed, err := schema.Sanitize(def.Get("inputSchema"))
	if d.spec.Verbatim && err == nil {
		if o, perr := rawjson.Parse(def.Get("inputSchema")); perr == nil && o.Text("type") == "object" {
			input, renamed = def.Get("inputSchema"), nil
		}
	}
	if err != nil {
		return t, err
	}
	if !d.spec.Verbatim {
		var took string
		if input, took = schema.Shrink(input, d.spec.SchemaMax); took != "" {
			d.log.Info("input schema over its limit", "tool", raw, "published_without", took)
		}
		t.schemas = &schemaCache{}
	}
	t.renamed = renamed
	def.Set("name", rawjson.Quote(name))
	if !bytes.Equal(def.Get("inputSchema"), input) {
		def.Set("inputSchema", input)
	}
	if v := def.Get("outputSchema"); v != nil {
		// "outputSchema … root type object" (specification, tools): strict
		// clients refuse the whole list over another.
		if out, err := rawjson.Parse(v); err != nil || out.Text("type") != "object" {
			def.Delete("outputSchema")
		}
	}
	for _, key := range []string{"description", "title"} {
		if v := def.Get(key); v != nil && rawjson.Kind(v) != '"' {
			def.Delete(key)
		}
	}
	if v := def.Get("annotations"); v != nil {
		t.Claims = claimsOf(v)
		if rawjson.Kind(v) != '{' {
			def.Delete("annotations")
		}
	}
	t.Definition = def.Bytes()
	return t, nil
}

// claimsOf reads annotations one by one, so that one which is not a boolean
// does not hide the others.
func claimsOf(v json.RawMessage) policy.Claims {
	o, _ := rawjson.Parse(v)
	hint := func(key string) *bool {
		var b bool
		if k := rawjson.Kind(o.Get(key)); k != 't' && k != 'f' || json.Unmarshal(o.Get(key), &b) != nil {
			return nil
		}
		return &b
	}
	return policy.Claims{ReadOnly: hint("readOnlyHint"), Destructive: hint("destructiveHint"), Idempotent: hint("idempotentHint"), OpenWorld: hint("openWorldHint")}
}

func (d *Downstream) publishPrompts(c *Catalog) []Named {
	var raw []string
	for _, b := range c.Prompts {
		def, _ := rawjson.Parse(b)
		raw = append(raw, def.Text("name"))
	}
	names := d.names(raw)
	var list []Named
	for i, b := range c.Prompts {
		def, err := rawjson.Parse(b)
		if err != nil || raw[i] == "" || slices.Contains(raw[:i], raw[i]) {
			continue
		}
		name := names[raw[i]]
		def.Set("name", rawjson.Quote(name))
		list = append(list, Named{Key: name, Server: d.spec.Name, Raw: raw[i], Definition: def.Bytes()})
	}
	return list
}

func (d *Downstream) named(defs []json.RawMessage, key string) []Named {
	var list []Named
	for _, b := range defs {
		def, err := rawjson.Parse(b)
		uri := def.Text(key)
		if err != nil || uri == "" || slices.ContainsFunc(list, func(n Named) bool { return n.Raw == uri }) {
			continue
		}
		list = append(list, Named{Key: uri, Server: d.spec.Name, Raw: uri, Definition: b})
	}
	return list
}

// distinct leaves out what has a name that another server's has too.
func distinct(p *published, list []Named, what string) []Named {
	taken := map[string]string{}
	var out []Named
	for _, n := range list {
		if other, ok := taken[n.Key]; ok {
			p.fault(n.Server, "the %s %s is left out: the server %s has one of that name too; set another prefix", what, n.Key, other)
			continue
		}
		taken[n.Key] = n.Server
		out = append(out, n)
	}
	return sortNamed(out)
}

// uriPrefix is what stands before a URI to say whose it is.
func uriPrefix(server string) string {
	return strings.ReplaceAll(strings.ToLower(policy.PlainName(server)), "_", "-") + "+"
}

// mapURIs keeps URIs as they are, because results name them too; where two
// servers have the same, each gets its server before it: SERVER+URI. So does
// one that could be mistaken for such.
func mapURIs(list []Named, key string, servers []*Downstream) []Named {
	count := map[string]int{}
	for _, n := range list {
		count[n.Raw]++
	}
	for i, n := range list {
		poses := func(d *Downstream) bool { return strings.HasPrefix(n.Raw, uriPrefix(d.spec.Name)) }
		if count[n.Raw] < 2 && !slices.ContainsFunc(servers, poses) {
			continue
		}
		list[i].Key = uriPrefix(n.Server) + n.Raw
		def, err := rawjson.Parse(n.Definition)
		if err == nil {
			def.Set(key, rawjson.Quote(list[i].Key))
			list[i].Definition = def.Bytes()
		}
	}
	return sortNamed(list)
}

func sortNamed(list []Named) []Named {
	slices.SortStableFunc(list, func(a, b Named) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// A Change says which lists have changed.
type Change struct{ Tools, Resources, Prompts bool }

func compare(a, b *Catalog) Change {
	if a == nil {
		a = &Catalog{}
	}
	same := func(x, y []json.RawMessage) bool {
		return slices.EqualFunc(x, y, func(v, w json.RawMessage) bool { return bytes.Equal(v, w) })
	}
	c := Change{
		Tools:     !same(a.Tools, b.Tools) || a.Digest != b.Digest,
		Resources: !same(a.Resources, b.Resources) || !same(a.Templates, b.Templates),
		Prompts:   !same(a.Prompts, b.Prompts),
	}
	if a.Instructions != b.Instructions || a.Version != b.Version || !bytes.Equal(a.Capabilities, b.Capabilities) {
		c.Tools = true // saved with them
	}
	return c
}

func sortedNames(m map[string]*Downstream) []string { return slices.Sorted(maps.Keys(m)) }

// A schemaCache holds a tool's definition in the profiles that were asked for.
type schemaCache struct {
	mu      sync.Mutex
	adapted map[schema.Profile]json.RawMessage
}

// DefinitionFor returns the tool as tools/list answers it to a client of the
// profile.
func (t *Tool) DefinitionFor(p schema.Profile) json.RawMessage {
	if t.schemas == nil || p != schema.Strict && p != schema.Gemini {
		return t.Definition
	}
	t.schemas.mu.Lock()
	defer t.schemas.mu.Unlock()
	if b, ok := t.schemas.adapted[p]; ok {
		return b
	}
	b := t.Definition
	if def, err := rawjson.Parse(b); err == nil {
		def.Set("inputSchema", schema.Adapt(def.Get("inputSchema"), p))
		b = def.Bytes()
	}
	if t.schemas.adapted == nil {
		t.schemas.adapted = map[schema.Profile]json.RawMessage{}
	}
	t.schemas.adapted[p] = b
	return b
}
