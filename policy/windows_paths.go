package policy

import (
	"path"
	"slices"
	"strings"
)

// This file handles Windows paths as strings, on any system. A policy is for
// Windows if its workspace is a path on a drive or a share.

// splitVolume returns s with slashes, split after its drive ("C:") or share
// ("//host/share"); volume is "" if it has none. Drive letters become upper case.
func splitVolume(s string) (volume, rest string) {
	s = strings.ReplaceAll(s, `\`, "/")
	switch {
	case len(s) > 1 && s[1] == ':' && (s[0]|0x20) >= 'a' && (s[0]|0x20) <= 'z':
		return strings.ToUpper(s[:2]), s[2:]
	case strings.HasPrefix(s, "//"):
		host, rest, _ := strings.Cut(s[2:], "/")
		share, rest, _ := strings.Cut(rest, "/")
		return "//" + host + "/" + share, "/" + rest
	}
	return "", s
}

// onWindows reports whether the absolute path s is a Windows path.
func onWindows(s string) bool {
	if strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") {
		return false
	}
	volume, _ := splitVolume(s)
	return volume != ""
}

// windowsPath returns s with slashes, absolute and clean, relative to the workspace.
// A path relative to the current folder of a drive, "C:x", stays relative.
func windowsPath(workspace, s string) string {
	home, below := splitVolume(workspace)
	volume, rest := splitVolume(s)
	switch {
	case volume == "" && strings.HasPrefix(rest, "/"):
		volume = home
	case volume == "":
		volume, rest = home, below+"/"+rest
	case !strings.HasPrefix(rest, "/"):
		return volume + rest
	}
	return volume + path.Clean("/"+rest)
}

// splitPath returns the elements of the absolute path s, of any system.
func splitPath(s string) []string {
	if onWindows(s) {
		volume, rest := splitVolume(s)
		s = volume + path.Clean("/"+rest)
	}
	return strings.FieldsFunc(s, func(r rune) bool { return r == '/' })
}

// belowFolded is [Below] ignoring case.
func belowFolded(name, root string) bool {
	names, roots := splitPath(name), splitPath(root)
	return len(names) >= len(roots) && slices.EqualFunc(names[:len(roots)], roots, strings.EqualFold)
}

// unsafeWindowsPath returns what is wrong with a Windows path that is not simply a
// file on a drive, or "". Opening such a path can access another computer with the
// user's credentials, a device, or a file under a second name.
func unsafeWindowsPath(name, workspace string) string {
	if !onWindows(workspace) {
		return ""
	}
	volume, rest := splitVolume(name)
	switch {
	case strings.HasPrefix(volume, "//") && !Below(name, workspace):
		return "is on another computer, or a device"
	case !strings.HasPrefix(rest, "/"):
		return "counts from the current folder of a drive"
	case strings.Contains(rest, ":"):
		return "names a stream of a file"
	case slices.ContainsFunc(strings.Split(rest, "/"), isDevice):
		return "names a device"
	}
	return ""
}

// isDevice reports whether Windows takes the name for a device in any folder. An
// extension does not matter.
func isDevice(name string) bool {
	name, _, _ = strings.Cut(strings.ToUpper(name), ".")
	name = strings.TrimRight(name, " ")
	if slices.Contains([]string{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}, name) {
		return true
	}
	digit, port := strings.CutPrefix(name, "COM")
	if !port {
		digit, port = strings.CutPrefix(name, "LPT")
	}
	return port && len([]rune(digit)) == 1 && strings.Contains("0123456789¹²³", digit)
}
