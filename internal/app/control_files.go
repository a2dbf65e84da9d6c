package app

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"toolgate/internal/config"
	"toolgate/internal/fileowner"
	"toolgate/internal/hooks"
	"toolgate/policy"
	"toolgate/policy/shell"
	"toolgate/sandbox"
)

// controlFiles are the files that control the gate: config, rules, state, TLS keys, and the programs
// of hooks. Each may be reached through symlinks. Commands must not be able to change the file or a
// symlink on the way to it.
type controlFiles struct {
	names []string // of the folders, as they are configured

	mu     sync.Mutex
	links  map[string]string      // symlinks on the way, and what they say
	ends   map[string]controlFile // where the ways end; what lies in one is not listed
	backup string                 // where older versions kept the old config, "" when that is in one of ends
	hooks  []string               // files that hooks name
	roots  map[string]bool        // folders that sandboxes were allowed to write
}

// A controlFile is a file, or a folder with everything in it.
type controlFile struct {
	info os.FileInfo // nil when it does not exist
	hold *os.File    // while it is open, no other file gets its number
	hook bool
}

// findControlFiles returns the control files in the two folders.
func findControlFiles(configDir, stateDir string) (*controlFiles, error) {
	c := &controlFiles{names: []string{configDir, stateDir}}
	c.links, c.ends, c.roots = map[string]string{}, map[string]controlFile{}, map[string]bool{}
	file := filepath.Join(configDir, "config.toml")
	for _, name := range []string{configDir, stateDir, file, file + ".bak"} {
		if err := c.add(name, false); err != nil {
			return nil, err
		}
	}
	if _, end, _ := followLinks(file); c.holder(end) == end {
		c.backup = end + ".bak"
	}
	const depth = 3 // as rules/callers/ID/default.rules
	return c, errors.Join(c.addTree(filepath.Join(configDir, "rules"), depth), c.addTree(stateDir, depth))
}

// followLinks returns the symlinks on the way to name, an absolute path, with their targets, and
// the resolved path, which need not exist.
func followLinks(name string) (links map[string]string, end string, err error) {
	const most = 40 // as in Linux
	split := func(path string) (root string, parts []string) {
		root = filepath.VolumeName(path) + string(filepath.Separator)
		return root, strings.Split(strings.TrimPrefix(path, root), string(filepath.Separator))
	}
	links = map[string]string{}
	end, rest := split(name)
	for hops := 0; len(rest) > 0; {
		next := filepath.Join(end, rest[0]) // also for ".."
		rest = rest[1:]
		target, err := os.Readlink(next)
		if err != nil {
			end = next
			continue
		}
		if hops++; hops > most {
			return nil, "", fmt.Errorf("%s: too many symlinks", name)
		}
		links[next] = target
		more := strings.Split(target, string(filepath.Separator))
		if filepath.IsAbs(target) {
			end, more = split(target)
		}
		rest = append(more, rest...)
	}
	return links, end, nil
}

// add adds the file that name resolves to and the symlinks on the way.
func (c *controlFiles) add(name string, hook bool) error {
	links, end, err := followLinks(name)
	if err != nil {
		return err
	}
	maps.Copy(c.links, links)
	if c.holder(end) != "" {
		return nil
	}
	f := controlFile{hook: hook}
	if info, err := os.Stat(end); err == nil {
		f.info = info
		if (info.Mode().IsRegular() || info.IsDir()) && runtime.GOOS != "windows" { // where it could not be removed
			f.hold, _ = os.Open(end)
		}
	}
	c.ends[end] = f
	return nil
}

// addTree adds dir and every symlink in it.
func (c *controlFiles) addTree(dir string, depth int) error {
	if err := c.add(dir, false); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // it is no folder, or there is none
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch {
		case depth > 0 && (e.IsDir() || e.Type()&fs.ModeSymlink != 0):
			err = c.addTree(name, depth-1)
		case e.Type()&fs.ModeSymlink != 0:
			err = c.add(name, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// holder returns the outermost control file that is path or contains it, "" if there is none.
func (c *controlFiles) holder(path string) (holder string) {
	for end := range c.ends {
		if policy.Below(path, end) && (holder == "" || len(end) < len(holder)) {
			holder = end
		}
	}
	return holder
}

// addFiles adds files that the command line names; "" is none. It fails if another user could change one.
func (c *controlFiles) addFiles(names ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		if name == "" {
			continue
		}
		abs, err := filepath.Abs(name)
		if err == nil {
			err = fileowner.Check(abs)
		}
		if err == nil {
			err = c.add(abs, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addHooks adds the files that the commands of hooks name, relative to dir. It fails if a running
// sandbox could have created one of them.
func (c *controlFiles) addHooks(h config.Hooks, dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range hookFiles(h, dir) {
		_, end, err := followLinks(name)
		if err != nil {
			return err
		}
		if c.holder(end) == "" && c.writable(end) {
			return fmt.Errorf("a hook runs %s, which running commands may write; restart toolgate", name)
		}
		if err := c.add(name, true); err != nil {
			return err
		}
		c.hooks = append(c.hooks, name)
	}
	slices.Sort(c.hooks)
	c.hooks = slices.Compact(c.hooks)
	return nil
}

// hookFiles returns the files that hooks name, and every program with a slash even if it does not exist.
func hookFiles(h config.Hooks, dir string) (files []string) {
	for _, e := range []config.HookEvent{config.PreToolUse, config.PostToolUse, config.PermissionRequest} {
		for _, g := range h.For(e) {
			for _, hook := range g.Hooks {
				files = append(files, namedFiles(hook.Command, dir)...)
				files = append(files, programFiles(hook.Command, dir)...)
			}
		}
	}
	return files
}

// namedFiles returns the files that any part of a shell command can name, relative to dir
// or to a folder that the command names, too. It does not parse the command, so it finds
// more files than the command uses, but not those of computed names.
func namedFiles(command, dir string) (files []string) {
	home, _ := os.UserHomeDir()
	expanded := os.Expand(strings.NewReplacer(`"`, "", `'`, "").Replace(command), func(name string) string {
		switch name {
		case "PWD":
			return dir
		case "HOME":
			return home
		}
		return os.Getenv(name)
	})
	words := strings.FieldsFunc(expanded, func(r rune) bool { return strings.ContainsRune(" \t\r\n;&|<>(){}=`$", r) })
	// Elsewhere a pattern names data, such as src/*.go, which must stay writable.
	runs := slices.ContainsFunc(words, func(w string) bool { return w == "." || hooks.RunsScripts(w) })
	words = slices.DeleteFunc(words, func(w string) bool { return !runs && strings.ContainsAny(w, "*?[") })
	bases := []string{dir}
	for pass := range 2 { // first the folders
		for _, word := range words {
			if rest, ok := strings.CutPrefix(word, "~/"); ok {
				word = filepath.Join(home, rest)
			}
			for _, base := range slices.Clone(bases) {
				pattern := word
				if !filepath.IsAbs(word) {
					pattern = filepath.Join(base, word)
				}
				matches, _ := filepath.Glob(pattern) // a malformed pattern names nothing
				for _, name := range matches {
					switch info, err := os.Stat(name); {
					case err != nil:
					case pass == 0 && info.IsDir():
						bases = append(bases, name)
					case pass == 1 && info.Mode().IsRegular():
						files = append(files, name)
					}
				}
			}
		}
	}
	return files
}

// programFiles returns the programs of a shell command: those on PATH, and those named by
// a path even if they do not exist.
func programFiles(command, dir string) (files []string) {
	for _, c := range shell.Find([]string{"/bin/sh", "-c", command}).Commands {
		name := os.ExpandEnv(c.Argv[0])
		switch {
		case !strings.Contains(name, "/"):
			name, _ = exec.LookPath(name)
		case !filepath.IsAbs(name):
			name = filepath.Join(dir, name)
		}
		_, err := os.Stat(name)
		if name != "" && (err == nil || errors.Is(err, fs.ErrNotExist)) {
			files = append(files, filepath.Clean(name))
		}
	}
	return files
}

// paths returns the paths that workers and servers cannot read, and those that they can read but not change.
func (c *controlFiles) paths() (hidden, readOnly []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hidden, readOnly = slices.Clone(c.names), slices.Collect(maps.Keys(c.links))
	for end, f := range c.ends {
		if f.hook {
			readOnly = append(readOnly, end)
		} else {
			hidden = append(hidden, end)
		}
	}
	if c.backup != "" {
		hidden = append(hidden, c.backup)
	}
	return hidden, readOnly
}

// writable reports whether a running sandbox may write path.
func (c *controlFiles) writable(path string) bool {
	for root := range c.roots {
		if policy.Below(path, root) {
			return true
		}
	}
	return false
}

// admit records what a process held to plan may write. It returns an error if the control files
// cannot be protected from it: at level landlock one that is below a writable root, at any level
// one that does not exist.
func (c *controlFiles) admit(plan sandbox.Plan) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := slices.Sorted(maps.Keys(c.ends))
	for _, root := range plan.Profile.WritableRoots {
		for _, end := range own {
			if c.ends[end].info == nil && policy.Below(end, root) {
				return fmt.Errorf("%s controls toolgate, does not exist, and could be created by commands, "+
					"because it lies in %s; the user can make it, or remove the symlink or hook that leads there, "+
					"and restart toolgate", end, root)
			}
		}
		for _, path := range slices.Concat(own, slices.Sorted(maps.Keys(c.links))) {
			if plan.Level == sandbox.Landlock && policy.Below(path, root) {
				return fmt.Errorf("%w: %s is in %s, which commands may write, and this system cannot protect it; "+
					"move it, or set TOOLGATE_HOME to a folder elsewhere", sandbox.ErrUnsupported, path, root)
			}
		}
	}
	for _, root := range plan.Profile.WritableRoots {
		c.roots[root] = true
	}
	return nil
}

// check returns an error if another user could change name, or if it resolves elsewhere than at the
// start, where running commands may write, or was replaced in such a place.
func (c *controlFiles) check(name string) error {
	if err := fileowner.Check(name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unchanged(name, func(string) bool { return true })
}

// checkHooks checks the files that hooks name. They may be readable, so changes in places that no
// command can write are ignored.
func (c *controlFiles) checkHooks() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range c.hooks {
		if err := c.unchanged(name, c.writable); err != nil {
			return err
		}
	}
	return nil
}

func (c *controlFiles) unchanged(name string, counts func(path string) bool) error {
	links, end, err := followLinks(name)
	if err != nil {
		return err
	}
	for at, target := range links {
		if was, ok := c.links[at]; (!ok || was != target) && counts(at) {
			return fmt.Errorf("%s: the symlink %s has changed since toolgate started; restart toolgate", name, at)
		}
	}
	holder := c.holder(end)
	if holder == "" && counts(end) {
		return fmt.Errorf("%s leads to %s, which running commands are not kept from; restart toolgate", name, end)
	}
	if holder == "" || !c.writable(holder) {
		return nil
	}
	info, err := os.Stat(holder)
	if was := c.ends[holder].info; err != nil || was == nil || !os.SameFile(was, info) {
		return fmt.Errorf("%s was replaced in a folder that commands may write; check it, then restart toolgate",
			holder)
	}
	return nil
}
