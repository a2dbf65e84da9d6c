package hooks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"toolgate/internal/config"
	"toolgate/internal/lazyregexp"
	"toolgate/internal/programs"
	"toolgate/policy/shell"
)

// Check returns what is wrong with each hook that would not run.
func (s *Set) Check() []error {
	var faults []error
	for _, e := range []config.HookEvent{config.PreToolUse, config.PermissionRequest, config.PostToolUse} {
		for _, g := range s.config.For(e) {
			for _, h := range g.Hooks {
				if err := s.check(h); err != nil {
					faults = append(faults, fmt.Errorf("the %s hook `%s` does not run: %w", e, h.Command, err))
				}
			}
		}
	}
	return faults
}

// scriptRunners are programs whose arguments name files that they run.
var scriptRunners = lazyregexp.New(
	`^((python|pypy)[0-9.]*|node|deno|bun|tsx|ts-node|ruby|perl|php|lua|sh|bash|dash|ksh|zsh|fish|source|\.)$`)

// check returns an error if the hook's command names a program, or a script
// for one, that commands in the sandbox can write. What a word stands for is
// judged by the text: one that is only known when the hook runs is not judged.
func (s *Set) check(h config.Hook) error {
	if s.opts.Check != nil {
		if err := s.opts.Check(); err != nil {
			return err
		}
	}
	if runtime.GOOS == "windows" { // cmd.exe is not read
		return nil
	}
	env := os.Environ()
	for _, c := range shell.Find([]string{"sh", "-c", h.Command}).Commands {
		if c.Elsewhere || len(c.Argv) == 0 {
			continue
		}
		program, files := c.Argv[0], c.Argv[:1:1]
		if !strings.Contains(program, "/") {
			_, err := s.opts.Programs.Find(program, env)
			if fault, ok := errors.AsType[*programs.WritableError](err); ok {
				return fault
			}
			files = nil
		}
		if scriptRunners.MatchString(filepath.Base(program)) {
			files = append(files, c.Argv[1:]...)
		}
		for _, word := range files {
			if err := s.checkFile(word); err != nil && !s.opts.AnyPath {
				return err
			}
		}
	}
	return nil
}

// checkFile returns an error if the word names a file that commands can
// write.
func (s *Set) checkFile(word string) error {
	file := atHome(word)
	if !filepath.IsAbs(file) {
		file = filepath.Join(s.opts.Dir, file)
	}
	info, err := os.Stat(file)
	if err == nil && info.Mode().IsRegular() && s.opts.Programs.CanWrite(file) {
		return fmt.Errorf("%s lies in a folder that commands can write", word)
	}
	return nil
}

// atHome returns word with the home folder for a leading ~ or $HOME, as in a
// shell.
func atHome(word string) string {
	for _, prefix := range []string{"~/", "$HOME/", "${HOME}/"} {
		if rest, ok := strings.CutPrefix(word, prefix); ok {
			if home, err := os.UserHomeDir(); err == nil {
				return filepath.Join(home, rest)
			}
		}
	}
	return word
}
