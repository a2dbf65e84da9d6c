package aggregator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"

	"toolgate/aggregator/schema"
	"toolgate/internal/atomicfile"
	"toolgate/internal/fileowner"
	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// A Catalog is what a downstream server offers, in the server's own bytes. It is
// saved to a file, so that clients get an answer before the server has started.
type Catalog struct {
	Digest       string // of the config entry in effect
	Version      string // protocol revision
	ServerInfo   json.RawMessage
	Capabilities json.RawMessage
	Instructions string
	Tools        []json.RawMessage
	Resources    []json.RawMessage
	Templates    []json.RawMessage
	Prompts      []json.RawMessage
}

// has reports whether the server declared the capability, given as the path to it
// such as "resources", "subscribe". A nil catalog has none.
func (c *Catalog) has(names ...string) bool {
	if c == nil {
		return false
	}
	at := c.Capabilities
	for _, name := range names {
		o, err := rawjson.Parse(at)
		if err != nil {
			return false
		}
		at = o.Get(name)
	}
	k := rawjson.Kind(at)
	return k != 0 && k != 'n' && k != 'f'
}

// namedTools yields the tools that have a name, in the server's order.
func (c *Catalog) namedTools() iter.Seq2[string, rawjson.Object] {
	return func(yield func(string, rawjson.Object) bool) {
		for _, b := range c.Tools {
			def, err := rawjson.Parse(b)
			if name := def.Text("name"); err == nil && name != "" && !yield(name, def) {
				return
			}
		}
	}
}

// catalogFile returns the path of the server's catalog in the state folder. The folder is
// spelled as in earlier releases, whose files stay in use.
func catalogFile(stateDir, server string) string {
	return filepath.Join(stateDir, "catalogue", fileName(server)+".json")
}

// fileName returns a valid file name that is unique to the server.
func fileName(server string) string {
	if policy.PlainName(server) == server {
		return server
	}
	return policy.PlainName(server) + "-" + schema.NameHash(server, "")
}

// loadCatalog reads a saved catalog. It returns nil when there is none or when it was
// saved under another config digest.
func loadCatalog(file, digest string) (*Catalog, error) {
	b, err := fileowner.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := parseCatalog(b)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if c.Digest != digest {
		return nil, nil
	}
	return c, nil
}

// parseCatalog parses a saved catalog. The lists are split but not decoded, because a
// client is waiting.
func parseCatalog(b []byte) (*Catalog, error) {
	o, err := rawjson.Parse(b)
	if err != nil {
		return nil, err
	}
	return &Catalog{
		Digest:       o.Text("digest"),
		Version:      o.Text("version"),
		ServerInfo:   o.Get("serverInfo"),
		Capabilities: o.Get("capabilities"),
		Instructions: o.Text("instructions"),
		Tools:        rawjson.List(o.Get("tools")),
		Resources:    rawjson.List(o.Get("resources")),
		Templates:    rawjson.List(o.Get("resourceTemplates")),
		Prompts:      rawjson.List(o.Get("prompts")),
	}, nil
}

// save writes the catalog with the server's own bytes: re-encoded by encoding/json
// they would look changed.
func (c *Catalog) save(file string) error {
	o := rawjson.Object{
		{Key: "digest", Value: rawjson.Quote(c.Digest)},
		{Key: "version", Value: rawjson.Quote(c.Version)},
		{Key: "serverInfo", Value: c.ServerInfo},
		{Key: "capabilities", Value: c.Capabilities},
		{Key: "instructions", Value: rawjson.Quote(c.Instructions)},
		{Key: "tools", Value: rawjson.Array(c.Tools)},
		{Key: "resources", Value: rawjson.Array(c.Resources)},
		{Key: "resourceTemplates", Value: rawjson.Array(c.Templates)},
		{Key: "prompts", Value: rawjson.Array(c.Prompts)},
	}
	return atomicfile.Write(file, o.Bytes(), 0o600)
}
