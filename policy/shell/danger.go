package shell

import (
	"slices"
	"strings"
	"sync"
)

// Dangerous returns why the command destroys something that cannot be restored,
// or "". The reason continues the command: `rm -rf x` "deletes without asking".
// Commands that it starts are not considered; they are listed on their own.
func (c Command) Dangerous() string {
	if c.danger != "" {
		return c.danger
	}
	if slices.ContainsFunc(c.Writes, isDisk) {
		return "writes over a disk"
	}
	if len(c.Argv) == 0 {
		return ""
	}
	name, args := ProgramName(c.Argv[0]), c.Argv[1:]
	if len(args) == 1 && (args[0] == "--help" || args[0] == "--version") {
		return ""
	}
	list := dangers()[name]
	switch {
	case name == "git":
		words := textsOf(gitGlobals.parse(wordsOf(args)).rest)
		if len(words) == 0 {
			return ""
		}
		list, args = gitDangers()[words[0]], words[1:]
		if words[0] == "push" {
			return pushDanger(args)
		}
	case strings.HasPrefix(name, "mkfs"):
		return "formats a disk"
	}
	for _, d := range list {
		if d.when(args) {
			return d.why
		}
	}
	return ""
}

// A danger says with which arguments programs are destructive, and why.
type danger struct {
	programs string // their names, or the names of git's subcommands
	why      string
	when     condition
}

// byProgram returns the dangers of each program.
func byProgram(list []danger) map[string][]danger {
	all := make(map[string][]danger)
	for _, d := range list {
		for name := range strings.FieldsSeq(d.programs) {
			all[name] = append(all[name], d)
		}
	}
	return all
}

// dangers are the programs that are destructive with some arguments. The first
// condition that holds gives the reason.
var dangers = sync.OnceValue(func() map[string][]danger {
	return byProgram([]danger{
		{"shred wipe srm scrub blkdiscard", "destroys the content of files or disks", always},
		{"wipefs mkswap cfdisk cryptsetup-reencrypt newfs newfs_apfs newfs_hfs format", "formats a disk", always},
		{"shutdown reboot halt poweroff telinit", "stops the machine", always},
		{"truncate", "cuts files short", always},
		{"userdel groupdel deluser delgroup", "removes an account", always},
		{"dropdb dropuser", "drops a database or its user", always},
		{"killall5", "ends every process that it may", always},
		{"pvremove vgremove lvremove", "removes a volume", always},

		{"rm grm", "deletes without asking", flag("f", "force")},
		{"rm grm", "deletes a whole tree", flag("rR", "recursive")},
		{"find gfind", "deletes all that it finds", anyOf("-delete")},
		{"dd gdd", "writes over a file or disk", writesOver},
		{"chmod setfacl", "changes the permissions of a whole tree", flag("R", "recursive")},
		{"chown", "changes the owner of a whole tree", flag("R", "recursive")},
		{"chgrp", "changes the group of a whole tree", flag("R", "recursive")},
		{"chattr", "changes the attributes of a whole tree", flag("R", "recursive")},
		{"kill", "ends every process that it may", killsAll},
		{"pkill", "ends every process of a user", flag("uUv", "euid uid inverse")},
		{"pkill", "ends every process that it may", anyOf(". .*")},
		{"tee", "writes over a disk", func(args []string) bool { return slices.ContainsFunc(args, isDisk) }},
		{"mv", "moves files to nowhere", last(func(arg string) bool { return arg == "/dev/null" })},
		{"cp mv", "writes over a disk", last(isDisk)},
		{"rsync", "deletes what the source does not have", anyPrefix("--delete --del --remove-source-files")},
		{"fdisk", "changes the partitions of a disk", noneOf("-l --list")},
		{"sfdisk", "changes the partitions of a disk", noneOf("-l --list -d --dump -J --json")},
		{"sgdisk", "changes the partitions of a disk", noneOf("-p --print -v")},
		{"gdisk", "changes the partitions of a disk", noneOf("-l")},
		{"parted", "changes the partitions of a disk", noneOf("-l --list print")},
		{"diskutil", "erases or changes a disk",
			first("erasedisk erasevolume partitiondisk zerodisk randomdisk secureerase apfs reformat")},
		{"hdparm", "erases a disk", anyPrefix("--security-erase --trim-sector")},
		{"cryptsetup", "destroys an encrypted volume",
			first("luksformat erase lukserase luksremovekey lukskillslot")},
		{"zfs", "destroys a file system", first("destroy rollback")},
		{"zpool", "destroys a pool", first("destroy labelclear")},
		{"btrfs", "deletes a subvolume", sequence("subvolume delete")},
		{"init", "stops the machine", first("0 6")},
		{"systemctl", "stops the machine", first("poweroff reboot halt kexec isolate rescue emergency")},
		{"crontab", "removes every timed job", anyOf("-r -ri -ir")},
		{"iptables ip6tables", "removes firewall rules", anyOf("-F --flush -X")},
		{"nft", "removes firewall rules", first("flush delete")},

		{"docker podman nerdctl", "removes containers, images or volumes", sequence("system prune", "volume rm",
			"volume prune", "image prune", "container prune", "builder prune", "network prune")},
		{"docker podman nerdctl", "removes containers or images without asking",
			sub("rm rmi", flag("fv", "force volumes"))},
		{"docker podman nerdctl", "removes the volumes of a project",
			sub("compose", all(anyOf("down"), flag("v", "volumes")))},
		{"kubectl", "deletes what runs in a cluster", first("delete drain")},
		{"oc", "deletes what runs in a cluster", first("delete")},
		{"helm", "removes a release", first("uninstall delete")},
		{"terraform tofu terragrunt", "destroys what terraform built", sub("destroy", always)},
		{"terraform tofu terragrunt", "destroys what terraform built", sub("apply", anyOf("-destroy"))},
		{"terraform tofu terragrunt", "changes infrastructure without asking", sub("apply", anyOf("-auto-approve"))},
		{"terraform tofu terragrunt", "forgets what terraform built", sub("state", anyOf("rm"))},
		{"pulumi", "destroys a stack", first("destroy")},
		{"aws", "deletes cloud files", sequence("s3 rb", "s3 rm")},
		{"aws", "deletes cloud files", all(anyOf("s3"), anyOf("sync"), anyOf("--delete"))},
		{"aws", "deletes cloud resources", anyPrefix("delete- terminate-")},
		{"gcloud", "deletes cloud resources", anyOf("delete")},
		{"gsutil", "deletes cloud files", anyOf("rm rb")},
		{"az", "deletes cloud resources", anyOf("delete purge")},
		{"gh", "deletes things on GitHub", sequence("repo delete", "release delete", "secret delete", "gist delete",
			"run delete", "cache delete", "label delete", "variable delete", "issue delete")},
		{"redis-cli", "empties a database", lower(anyOf("flushall flushdb"))},
		{"npm", "removes a published package", first("unpublish")},
		{"cargo gem", "withdraws a published package", first("yank")},
		{"hg", "throws changes away", sub("strip purge revert", always)},
		{"hg", "throws changes away", sub("update up checkout co", flag("C", "clean"))},
		{"hg", "overwrites the history of a remote", sub("push", forced)},
		{"svn", "throws changes away", first("revert")},
		{"del erase", "deletes without asking", lower(anyOf("/f /s /q"))},
		{"rd", "deletes a whole tree", lower(anyOf("/s"))},
		{"Remove-Item", "deletes without asking", lower(anyOf("-recurse -force -r -fo"))},
	})
})

// gitDangers are the subcommands of git that lose work with some arguments.
var gitDangers = sync.OnceValue(func() map[string][]danger {
	return byProgram([]danger{
		{"prune filter-branch filter-repo", "rewrites or deletes history", always},
		{"gc", "deletes commits that nothing refers to", anyPrefix("--prune=now --prune=all")},
		{"reflog", "forgets where commits are", first("expire delete")},
		{"stash", "throws stashed changes away", first("drop clear")},
		{"update-ref", "deletes a reference", flag("d", "")},
		{"update-ref", "deletes a reference", anyOf("--stdin")},

		{"checkout-index checkout switch", "throws changes away", forced},
		{"checkout", "throws changes away", all(not(flag("bB", "")), givesPaths)},
		{"switch", "throws changes away", anyOf("--discard-changes")},
		{"reset", "throws changes away", flag("", "hard")},
		{"restore", "throws changes away", not(flag("S", "staged"))},
		{"restore", "throws changes away", flag("W", "worktree")},
		{"read-tree", "throws changes away", all(anyOf("--reset"), flag("u", ""))},
		{"submodule", "throws changes of a submodule away", all(anyOf("deinit"), forced)},

		{"clean", "deletes files that are not in git", all(forced, not(flag("n", "dry-run")))},
		{"rm", "deletes changed files", all(forced, not(anyOf("--cached")))},
		{"branch", "deletes a branch that may not be merged", flag("D", "")},
		{"branch", "deletes a branch that may not be merged", all(flag("d", "delete"), forced)},
		{"worktree", "removes a work tree with its changes", all(anyOf("remove"), forced)},
	})
})

// pushDanger returns why a git push loses work, judging by the first argument that
// does, or "".
func pushDanger(args []string) string {
	if flag("n", "dry-run")(args) {
		return ""
	}
	if forced(args) {
		return "overwrites the remote's history"
	}
	for i, a := range args {
		switch {
		case strings.HasPrefix(a, "--force"), strings.HasPrefix(a, "+") && len(a) > 1:
			return "overwrites the remote's history"
		case a == "--mirror", a == "--prune":
			return "deletes what is not here from the remote"
		case a == "--delete", a == "-d", strings.HasPrefix(a, ":") && len(a) > 1 && i > 0:
			return "deletes a branch on the remote"
		}
	}
	return ""
}

// A condition reports whether it holds for the arguments of a command.
type condition func(args []string) bool

func always([]string) bool { return true }

var forced = flag("f", "force")

// givesPaths reports whether the arguments of git checkout name files.
func givesPaths(args []string) bool {
	dashes := slices.Index(args, "--")
	return dashes >= 0 && dashes+1 < len(args) || anyOf(". ./ :/ *")(args)
}

// writesOver reports whether dd writes a file.
func writesOver(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		target, ok := strings.CutPrefix(a, "of=")
		return ok && target != "/dev/null" && target != "/dev/stdout"
	})
}

// killsAll reports whether kill is given a process ID that stands for all processes.
func killsAll(args []string) bool {
	if len(args) == 0 || args[0] == "-l" || args[0] == "-L" {
		return false
	}
	for i, a := range args {
		signal := i == 0 && len(args) > 1
		if a == "-1" && !signal ||
			a == "0" && i > 0 && args[i-1] != "-s" && args[i-1] != "-n" && !(i == 1 && args[0] == "-0") {
			return true
		}
	}
	return false
}

// isDisk reports whether a path is a disk or memory device.
func isDisk(path string) bool {
	dev, ok := strings.CutPrefix(path, "/dev/")
	return ok && hasPrefix(dev, "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "mapper/", "dm-", "md",
		"loop", "mem", "kmem", "port")
}

// hasPrefix reports whether s begins with one of the prefixes.
func hasPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// flag holds if an argument is one of the short flags, alone or in a cluster, or one of
// the long ones, before any --.
func flag(short, long string) condition {
	names := strings.Fields(long)
	return func(args []string) bool {
		if end := slices.Index(args, "--"); end >= 0 {
			args = args[:end]
		}
		return slices.ContainsFunc(args, func(a string) bool {
			if !strings.HasPrefix(a, "--") {
				return strings.HasPrefix(a, "-") && strings.ContainsAny(a[1:], short)
			}
			// GNU programs accept abbreviated long options.
			name, _, _ := strings.Cut(a[2:], "=")
			abbreviated := func(full string) bool { return strings.HasPrefix(full, name) }
			return len(name) >= 3 && slices.ContainsFunc(names, abbreviated)
		})
	}
}

// anyOf holds if an argument is one of the words.
func anyOf(words string) condition {
	list := strings.Fields(words)
	return func(args []string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return slices.Contains(list, a) })
	}
}

// noneOf holds if there are arguments, and none is one of the words.
func noneOf(words string) condition {
	return func(args []string) bool { return len(args) > 0 && !anyOf(words)(args) }
}

// anyPrefix holds if an argument begins with one of the words.
func anyPrefix(words string) condition {
	list := strings.Fields(words)
	return func(args []string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return hasPrefix(a, list...) })
	}
}

// first holds if one of the words, in any case, is the first argument that is neither
// an option nor the value of one.
func first(words string) condition {
	list := strings.Fields(words)
	return func(args []string) bool {
		for i, a := range args {
			if strings.HasPrefix(a, "-") {
				continue
			}
			if slices.Contains(list, strings.ToLower(a)) {
				return true
			}
			if i == 0 || !strings.HasPrefix(args[i-1], "-") || strings.Contains(args[i-1], "=") {
				return false // otherwise it may be the value of an option
			}
		}
		return false
	}
}

// sequence holds if one of the texts has words that follow each other, ignoring
// options.
func sequence(texts ...string) condition {
	return func(args []string) bool {
		plain := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "-") })
		return slices.ContainsFunc(texts, func(text string) bool {
			words := strings.Fields(text)
			for i := range len(plain) - len(words) + 1 {
				if slices.Equal(plain[i:i+len(words)], words) {
					return true
				}
			}
			return false
		})
	}
}

// sub holds if the first argument that is not an option is one of the names, and when
// holds for the arguments after it.
func sub(names string, when condition) condition {
	list := strings.Fields(names)
	return func(args []string) bool {
		i := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
		return i >= 0 && slices.Contains(list, args[i]) && when(args[i+1:])
	}
}

// last holds if the last argument is like.
func last(like func(arg string) bool) condition {
	return func(args []string) bool { return len(args) > 0 && like(args[len(args)-1]) }
}

// lower is when for the arguments in lower case.
func lower(when condition) condition {
	return func(args []string) bool {
		folded := make([]string, len(args))
		for i, a := range args {
			folded[i] = strings.ToLower(a)
		}
		return when(folded)
	}
}

func all(conditions ...condition) condition {
	return func(args []string) bool {
		return !slices.ContainsFunc(conditions, func(c condition) bool { return !c(args) })
	}
}

func not(when condition) condition {
	return func(args []string) bool { return !when(args) }
}
