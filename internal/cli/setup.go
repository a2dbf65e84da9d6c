package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"toolgate/internal/app"
	"toolgate/internal/clients"
	"toolgate/internal/config"
	"toolgate/internal/lazyregexp"
	"toolgate/internal/programs"
	"toolgate/policy"
)

// defaultName is the name of the entry without --name.
const defaultName = "toolgate"

func (p *program) setupCommand() *cobra.Command {
	s := &setup{program: p}
	cmd := &cobra.Command{
		Use:   "setup [flags] [CLIENT...]",
		Short: "Attach toolgate to the MCP clients that are installed",
		Long: `Setup writes an entry for toolgate into the config files of MCP clients: of
those named, or of all that are installed. CLIENT is claude-code,
claude-desktop, codex, copilot, cursor, gemini, goose, vscode, windsurf or zed.
Each change is shown first and then asked for; all else in the file keeps its
bytes, and the file as it was is kept in the state folder. Servers that a
client has already can be moved behind toolgate, where the same policy holds for them;
they are started once then, as with mcp add.
--undo takes all of it back.

The workspace and the flags given to setup are those that the client starts
toolgate with; without flags an entry keeps those it has. Most clients start it
in the project's folder; Claude Desktop and Windsurf do not, and need -C.`,
		Example: `  toolgate setup
  toolgate setup claude-desktop -C ~/src/app --move
  toolgate setup codex --dry-run
  toolgate setup --undo`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.in = bufio.NewReader(p.stdin)
			return s.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&s.yes, "yes", "y", false, "write without asking")
	f.BoolVar(&s.dryRun, "dry-run", false, "show the changes and write nothing")
	f.BoolVar(&s.undo, "undo", false, "take back what setup wrote")
	f.BoolVar(&s.move, "move", false, "move the servers that the client has behind toolgate, without asking")
	f.BoolVar(&s.probe, "start", true, "start the servers that were moved once; --start=false does not")
	f.StringVar(&s.name, "name", defaultName, "`NAME` of the entry")
	f.StringVar(&s.url, "http", "", "attach to the toolgate that serves at `URL` instead of starting one")
	return cmd
}

// A setup is one run of the command.
type setup struct {
	*program

	// Flags.
	name   string
	yes    bool
	dryRun bool
	undo   bool
	move   bool
	probe  bool
	url    string

	in    *bufio.Reader
	start clients.Start
	log   setupLog
	moved []string // servers, by their names in our config

	source string // program to copy to where start has it, "" when it is there
}

func (s *setup) run(cmd *cobra.Command, names []string) error {
	known, err := clients.Here()
	if err != nil {
		return err
	}
	if err := s.log.open(); err != nil {
		return err
	}
	there := installed
	if s.undo {
		there = s.log.has
	}
	chosen, err := choose(known, names, there)
	if err != nil {
		return err
	}
	if len(chosen) == 0 {
		if s.undo {
			fmt.Fprintln(s.stderr, "toolgate: there is nothing to take back")
			return nil
		}
		var titles []string
		for _, c := range known {
			titles = append(titles, c.Title)
		}
		msg := fmt.Sprintf("no supported client found (looked for: %s)", strings.Join(titles, ", "))
		return &config.Error{File: "setup", Msg: msg, Hint: "name one to write its config anyway, see --help"}
	}
	if !s.yes && !s.dryRun && !isTerminal(s.stdin) {
		const hint = "--yes writes without asking, --dry-run only shows the changes"
		return &config.Error{File: "setup", Msg: "cannot ask: stdin is not a terminal", Hint: hint}
	}
	if s.undo {
		return s.each(chosen, s.undoClient)
	}
	if s.start, err = s.entry(cmd); err != nil {
		return err
	}
	err = s.each(chosen, s.attach)
	if len(s.moved) > 0 && s.probe {
		slices.Sort(s.moved)
		s.probeServers(cmd.Context(), slices.Compact(s.moved))
	}
	return err
}

// each calls do for every client. An error with one does not stop the others.
func (s *setup) each(chosen []clients.Client, do func(clients.Client) error) error {
	failed := false
	for _, c := range chosen {
		if err := do(c); err != nil {
			report(s.stderr, fmt.Errorf("%s: %w", c.Title, err))
			failed = true
		}
	}
	if failed {
		return exitStatus(exitFailed)
	}
	return nil
}

// choose returns the clients that are named, or all that are installed.
func choose(known []clients.Client, names []string, installed func(clients.Client) bool) ([]clients.Client, error) {
	var all []string
	for _, c := range known {
		all = append(all, c.Name)
	}
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, &policy.ValueError{What: "client", Value: name, Known: strings.Join(all, ", ")}
		}
	}
	chosen := slices.DeleteFunc(slices.Clone(known), func(c clients.Client) bool {
		if len(names) > 0 {
			return !slices.Contains(names, c.Name)
		}
		return !installed(c)
	})
	return chosen, nil
}

// installed reports whether the client seems to be installed.
func installed(c clients.Client) bool {
	return slices.ContainsFunc(c.Signs, fileThere) || slices.ContainsFunc(c.Programs, inPath)
}

// entry returns how clients start this program, with the flags given to setup.
func (s *setup) entry(cmd *cobra.Command) (clients.Start, error) {
	if s.url != "" {
		u, err := url.Parse(s.url)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			const known = "http://127.0.0.1:8321/mcp and the like"
			return clients.Start{}, &policy.ValueError{What: "URL", Value: s.url, Known: known}
		}
		return clients.Start{URL: s.url}, nil
	}
	set, err := s.Load()
	if err != nil {
		return clients.Start{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return clients.Start{}, err
	}
	start, err := s.startOf(self, set.Programs())
	if err != nil {
		return start, err
	}
	start.Args, err = s.flagWords(cmd)
	return start, err
}

// lasting returns the path that still leads to the program at self after an update: a symlink to
// it on PATH, as Homebrew makes them.
func lasting(self string, find programs.Finder) string {
	found, err := find.Find("toolgate", os.Environ())
	if err != nil {
		return self
	}
	a, err1 := os.Stat(found)
	b, err2 := os.Stat(self)
	if err1 == nil && err2 == nil && os.SameFile(a, b) {
		return found
	}
	return self
}

// startOf returns how to start the program at self, always by an absolute path: a package runner
// would prefer a program of the workspace. A program that does not stay in place or that commands
// can write is copied to the state folder.
func (s *setup) startOf(self string, find programs.Finder) (clients.Start, error) {
	if strings.Contains(filepath.ToSlash(self), "/go-build") {
		const hint = "build it first, with `go build -o ~/bin/toolgate .`, and run the setup of that"
		return clients.Start{}, &config.Error{File: self, Msg: "this program is temporary", Hint: hint}
	}
	if path := lasting(self, find); !inProject(path) && !find.CanWrite(path) {
		return clients.Start{Command: path}, nil
	}
	s.source = self
	return clients.Start{Command: filepath.Join(filepath.Dir(s.log.file), "bin", "toolgate"+filepath.Ext(self))}, nil
}

// inProject reports whether the program belongs to a project or to the cache of a package runner:
// both have a package.json beside node_modules. pnpm keeps each version in a folder of its own.
func inProject(path string) bool {
	root, _, ok := strings.Cut(filepath.ToSlash(path), "/node_modules/")
	cached := strings.Contains(root, "/_npx/") || strings.Contains(root, "/.pnpm/")
	return ok && (cached || fileThere(filepath.Join(root, "package.json")))
}

// copyProgram copies the program to the state folder unless it is there already.
func (s *setup) copyProgram() error {
	if s.source == "" || s.dryRun {
		return nil
	}
	text, err := os.ReadFile(s.source)
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(s.start.Command); err == nil && bytes.Equal(have, text) {
		return nil
	}
	if err := replaceFile(s.start.Command, text, 0o755); err != nil {
		return fmt.Errorf("copying the program: %w", err)
	}
	fmt.Fprintf(s.stdout, "the program is copied to %s; after an update run setup again\n", s.start.Command)
	return nil
}

// flagWords returns the common flags that were given, with absolute paths.
func (s *setup) flagWords(cmd *cobra.Command) ([]string, error) {
	var words []string
	if s.Dir != "" {
		abs, err := filepath.Abs(s.Dir)
		if err != nil {
			return nil, err
		}
		words = append(words, "-C", abs)
	}
	for _, dir := range s.AddDirs {
		words = append(words, "--add-dir", dir) // absolute, see checkDirectories
	}
	for _, f := range []struct{ flag, value string }{{"-s", s.Sandbox}, {"-P", s.Profile}, {"-a", s.Approval}} {
		if f.value != "" {
			words = append(words, f.flag, f.value)
		}
	}
	for _, set := range s.ConfigValues {
		words = append(words, "-c", set)
	}
	if cmd.Flags().Changed("log-level") {
		words = append(words, "--log-level", s.LogLevel)
	}
	return words, nil
}

// attach writes the entry into the client's file and repairs entries that start toolgate through a package runner.
func (s *setup) attach(c clients.Client) error {
	for i, w := range c.Files {
		names, err := s.entries(w, i == 0)
		if err != nil {
			return err
		}
		for n, name := range names {
			if err := s.attachAs(c, w, name, i+n == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries returns the names of the entries to write into the client's file: the name given, or
// that of the first entry that starts toolgate.
func (s *setup) entries(w clients.File, first bool) ([]string, error) {
	text, _, err := readIfThere(w.Path)
	if err != nil {
		return nil, err
	}
	tables, _ := w.Tables(text) // attachAs tells what is wrong with the first file
	var names []string
	for _, key := range slices.Sorted(maps.Keys(tables)) {
		runner, _ := throughRunner(clients.StartOf(tables[key]))
		if key != s.name && s.start.URL == "" && (runner != "" || s.log.index(w.Path, key) >= 0) {
			names = append(names, key)
		}
	}
	if first && (len(names) == 0 || tables[s.name] != nil || s.name != defaultName) {
		names = append([]string{s.name}, names...)
	}
	return names, nil
}

// attachAs writes the entry called name. With move it moves the other servers of the file behind toolgate.
func (s *setup) attachAs(c clients.Client, w clients.File, name string, move bool) error {
	before, existed, err := readIfThere(w.Path)
	if err != nil {
		return err
	}
	tables, err := w.Tables(before)
	if err != nil {
		return &config.Error{File: w.Path, Msg: err.Error(), Hint: "fix the file first; nothing was changed"}
	}
	start := s.start
	if start.URL == "" && len(start.Args) == 0 {
		start.Args = ownWords(clients.StartOf(tables[name]))
	}
	table, err := c.Table(name, start, tables[name])
	if err != nil {
		return err
	}
	after := before
	if !sameTable(table, tables[name]) {
		if after, err = w.Put(before, name, table); err != nil {
			return &config.Error{File: w.Path, Msg: err.Error()}
		}
	}
	var moved map[string]config.MCPServer
	if move {
		if moved, err = s.serversToMove(c, w.Path, before, tables); err != nil {
			return err
		}
	}
	for key := range moved {
		if after, err = w.Remove(after, key); err != nil {
			return &config.Error{File: w.Path, Msg: err.Error()}
		}
	}
	if bytes.Equal(before, after) {
		fmt.Fprintf(s.stdout, "%s: nothing to change in %s\n", c.Title, w.Path)
		return s.copyProgram()
	}
	s.show(c, w.Path, before, after, tables)
	if !s.confirm("Write it?", s.yes) {
		return nil
	}
	if err := s.copyProgram(); err != nil {
		return err
	}
	change := setupChange{Client: c.Name, File: w.Path, Name: name, Existed: existed, Old: tables[name]}
	change.Moved = map[string]map[string]any{}
	if change.Added, err = s.takeOver(moved); err != nil {
		return err
	}
	for key := range moved {
		change.Moved[key] = tables[key]
	}
	backup, err := s.log.write(change, before, after)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "%s: written to %s\n", c.Title, w.Path)
	if backup != "" {
		fmt.Fprintf(s.stdout, "  the file as it was is %s\n", backup)
	}
	s.nextSteps(c)
	return nil
}

func readIfThere(file string) (text []byte, existed bool, err error) {
	text, err = os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return text, err == nil, err
}

// sameTable reports whether two tables are equal apart from the Go types of their values.
func sameTable(a, b map[string]any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return b != nil && err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// serversToMove returns the servers of the client to move behind toolgate, by the client's
// name for them. It asks unless flags have answered.
func (s *setup) serversToMove(
	c clients.Client, file string, text []byte, tables map[string]map[string]any,
) (map[string]config.MCPServer, error) {
	servers, notes, err := clients.Parse(file, text)
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return nil, nil // [clients.File.Tables] accepted it, so there are no servers in it
	}
	have, err := loadConfig()
	if err != nil {
		return nil, err
	}
	moved := s.movable(c, servers, have.MCPServers, tables)
	names := strings.Join(slices.Sorted(maps.Keys(moved)), ", ")
	switch {
	case len(moved) == 0:
		return nil, nil
	case (s.yes || s.dryRun) && !s.move:
		fmt.Fprintf(s.stderr, "toolgate: %s has servers of its own: %s; --move moves them behind toolgate\n",
			c.Title, names)
		return nil, nil
	case !s.confirm(fmt.Sprintf("%s has servers of its own: %s. Move them behind toolgate?", c.Title, names), s.move):
		return nil, nil
	}
	for _, note := range notes {
		key, _, _ := strings.Cut(note, ":")
		if _, ok := moved[key]; ok {
			fmt.Fprintf(s.stderr, "toolgate: note: %s\n", note)
		}
	}
	for key, server := range moved {
		s.place(config.NameFrom(key), &server, filepath.Dir(file))
		moved[key] = server
	}
	return moved, nil
}

// movable returns the servers that can be moved, by the client's name for them, and prints why the others stay.
func (s *setup) movable(
	c clients.Client, servers, have map[string]config.MCPServer, tables map[string]map[string]any,
) map[string]config.MCPServer {
	moved, named := map[string]config.MCPServer{}, map[string]string{}
	stays := func(key, why string) {
		fmt.Fprintf(s.stderr, "toolgate: %s stays with %s: %s\n", key, c.Title, why)
	}
	for _, key := range slices.Sorted(maps.Keys(tables)) {
		name := config.NameFrom(key)
		server, ok := servers[name]
		_, ours := have[name]
		other, taken := named[name]
		switch {
		case key == s.name || isUs(clients.StartOf(tables[key])) || !ok:
		case server.Command != "" && app.StartsToolgate(append([]string{server.Command}, server.Args...)):
			stays(key, "it starts toolgate itself")
		case ours:
			stays(key, "toolgate already has a server of that name")
		case fillsIn(server):
			stays(key, fmt.Sprintf("it uses a variable that only %s expands", c.Title))
		case taken:
			stays(key, "it would have the name of "+other)
		default:
			moved[key], named[name] = server, key
		}
	}
	return moved
}

// fillsIn reports whether the server uses variables that only its client expands.
func fillsIn(m config.MCPServer) bool {
	words := append([]string{m.Command, m.Cwd, m.URL}, m.Args...)
	words = slices.AppendSeq(words, maps.Values(m.Env))
	words = slices.AppendSeq(words, maps.Values(m.HTTPHeaders))
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "${") })
}

// isUs reports whether the entry starts toolgate.
func isUs(s clients.Start) bool {
	name := commandName(s.Command)
	runner, _ := throughRunner(s)
	return name == "toolgate" || runner != "" || name == "cmd" && slices.Contains(s.Args, "toolgate")
}

// ownWords returns the arguments with which the entry starts toolgate.
func ownWords(s clients.Start) []string {
	runner, words := throughRunner(s)
	if runner == "" && commandName(s.Command) == "toolgate" {
		words = s.Args
	}
	return words
}

// takeOver adds the servers to the config and returns their tables.
func (s *setup) takeOver(moved map[string]config.MCPServer) (map[string]string, error) {
	if len(moved) == 0 {
		return nil, nil
	}
	named, added := map[string]config.MCPServer{}, map[string]string{}
	for key, server := range moved {
		name := config.NameFrom(key)
		table, err := config.ServerTable(name, server)
		if err != nil {
			return nil, err
		}
		named[name], added[name] = server, table
		s.moved = append(s.moved, name)
	}
	return added, s.addServers(named, false)
}

// show prints the change with secrets masked.
func (s *setup) show(c clients.Client, file string, before, after []byte, tables map[string]map[string]any) {
	fmt.Fprintf(s.stdout, "%s:\n", c.Title)
	text := string(diff.Diff(file, before, file+" (new)", after))
	_, text, _ = strings.Cut(text, "\n") // its first line is the command diff
	fmt.Fprintf(s.stdout, "%s\n", hideSecrets(text, tables))
}

var secretLine = lazyregexp.New(
	`(?i)("?[\w.-]*(?:key|token|secret|passw|authorization|credential)[\w.-]*"?\s*[:=]\s*)` +
		`("[^"]*"|'[^']*'|[^\s"',{\[][^,\n]*)`)

// hideSecrets masks the values of variables and headers in the tables, and of everything named like a secret.
func hideSecrets(text string, tables map[string]map[string]any) string {
	for _, t := range tables {
		for _, key := range []string{"env", "envs", "headers", "http_headers"} {
			values, _ := t[key].(map[string]any)
			for _, v := range values {
				if word, ok := v.(string); ok && len(word) > 3 && !strings.Contains(word, clients.TokenVariable) {
					text = strings.ReplaceAll(text, word, "…")
				}
			}
		}
	}
	return secretLine.ReplaceAllStringFunc(text, func(found string) string {
		if strings.Contains(found, clients.TokenVariable) {
			return found
		}
		return secretLine.ReplaceAllString(found, `$1"…"`)
	})
}

// confirm asks the user. Anything but yes is no; a question answered by a flag is not asked.
func (s *setup) confirm(question string, answered bool) bool {
	if s.dryRun {
		return answered && question != "Write it?"
	}
	if answered {
		return true
	}
	fmt.Fprintf(s.stdout, "%s [y/N] ", question)
	line, _ := s.in.ReadString('\n')
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(line)))
}

// nextSteps prints what is left to do.
func (s *setup) nextSteps(c clients.Client) {
	switch {
	case s.start.URL != "" && c.NeedsToken():
		fmt.Fprintf(s.stdout, "  give the token to %s in its own settings, as header Authorization: Bearer …\n",
			c.Title)
	case s.start.URL != "":
		fmt.Fprintf(s.stdout, "  %s finds the token in the variable %s\n", c.Title, clients.TokenVariable)
	case !c.Projects && s.Dir == "":
		fmt.Fprintf(s.stdout,
			"  %s starts it outside of any project, so nothing is writable; name a workspace with -C FOLDER\n",
			c.Title)
	}
	fmt.Fprintf(s.stdout, "  restart %s, it reads the file when it starts\n", c.Title)
}
