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
	Digest       string            `json:"digest"`  // of the config that it was read under
	Version      string            `json:"version"` // protocol revision spoken
	ServerInfo   json.RawMessage   `json:"serverInfo,omitempty"`
	Capabilities json.RawMessage   `json:"capabilities,omitempty"`
	Instructions string            `json:"instructions,omitempty"`
	Tools        []json.RawMessage `json:"tools"`
	Resources    []json.RawMessage `json:"resources,omitempty"`
	Templates    []json.RawMessage `json:"resourceTemplates,omitempty"`
	Prompts      []json.RawMessage `json:"prompts,omitempty"`
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
	var c Catalogue
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if c.Digest != digest {
		return nil, nil
	}
	return &c, nil
}

func (c *Catalogue) save(file string) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return writeFile(file, b)
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
