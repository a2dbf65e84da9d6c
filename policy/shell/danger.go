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
	for _, w := range c.Writes {
		if isDisk(w) {
			return "writes over a disk"
		}
	}
	if len(c.Argv) == 0 {
		return ""
	}
	name := ProgramName(c.Argv[0])
	args := c.Argv[1:]
	if why := wholeProgram(name); why != "" && !asksForHelp(args) {
		return why
	}
	check := dangers()[name]
	if check == nil || asksForHelp(args) {
		return ""
	}
	return check(args)
}

func asksForHelp(args []string) bool {
	return len(args) == 1 && (args[0] == "--help" || args[0] == "--version")
}

// wholeProgram returns why a program is destructive with any arguments, or "".
func wholeProgram(name string) string {
	switch name {
	case "shred", "wipe", "srm", "scrub", "blkdiscard":
		return "destroys the content of files or disks"
	case "wipefs", "mkswap", "cfdisk", "cryptsetup-reencrypt", "newfs", "newfs_apfs", "newfs_hfs":
		return "formats a disk"
	case "shutdown", "reboot", "halt", "poweroff", "telinit":
		return "stops the machine"
	case "truncate":
		return "cuts files short"
	case "userdel", "groupdel", "deluser", "delgroup":
		return "removes an account"
	case "dropdb", "dropuser":
		return "drops a database or its user"
	case "killall5":
		return "ends every process that it may"
	case "pvremove", "vgremove", "lvremove":
		return "removes a volume"
	}
	if strings.HasPrefix(name, "mkfs") {
		return "formats a disk"
	}
	return ""
}

// A dangerCheck returns why a program with these arguments is destructive, or "".
type dangerCheck func(args []string) string

// dangers are the programs that are destructive with some arguments.
var dangers = sync.OnceValue(func() map[string]dangerCheck {
	return map[string]dangerCheck{
		"rm":      rmDanger,
		"grm":     rmDanger,
		"find":    anyOf("deletes all that it finds", "-delete"),
		"gfind":   anyOf("deletes all that it finds", "-delete"),
		"git":     gitDanger,
		"dd":      ddDanger,
		"gdd":     ddDanger,
		"chmod":   recursive("changes the permissions of a whole tree"),
		"chown":   recursive("changes the owner of a whole tree"),
		"chgrp":   recursive("changes the group of a whole tree"),
		"chattr":  recursive("changes the attributes of a whole tree"),
		"setfacl": recursive("changes the permissions of a whole tree"),
		"kill":    killDanger,
		"pkill":   pkillDanger,
		"tee":     diskAmong,
		"cp":      diskTarget,
		"mv":      mvDanger,
		"rsync":   anyPrefix("deletes what the source does not have", "--delete", "--del", "--remove-source-files"),
		"fdisk":   unlessListing("changes the partitions of a disk", "-l", "--list"),
		"sfdisk":  unlessListing("changes the partitions of a disk", "-l", "--list", "-d", "--dump", "-J", "--json"),
		"sgdisk":  unlessListing("changes the partitions of a disk", "-p", "--print", "-v"),
		"gdisk":   unlessListing("changes the partitions of a disk", "-l"),
		"parted":  unlessListing("changes the partitions of a disk", "-l", "--list", "print"),
		"diskutil": first("erases or changes a disk", "erasedisk", "erasevolume", "partitiondisk", "zerodisk",
			"randomdisk", "secureerase", "apfs", "reformat"),
		"hdparm": anyPrefix("erases a disk", "--security-erase", "--trim-sector"),
		"cryptsetup": first("destroys an encrypted volume", "luksformat", "erase", "lukserase", "luksremovekey",
			"lukskillslot"),
		"zfs":   first("destroys a file system", "destroy", "rollback"),
		"zpool": first("destroys a pool", "destroy", "labelclear"),
		"btrfs": sequence("deletes a subvolume", "subvolume", "delete"),
		"init":  first("stops the machine", "0", "6"),
		"systemctl": first("stops the machine", "poweroff", "reboot", "halt", "kexec", "isolate", "rescue",
			"emergency"),
		"crontab":     anyOf("removes every timed job", "-r", "-ri", "-ir"),
		"iptables":    anyOf("removes firewall rules", "-F", "--flush", "-X"),
		"ip6tables":   anyOf("removes firewall rules", "-F", "--flush", "-X"),
		"nft":         first("removes firewall rules", "flush", "delete"),
		"docker":      containerDanger,
		"podman":      containerDanger,
		"nerdctl":     containerDanger,
		"kubectl":     first("deletes what runs in a cluster", "delete", "drain"),
		"oc":          first("deletes what runs in a cluster", "delete"),
		"helm":        first("removes a release", "uninstall", "delete"),
		"terraform":   terraformDanger,
		"tofu":        terraformDanger,
		"terragrunt":  terraformDanger,
		"pulumi":      first("destroys a stack", "destroy"),
		"aws":         awsDanger,
		"gcloud":      anyOf("deletes cloud resources", "delete"),
		"gsutil":      anyOf("deletes cloud files", "rm", "rb"),
		"az":          anyOf("deletes cloud resources", "delete", "purge"),
		"gh":          ghDanger,
		"redis-cli":   anyFold("empties a database", "flushall", "flushdb"),
		"npm":         first("removes a published package", "unpublish"),
		"cargo":       first("withdraws a published package", "yank"),
		"gem":         first("withdraws a published package", "yank"),
		"hg":          hgDanger,
		"svn":         first("throws changes away", "revert"),
		"format":      func([]string) string { return "formats a disk" },
		"del":         anyFold("deletes without asking", "/f", "/s", "/q"),
		"erase":       anyFold("deletes without asking", "/f", "/s", "/q"),
		"rd":          anyFold("deletes a whole tree", "/s"),
		"Remove-Item": anyFold("deletes without asking", "-recurse", "-force", "-r", "-fo"),
	}
})

func rmDanger(args []string) string {
	switch {
	case hasFlag(args, 'f', "force"):
		return "deletes without asking"
	case hasFlag(args, 'r', "recursive"), hasFlag(args, 'R', ""):
		return "deletes a whole tree"
	}
	return ""
}

func ddDanger(args []string) string {
	for _, a := range args {
		if target, ok := strings.CutPrefix(a, "of="); ok && target != "/dev/null" && target != "/dev/stdout" {
			return "writes over a file or disk"
		}
	}
	return ""
}

func killDanger(args []string) string {
	if len(args) == 0 || args[0] == "-l" || args[0] == "-L" {
		return ""
	}
	for i, a := range args {
		signal := i == 0 && strings.HasPrefix(a, "-") && len(args) > 1
		if a == "-1" && !signal ||
			a == "0" && i > 0 && args[i-1] != "-s" && args[i-1] != "-n" && !(i == 1 && args[0] == "-0") {
			return "ends every process that it may"
		}
	}
	return ""
}

func pkillDanger(args []string) string {
	if hasFlag(args, 'u', "euid") || hasFlag(args, 'U', "uid") || hasFlag(args, 'v', "inverse") {
		return "ends every process of a user"
	}
	for _, a := range args {
		if a == "." || a == ".*" {
			return "ends every process that it may"
		}
	}
	return ""
}

func mvDanger(args []string) string {
	if n := len(args); n > 0 && args[n-1] == "/dev/null" {
		return "moves files to nowhere"
	}
	return diskTarget(args)
}

func diskTarget(args []string) string {
	if n := len(args); n > 0 {
		return diskAmong(args[n-1:])
	}
	return ""
}

func diskAmong(args []string) string {
	if slices.ContainsFunc(args, isDisk) {
		return "writes over a disk"
	}
	return ""
}

// isDisk reports whether a path is a disk or memory device.
func isDisk(path string) bool {
	dev, ok := strings.CutPrefix(path, "/dev/")
	if !ok {
		return false
	}
	for _, kind := range []string{"sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "mapper/", "dm-",
		"md", "loop", "mem", "kmem", "port"} {
		if strings.HasPrefix(dev, kind) {
			return true
		}
	}
	return false
}

func containerDanger(args []string) string {
	for _, pair := range [][]string{
		{"system", "prune"}, {"volume", "rm"}, {"volume", "prune"}, {"image", "prune"}, {"container", "prune"},
		{"builder", "prune"}, {"network", "prune"},
	} {
		if why := sequence("removes containers, images or volumes", pair...)(args); why != "" {
			return why
		}
	}
	sub, rest := subcommandOf(args)
	switch sub {
	case "rm", "rmi":
		if hasFlag(rest, 'f', "force") || hasFlag(rest, 'v', "volumes") {
			return "removes containers or images without asking"
		}
	case "compose":
		if slices.Contains(rest, "down") && hasFlag(rest, 'v', "volumes") {
			return "removes the volumes of a project"
		}
	}
	return ""
}

func terraformDanger(args []string) string {
	sub, rest := subcommandOf(args)
	switch {
	case sub == "destroy", sub == "apply" && slices.Contains(rest, "-destroy"):
		return "destroys what terraform built"
	case sub == "apply" && slices.Contains(rest, "-auto-approve"):
		return "changes infrastructure without asking"
	case sub == "state" && slices.Contains(rest, "rm"):
		return "forgets what terraform built"
	}
	return ""
}

func awsDanger(args []string) string {
	for _, sub := range []string{"rb", "rm"} {
		if why := sequence("deletes cloud files", "s3", sub)(args); why != "" {
			return why
		}
	}
	if slices.Contains(args, "s3") && slices.Contains(args, "sync") && slices.Contains(args, "--delete") {
		return "deletes cloud files"
	}
	for _, a := range args {
		if strings.HasPrefix(a, "delete-") || strings.HasPrefix(a, "terminate-") {
			return "deletes cloud resources"
		}
	}
	return ""
}

func ghDanger(args []string) string {
	for _, what := range []string{"repo", "release", "secret", "gist", "run", "cache", "label", "variable", "issue"} {
		if why := sequence("deletes things on GitHub", what, "delete")(args); why != "" {
			return why
		}
	}
	return ""
}

func hgDanger(args []string) string {
	sub, rest := subcommandOf(args)
	switch sub {
	case "strip", "purge":
		return "throws changes away"
	case "update", "up", "checkout", "co":
		if hasFlag(rest, 'C', "clean") {
			return "throws changes away"
		}
	case "revert":
		return "throws changes away"
	case "push":
		if hasFlag(rest, 'f', "force") {
			return "overwrites the history of a remote"
		}
	}
	return ""
}

// hasFlag reports whether args contain a short flag, alone or in a cluster, or a long
// one, before any --.
func hasFlag(args []string, short byte, long string) bool {
	for _, a := range args {
		switch {
		case a == "--":
			return false
		case strings.HasPrefix(a, "--"):
			// GNU programs accept abbreviated long options.
			name, _, _ := strings.Cut(a[2:], "=")
			if long != "" && len(name) >= 3 && strings.HasPrefix(long, name) {
				return true
			}
		case len(a) > 1 && a[0] == '-':
			if strings.IndexByte(a[1:], short) >= 0 {
				return true
			}
		}
	}
	return false
}

// subcommandOf returns the first argument that is not an option, and those after it.
func subcommandOf(args []string) (string, []string) {
	for i, a := range args {
		if !strings.HasPrefix(a, "-") {
			return a, args[i+1:]
		}
	}
	return "", nil
}

// anyOf returns a check for an argument that is one of options.
func anyOf(why string, options ...string) dangerCheck {
	return when(why, func(args []string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return slices.Contains(options, a) })
	})
}

// anyFold is anyOf for options in any case; options are in lower case.
func anyFold(why string, options ...string) dangerCheck {
	return when(why, func(args []string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return slices.Contains(options, strings.ToLower(a)) })
	})
}

// anyPrefix returns a check for an argument that begins with one of options.
func anyPrefix(why string, options ...string) dangerCheck {
	return when(why, func(args []string) bool {
		return slices.ContainsFunc(args, func(a string) bool {
			return slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(a, o) })
		})
	})
}

// first returns a check for the first argument that is neither an option nor
// the value of one.
func first(why string, wanted ...string) dangerCheck {
	return func(args []string) string {
		for i, a := range args {
			if strings.HasPrefix(a, "-") {
				continue
			}
			if slices.Contains(wanted, strings.ToLower(a)) {
				return why
			}
			if i == 0 || !strings.HasPrefix(args[i-1], "-") || strings.Contains(args[i-1], "=") {
				break // otherwise it may be the value of an option
			}
		}
		return ""
	}
}

// sequence returns a check for words that follow each other, ignoring options.
func sequence(why string, wanted ...string) dangerCheck {
	return when(why, func(args []string) bool {
		var plain []string
		for _, a := range args {
			if !strings.HasPrefix(a, "-") {
				plain = append(plain, a)
			}
		}
		for i := 0; i+len(wanted) <= len(plain); i++ {
			if slices.Equal(plain[i:i+len(wanted)], wanted) {
				return true
			}
		}
		return false
	})
}

// recursive returns a check for the option -R.
func recursive(why string) dangerCheck {
	return when(why, func(args []string) bool { return hasFlag(args, 'R', "recursive") })
}

// when returns a check that returns why if the condition holds for the arguments.
func when(why string, like func(args []string) bool) dangerCheck {
	return func(args []string) string {
		if like(args) {
			return why
		}
		return ""
	}
}

// unlessListing returns a check for programs that only list with some options.
func unlessListing(why string, listing ...string) dangerCheck {
	return func(args []string) string {
		if len(args) == 0 || anyOf(why, listing...)(args) != "" {
			return ""
		}
		return why
	}
}
