package app

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"toolgate/internal/programs"
	"toolgate/policy"
	"toolgate/sandbox"
)

// policy returns the policy in force, and why the workspace is not writable although the mode would allow it.
func (o *Options) policy(s *Settings) (pol *policy.Policy, noRoots string, err error) {
	pol = &policy.Policy{
		Mode:             policy.WorkspaceWrite,
		ReadOnlySubpaths: sandbox.Protected(s.Config.WorkspaceWrite.AllowGitWrites),
		Confines:         CanConfine,
		Rules:            s.Rules.Rules,
	}
	if pol.Approval, pol.Granular, err = s.Config.Approval(); err != nil {
		return nil, "", err
	}
	if o.Approval != "" {
		if pol.Approval, err = policy.ParseApproval(o.Approval); err != nil {
			return nil, "", err
		}
	}
	if word := cmp.Or(o.Sandbox, s.Config.SandboxMode); word != "" {
		if pol.Mode, err = policy.ParseMode(word); err != nil {
			return nil, "", err
		}
	}
	if pol.Network, pol.Hosts, err = s.Config.WorkspaceWrite.Network(); err != nil {
		return nil, "", err
	}
	if w := s.Config.WorkspaceWrite; w.AllowedDomains != nil && !w.NetworkAccess {
		s.Log.Warn("allowed_domains has no effect, because network_access is false")
	}
	profile := o.Profile
	if profile == "" && o.Sandbox == "" {
		profile = s.Config.DefaultProfile
	}
	if mode, ok := builtinModes[profile]; ok {
		pol.Mode, pol.ProfileName = mode, profile
		profile = ""
	}
	if profile != "" || pol.Mode == policy.ReadOnly {
		pol.Network, pol.Hosts = policy.NetworkNone, policy.Hosts{} // [sandbox_workspace_write] does not apply
	}
	pol.Version = func() string { return Version() + s.Rules.Digest() + pol.Approval.String() + pol.Profile().Digest() }
	if pol.Workspace, noRoots, err = workspace(o.Dir); err != nil {
		return nil, "", err
	}
	if noRoots == "" {
		pol.ReadRoots = []string{pol.Workspace}
	}
	if profile != "" {
		if err := o.profiled(s, profile, pol, noRoots == ""); err != nil {
			return nil, "", err
		}
	} else if noRoots == "" {
		pol.WritableRoots, pol.SharedRoots, err = o.roots(pol.Workspace, s)
		shared := func(root string) bool { return slices.Contains(pol.SharedRoots, root) }
		pol.ReadRoots = slices.DeleteFunc(slices.Clone(pol.WritableRoots), shared)
	}
	if err == nil {
		err = s.control.addHooks(s.Config.Hooks, pol.Workspace)
	}
	pol.Hidden, pol.ReadOnlyPaths = s.protected()
	o.hideOthers(s, pol)
	return pol, noRoots, err
}

// Probe returns what this system can enforce.
var Probe = sandbox.Probe

// CanConfine reports whether this system enforces profiles. It is evaluated at the
// first call, because probing takes longer than the first answer may.
var CanConfine = sync.OnceValue(func() bool { return Probe().Level() != sandbox.None })

// workspace returns the folder that relative paths are resolved against, and why it is
// not writable, "" if it is. The root of the file system and a folder that holds the
// home folder are not writable. Without dir it is the current folder, or the root if
// that cannot be used.
func workspace(dir string) (real, noRoots string, err error) {
	if dir == "" {
		if real, err = Directory("the current folder", "."); err != nil {
			return filepath.VolumeName(os.TempDir()) + string(filepath.Separator), err.Error(), nil
		}
	} else if real, err = Directory("workspace", dir); err != nil {
		return "", "", err
	}
	if filepath.Dir(real) == real {
		return real, "the whole file system is no workspace", nil
	}
	if home, err := os.UserHomeDir(); err == nil {
		home, err := filepath.EvalSymlinks(home)
		if err == nil && policy.Below(filepath.ToSlash(home), filepath.ToSlash(real)) {
			return real, fmt.Sprintf("%s holds your whole home folder", real), nil
		}
	}
	return real, "", nil
}

// roots returns the writable roots: the workspace, the folders that the user named,
// and the temporary folders unless the config excludes them. Shared are the temporary
// folders that are not also named, which other programs use as well.
func (o *Options) roots(workspace string, s *Settings) (roots, shared []string, err error) {
	roots = []string{workspace}
	for _, dir := range slices.Concat(o.AddDirs, s.Config.WorkspaceWrite.WritableRoots) {
		real, err := Directory("writable root", dir)
		if err != nil {
			return nil, nil, err
		}
		roots = append(roots, real)
	}
	var temp []string
	if !s.Config.WorkspaceWrite.ExcludeSlashTmp && runtime.GOOS != "windows" {
		temp = append(temp, "/tmp")
	}
	if dir := os.Getenv("TMPDIR"); dir != "" && !s.privateTmp && !s.Config.WorkspaceWrite.ExcludeTmpdirEnvVar {
		temp = append(temp, dir)
	}
	for _, dir := range temp {
		// A temporary folder that does not exist or is the root is left out: the tools work without it.
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || !filepath.IsAbs(real) || filepath.Dir(real) == real || slices.Contains(roots, real) {
			continue
		}
		roots, shared = append(roots, real), append(shared, real)
	}
	slices.Sort(roots)
	return slices.Compact(roots), shared, nil
}

// protected returns the paths that workers and servers cannot read, which are the
// control files and the user's credentials, and those that they cannot change, which
// are the files of hooks and the symlinks to any of these. Credentials that do not exist
// are among them: a login in the middle of a session creates them.
func (s *Settings) protected() (hidden, readOnly []string) {
	hidden, readOnly = s.control.paths()
	if home, err := os.UserHomeDir(); err == nil {
		for _, p := range sandbox.Credentials(home) {
			links, end, err := followLinks(p)
			if err != nil {
				continue
			}
			hidden = append(hidden, end)
			readOnly = slices.AppendSeq(readOnly, maps.Keys(links))
		}
	}
	slices.Sort(hidden)
	slices.Sort(readOnly)
	return slices.Compact(hidden), slices.Compact(readOnly)
}

// Programs returns the finder of programs that the gate starts outside the sandbox.
// Paths that only mounts protect count as writable at levels without mounts, and so
// do protected names in shared roots, which are not searched for them.
func (s *Settings) Programs() programs.Finder {
	pol := s.Policy
	f := programs.Finder{Dir: pol.Workspace, Writable: slices.Clone(pol.WritableRoots)}
	if pol.TempDir != "" {
		f.Writable = append(f.Writable, pol.TempDir)
	}
	if s.NoRoots == "" {
		f.Writable = append(f.Writable, pol.Workspace)
	}
	hidden, readOnly := s.control.paths() // not credentials: such a folder may not exist yet
	f.Kept = func(path string) bool {
		if Probe().Level() < sandbox.Bwrap || pol.Mode == policy.DangerFullAccess {
			return false
		}
		below := func(kept string) bool { return policy.Below(path, kept) }
		if slices.ContainsFunc(hidden, below) || slices.ContainsFunc(readOnly, below) {
			return true
		}
		return slices.ContainsFunc(pol.WritableRoots, func(root string) bool {
			return policy.Below(path, root) && !slices.Contains(pol.SharedRoots, root) && pol.ReadOnlyName(root, path)
		})
	}
	return f
}
