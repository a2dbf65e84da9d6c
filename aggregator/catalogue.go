package aggregator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A Catalogue is what a downstream server offers, as it said it. It is kept in
// a file, so that a client is answered before the server has started.
type Catalogue struct {
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
func (c *Catalogue) has(names ...string) bool {
	if c == nil {
		return false
	}
	at := c.Capabilities
	for _, name := range names {
		o, err := parseOrdered(at)
		if err != nil {
			return false
		}
		at = o.get(name)
	}
	k := kindOf(at)
	return k != 0 && k != 'n' && k != 'f'
}

// catalogueFile returns the file of the server's catalogue below the state
// folder. Server names may hold characters that a file's name may not.
func catalogueFile(stateDir, server string) string {
	return filepath.Join(stateDir, "catalogue", fileName(server)+".json")
}

// fileName returns a name for a file that belongs to the server alone.
func fileName(server string) string {
	if plainName(server) == server {
		return server
	}
	return plainName(server) + "-" + nameHash(server, "")
}

// loadCatalogue returns the catalogue saved under the same config, nil when
// there is none.
func loadCatalogue(file, digest string) (*Catalogue, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := parseCatalogue(b)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if c.Digest != digest {
		return nil, nil
	}
	return c, nil
}

// parseCatalogue reads a saved catalogue. A client waits for it, so its lists
// are taken apart and not decoded.
func parseCatalogue(b []byte) (*Catalogue, error) {
	o, err := parseOrdered(b)
	if err != nil {
		return nil, err
	}
	return &Catalogue{
		Digest:       o.text("digest"),
		Version:      o.text("version"),
		ServerInfo:   o.get("serverInfo"),
		Capabilities: o.get("capabilities"),
		Instructions: o.text("instructions"),
		Tools:        listOf(o.get("tools")),
		Resources:    listOf(o.get("resources")),
		Templates:    listOf(o.get("resourceTemplates")),
		Prompts:      listOf(o.get("prompts")),
	}, nil
}

// save writes the catalogue with the server's own bytes: what encoding/json
// makes of them would look like a change.
func (c *Catalogue) save(file string) error {
	o := ordered{{"digest", quote(c.Digest)}, {"version", quote(c.Version)}}
	for _, f := range []field{{"serverInfo", c.ServerInfo}, {"capabilities", c.Capabilities}, {"instructions", quote(c.Instructions)}} {
		if len(f.value) > 0 {
			o = append(o, f)
		}
	}
	o = append(o, field{"tools", arrayOf(c.Tools)}, field{"resources", arrayOf(c.Resources)}, field{"resourceTemplates", arrayOf(c.Templates)}, field{"prompts", arrayOf(c.Prompts)})
	return writeFile(file, o.bytes())
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
