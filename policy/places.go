package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Places are the folders behind the special names of permission profiles.
type Places struct {
	Workspaces []string // ":workspace_roots"
	Home       string   // "~"
	TempDir    string   // ":tmpdir", "" when there is none
	SlashTmp   string   // ":slash_tmp", "" for /tmp
}

// minimal is ":minimal": what programs need to start and to find others. /proc and
// /dev are private and always present.
var minimal = []string{
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/nix/store", "/run/current-system/sw",
	// Targets of /etc/resolv.conf.
	"/run/systemd/resolve", "/run/NetworkManager/resolv.conf", "/run/resolvconf",
}

// SpecialNames are the names of places in permission profiles.
var SpecialNames = []string{":root", ":minimal", ":workspace_roots", ":tmpdir", ":slash_tmp"}

// Special returns the rules for a place with a special name, or for the path sub
// below it.
func (p Places) Special(word, sub string, access Access) ([]PathRule, error) {
	var paths []string
	switch word {
	case ":root":
		paths = []string{"/"}
	case ":minimal":
		paths = minimal
	case ":workspace_roots":
		return p.below(p.Workspaces, sub, access)
	case ":tmpdir":
		if p.TempDir != "" {
			paths = []string{p.TempDir}
		}
	case ":slash_tmp":
		paths = []string{"/tmp"}
		if p.SlashTmp != "" {
			paths[0] = p.SlashTmp
		}
	default:
		known := strings.Join(SpecialNames, ", ") + ", a path that begins with / or ~/"
		return nil, &ValueError{What: "place", Value: word, Known: known}
	}
	if sub != "" && sub != "." {
		return nil, fmt.Errorf("%s has no paths below it in a profile", word)
	}
	if word == ":minimal" && access == CanWrite {
		return nil, fmt.Errorf("%s can be read or denied, not written", word)
	}
	var rules []PathRule
	for _, at := range paths {
		rules = append(rules, PathRule{Path: at, Access: access})
	}
	return rules, nil
}

// below returns the rules for sub, a path or pattern, below each of the
// folders.
func (p Places) below(folders []string, sub string, access Access) ([]PathRule, error) {
	var rules []PathRule
	for _, dir := range folders {
		if sub == "" || sub == "." {
			rules = append(rules, PathRule{Path: dir, Access: access})
			continue
		}
		for part := range strings.SplitSeq(sub, "/") {
			if part == "" || part == "." || part == ".." {
				return nil, fmt.Errorf("path %q: must lead down, without . and .. in it", sub)
			}
		}
		more, err := patternRules(dir, sub, access)
		if err != nil {
			return nil, err
		}
		rules = append(rules, more...)
	}
	return rules, nil
}

// PatternRules returns the rules for a path or pattern. A final /** means the folder
// and everything in it.
func PatternRules(glob string, access Access) ([]PathRule, error) {
	return patternRules("", strings.TrimPrefix(glob, "/"), access)
}

// patternRules is [PatternRules] for sub below the folder dir.
func patternRules(dir, sub string, access Access) ([]PathRule, error) {
	folder := strings.TrimSuffix(sub, "/**")
	if !strings.ContainsAny(folder, "*?[]") {
		return []PathRule{{Path: path.Join("/", dir, folder), Access: access}}, nil
	}
	glob := strings.TrimSuffix(escapeGlob(dir), "/") + "/" + sub
	if access != NoAccess {
		return nil, fmt.Errorf("pattern %q: a pattern can only be denied; name a path, or a folder with /** after it",
			glob)
	}
	if err := CheckGlob(glob); err != nil {
		return nil, err
	}
	return []PathRule{{Path: glob, Glob: true}}, nil
}

// Path returns the rules for one entry of a profile: a special name, or a path or
// pattern that begins with / or ~/. Sub, if not empty, is a path below it.
func (p Places) Path(name, sub string, access Access) ([]PathRule, error) {
	if strings.HasPrefix(name, ":") {
		return p.Special(name, sub, access)
	}
	var base, rest string
	switch {
	case name == "~" || strings.HasPrefix(name, "~/"):
		if p.Home == "" {
			return nil, fmt.Errorf("path %q: there is no home folder", name)
		}
		base, rest = p.Home, strings.TrimPrefix(strings.TrimPrefix(name, "~"), "/")
	case strings.HasPrefix(name, "/"):
		rest = strings.TrimPrefix(name, "/")
	default:
		return nil, fmt.Errorf("path %q: must begin with /, ~/ or one of %s", name, strings.Join(SpecialNames, ", "))
	}
	if sub != "" && sub != "." {
		if strings.ContainsAny(rest, "*?[]") {
			return nil, fmt.Errorf("path %q: a pattern has no paths below it", name)
		}
		return p.below([]string{path.Join("/", base, rest)}, sub, access)
	}
	if slices.Contains(strings.Split(rest, "/"), "..") {
		return nil, fmt.Errorf("path %q: must not have .. in it", name)
	}
	if rest = strings.TrimPrefix(path.Clean("/"+rest), "/"); rest == "" {
		return []PathRule{{Path: path.Join("/", base), Access: access}}, nil
	}
	return patternRules(base, rest, access)
}
