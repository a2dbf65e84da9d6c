package aggregator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"toolgate/aggregator/schema"
	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// A Tool is a published downstream tool.
type Tool struct {
	Name   string // as clients call it
	Server string
	Raw    string // name on its server

	// Definition is the tool as in the answer to tools/list: the server's own bytes
	// except for the name and the sanitized parts of the schemas.
	Definition json.RawMessage

	Description string
	Claims      policy.Claims

	adapted *sync.Map            // definitions by [schema.Profile]; nil: Definition only
	tasks   string               // task support: "", taskOptional or taskRequired
	renamed map[string]string    // published property name to raw one
	headers []schema.HeaderParam // arguments sent in headers to a stateless server over HTTP
}

// A Named is a published resource, resource template or prompt.
type Named struct {
	Key        string // the URI, URI template or name for clients
	Server     string
	Raw        string // the same on its server
	Definition json.RawMessage
}

// A published holds everything that the servers offer, as clients see it. It is
// immutable.
type published struct {
	tools     []Tool
	byName    map[string]*Tool
	resources []Named
	templates []Named
	prompts   []Named
	faults    map[string][]string // by server: what is not published, and why
}

// publishAll returns the published form of the servers' catalogs. No tool gets a
// reserved name.
func publishAll(servers []*Downstream, reserved []string) *published {
	p := &published{byName: map[string]*Tool{}, faults: map[string][]string{}}
	takenBy := map[string]string{}
	for _, name := range reserved {
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
				p.fault(d.spec.Name, "%s is left out: %s has a tool of that name too; set another prefix",
					t.Name, other)
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
	p.prompts = p.distinctPrompts(p.prompts)
	p.resources = mapURIs(p.resources, "uri", servers)
	p.templates = mapURIs(p.templates, "uriTemplate", servers)
	return p
}

// A publishedServer is the published form of one server's catalog. It is cached until
// that catalog changes.
type publishedServer struct {
	from                          *Catalog
	tools                         []Tool
	faults                        []string
	prompts, resources, templates []Named
}

// publish returns the published form of d's catalog c. The set's mu must be held.
func (d *Downstream) publish(c *Catalog) *publishedServer {
	if d.published == nil || d.published.from != c {
		m := &publishedServer{from: c}
		m.tools, m.faults = d.publishTools(c)
		m.prompts = d.named(c.Prompts, "name")
		for i, n := range m.prompts {
			m.prompts[i].publishAs(d.publicName(n.Raw), "name")
		}
		m.resources = d.named(c.Resources, "uri")
		m.templates = d.named(c.Templates, "uriTemplate")
		d.published = m
	}
	return d.published
}

func (p *published) fault(server, format string, args ...any) {
	p.faults[server] = append(p.faults[server], fmt.Sprintf(format, args...))
}

// prefix returns the prefix of d's tool names.
func (d *Downstream) prefix() string {
	if d.spec.Prefix != nil {
		return policy.PlainName(*d.spec.Prefix)
	}
	return policy.ToolPrefix(d.spec.Name)
}

// publicName returns the published name of a raw one.
func (d *Downstream) publicName(raw string) string {
	if d.spec.Verbatim {
		return raw
	}
	return schema.PublicName(d.spec.Name, d.prefix(), d.spec.NameBudget, raw)
}

// publishTools returns d's tools in published form, and a line for each one left out.
func (d *Downstream) publishTools(c *Catalog) (tools []Tool, faults []string) {
	var published []rawjson.Object
	seen := map[string]bool{}
	for i, b := range c.Tools {
		def, err := rawjson.Parse(b)
		name := def.Text("name")
		if err != nil || name == "" {
			faults = append(faults, fmt.Sprintf("tool %d is left out: it has no name", i+1))
			continue
		}
		if seen[name] {
			faults = append(faults, fmt.Sprintf("%s is listed twice; the first one counts", name))
			continue
		}
		seen[name] = true
		if d.spec.Published == nil || d.spec.Published(name) {
			published = append(published, def)
		}
	}
	pins, err := loadPins(pinFile(d.set.opts.StateDir, d.spec.Name))
	if err != nil {
		return nil, append(faults, fmt.Sprintf("all are left out: %v", err))
	}
	for _, def := range published {
		t, err := d.publishTool(c, pins, def)
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s is left out: %v", t.Raw, err))
			continue
		}
		tools = append(tools, t)
	}
	return tools, faults
}

// publishTool returns the tool with this definition in published form, or why it
// cannot be published.
func (d *Downstream) publishTool(c *Catalog, pins map[string]pinnedDefinition, def rawjson.Object) (Tool, error) {
	raw := def.Text("name")
	t := Tool{
		Name:        d.publicName(raw),
		Server:      d.spec.Name,
		Raw:         raw,
		Description: def.Text("description"),
		Claims:      claimsOf(def.Get("annotations")),
	}
	if !d.spec.Verbatim && slices.Contains(d.set.opts.Reserved, t.Name) {
		t.Name = schema.HashedName(d.spec.Name, d.prefix(), d.spec.NameBudget, raw)
	}
	// A changed definition is not published before a review.
	if p, ok := pins[raw]; ok && !d.spec.Trusted && p.Digest != pin(def).Digest {
		return t, fmt.Errorf("changed: run toolgate mcp review %s", d.spec.Name)
	}
	var err error
	if d.spec.HTTP != nil && c.Version >= statelessVersion {
		if t.headers, err = schema.HeaderParams(def.Get("inputSchema")); err != nil {
			return t, err
		}
	}
	t.tasks = taskSupport(c, &def, d.spec.Verbatim)
	if !d.spec.Verbatim {
		t.adapted = &sync.Map{}
	}
	var input json.RawMessage
	if input, t.renamed, err = d.publishSchema(raw, def.Get("inputSchema")); err != nil {
		return t, err
	}
	def.Set("name", rawjson.Quote(t.Name))
	def.Set("inputSchema", input)
	deleteInvalid(&def)
	t.Definition = def.Bytes()
	return t, nil
}

// publishSchema returns the input schema of the tool raw in published form, and the
// raw names of renamed properties.
func (d *Downstream) publishSchema(raw string, input json.RawMessage) (json.RawMessage, map[string]string, error) {
	published, renamed, err := schema.Sanitize(input)
	if err != nil {
		return nil, nil, err
	}
	if d.spec.Verbatim {
		if o, err := rawjson.Parse(input); err == nil && o.Text("type") == "object" {
			return input, nil, nil
		}
		return published, renamed, nil
	}
	published, removed := schema.Shrink(published, d.spec.SchemaMax)
	if removed != "" {
		d.log.Info("input schema over its limit", "tool", raw, "published_without", removed)
	}
	return published, renamed, nil
}

// deleteInvalid deletes members of a tool definition that strict clients reject.
func deleteInvalid(def *rawjson.Object) {
	if v := def.Get("outputSchema"); v != nil {
		// "outputSchema … root type object" (specification, tools): over any other,
		// strict clients reject the whole list.
		if out, err := rawjson.Parse(v); err != nil || out.Text("type") != "object" {
			def.Delete("outputSchema")
		}
	}
	for _, m := range []struct {
		key  string
		kind byte
	}{{"description", '"'}, {"title", '"'}, {"annotations", '{'}} {
		if v := def.Get(m.key); v != nil && rawjson.Kind(v) != m.kind {
			def.Delete(m.key)
		}
	}
}

// claimsOf reads the hints in a tool's annotations. A hint that is not a boolean does
// not affect the others.
func claimsOf(v json.RawMessage) policy.Claims {
	o, _ := rawjson.Parse(v)
	hint := func(key string) *bool {
		v := string(o.Get(key))
		if v != "true" && v != "false" {
			return nil
		}
		return new(v == "true")
	}
	return policy.Claims{
		ReadOnly:    hint("readOnlyHint"),
		Destructive: hint("destructiveHint"),
		Idempotent:  hint("idempotentHint"),
		OpenWorld:   hint("openWorldHint"),
	}
}

// publishAs gives n the key, which is the value of member in its definition.
func (n *Named) publishAs(key, member string) {
	n.Key = key
	if def, err := rawjson.Parse(n.Definition); err == nil {
		def.Set(member, rawjson.Quote(key))
		n.Definition = def.Bytes()
	}
}

// named returns what defs define, each under the name or URI that it has as its key.
func (d *Downstream) named(defs []json.RawMessage, key string) []Named {
	var list []Named
	for _, b := range defs {
		def, err := rawjson.Parse(b)
		raw := def.Text(key)
		if err != nil || raw == "" || slices.ContainsFunc(list, func(n Named) bool { return n.Raw == raw }) {
			continue
		}
		list = append(list, Named{Key: raw, Server: d.spec.Name, Raw: raw, Definition: b})
	}
	return list
}

// distinctPrompts removes prompts whose name another server has published before, and
// sorts the rest.
func (p *published) distinctPrompts(list []Named) []Named {
	taken := map[string]string{}
	var out []Named
	for _, n := range list {
		if other, ok := taken[n.Key]; ok {
			p.fault(n.Server, "the prompt %s is left out: the server %s has one of that name too; set another prefix",
				n.Key, other)
			continue
		}
		taken[n.Key] = n.Server
		out = append(out, n)
	}
	return sortNamed(out)
}

// uriPrefix returns the prefix that marks a URI as one of the server's.
func uriPrefix(server string) string {
	return strings.ReplaceAll(strings.ToLower(policy.PlainName(server)), "_", "-") + "+"
}

// mapURIs returns list, sorted, with unique keys. URIs stay unchanged, because results
// contain them too, except those that several servers have or that start with a
// server's prefix: these become SERVER+URI.
func mapURIs(list []Named, key string, servers []*Downstream) []Named {
	count := map[string]int{}
	for _, n := range list {
		count[n.Raw]++
	}
	for i, n := range list {
		hasPrefixOf := func(d *Downstream) bool { return strings.HasPrefix(n.Raw, uriPrefix(d.spec.Name)) }
		if count[n.Raw] < 2 && !slices.ContainsFunc(servers, hasPrefixOf) {
			continue
		}
		list[i].publishAs(uriPrefix(n.Server)+n.Raw, key)
	}
	return sortNamed(list)
}

func sortNamed(list []Named) []Named {
	slices.SortStableFunc(list, func(a, b Named) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// A Change tells which lists have changed.
type Change struct{ Tools, Resources, Prompts bool }

// compare returns what changed from catalog a, which may be nil, to b.
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
		c.Tools = true // so that the catalog is saved
	}
	return c
}

// DefinitionFor returns the tool as in the answer to tools/list for a client with
// profile p.
func (t *Tool) DefinitionFor(p schema.Profile) json.RawMessage {
	if t.adapted == nil || p != schema.Strict && p != schema.Gemini {
		return t.Definition
	}
	if b, ok := t.adapted.Load(p); ok {
		return b.(json.RawMessage)
	}
	b := t.Definition
	if def, err := rawjson.Parse(b); err == nil {
		def.Set("inputSchema", schema.Adapt(def.Get("inputSchema"), p))
		b = def.Bytes()
	}
	t.adapted.Store(p, b)
	return b
}
