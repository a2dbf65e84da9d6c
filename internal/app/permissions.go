package app

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"toolgate/internal/config"
	"toolgate/policy"
)

// builtinModes maps the built-in permission profiles to their sandbox modes.
var builtinModes = map[string]policy.Mode{
	config.ReadOnlyPermissions:   policy.ReadOnly,
	config.WorkspacePermissions:  policy.WorkspaceWrite,
	config.FullAccessPermissions: policy.DangerFullAccess,
}

// profiled applies the named permission profile to pol, whose workspace is known. Unless ours is
// set, ":workspace_roots" does not include the workspace.
func (o *Options) profiled(s *Settings, name string, pol *policy.Policy, ours bool) error {
	r, err := s.Config.Permissions.Resolve(name)
	if err != nil {
		return err
	}
	s.warnOfNoEffect(r)
	places, err := o.places(s, r, pol.Workspace, ours)
	if err != nil {
		return err
	}
	roots, paths, err := r.Compile(places)
	if err != nil {
		return err
	}
	pol.ProfileName, pol.Mode, pol.Paths = name, policy.ReadOnly, paths
	for _, root := range roots {
		real, err := filepath.EvalSymlinks(root)
		if err != nil {
			s.Log.Warn("a writable folder of the permission profile is left out", "profile", name, "err", err)
			continue
		}
		pol.Mode, pol.WritableRoots = policy.WorkspaceWrite, append(pol.WritableRoots, real)
		if (root == places.TempDir || root == "/tmp") && real != pol.Workspace {
			pol.SharedRoots = append(pol.SharedRoots, real)
		}
	}
	slices.Sort(pol.WritableRoots)
	pol.WritableRoots = slices.Compact(pol.WritableRoots)
	if pol.Network, pol.Hosts, err = r.Network.Parse(); err != nil {
		return fmt.Errorf("permission profile %s: network: %w", name, err)
	}
	if ours && pol.Profile().Access(pol.Workspace) == policy.NoAccess {
		return fmt.Errorf("permission profile %s: the workspace %s cannot be read; "+
			"add \":workspace_roots\" = \"read\" to its filesystem table", name, pol.Workspace)
	}
	return nil
}

// places returns the folders that the special names of a profile stand for.
func (o *Options) places(s *Settings, r config.Resolved, workspace string, ours bool) (policy.Places, error) {
	var places policy.Places
	if ours {
		places.Workspaces = append(places.Workspaces, workspace)
	}
	home, _ := os.UserHomeDir()
	if home, err := filepath.EvalSymlinks(home); err == nil {
		places.Home = home
	}
	for _, dir := range slices.Concat(o.AddDirs, r.WorkspaceRoots) {
		if rest, ok := strings.CutPrefix(dir, "~/"); ok {
			dir = filepath.Join(home, rest)
		}
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(workspace, dir)
		}
		real, err := Directory("workspace root", dir)
		if err != nil {
			return places, err
		}
		places.Workspaces = append(places.Workspaces, real)
	}
	// A temporary folder that does not exist or is the root is left out: the tools work without it.
	dir, err := filepath.EvalSymlinks(os.Getenv("TMPDIR"))
	if err == nil && filepath.IsAbs(dir) && filepath.Dir(dir) != dir {
		places.TempDir = dir
	}
	if s.privateTmp && runtime.GOOS == "linux" {
		places.TempDir = slashTmp
	}
	if runtime.GOOS == "darwin" {
		places.SlashTmp = "/private/tmp"
	}
	return places, nil
}

// pathWords tells the model what a permission profile says about individual paths.
func pathWords(f policy.Profile) string {
	var b strings.Builder
	p := f.Paths
	if p.Restricted {
		fmt.Fprintf(&b, "Only these can be read, beside what is writable: %s.\n", few(p.Readable))
	}
	if len(p.ReadOnly) > 0 {
		fmt.Fprintf(&b, "Not writable: %s.\n", few(p.ReadOnly))
	}
	if denied := slices.Concat(p.Denied, p.DeniedGlobs); len(denied) > 0 {
		fmt.Fprintf(&b, "Neither readable nor writable: %s.\n", few(denied))
	}
	return b.String()
}

// few joins at most 12 paths.
func few(paths []string) string {
	const most = 12
	if len(paths) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:most], ", "), len(paths)-most)
	}
	return strings.Join(paths, ", ")
}

// warnOfNoEffect logs the settings that the profile overrides.
func (s *Settings) warnOfNoEffect(r config.Resolved) {
	table := s.Config.WorkspaceWrite
	table.AllowGitWrites = false
	if !reflect.ValueOf(table).IsZero() {
		s.Log.Warn("sandbox_workspace_write has no effect on a permission profile", "profile", r.Name)
	}
	for _, key := range r.Network.WithoutEffect() {
		s.Log.Warn("a key of the permission profile's network has no effect", "profile", r.Name, "key", key)
	}
}
