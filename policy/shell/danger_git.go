package shell

import (
	"slices"
	"strings"
	"sync"
)

// gitDanger returns why a call of git loses work, or "".
func gitDanger(args []string) string {
	list := textsOf(gitGlobals.parse(wordsOf(args)).rest)
	if len(list) == 0 {
		return ""
	}
	if check := gitDangers()[list[0]]; check != nil {
		return check(list[1:])
	}
	return ""
}

// gitDangers are the subcommands of git that lose work with some arguments.
var gitDangers = sync.OnceValue(func() map[string]dangerCheck {
	const discards, rewrites = "throws changes away", "rewrites or deletes history"
	always := func(why string) dangerCheck { return func([]string) string { return why } }
	return map[string]dangerCheck{
		"push":          pushDanger,
		"checkout":      checkoutDanger,
		"stash":         first("throws stashed changes away", "drop", "clear"),
		"reflog":        first("forgets where commits are", "expire", "delete"),
		"gc":            anyPrefix("deletes commits that nothing refers to", "--prune=now", "--prune=all"),
		"prune":         always(rewrites),
		"filter-branch": always(rewrites),
		"filter-repo":   always(rewrites),

		"reset":          when(discards, func(args []string) bool { return hasFlag(args, 0, "hard") }),
		"checkout-index": when(discards, isForced),
		"switch": when(discards, func(args []string) bool {
			return isForced(args) || slices.Contains(args, "--discard-changes")
		}),
		"restore": when(discards, func(args []string) bool {
			return !hasFlag(args, 'S', "staged") || hasFlag(args, 'W', "worktree")
		}),
		"read-tree": when(discards, func(args []string) bool {
			return slices.Contains(args, "--reset") && hasFlag(args, 'u', "")
		}),
		"clean": when("deletes files that are not in git", func(args []string) bool {
			return isForced(args) && !hasFlag(args, 'n', "dry-run")
		}),
		"branch": when("deletes a branch that may not be merged", func(args []string) bool {
			return hasFlag(args, 'D', "") || hasFlag(args, 'd', "delete") && isForced(args)
		}),
		"update-ref": when("deletes a reference", func(args []string) bool {
			return hasFlag(args, 'd', "") || slices.Contains(args, "--stdin")
		}),
		"worktree": when("removes a work tree with its changes", func(args []string) bool {
			return slices.Contains(args, "remove") && isForced(args)
		}),
		"rm": when("deletes changed files", func(args []string) bool {
			return isForced(args) && !slices.Contains(args, "--cached")
		}),
		"submodule": when("throws changes of a submodule away", func(args []string) bool {
			return slices.Contains(args, "deinit") && isForced(args)
		}),
	}
})

func isForced(args []string) bool { return hasFlag(args, 'f', "force") }

func pushDanger(args []string) string {
	if hasFlag(args, 'n', "dry-run") {
		return ""
	}
	if hasFlag(args, 'f', "force") {
		return "overwrites the remote's history"
	}
	for i, a := range args {
		switch {
		case strings.HasPrefix(a, "--force-with-lease"), strings.HasPrefix(a, "--force"):
			return "overwrites the remote's history"
		case a == "--mirror", a == "--prune":
			return "deletes what is not here from the remote"
		case a == "--delete", a == "-d":
			return "deletes a branch on the remote"
		case strings.HasPrefix(a, "+") && len(a) > 1:
			return "overwrites the remote's history"
		case strings.HasPrefix(a, ":") && len(a) > 1 && i > 0:
			return "deletes a branch on the remote"
		}
	}
	return ""
}

func checkoutDanger(args []string) string {
	if hasFlag(args, 'f', "force") {
		return "throws changes away"
	}
	if hasFlag(args, 'b', "") || hasFlag(args, 'B', "") {
		return ""
	}
	for i, a := range args {
		switch {
		case a == "--" && i+1 < len(args), a == "." || a == "./" || a == ":/", a == "*":
			return "throws changes away"
		}
	}
	return ""
}
