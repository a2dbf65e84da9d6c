package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"toolgate/policy"
)

// Permissions is [permissions]: the named permission profiles.
type Permissions map[string]PermissionProfile

// PermissionProfile is [permissions.NAME], with Codex's keys.
type PermissionProfile struct {
	Description    string          `toml:"description"`
	Extends        string          `toml:"extends"`         // a profile to inherit entries from
	WorkspaceRoots map[string]bool `toml:"workspace_roots"` // further folders that ":workspace_roots" stands for
	Filesystem     map[string]any  `toml:"filesystem"`      // path → access, or a table of paths below it
	Network        map[string]any  `toml:"network"`         // see Network
}

// Built-in permission profiles.
const (
	ReadOnlyPermissions   = ":read-only"
	WorkspacePermissions  = ":workspace"
	FullAccessPermissions = ":danger-full-access"
)

// builtin are the entries that profiles inherit from the built-in ones. Protected names,
// such as .git, need no entry: they are read-only in every writable folder.
var builtin = map[string]PermissionProfile{
	ReadOnlyPermissions: {Filesystem: map[string]any{":root": "read"}},
	WorkspacePermissions: {Filesystem: map[string]any{
		":root": "read", ":workspace_roots": "write", ":slash_tmp": "write", ":tmpdir": "write",
	}},
}

// Names returns the names of all profiles, built-in ones first.
func (p Permissions) Names() []string {
	builtin := []string{ReadOnlyPermissions, WorkspacePermissions, FullAccessPermissions}
	return append(builtin, slices.Sorted(maps.Keys(p))...)
}

// A Resolved is a permission profile merged with those that it extends.
type Resolved struct {
	Name           string
	WorkspaceRoots []string // as written in the config

	Network Network

	entries   []entry
	globDepth int
}

// An entry is one line of a filesystem table.
type entry struct {
	name, sub string
	access    policy.Access
}

// Resolve returns the profile merged with those that it extends; its own entries
// override inherited ones. An unknown name is a *[policy.ValueError].
func (p Permissions) Resolve(name string) (Resolved, error) {
	chain, err := p.chain(name)
	if err != nil {
		return Resolved{}, err
	}
	r := Resolved{Name: name}
	roots, files, network := map[string]bool{}, map[string]any{}, map[string]any{}
	for _, profile := range slices.Backward(chain) { // base profiles first
		maps.Copy(roots, profile.WorkspaceRoots)
		merge(network, profile.Network)
		merge(files, profile.Filesystem)
	}
	for _, root := range slices.Sorted(maps.Keys(roots)) {
		if roots[root] {
			r.WorkspaceRoots = append(r.WorkspaceRoots, root)
		}
	}
	if r.entries, r.globDepth, err = entries(files); err != nil {
		return Resolved{}, fmt.Errorf("permission profile %s: filesystem: %w", name, err)
	}
	r.Network, err = strictNetwork(network)
	if err == nil {
		_, _, err = r.Network.Parse()
	}
	if err != nil {
		return Resolved{}, fmt.Errorf("permission profile %s: network: %w", name, err)
	}
	return r, nil
}

// chain returns the profile followed by those that it extends.
func (p Permissions) chain(name string) ([]PermissionProfile, error) {
	var chain []PermissionProfile
	var names []string
	for next := name; next != ""; {
		if slices.Contains(names, next) {
			cycle := strings.Join(append(names, next), " extends ")
			return nil, fmt.Errorf("permission profile %s extends itself: %s", name, cycle)
		}
		names = append(names, next)
		profile, ok := p[next]
		if b, is := builtin[next]; is {
			profile, ok = b, true
		}
		switch {
		case next == FullAccessPermissions && len(chain) > 0:
			return nil, fmt.Errorf("permission profile %s extends %s, which cannot be extended: it confines nothing",
				names[len(names)-2], next)
		case !ok:
			known := strings.Join(p.Names(), ", ")
			return nil, &policy.ValueError{What: "permission profile", Value: next, Known: known}
		}
		chain = append(chain, profile)
		next = profile.Extends
	}
	return chain, nil
}

// merge copies the entries of from into to. If both have an entry for a path, tables are
// merged, and an access mode becomes the entry "." of the table.
func merge(to, from map[string]any) {
	for key, v := range from {
		old, ok := to[key].(map[string]any)
		table, isTable := v.(map[string]any)
		word, isWord := to[key].(string)
		switch {
		case ok && isTable:
			old = maps.Clone(old)
			maps.Copy(old, table)
			to[key] = old
		case ok && strings.HasPrefix(key, ":"):
			old = maps.Clone(old)
			old["."] = v
			to[key] = old
		case isWord && isTable:
			table = maps.Clone(table)
			if _, said := table["."]; !said {
				table["."] = word
			}
			to[key] = table
		default:
			to[key] = v
		}
	}
}

// globDepthKey is the only key of a filesystem table that is not a path.
const globDepthKey = "glob_scan_max_depth"

// entries returns the entries of a filesystem table, sorted by name.
func entries(files map[string]any) (list []entry, globDepth int, err error) {
	add := func(name, sub string, v any) error {
		word, ok := v.(string)
		if !ok {
			return fmt.Errorf("%q is neither an access mode nor a table", path(name, sub))
		}
		access, err := policy.ParseAccess(word)
		if err != nil {
			return fmt.Errorf("%q: %w", path(name, sub), err)
		}
		list = append(list, entry{name, sub, access})
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		v := files[name]
		if name == globDepthKey {
			depth, ok := v.(int64)
			if !ok || depth < 1 {
				return nil, 0, fmt.Errorf("%s must be a number of folders, at least 1", name)
			}
			globDepth = int(depth)
			continue
		}
		table, ok := v.(map[string]any)
		if !ok {
			if err := add(name, "", v); err != nil {
				return nil, 0, err
			}
			continue
		}
		for _, sub := range slices.Sorted(maps.Keys(table)) {
			if err := add(name, sub, table[sub]); err != nil {
				return nil, 0, err
			}
		}
	}
	return list, globDepth, nil
}

func path(name, sub string) string {
	if sub == "" {
		return name
	}
	return name + " " + sub
}

// strictNetwork decodes a network table and rejects unknown keys.
func strictNetwork(table map[string]any) (Network, error) {
	var n Network
	// Decoded from TOML again, because only the decoder rejects unknown keys.
	text, err := toml.Marshal(table)
	if err != nil {
		return n, err
	}
	err = toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&n)
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(strict.Errors) > 0 {
		return n, fmt.Errorf("unknown key %q", strings.Join(strict.Errors[0].Key(), "."))
	}
	if err != nil {
		return n, errors.New(strings.TrimPrefix(err.Error(), "toml: "))
	}
	if _, listed := table["domains"]; listed && n.Domains == nil {
		n.Domains = map[string]string{} // an empty table, which the encoder drops, allows no host
	}
	return n, nil
}

// Compile returns the writable roots and path rules of the profile for the given places.
// It is pure: it does not check whether paths exist.
func (r Resolved) Compile(places policy.Places) (roots []string, paths policy.Paths, err error) {
	var rules []policy.PathRule
	for _, e := range r.entries {
		more, err := places.Path(e.name, e.sub, e.access)
		if err != nil {
			return nil, policy.Paths{}, fmt.Errorf("permission profile %s: filesystem: %w", r.Name, err)
		}
		rules = append(rules, more...)
	}
	if roots, paths, err = policy.CompilePaths(rules); err != nil {
		return nil, policy.Paths{}, fmt.Errorf("permission profile %s: filesystem: %w", r.Name, err)
	}
	if slices.Contains(roots, "/") {
		return nil, policy.Paths{}, fmt.Errorf("permission profile %s: filesystem: the whole file system cannot be "+
			"writable in a sandbox; name folders, or select %s", r.Name, FullAccessPermissions)
	}
	if len(paths.DeniedGlobs) > 0 {
		paths.GlobDepth = r.globDepth
	}
	return roots, paths, nil
}

// checkPermissions validates each profile on its own: a profile that it extends may still be set on the command line.
func (c *Config) checkPermissions(src source) error {
	anywhere := policy.Places{Workspaces: []string{"/workspace"}, Home: "/home", TempDir: "/tmp"}
	for _, profile := range slices.Sorted(maps.Keys(c.Permissions)) {
		p := c.Permissions[profile]
		fault := func(key string, err error) error {
			return src.fault(src.lineBelow("permissions."+profile, key), err.Error(), hint(err))
		}
		if strings.HasPrefix(profile, ":") {
			return fault("", fmt.Errorf("permission profile %q: names with a leading colon are reserved", profile))
		}
		for root := range p.WorkspaceRoots {
			if root == "" || strings.HasPrefix(root, ":") || policy.IsGlob(root) {
				err := fmt.Errorf("permission profile %s: workspace_roots: %q is not a folder", profile, root)
				return fault(root, err)
			}
		}
		p.Extends = ""
		for key, v := range p.Filesystem {
			one := p
			one.Filesystem = map[string]any{":root": "read", key: v}
			r, err := Permissions{profile: one}.Resolve(profile)
			if err == nil {
				_, _, err = r.Compile(anywhere)
			}
			if err != nil {
				return fault(key, err)
			}
		}
		if _, err := (Permissions{profile: p}).Resolve(profile); err != nil {
			return fault("", err)
		}
	}
	return nil
}
