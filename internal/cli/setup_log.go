package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"toolgate/internal/app"
	"toolgate/internal/atomicfile"
	"toolgate/internal/clients"
	"toolgate/internal/config"
	"toolgate/internal/fileowner"
)

// A setupChange records a change of one client's file in enough detail to revert it after the
// client has changed the file, too.
type setupChange struct {
	Client  string `json:"client"`
	File    string `json:"file"`
	Name    string `json:"name"`             // of our entry
	Existed bool   `json:"existed"`          // the file was there before
	Backup  string `json:"backup,omitempty"` // the file as it was
	// After is the digest of the file after the change, "" if the backup is older.
	After string                    `json:"after"`
	Old   map[string]any            `json:"old,omitempty"`   // our entry as it was
	Moved map[string]map[string]any `json:"moved,omitempty"` // entries taken out, by name
	Added map[string]string         `json:"added,omitempty"` // what they became in our config, by name
}

// A setupLog is the list of changes that have not been reverted. It is in the state folder, which workers cannot read.
type setupLog struct {
	file    string
	Changes []setupChange `json:"changes"`
}

func (l *setupLog) open() error {
	_, state, _, err := app.Folders()
	if err != nil {
		return err
	}
	l.file = filepath.Join(state, "setup.json")
	text, err := fileowner.ReadFile(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		err = dec.Decode(l)
	}
	if err != nil {
		return fmt.Errorf("reading what setup wrote before: %w", err)
	}
	return nil
}

// has reports whether a file of the client was changed.
func (l *setupLog) has(c clients.Client) bool {
	return slices.ContainsFunc(l.Changes, func(o setupChange) bool { return o.Client == c.Name })
}

// index returns the index of the change that wrote the entry called name in the file, or -1.
func (l *setupLog) index(file, name string) int {
	return slices.IndexFunc(l.Changes, func(o setupChange) bool { return o.File == file && o.Name == name })
}

// write replaces the client's file and records the change. It returns the path of the backup, "" if there was no file.
func (l *setupLog) write(c setupChange, before, after []byte) (backup string, err error) {
	c.After = textDigest(after)
	if i := l.index(c.File, c.Name); i >= 0 {
		// Keep the state before the first change.
		first := l.Changes[i]
		c.Old = first.Old
		maps.Copy(c.Moved, first.Moved)
		if c.Added == nil {
			c.Added = map[string]string{}
		}
		maps.Copy(c.Added, first.Added)
		if first.After == textDigest(before) {
			c.Existed, c.Backup = first.Existed, first.Backup
		} else {
			c.Existed, c.After = true, "" // there are no old bytes to go back to
		}
		l.Changes = slices.Delete(l.Changes, i, i+1)
	}
	if c.Existed && c.Backup == "" {
		// The backup holds the same secrets as the file, so it must be in the state folder, which
		// is hidden from workers.
		c.Backup = filepath.Join(filepath.Dir(l.file), "setup", c.Client+"-"+filepath.Base(c.File))
		if c.After == "" {
			c.Backup += ".later"
		}
		if slices.ContainsFunc(l.Changes, func(o setupChange) bool { return o.Backup == c.Backup }) {
			c.Backup += "." + url.PathEscape(c.Name) // of another entry in that file
		}
		if err := replaceFile(c.Backup, before, 0o600); err != nil {
			return "", fmt.Errorf("keeping the old file: %w", err)
		}
	}
	l.Changes = append(l.Changes, c)
	if err := l.save(); err != nil {
		return "", err
	}
	if now, _, err := readIfThere(c.File); err != nil || !bytes.Equal(now, before) {
		return "", fmt.Errorf("%s was changed by another program just now; run setup again", c.File)
	}
	return c.Backup, replaceFile(c.File, after, modeOf(c.File))
}

func (l *setupLog) save() error {
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(l.file, append(text, '\n'), 0o600)
}

func textDigest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// modeOf returns the permissions of the file, 0600 if it does not exist.
func modeOf(file string) fs.FileMode {
	if info, err := os.Stat(file); err == nil {
		return info.Mode().Perm()
	}
	return 0o600
}

// replaceFile replaces a file in one step. A symlink stays a symlink.
func replaceFile(file string, text []byte, mode fs.FileMode) error {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	return atomicfile.Write(file, text, mode)
}

// undoClient reverts what setup wrote into the client's files.
func (s *setup) undoClient(c clients.Client) error {
	found := false
	for _, change := range slices.Backward(slices.Clone(s.log.Changes)) { // the last first: it knows the file as it is
		if change.Client != c.Name {
			continue
		}
		found = true
		if err := s.undoChange(c, change); err != nil {
			return err
		}
	}
	if !found {
		fmt.Fprintf(s.stdout, "%s: setup wrote nothing there\n", c.Title)
	}
	return nil
}

func (s *setup) undoChange(c clients.Client, change setupChange) error {
	i := slices.IndexFunc(c.Files, func(f clients.File) bool { return f.Path == change.File })
	w := clients.File{Path: change.File, Form: c.Files[max(i, 0)].Form}
	now, existed, err := readIfThere(change.File)
	if err != nil {
		return err
	}
	after, err := restored(w, change, now)
	if err != nil {
		return &config.Error{File: change.File, Msg: err.Error()}
	}
	gone := !change.Existed && textDigest(now) == change.After // the file was ours alone
	if existed && !bytes.Equal(now, after) || gone {
		tables, _ := w.Tables(now)
		s.show(c, change.File, now, after, tables)
	}
	if !s.confirm("Write it?", s.yes) {
		return nil
	}
	switch {
	case !existed:
	case gone:
		err = os.Remove(change.File)
	default:
		err = replaceFile(change.File, after, modeOf(change.File))
	}
	if err != nil {
		return err
	}
	if err := s.takeBack(change.Added); err != nil {
		return err
	}
	i = s.log.index(change.File, change.Name)
	s.log.Changes = slices.Delete(s.log.Changes, i, i+1)
	if err := s.log.save(); err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "%s: taken back from %s\n", c.Title, change.File)
	return nil
}

// restored returns the client's file without the change: the old bytes if the file was not changed
// since, else with the entries restored.
func restored(w clients.File, change setupChange, now []byte) ([]byte, error) {
	if textDigest(now) == change.After {
		if !change.Existed {
			return nil, nil
		}
		if text, err := os.ReadFile(change.Backup); err == nil {
			return text, nil
		}
	}
	tables, err := w.Tables(now)
	if err != nil {
		return nil, err
	}
	after, err := w.Remove(now, change.Name)
	if err == nil && change.Old != nil {
		after, err = w.Put(now, change.Name, plainTable(change.Old))
	}
	for _, key := range slices.Sorted(maps.Keys(change.Moved)) {
		if _, there := tables[key]; there || err != nil {
			continue
		}
		after, err = w.Put(after, key, plainTable(change.Moved[key]))
	}
	return after, err
}

// plainTable returns the table with numbers as Go types that every format can encode.
func plainTable(t map[string]any) map[string]any {
	var plain func(v any) any
	plain = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			if n, err := v.Int64(); err == nil {
				return n
			}
			f, _ := v.Float64()
			return f
		case map[string]any:
			return plainTable(v)
		case []any:
			out := make([]any, len(v))
			for i := range v {
				out[i] = plain(v[i])
			}
			return out
		}
		return v
	}
	out := map[string]any{}
	for key, v := range t {
		out[key] = plain(v)
	}
	return out
}

// takeBack removes servers from the config again unless they were changed there.
func (s *setup) takeBack(added map[string]string) error {
	file, text, err := configFile()
	if err != nil || len(added) == 0 {
		return err
	}
	have, err := loadConfig()
	if err != nil {
		return err
	}
	after := text
	for _, name := range slices.Sorted(maps.Keys(added)) {
		server, ok := have.MCPServers[name]
		if !ok {
			continue
		}
		if table, err := config.ServerTable(name, server); err != nil || table != added[name] {
			fmt.Fprintf(s.stderr, "toolgate: %s was changed in %s and stays there, too\n", name, file)
			continue
		}
		if after, err = config.RemoveServer(after, name); err != nil {
			return err
		}
	}
	if bytes.Equal(text, after) {
		return nil
	}
	return config.Write(file, after)
}
