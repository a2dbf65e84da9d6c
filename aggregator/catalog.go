package aggregator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"toolgate/aggregator/schema"
	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// A Catalog is what a downstream server offers, as it said it. It is kept in
// a file, so that a client is answered before the server has started.
type Catalog struct {
	Digest       string // of the config that it was read under
	Version      string // protocol revision spoken
	ServerInfo   json.RawMessage
	Capabilities json.RawMessage
	Instructions string
	Tools        []json.RawMessage
	Resources    []json.RawMessage
	Templates    []json.RawMessage
	Prompts      []json.RawMessage
}

// has reports whether the server declared the capability, such as "prompts" or
// "resources.subscribe".
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

// catalogFile returns the file of the server's catalogue below the state
// folder. Server names may hold characters that a file's name may not.
func catalogFile(stateDir, server string) string {
	return filepath.Join(stateDir, "catalogue", fileName(server)+".json")
}

// fileName returns a name for a file that belongs to the server alone.
func fileName(server string) string {
	if policy.PlainName(server) == server {
		return server
	}
	return policy.PlainName(server) + "-" + schema.NameHash(server, "")
}

// loadCatalog returns the catalogue saved under the same config, nil when
// there is none.
func loadCatalog(file, digest string) (*Catalog, error) {
	b, err := os.ReadFile(file)
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

// parseCatalog reads a saved catalogue. A client waits for it, so its lists
// are taken apart and not decoded.
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
		Tools:        rawjson.Elements(o.Get("tools")),
		Resources:    rawjson.Elements(o.Get("resources")),
		Templates:    rawjson.Elements(o.Get("resourceTemplates")),
		Prompts:      rawjson.Elements(o.Get("prompts")),
	}, nil
}

// save writes the catalogue with the server's own bytes: what encoding/json
// makes of them would look like a change.
func (c *Catalog) save(file string) error {
	o := rawjson.Object{{Key: "digest", Value: rawjson.Quote(c.Digest)}, {Key: "version", Value: rawjson.Quote(c.Version)}}
	for _, f := range []rawjson.Field{{Key: "serverInfo", Value: c.ServerInfo}, {Key: "capabilities", Value: c.Capabilities}, {Key: "instructions", Value: rawjson.Quote(c.Instructions)}} {
		if len(f.Value) > 0 {
			o = append(o, f)
		}
	}
	o = append(o, rawjson.Field{Key: "tools", Value: rawjson.Array(c.Tools)}, rawjson.Field{Key: "resources", Value: rawjson.Array(c.Resources)}, rawjson.Field{Key: "resourceTemplates", Value: rawjson.Array(c.Templates)}, rawjson.Field{Key: "prompts", Value: rawjson.Array(c.Prompts)})
	return writeFile(file, o.Bytes())
}

// writeFile replaces file in one step, readable by the user alone.
func writeFile(file string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-*") // made with mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}
