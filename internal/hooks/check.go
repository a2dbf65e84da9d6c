package hooks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"toolgate/internal/config"
	"toolgate/internal/fileowner"
	"toolgate/internal/lazyregexp"
	"toolgate/internal/programs"
	"toolgate/policy/shell"
)

// Check returns an error for each hook that would not run.
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

// RunsScripts reports whether arguments of the program name files that it runs.
func RunsScripts(program string) bool { return scriptRunners.MatchString(filepath.Base(program)) }

// scriptRunners matches programs that run the files named in their arguments.
var scriptRunners = lazyregexp.New(
	`^((python|pypy)[0-9.]*|node|deno|bun|tsx|ts-node|ruby|perl|php|lua|sh|bash|dash|ksh|zsh|fish|source|\.)$`)

// check returns an error if the hook runs a program or script that sandboxed commands
// can write to. It is static: words that are expanded at run time are not checked.
func (s *Set) check(h config.Hook) error {
	if s.opts.Check != nil {
		if err := s.opts.Check(); err != nil {
			return err
		}
	}
	if runtime.GOOS == "windows" { // the syntax of cmd.exe is not parsed
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
		if RunsScripts(program) {
			files = append(files, c.Argv[1:]...)
		}
		for _, word := range files {
			if err := s.checkFile(word); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFile returns an error if the word names a file that commands or other users can write to.
func (s *Set) checkFile(word string) error {
	file := expandHome(word)
	if !filepath.IsAbs(file) {
		file = filepath.Join(s.opts.Dir, file)
	}
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	if s.opts.Programs.CanWrite(file) && !s.opts.AnyPath {
		return fmt.Errorf("%s lies in a folder that commands can write", word)
	}
	return fileowner.Check(file)
}

// expandHome expands a leading ~, $HOME or ${HOME}, as a shell does.
func expandHome(word string) string {
	for _, prefix := range []string{"~/", "$HOME/", "${HOME}/"} {
		if rest, ok := strings.CutPrefix(word, prefix); ok {
			if home, err := os.UserHomeDir(); err == nil {
				return filepath.Join(home, rest)
			}
		}
	}
	return word
}
