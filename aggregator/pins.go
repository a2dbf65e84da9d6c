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
	"toolgate/internal/atomicfile"
	"toolgate/internal/fileowner"
	"toolgate/internal/rawjson"
)

// The user sees the tools of a server when adding it. A tool whose text, schema or
// annotations change later is not published until the user has reviewed it, because
// models read descriptions as instructions.

// A pinnedDefinition is a tool's definition as first seen or last accepted.
type pinnedDefinition struct {
	Digest     string          `json:"digest"`
	Definition json.RawMessage `json:"definition"`
}

// pinFile returns the path of the server's pinned definitions in the state folder.
func pinFile(stateDir, server string) string {
	return filepath.Join(stateDir, "trust", fileName(server)+".json")
}

// loadPins reads the pinned definitions of a server, by raw tool name. It returns an
// empty map when the file does not exist.
func loadPins(file string) (map[string]pinnedDefinition, error) {
	pins := map[string]pinnedDefinition{}
	b, err := fileowner.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return pins, nil
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
		pins[f.Key] = pinnedDefinition{Digest: s.Text("digest"), Definition: s.Get("definition")}
	}
	return pins, nil
}

func savePins(file string, pins map[string]pinnedDefinition) error {
	b, err := json.Marshal(pins)
	if err != nil {
		return err
	}
	return atomicfile.Write(file, b, 0o600)
}

// pin returns the parts of a definition that the model and the policy rely on, with
// their digest.
func pin(def rawjson.Object) pinnedDefinition {
	kept := rawjson.Object{}
	for _, key := range []string{"name", "title", "description", "inputSchema", "outputSchema", "annotations"} {
		kept = append(kept, rawjson.Field{Key: key, Value: def.Get(key)})
	}
	b := kept.Bytes()
	var compact bytes.Buffer // a change of white space is no change
	if json.Compact(&compact, b) == nil {
		b = compact.Bytes()
	}
	sum := sha256.Sum256(b)
	return pinnedDefinition{Digest: hex.EncodeToString(sum[:]), Definition: b}
}

// pinNew pins the tools of c that have no pin yet, unless the server is trusted.
func (d *Downstream) pinNew(c *Catalog) {
	if d.spec.Trusted {
		return
	}
	file := pinFile(d.set.opts.StateDir, d.spec.Name)
	pins, err := loadPins(file)
	if err != nil {
		d.log.Warn("reading the pinned definitions failed", "err", err)
		return
	}
	before := len(pins)
	for name, def := range c.namedTools() {
		if _, ok := pins[name]; !ok {
			pins[name] = pin(def)
		}
	}
	if len(pins) > before {
		if err := savePins(file, pins); err != nil {
			d.log.Warn("saving the pinned definitions failed", "err", err)
		}
	}
}

// A Review is one tool of a server for the user to review.
type Review struct {
	Tool    string          `json:"tool"`
	Changed bool            `json:"changed"` // differs from the pinned definition
	Flags   []string        `json:"flags,omitempty"`
	Before  json.RawMessage `json:"before,omitempty"` // the pinned definition, if Changed
	Now     json.RawMessage `json:"now"`
}

// ReviewServer returns the tools in a server's saved catalog, whatever config it was saved
// under, each compared with its pinned definition. The error is [ErrNeverStarted] when
// there is no catalog.
func ReviewServer(stateDir, server string) ([]Review, error) {
	b, err := fileowner.ReadFile(catalogFile(stateDir, server))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNeverStarted
	}
	if err != nil {
		return nil, err
	}
	c, err := parseCatalog(b)
	if err != nil {
		return nil, err
	}
	pins, err := loadPins(pinFile(stateDir, server))
	if err != nil {
		return nil, err
	}
	var list []Review
	for name, def := range c.namedTools() {
		now := pin(def)
		r := Review{Tool: name, Now: now.Definition, Flags: schema.Flags(now.Definition)}
		if old, ok := pins[name]; ok && old.Digest != now.Digest {
			r.Changed, r.Before = true, old.Definition
		}
		list = append(list, r)
	}
	return list, nil
}

// AcceptReview pins the definitions that were reviewed, and not what the server has
// come to offer since. A running toolgate publishes them after [Downstreams.ReloadPins].
func AcceptReview(stateDir, server string, list []Review) error {
	pins := map[string]pinnedDefinition{}
	for _, r := range list {
		def, err := rawjson.Parse(r.Now)
		if err != nil {
			return fmt.Errorf("accepting the tool %s: %w", r.Tool, err)
		}
		pins[r.Tool] = pin(def)
	}
	return savePins(pinFile(stateDir, server), pins)
}

// ErrNeverStarted is the error for a server without a saved catalog.
var ErrNeverStarted = errors.New("this server was never started, so its tools are unknown")

// ReloadPins publishes the tools again, after the user has accepted some.
func (s *Downstreams) ReloadPins() {
	s.mu.Lock()
	for _, d := range s.servers {
		d.published = nil
	}
	s.mu.Unlock()
	s.republish(Change{Tools: true})
}

// ForgetServer deletes the saved catalog and pinned definitions of a server.
func ForgetServer(stateDir, server string) error {
	for _, file := range []string{catalogFile(stateDir, server), pinFile(stateDir, server)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
