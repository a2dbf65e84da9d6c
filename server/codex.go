package server

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
)

// sandboxStateKey is Codex's: a server that lists it among its experimental
// capabilities is sent, in the _meta of each call, the sandbox that the
// calling session is held to.
const sandboxStateKey = "codex/sandbox-state-meta"

// codexState is what Codex sends under that key.
type codexState struct {
	Profile *struct {
		Type       string `json:"type"` // managed, disabled, external
		FileSystem struct {
			Type    string       `json:"type"` // restricted, unrestricted
			Entries []codexEntry `json:"entries"`
		} `json:"file_system"`
		Network string `json:"network"` // restricted, enabled
	} `json:"permissionProfile"`
	Cwd string `json:"sandboxCwd"` // file URI
}

type codexEntry struct {
	Path struct {
		Type    string `json:"type"` // special, path, glob
		Path    string `json:"path"`
		Pattern string `json:"pattern"`
		Value   struct {
			Kind string `json:"kind"`
		} `json:"value"`
	} `json:"path"`
	Access string `json:"access"` // read, write, deny
}

// limitOf returns the limit that the client sent with a call, nil when it sent
// none. tmpdir is what the client's own temporary folder stands for here.
func limitOf(meta mcp.Meta, tmpdir string) *policy.Limit {
	raw, ok := meta[sandboxStateKey]
	if !ok {
		return nil
	}
	b, err := json.Marshal(raw)
	if err != nil {
		return &policy.Limit{Unknown: "a state that cannot be read"}
	}
	var s codexState
	if err := json.Unmarshal(b, &s); err != nil || s.Profile == nil {
		return &policy.Limit{Unknown: "a state that cannot be read"}
	}
	l := &policy.Limit{Network: s.Profile.Network == "enabled"}
	switch {
	case s.Profile.Type == "disabled":
		return &policy.Limit{All: true}
	case s.Profile.Type == "external":
		// Somebody else confines the client; about us it says nothing.
		return &policy.Limit{All: true}
	case s.Profile.Type != "managed":
		l.Unknown = fmt.Sprintf("a profile of type %q", s.Profile.Type)
		return l
	case s.Profile.FileSystem.Type == "unrestricted":
		l.Writable = []string{"/"}
		return l
	}
	readsAll := false
	for _, e := range s.Profile.FileSystem.Entries {
		if e.Path.Type == "special" && e.Path.Value.Kind == "root" && e.Access != "deny" {
			readsAll = true
		}
		addEntry(l, e, s.cwd(), tmpdir)
	}
	if !readsAll && l.Unknown == "" {
		l.Unknown = "reading only some folders"
	}
	return l
}

// addEntry adds one rule of the client's to l.
func addEntry(l *policy.Limit, e codexEntry, cwd, tmpdir string) {
	path := e.Path.Path
	switch e.Path.Type {
	case "special":
		path = map[string]string{"root": "/", "slash_tmp": "/tmp", "tmpdir": tmpdir, "workspace_roots": cwd, "project_roots": cwd, "cwd": cwd}[e.Path.Value.Kind]
		if path == "" {
			if e.Access == "deny" {
				l.Unknown = "denying " + e.Path.Value.Kind
			}
			return // what we do not know is not given
		}
	case "glob":
		var plain bool
		if path, plain = strings.CutSuffix(e.Path.Pattern, "/**"); !plain || strings.ContainsAny(path, "*?[{") {
			if e.Access == "deny" {
				l.Unknown = "denying the pattern " + e.Path.Pattern
			}
			return
		}
	case "path":
	default:
		if e.Access == "deny" {
			l.Unknown = "denying a path of type " + e.Path.Type
		}
		return
	}
	switch e.Access {
	case "write":
		l.Writable = append(l.Writable, path)
	case "read":
		if path != "/" {
			l.ReadOnly = append(l.ReadOnly, path)
		}
	default:
		l.Hidden = append(l.Hidden, path)
	}
}

// cwd returns the folder that the client's sandbox is about, "" when it is not
// told.
func (s codexState) cwd() string {
	u, err := url.Parse(s.Cwd)
	if err != nil || u.Scheme != "file" {
		return ""
	}
	return u.Path
}
