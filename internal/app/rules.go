package app

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"toolgate/internal/config"
	"toolgate/internal/fileowner"
	"toolgate/policy/rules"
)

// A RuleStore holds the rule files in force. It reads them again when they change, so an answer of
// "always" and a revoked rule apply to the next call.
type RuleStore struct {
	dir   string
	own   string // folder of a caller's own rules, "" when they are the user's
	keeps string // file that the answer "always" appends to
	log   *slog.Logger

	check func(name string) error // why a file must not be read

	mu     sync.Mutex
	folder folderStamp
	others folderStamp // of own
	stamp  string      // of the files that were read
	rules  *rules.Rules
	digest string // of their text
}

// openRules reads the rule files in dir and, if own is not "", those in own, which receives the
// rules that a caller adds. A malformed file is an error, because a restricting rule must not
// silently have no effect. So is a file for which check returns an error.
func openRules(dir, own string, check func(name string) error, log *slog.Logger) (*RuleStore, error) {
	b := &RuleStore{dir: dir, own: own, check: check, log: log}
	b.keeps = filepath.Join(cmp.Or(own, dir), KeptRules)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b, b.read()
}

// Rules returns the rules in force. If a file cannot be read or parsed, the previous rules stay in
// force and the error is logged.
func (b *RuleStore) Rules() *rules.Rules {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.read(); err != nil {
		b.log.Error("the rules have a fault; those read before stay in force", "err", err)
	}
	return b.rules
}

// Digest returns a digest of the rules in force.
func (b *RuleStore) Digest() string {
	b.Rules()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.digest
}

func (b *RuleStore) read() error {
	names, stamp, err := b.folder.ruleFiles(b.dir)
	if b.own != "" && err == nil {
		var more []string
		var second string
		more, second, err = b.others.ruleFiles(b.own)
		names, stamp = slices.Concat(names, more), stamp+"\x00"+second
	}
	if err != nil || stamp == b.stamp {
		return err
	}
	b.stamp = stamp // a fault is reported once for each change
	all, digest, err := ReadRules(names, b.check)
	if err == nil {
		b.rules, b.digest = all, digest
	}
	return err
}

// ReadRules reads and parses rule files and returns a digest of their text. Check, which may be
// nil, says why a file must not be read.
func ReadRules(files []string, check func(name string) error) (all *rules.Rules, digest string, err error) {
	home, _ := os.UserHomeDir() // without one, ~/ in a rule stands for nothing
	all = &rules.Rules{Home: home}
	h := sha256.New()
	for _, name := range files {
		if check != nil {
			if err := check(name); err != nil {
				return nil, "", err
			}
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, "", fmt.Errorf("reading the rules: %w", err)
		}
		more, err := rules.Parse(name, text)
		if err != nil {
			return nil, "", err
		}
		all.Add(more)
		h.Write(text)
	}
	return all, hex.EncodeToString(h.Sum(nil)), nil
}

// A folderStamp caches which rule files a folder holds, so that a call need not list it. The zero value holds nothing.
type folderStamp struct {
	changed time.Time // the folder, when it was listed; zero: that may be unreliable
	names   []string
}

// unreliable is how long two changes of a folder may show the same modification time.
const unreliable = 100 * time.Millisecond

// ruleFiles returns the rule files in dir, sorted, and a stamp that changes when they do.
func (f *folderStamp) ruleFiles(dir string) (names []string, stamp string, err error) {
	now := time.Now()
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "none", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the rules: %w", err)
	}
	if f.changed.IsZero() || !info.ModTime().Equal(f.changed) {
		*f = folderStamp{}
		list, err := os.ReadDir(dir)
		if err != nil {
			return nil, "", fmt.Errorf("reading the rules: %w", err)
		}
		for _, e := range list {
			if strings.HasSuffix(e.Name(), ".rules") {
				f.names = append(f.names, filepath.Join(dir, e.Name()))
			}
		}
		// Some file systems of Windows keep no such time.
		if now.Sub(info.ModTime()) > unreliable && runtime.GOOS != "windows" {
			f.changed = info.ModTime()
		}
	}
	var b strings.Builder
	for _, name := range f.names {
		info, err := os.Stat(name)
		if err != nil {
			f.changed = time.Time{}
			return nil, "", fmt.Errorf("reading the rules: %w", err)
		}
		fmt.Fprintf(&b, "%s %d %d\n", filepath.Base(name), info.Size(), info.ModTime().UnixNano())
	}
	return f.names, b.String(), nil
}

// KeptRules is the name of the file that the answer "always" appends to.
const KeptRules = "default.rules"

// Keep appends a rule to [KeptRules] unless it is already there.
func (b *RuleStore) Keep(line string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := rules.Parse(KeptRules, []byte(line)); err != nil {
		return err
	}
	text, err := fileowner.ReadFile(b.keeps)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if slices.Contains(strings.Split(string(text), "\n"), line) {
		return nil
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		line = "\n" + line
	}
	if err := os.MkdirAll(filepath.Dir(b.keeps), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(b.keeps, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// Remove removes line n, counted from 1, from [KeptRules] and returns it. It fails if the line is
// not text, unless text is "", or if the rest is not a valid rule file.
func (b *RuleStore) Remove(n int, text string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, err := fileowner.ReadFile(b.keeps)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	lines := strings.SplitAfter(string(old), "\n")
	if n < 1 || n > len(lines) || strings.TrimSpace(lines[n-1]) == "" {
		return "", fmt.Errorf("line %d holds no rule; see `toolgate approvals rules`", n)
	}
	gone := strings.TrimSpace(lines[n-1])
	if text != "" && gone != strings.TrimSpace(text) {
		return "", fmt.Errorf("line %d now holds another rule; see `toolgate approvals rules`", n)
	}
	lines[n-1] = ""
	left := strings.Join(lines, "")
	if _, err := rules.Parse(b.keeps, []byte(left)); err != nil {
		return "", fmt.Errorf("line %d is part of a longer rule; edit %s by hand: %w", n, b.keeps, err)
	}
	return gone, config.Rewrite(b.keeps, []byte(left))
}

// RuleFiles returns the rule files in dir, sorted.
func RuleFiles(dir string) ([]string, error) {
	names, _, err := new(folderStamp).ruleFiles(dir)
	return names, err
}
