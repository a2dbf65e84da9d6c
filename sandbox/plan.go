package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"toolgate/internal/bytestring"
	"toolgate/policy"
)

// A Plan describes how a process will be confined, and what will not be enforced.
// Make one with [NewPlan]; the zero Plan starts nothing.
type Plan struct {
	Level   Level          `json:"level"`
	Profile policy.Profile `json:"profile"`

	// ABI is the Landlock ABI in use, 0 for none.
	ABI int `json:"landlock_abi"`

	// Processes is the limit of processes and threads inside. Root is limited
	// only at level full, since Linux 6.14. It is 0, no limit, without namespaces.
	Processes int `json:"processes,omitempty"`

	// Unenforced lists, in words for a person, what the profile asks for and
	// this plan does not enforce, with the reason.
	Unenforced []string `json:"unenforced,omitempty"`

	// Digest identifies the plan: plans with the same digest confine alike.
	Digest string `json:"digest"`

	BwrapPath string `json:"bwrap_path,omitempty"`
}

// maxProcesses is the limit of processes and threads in a sandbox with a pid
// namespace: enough for a large parallel build, and far below the limit of the
// machine.
const maxProcesses = 16384

// NewPlan returns how s will confine a process to p. It examines only its
// arguments; whether a writable root exists is checked by [Cmd.Start].
//
// Each name of ReadOnlySubpaths is protected in every folder below the roots, and
// may be a pattern of [filepath.Match]. A name of several parts, such as
// ".claude/settings.json", protects that file where it exists; where it does not,
// all of .claude is protected, so that the file cannot be created. If its parts
// have wildcards, it protects what it matches. A name whose first part does not
// exist is not protected: it can be created.
//
// A profile of mode danger-full-access is not confined. One of mode read-only has
// no writable roots, whatever it names. The error wraps [ErrUnsupported] if s
// cannot confine a process at all.
func NewPlan(p policy.Profile, s System) (Plan, error) {
	if p.Mode == policy.DangerFullAccess {
		return Plan{Profile: policy.Profile{Mode: p.Mode, Network: policy.NetworkAll}}.seal(), nil
	}
	p, err := normalize(p)
	if err != nil {
		return Plan{}, err
	}
	level := s.Level()
	if level == None {
		return Plan{}, fmt.Errorf("%w: %s", ErrUnsupported, strings.Join(unsupportedReasons(s), "; "))
	}
	if p.Network == policy.NetworkHosts && level == Landlock {
		// Landlock restricts TCP ports only, not addresses or UDP.
		return Plan{}, fmt.Errorf("%w: a list of allowed hosts needs a network namespace, "+
			"which this system refuses (`toolgate doctor` says why); "+
			"the user can set network_access = false, or leave the list out", ErrUnsupported)
	}
	if level == Landlock && p.TempDir != "" { // it has no mounts
		p.WritableRoots = sorted(append(without(p.WritableRoots, slashTmp), p.TempDir))
	}
	plan := Plan{Level: level, Profile: p}
	if s.Landlock.OK {
		plan.ABI = s.ABI
	}
	if level == Bwrap {
		plan.BwrapPath = s.BwrapPath
	}
	if plan.namespaces() {
		plan.Processes = maxProcesses
	}
	if err := checkLandlockPaths(plan); err != nil {
		return Plan{}, err
	}
	plan.Unenforced = unenforced(plan, s)
	return plan.seal(), nil
}

// checkLandlockPaths returns an error if plan has level landlock and denies
// something below a writable root, which Landlock cannot enforce. The error wraps
// [ErrUnsupported].
func checkLandlockPaths(plan Plan) error {
	if plan.Level != Landlock {
		return nil
	}
	p := plan.Profile
	refuse := func(what, root string) error {
		return fmt.Errorf("%w: the profile %s denies %s, which lies in what it lets be written (%s), "+
			"and Landlock cannot take back what it allowed above; there are no mounts here, see `toolgate doctor`",
			ErrUnsupported, p, what, root)
	}
	for _, path := range slices.Concat(p.Paths.ReadOnly, p.Paths.Denied) {
		for _, root := range p.WritableRoots {
			if isBelow(path, root) {
				return refuse(path, root)
			}
		}
	}
	for _, glob := range p.Paths.DeniedGlobs {
		base, _ := policy.GlobBase(glob)
		for _, root := range p.WritableRoots {
			if isBelow(base, root) || isBelow(root, base) {
				return refuse(glob, root)
			}
		}
	}
	return nil
}

// unsupportedReasons returns why s has no level.
func unsupportedReasons(s System) []string {
	if s.OS != "linux" {
		return []string{"there is no sandbox for " + s.OS}
	}
	return s.Why()
}

// normalize checks p and returns it in canonical form.
func normalize(p policy.Profile) (policy.Profile, error) {
	if p.Mode == policy.ReadOnly {
		p.WritableRoots, p.SharedRoots = nil, nil
	}
	if !slices.Contains(p.WritableRoots, slashTmp) {
		p.TempDir = ""
	}
	if p.TempDir != "" {
		p.SharedRoots = without(p.SharedRoots, slashTmp)
	}
	if p.Network != policy.NetworkHosts {
		p.Hosts = policy.Hosts{}
	} else if _, err := policy.NewHosts(p.Hosts.Allow, p.Hosts.Deny); err != nil {
		return p, err
	}
	if err := checkPaths(p); err != nil {
		return p, err
	}
	for _, list := range []*[]string{
		&p.WritableRoots, &p.SharedRoots, &p.ReadOnlySubpaths, &p.ReadOnlyPaths,
		&p.Paths.Readable, &p.Paths.ReadOnly, &p.Paths.Denied, &p.Paths.DeniedGlobs,
	} {
		*list = sorted(*list)
	}
	p.Hidden = outermost(sorted(p.Hidden), slices.Concat(p.WritableRoots, p.Paths.Readable))
	return p, nil
}

// slashTmp is the writable root whose place [policy.Profile.TempDir] takes.
const slashTmp = "/tmp"

// without returns list without path.
func without(list []string, path string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(p string) bool { return p == path })
}

// TempDir returns the path of the private folder for temporary files inside, "" if the
// profile has none. At level landlock that is not /tmp, which cannot be written then.
func (p Plan) TempDir() string {
	if p.Profile.TempDir != "" && p.namespaces() {
		return slashTmp
	}
	return p.Profile.TempDir
}

// checkPaths returns an error for paths of p that no rule can be about.
func checkPaths(p policy.Profile) error {
	for _, root := range p.WritableRoots {
		if err := checkRoot(root); err != nil {
			return err
		}
	}
	if p.TempDir != "" {
		if err := checkRoot(p.TempDir); err != nil {
			return err
		}
	}
	for _, sub := range p.ReadOnlySubpaths {
		if err := checkSubpath(sub); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		what  string
		paths []string
	}{
		{"hidden path", p.Hidden}, {"read-only path", p.ReadOnlyPaths},
		{"path", p.Paths.Readable}, {"path", p.Paths.ReadOnly}, {"path", p.Paths.Denied},
	} {
		for _, path := range list.paths {
			if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
				return fmt.Errorf("%s %q: must be an absolute, clean path below /", list.what, path)
			}
		}
	}
	for _, path := range p.Paths.Denied {
		if isBelow(path, "/proc") || isBelow(path, "/dev") {
			return fmt.Errorf("path %q: /proc and /dev are the sandbox's own and cannot be denied", path)
		}
	}
	for _, glob := range p.Paths.DeniedGlobs {
		if err := policy.CheckGlob(glob); err != nil {
			return err
		}
	}
	return nil
}

// checkSubpath returns an error unless sub is a clean relative path or pattern.
func checkSubpath(sub string) error {
	if !filepath.IsLocal(sub) || filepath.Clean(sub) != sub || sub == "." {
		return fmt.Errorf("read-only sub-path %q: must be a clean path below a writable root", sub)
	}
	if _, err := filepath.Match(sub, ""); err != nil {
		return fmt.Errorf("read-only sub-path %q: %w", sub, err)
	}
	return nil
}

// outermost returns the sorted list without the paths that lie below another one:
// a mask hides them already, unless it is opened for one of openings.
func outermost(list, openings []string) []string {
	var out []string
	for _, path := range list {
		masked := slices.ContainsFunc(out, func(o string) bool {
			return isBelow(path, o) && !slices.ContainsFunc(openings, func(q string) bool {
				return isBelow(path, q) && isBelow(q, o)
			})
		})
		if !masked {
			out = append(out, path)
		}
	}
	return out
}

// kernelFolders contain files of the kernel. Writing them changes the system, so
// none of them can be a writable root.
var kernelFolders = []string{"/proc", "/sys", "/dev"}

func checkRoot(root string) error {
	if !filepath.IsAbs(root) || filepath.Clean(root) != root {
		return fmt.Errorf("writable root %q: must be an absolute, clean path", root)
	}
	if filepath.Dir(root) == root {
		return fmt.Errorf("writable root %q: the whole file system cannot be a writable root; name a folder", root)
	}
	for _, folder := range kernelFolders {
		if isBelow(root, folder) && !isBelow(root, "/dev/shm") {
			return fmt.Errorf("writable root %q: %s belongs to the kernel and cannot be written", root, folder)
		}
	}
	return nil
}

// isBelow reports whether path is dir or below it. Both are clean.
func isBelow(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// isBelowAny reports whether path is one of dirs or below one.
func isBelowAny(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return isBelow(path, dir) })
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// Landlock ABIs that added a feature which plans use.
const (
	abiRefer    = 2
	abiTruncate = 3
	abiNet      = 4
	abiIoctl    = 5
	abiScope    = 6
)

// unenforced lists what p asks for and plan does not enforce on s.
func unenforced(plan Plan, s System) []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if plan.Level != Landlock {
		if plan.ABI == 0 {
			add("no second layer of file and signal rules below the namespaces: landlock: %s", s.Landlock.Why)
		} else if plan.ABI < abiScope {
			add("commands can signal the worker that started them: landlock ABI %d has no signal scope", plan.ABI)
		}
		if s.Root && (!s.PidLimit || plan.Level == Bwrap) {
			add("the number of root's processes is not limited: that takes level full and Linux 6.14")
		}
		return list
	}
	p := plan.Profile
	if len(p.WritableRoots) > 0 && len(p.ReadOnlySubpaths) > 0 {
		add("%s below a writable root can be changed: Landlock cannot take back what it allowed above",
			strings.Join(p.ReadOnlySubpaths, ", "))
	}
	for _, path := range p.ReadOnlyPaths {
		if isBelowAny(path, p.WritableRoots) {
			add("%s can be changed: Landlock cannot take back what it allowed above", path)
		}
	}
	for _, path := range p.Hidden {
		if isBelowAny(path, p.WritableRoots) {
			add("%s can be read: Landlock cannot take back what it allowed above", path)
		}
	}
	if p.TempDir != "" {
		add("files of other programs in /tmp can be read: there are no mounts")
	}
	if p.Paths.Restricted {
		add("the size and times of files can be seen outside what can be read: Landlock governs only what they hold")
	} else if len(p.Hidden)+len(p.Paths.Denied)+len(p.Paths.DeniedGlobs) > 0 {
		add("the names of files in hidden folders can be listed, " +
			"and what appears beside a hidden path later cannot be read: there are no mounts")
	}
	add("mode, owner, times and attributes of files outside the writable roots " +
		"can be changed as far as the user may: Landlock does not govern them")
	add("other processes of the user can be seen in /proc: no pid namespace")
	if plan.ABI < abiTruncate {
		add("files outside the writable roots can be truncated: landlock ABI %d", plan.ABI)
	}
	if plan.ABI < abiScope {
		add("other processes of the user can be signalled: landlock ABI %d has no signal scope", plan.ABI)
	}
	return list
}

// confined reports whether a process is confined at all.
func (p Plan) confined() bool { return p.Profile.Mode != policy.DangerFullAccess }

// namespaces reports whether the process gets namespaces. The kernel then kills
// all its processes when the first one ends.
func (p Plan) namespaces() bool { return p.Level == Full || p.Level == Bwrap }

// proxied reports whether the process gets a network namespace from which only the
// proxy can be reached, see [Cmd.Listener].
func (p Plan) proxied() bool { return p.namespaces() && p.Profile.Network == policy.NetworkHosts }

// offline reports whether no peer can be reached.
func (p Plan) offline() bool { return p.Profile.Network != policy.NetworkAll && !p.proxied() }

// seal returns p with its digest.
func (p Plan) seal() Plan {
	p.Digest = ""
	text, err := json.Marshal(bytestring.Escape(p))
	if err != nil {
		panic(fmt.Sprintf("sandbox: plan cannot be written as JSON: %v", err))
	}
	sum := sha256.Sum256(text)
	p.Digest = hex.EncodeToString(sum[:8])
	return p
}

// Without returns p without the given writable root. It is for the commands of a
// worker that may write a folder of its own.
func (p Plan) Without(root string) Plan {
	p.Profile.WritableRoots = without(p.Profile.WritableRoots, root)
	return p.seal()
}
