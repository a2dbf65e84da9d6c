package aggregator

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"toolgate/aggregator/schema"
	"toolgate/internal/rawjson"
)

// A server's tools are what the user saw when the server was added: a tool
// whose words, schema or claims change later is held back until the user has
// looked at it, because a description is read by the model as instructions.

// A pinnedDefinition is a tool as it was first seen, or last accepted.
type pinnedDefinition struct {
	Digest     string          `json:"digest"`
	Definition json.RawMessage `json:"definition"`
}

func pinFile(stateDir, server string) string {
	return filepath.Join(stateDir, "trust", fileName(server)+".json")
}

// loadPins returns what was seen of the server's tools, by raw name.
func loadPins(file string) (map[string]pinnedDefinition, error) {
	seen := map[string]pinnedDefinition{}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return seen, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := rawjson.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	for _, f := range all {
		s, err := rawjson.Parse(f.Value)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		seen[f.Key] = pinnedDefinition{Digest: s.Text("digest"), Definition: s.Get("definition")}
	}
	return seen, nil
}

func savePins(file string, seen map[string]pinnedDefinition) error {
	b, err := json.Marshal(seen)
	if err != nil {
		return err
	}
	return writeFile(file, b)
}

// pin returns what of a definition the model and the gate go by, with its
// digest.
func pin(def rawjson.Object) pinnedDefinition {
	kept := rawjson.Object{}
	for _, key := range []string{"name", "title", "description", "inputSchema", "outputSchema", "annotations"} {
		if v := def.Get(key); v != nil {
			kept = append(kept, rawjson.Field{Key: key, Value: v})
		}
	}
	b := kept.Bytes()
	var words bytes.Buffer // the space between them tells nobody anything
	if json.Compact(&words, b) == nil {
		b = words.Bytes()
	}
	sum := sha256.Sum256(b)
	return pinnedDefinition{Digest: hex.EncodeToString(sum[:]), Definition: b}
}

// pinNew notes the tools of c that were never seen before.
func (d *Downstream) pinNew(c *Catalog) {
	if d.spec.Trusted {
		return
	}
	file := pinFile(d.set.opts.StateDir, d.spec.Name)
	seen, err := loadPins(file)
	if err != nil {
		d.log.Warn("what was seen of its tools is not known", "err", err)
		return
	}
	grown := false
	for _, b := range c.Tools {
		def, err := rawjson.Parse(b)
		name := def.Text("name")
		if err != nil || name == "" {
			continue
		}
		if _, ok := seen[name]; !ok {
			seen[name], grown = pin(def), true
		}
	}
	if grown {
		if err := savePins(file, seen); err != nil {
			d.log.Warn("its tools are not remembered", "err", err)
		}
	}
}

// checkPin returns why the tool must not be published yet, nil when it may.
func (d *Downstream) checkPin(seen map[string]pinnedDefinition, name string, def rawjson.Object) error {
	if d.spec.Trusted {
		return nil
	}
	if s, ok := seen[name]; ok && s.Digest != pin(def).Digest {
		return fmt.Errorf("changed: run toolgate mcp review %s", d.spec.Name)
	}
	return nil
}

// A Review is one tool of a server for a person to look at.
type Review struct {
	Tool    string          `json:"tool"`
	Changed bool            `json:"changed"` // it differs from what was seen
	Flags   []string        `json:"flags,omitempty"`
	Before  json.RawMessage `json:"before,omitempty"` // when it has changed
	Now     json.RawMessage `json:"now"`
}

// ReviewServer returns the tools of a server's saved catalogue with what was
// seen of them before. ErrNeverStarted says that there is none.
func ReviewServer(stateDir, server string) ([]Review, error) {
	c, err := savedCatalog(stateDir, server)
	if err != nil {
		return nil, err
	}
	seen, err := loadPins(pinFile(stateDir, server))
	if err != nil {
		return nil, err
	}
	var list []Review
	for _, b := range c.Tools {
		def, err := rawjson.Parse(b)
		name := def.Text("name")
		if err != nil || name == "" {
			continue
		}
		now := pin(def)
		r := Review{Tool: name, Now: now.Definition, Flags: schema.Flags(now.Definition)}
		if old, ok := seen[name]; ok && old.Digest != now.Digest {
			r.Changed, r.Before = true, old.Definition
		}
		list = append(list, r)
	}
	return list, nil
}

// ErrNeverStarted says that a server was never started.
var ErrNeverStarted = errors.New("this server was never started, so nothing is known of its tools")

func savedCatalog(stateDir, server string) (*Catalog, error) {
	b, err := os.ReadFile(catalogFile(stateDir, server))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNeverStarted
	}
	if err != nil {
		return nil, err
	}
	return parseCatalog(b)
}

// AcceptServer makes the tools as they are now those that were seen. A running
// toolgate publishes them when it is told, see [Downstreams.ReloadPins].
func AcceptServer(stateDir, server string) error {
	c, err := savedCatalog(stateDir, server)
	if err != nil {
		return err
	}
	seen := map[string]pinnedDefinition{}
	for _, b := range c.Tools {
		if def, err := rawjson.Parse(b); err == nil && def.Text("name") != "" {
			seen[def.Text("name")] = pin(def)
		}
	}
	return savePins(pinFile(stateDir, server), seen)
}

// ReloadPins publishes the tools anew after a person has accepted some.
func (s *Downstreams) ReloadPins() {
	s.mu.Lock()
	for _, d := range s.servers {
		d.published = nil
	}
	s.mu.Unlock()
	s.republish(Change{Tools: true})
}

// ForgetServer removes what is kept of a server.
func ForgetServer(stateDir, server string) error {
	for _, file := range []string{catalogFile(stateDir, server), pinFile(stateDir, server)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
