package cli

import (
	"slices"
	"strings"

	"toolgate/internal/clients"
)

// runsPackage reports whether the command is a package runner. It runs a program of a package, but
// prefers one in node_modules of its working folder, and puts the programs there first in PATH.
func runsPackage(command string, args []string) bool {
	switch commandName(command) {
	case "npx", "bunx", "pnpx":
		return true
	case "npm", "bun", "pnpm", "yarn":
		return len(args) > 0 && slices.Contains([]string{"exec", "x", "dlx"}, args[0])
	}
	return false
}

// throughRunner returns the package runner through which the entry starts toolgate, "" for none,
// and the arguments of toolgate.
func throughRunner(s clients.Start) (runner string, words []string) {
	all := append([]string{s.Command}, s.Args...)
	for len(all) > 0 && slices.Contains([]string{"cmd", "c", "env"}, commandName(all[0])) {
		all = all[1:]
	}
	if len(all) == 0 || !runsPackage(all[0], all[1:]) {
		return "", nil
	}
	for i, w := range all[1:] {
		name := strings.TrimPrefix(w, "npm:")
		isPackage := name == "toolgate" || strings.HasPrefix(name, "toolgate@") || strings.HasPrefix(name, "@toolgate/")
		if isPackage && all[i] != "-p" && all[i] != "--package" {
			words = all[i+2:]
			if len(words) > 0 && words[0] == "--" {
				words = words[1:]
			}
			return commandName(all[0]), words
		}
	}
	return "", nil
}

// commandName returns the name of the program at path, on any system.
func commandName(path string) string {
	name := strings.ToLower(path[strings.LastIndexAny(path, `/\`)+1:])
	for _, end := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}
