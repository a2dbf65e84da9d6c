package app

import (
	"runtime/debug"
	"strings"
)

// release is the version that the release build was given.
var release string

// Version returns the release, else the module's version, with the commit when it was built from a checkout.
func Version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return strings.Trim(info.Main.Version, "()")
}
