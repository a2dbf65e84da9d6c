package server

import (
	"encoding/json"
	"fmt"
	"net/url"

	"toolgate/internal/rawjson"
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
			Type      string       `json:"type"` // restricted, unrestricted
			Entries   []codexEntry `json:"entries"`
			GlobDepth int          `json:"glob_scan_max_depth"`
		} `json:"file_system"`
		Network string `json:"network"` // restricted, enabled
	} `json:"permissionProfile"`
	Cwd string `json:"sandboxCwd"` // file URI
}

type codexEntry struct {
	Path struct {
		Type    string `json:"type"` // special, path, glob_pattern
		Path    string `json:"path"`
		Pattern string `json:"pattern"`
		Value   struct {
			Kind    string `json:"kind"`
			Subpath string `json:"subpath"`
			Path    string `json:"path"` // of a kind that the client did not know either
		} `json:"value"`
	} `json:"path"`
	Access string `json:"access"` // read, write, deny

	// Missing is "skip" for the names that Codex itself keeps read-only below
	// a writable folder.
	Missing string `json:"missing_path_behavior"`
}

// limitOf returns the limit that the client sent with a call, nil if state is
// nil. tmpdir is what the client's own temporary folder stands for here.
func limitOf(state json.RawMessage, tmpdir string) *policy.Limit {
	if state == nil {
		return nil
	}
	var s codexState
	if err := rawjson.Unmarshal(state, &s); err != nil || s.Profile == nil {
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
		l.Rules = []policy.PathRule{{Path: "/", Access: policy.CanWrite}}
		return l
	case s.Profile.FileSystem.Type != "restricted":
		l.Unknown = fmt.Sprintf("a file system of type %q", s.Profile.FileSystem.Type)
		return l
	}
	l.GlobDepth = s.Profile.FileSystem.GlobDepth
	places := policy.Places{TempDir: tmpdir}
	if cwd := s.cwd(); cwd != "" {
		places.Workspaces = []string{cwd}
	}
	for _, e := range s.Profile.FileSystem.Entries {
		if e.Access == "read" && e.Missing == "skip" && e.Path.Type == "path" {
			l.ReadOnly = append(l.ReadOnly, e.Path.Path)
			continue
		}
		rules, err := e.rules(places)
		if err != nil {
			l.Unknown = err.Error()
			return l
		}
		l.Rules = append(l.Rules, rules...)
	}
	if _, _, err := policy.CompilePaths(l.Rules); err != nil {
		l.Unknown = err.Error()
	}
	return l
}

// rules returns what e says of paths here. What we do not know is not given;
// to deny what we do not know is an error.
func (e codexEntry) rules(places policy.Places) ([]policy.PathRule, error) {
	access, err := policy.ParseAccess(e.Access)
	if err != nil {
		return nil, err
	}
	var rules []policy.PathRule
	name := e.Path.Path
	switch e.Path.Type {
	case "path":
		rules = []policy.PathRule{{Path: name, Access: access}}
	case "glob_pattern", "glob":
		name = e.Path.Pattern
		rules, err = policy.PatternRules(name, access)
	case "special":
		name = e.Path.Value.Kind
		if name == "project_roots" || name == "cwd" {
			name = "workspace_roots"
		}
		rules, err = places.Special(":"+name, e.Path.Value.Subpath, access)
	default:
		name, err = e.Path.Type, fmt.Errorf("a path of type %q", e.Path.Type)
	}
	if access == policy.NoAccess && err != nil {
		return nil, fmt.Errorf("denying %s: %w", name, err)
	}
	if access == policy.NoAccess && len(rules) == 0 {
		return nil, fmt.Errorf("denying %s", name)
	}
	return rules, nil
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
