package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"toolgate/aggregator"
	"toolgate/internal/app"
	"toolgate/internal/clients"
	"toolgate/internal/config"
	"toolgate/internal/fileowner"
	"toolgate/internal/oauth"
	"toolgate/internal/printable"
	"toolgate/policy"
)

func (p *program) mcpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "The downstream servers in the config: add, list, get, remove, import, login, review",
		Example: `  toolgate mcp add everything --network -- npx -y @modelcontextprotocol/server-everything
  toolgate mcp import claude-desktop
  toolgate mcp list`,
	}
	cmd.AddCommand(p.mcpAdd(), p.mcpList(), p.mcpGet(), p.mcpRemove(), p.mcpImport())
	cmd.AddCommand(p.mcpLogin(), p.mcpLogout(), p.mcpReview())
	return cmd
}

// configFile returns the path and the content of the config file.
func configFile() (file string, text []byte, err error) {
	dir, _, _, err := app.Folders()
	if err != nil {
		return "", nil, err
	}
	file = filepath.Join(dir, "config.toml")
	if err := fileowner.Check(file); err != nil {
		return "", nil, err
	}
	text, _, err = readIfThere(file)
	return file, text, err
}

// editConfig replaces the text of the config file with what edit makes of it.
func editConfig(edit func(text []byte) ([]byte, error)) (file string, err error) {
	file, text, err := configFile()
	if err == nil {
		text, err = edit(text)
	}
	if err != nil {
		return "", err
	}
	if err := config.Write(file, text); err != nil {
		return "", fmt.Errorf("writing %s: %w", file, err)
	}
	return file, nil
}

// loadConfig reads the config file.
func loadConfig() (config.Config, error) {
	dir, _, _, err := app.Folders()
	if err != nil {
		return config.Config{}, err
	}
	return config.Load(filepath.Join(dir, "config.toml"))
}

func serverNamed(name string) (config.MCPServer, error) {
	c, err := loadConfig()
	if err != nil {
		return config.MCPServer{}, err
	}
	s, ok := c.MCPServers[name]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(c.MCPServers)), ", ")
		return s, &policy.ValueError{What: "server", Value: name, Known: known}
	}
	return s, nil
}

func (p *program) mcpAdd() *cobra.Command {
	var (
		w       app.Wrapped
		env     []string
		headers []string
		confine bool
		start   bool
	)
	cmd := &cobra.Command{
		Use:   "add NAME [flags] -- CMD [ARG...]",
		Short: "Add a server that is started by CMD, or one at --url",
		Long: `Add puts a server into the config and starts it once, to show whether it runs
and to keep what it offers: some clients ask for the tools only when they start,
and wait for no server then.`,
		Example: `  toolgate mcp add git -- uvx mcp-server-git
  toolgate mcp add docs --url https://example.com/mcp --bearer-token-env-var DOCS_TOKEN`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w.Name = args[0]
			for _, h := range headers {
				key, value, ok := strings.Cut(h, ":")
				if !ok {
					return &policy.ValueError{What: "header", Value: h, Known: "NAME: VALUE"}
				}
				if w.Server.HTTPHeaders == nil {
					w.Server.HTTPHeaders = map[string]string{}
				}
				w.Server.HTTPHeaders[strings.TrimSpace(key)] = strings.TrimSpace(value)
			}
			if err := complete(&w, args[1:], env, confine); err != nil {
				return err
			}
			if app.StartsToolgate(args[1:]) {
				return errors.New("it would start toolgate itself; add the command of another server")
			}
			w.Server.Required = false
			p.place(w.Name, &w.Server, ".")
			if err := p.addServers(map[string]config.MCPServer{w.Name: w.Server}, false); err != nil || !start {
				return err
			}
			p.probeServers(cmd.Context(), []string{w.Name})
			return nil
		},
	}
	serverFlags(cmd, &w.Server, &env, &confine)
	f := cmd.Flags()
	f.StringVar(&w.Server.URL, "url", "", "the server is at `URL`")
	f.StringArrayVar(&headers, "header", nil, "header `NAME:VALUE` for --url (repeatable)")
	f.BoolVar(&w.Server.Trusted, "trust", false, "what the server says of its tools counts, and they may change unseen")
	f.BoolVar(&start, "start", true, "start it once; --start=false only writes the config")
	return cmd
}

// addServers adds servers to the config file and prints their tables.
func (p *program) addServers(servers map[string]config.MCPServer, dryRun bool) error {
	file, text, err := configFile()
	if err != nil {
		return err
	}
	after, err := config.AddServers(text, servers)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		table, err := config.ServerTable(name, masked(servers[name]))
		if err != nil {
			return err
		}
		fmt.Fprintf(p.stdout, "%s\n", table)
	}
	if dryRun {
		fmt.Fprintf(p.stderr, "toolgate: nothing was written\n")
		return nil
	}
	if err := config.Write(file, after); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	fmt.Fprintf(p.stderr, "toolgate: added to %s", file)
	if text != nil {
		fmt.Fprintf(p.stderr, " (the old one is %s.bak)", filepath.Base(file))
	}
	fmt.Fprintln(p.stderr)
	return nil
}

// masked returns s with the values that may be secret replaced.
func masked(s config.MCPServer) config.MCPServer {
	hide := func(m map[string]string) map[string]string {
		out := maps.Clone(m)
		for key := range out {
			out[key] = "…"
		}
		return out
	}
	s.Env, s.HTTPHeaders = hide(s.Env), hide(s.HTTPHeaders)
	if s.OAuth.ClientSecret != "" {
		s.OAuth.ClientSecret = "…"
	}
	return s
}

// A listedServer is an element of the output of mcp list.
type listedServer struct {
	Name     string `json:"name"`
	Enabled  bool   `json:"enabled"`
	Command  string `json:"command,omitempty"`
	URL      string `json:"url,omitempty"`
	Sandbox  string `json:"sandbox,omitempty"`
	Auth     string `json:"auth,omitempty"` // how a server over HTTP knows us
	Network  bool   `json:"network,omitempty"`
	Trusted  bool   `json:"trusted,omitempty"`
	Approval string `json:"approval"`
}

func listed(name string, s config.MCPServer) listedServer {
	l := listedServer{
		Name: name, Enabled: s.IsEnabled(), URL: s.URL, Auth: loginState(name, s), Network: s.Network,
		Trusted: s.Trusted, Approval: cmp.Or(s.DefaultToolsApprovalMode, "auto"),
	}
	if s.Command != "" {
		l.Command = strings.Join(append([]string{s.Command}, s.Args...), " ")
		word, roots := s.Confinement()
		l.Sandbox = cmp.Or(word, "own folder")
		if len(roots) > 0 {
			l.Sandbox += " and " + strings.Join(roots, ", ")
		}
	}
	return l
}

func (p *program) mcpList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the servers of the config",
		Example: "  toolgate mcp list --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := loadConfig()
			if err != nil {
				return err
			}
			servers := []listedServer{}
			for _, name := range slices.Sorted(maps.Keys(c.MCPServers)) {
				servers = append(servers, listed(name, c.MCPServers[name]))
			}
			if asJSON {
				return p.printJSON(servers)
			}
			w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tSTATE\tSANDBOX\tNETWORK\tAUTH\tTRUSTED\tAPPROVAL\tSERVER")
			for _, s := range servers {
				state, where := "enabled", s.Command+s.URL
				if !s.Enabled {
					state = "disabled"
				}
				network := yesNo(s.Network || s.URL != "" || s.Sandbox == "none")
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, state, cmp.Or(s.Sandbox, "-"), network,
					cmp.Or(s.Auth, "-"), yesNo(s.Trusted), s.Approval, printable.Line(where))
			}
			if err := w.Flush(); err != nil {
				return err
			}
			for _, s := range servers {
				if s.Auth == "login needed" {
					fmt.Fprintf(p.stdout, "\n%s: %v\n", s.Name, &oauth.LoginError{Server: s.Name})
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return cmd
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (p *program) mcpGet() *cobra.Command {
	return &cobra.Command{
		Use:     "get NAME",
		Short:   "Print one server's table, its secrets masked",
		Example: "  toolgate mcp get git",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := serverNamed(args[0])
			if err != nil {
				return err
			}
			table, err := config.ServerTable(args[0], masked(s))
			if err != nil {
				return err
			}
			_, err = io.WriteString(p.stdout, table)
			return err
		},
	}
}

func (p *program) mcpRemove() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Take a server out of the config",
		Example: "  toolgate mcp remove git",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := serverNamed(args[0]); err != nil {
				return err
			}
			login, store, _, noLogin := loginOf(args[0], "")
			file, err := editConfig(func(text []byte) ([]byte, error) { return config.RemoveServer(text, args[0]) })
			if err != nil {
				return err
			}
			_, state, _, err := app.Folders()
			if err != nil {
				return err
			}
			fmt.Fprintf(p.stderr, "toolgate: removed from %s (the old one is %s.bak)\n", file, filepath.Base(file))
			if noLogin == nil {
				_, err := oauth.Logout(cmd.Context(), login, store, nil)
				if err != nil && !errors.Is(err, oauth.ErrNotRevoked) {
					return err
				}
			}
			return aggregator.ForgetServer(state, args[0])
		},
	}
}

func (p *program) mcpImport() *cobra.Command {
	var dryRun, start bool
	cmd := &cobra.Command{
		Use:   "import CLIENT|FILE",
		Short: "Take over the servers of another client's config",
		Long: `Import reads the servers of a client's config file and adds those that are not
there yet. CLIENT is claude-code, claude-desktop, codex, copilot, cursor,
gemini, goose, vscode, windsurf or zed; FILE is one in the form of any of them. What is added is shown,
and the old config is kept as config.toml.bak. The client's file is not changed.
Each is started once, as with add.`,
		Example: `  toolgate mcp import claude-desktop --dry-run
  toolgate mcp import ~/project/.mcp.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := p.foreign(args[0])
			if err != nil {
				return err
			}
			have, err := loadConfig()
			if err != nil {
				return err
			}
			maps.DeleteFunc(found, func(name string, _ config.MCPServer) bool {
				_, ok := have.MCPServers[name]
				if ok {
					fmt.Fprintf(p.stderr, "toolgate: %s is there already and stays as it is\n", name)
				}
				return ok
			})
			if len(found) == 0 {
				fmt.Fprintln(p.stderr, "toolgate: there is nothing to add")
				return nil
			}
			if err := p.addServers(found, dryRun); err != nil || dryRun || !start {
				return err
			}
			p.probeServers(cmd.Context(), slices.Sorted(maps.Keys(found)))
			return nil
		},
	}
	cmd.Flags().BoolVar(&start, "start", true, "start them once; --start=false only writes the config")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be added and write nothing")
	return cmd
}

// foreign returns the servers in a client's config, or in a file of that form.
func (p *program) foreign(what string) (map[string]config.MCPServer, error) {
	known, err := clients.Here()
	if err != nil {
		return nil, err
	}
	var files, names []string
	for _, c := range known {
		names = append(names, c.Name)
		for _, f := range c.Files {
			if c.Name == what {
				files = append(files, f.Path)
			}
		}
	}
	if files == nil {
		if _, err := os.Stat(what); err != nil {
			known := strings.Join(names, ", ") + ", or a file"
			return nil, &policy.ValueError{What: "client or file", Value: what, Known: known}
		}
		files = []string{what}
	}
	all := map[string]config.MCPServer{}
	read := 0
	for _, file := range files {
		text, existed, err := readIfThere(file)
		if err != nil {
			return nil, err
		}
		if !existed {
			continue
		}
		read++
		servers, notes, err := clients.Parse(file, text)
		if err != nil {
			return nil, &config.Error{File: file, Msg: err.Error()}
		}
		for _, n := range notes {
			fmt.Fprintf(p.stderr, "toolgate: note: %s\n", n)
		}
		for _, name := range slices.Sorted(maps.Keys(servers)) {
			s := servers[name]
			if s.Command != "" && app.StartsToolgate(append([]string{s.Command}, s.Args...)) {
				fmt.Fprintf(p.stderr, "toolgate: note: %s is left out, because it starts toolgate itself\n", name)
				continue
			}
			p.place(name, &s, filepath.Dir(file))
			all[name] = s
		}
	}
	if read == 0 {
		return nil, fmt.Errorf("%s has no config here: there is no %s", what, strings.Join(files, ", "))
	}
	return all, nil
}

func (p *program) mcpReview() *cobra.Command {
	var accept, asJSON bool
	cmd := &cobra.Command{
		Use:   "review NAME",
		Short: "Show a server's tools: what changed, and what tries to instruct the model",
		Long: `Review shows the tools of a server as they are now. A tool whose words, schema
or claims differ from what they were when it was first seen is held back until
you accept it; --accept does that for all of them. Tools whose description
tries to tell the model what to do beyond the tool are marked.`,
		Example: `  toolgate mcp review git
  toolgate mcp review git --accept`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := serverNamed(args[0]); err != nil {
				return err
			}
			_, state, _, err := app.Folders()
			if err != nil {
				return err
			}
			tools, err := aggregator.ReviewServer(state, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				err = p.printJSON(tools)
			} else {
				err = p.printReviews(tools)
			}
			if err != nil || !accept {
				return err
			}
			return aggregator.AcceptReview(state, args[0], tools)
		},
	}
	cmd.Flags().BoolVar(&accept, "accept", false, "accept the tools as they are now")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the tools as JSON")
	return cmd
}

func (p *program) printReviews(list []aggregator.Review) error {
	var b bytes.Buffer
	for _, r := range list {
		state := "as first seen"
		if r.Changed {
			state = "CHANGED, held back"
		}
		fmt.Fprintf(&b, "%s: %s\n", r.Tool, state)
		for _, f := range r.Flags {
			fmt.Fprintf(&b, "  look at this: it %s\n", f)
		}
		if r.Changed {
			fmt.Fprintf(&b, "  before:\n%s\n  now:\n%s\n", indented(r.Before), indented(r.Now))
		}
	}
	_, err := b.WriteTo(p.stdout)
	return err
}

// indented returns v indented. Strings stay quoted, so that nothing in them controls the terminal.
func indented(v json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, v, "    ", "  ") != nil {
		return ""
	}
	return "    " + b.String()
}

// probeServers starts the servers with these names once and prints what they offer or why they do
// not run. Their catalogs are saved, because some clients list the tools only at their start and
// do not wait.
func (p *program) probeServers(ctx context.Context, names []string) {
	fmt.Fprintf(p.stderr, "toolgate: starting %s once, to learn what there is; --start=false leaves that out\n",
		strings.Join(names, ", "))
	alone := *p
	alone.OnlyServers = names
	if alone.LogLevel == "warn" {
		alone.LogLevel = "error" // what is wrong is said below
	}
	a, err := alone.Open()
	if err != nil {
		fmt.Fprintf(p.stderr, "toolgate: not started: %v\n", err)
		return
	}
	defer a.Close()
	for _, st := range a.Downstreams.Check(ctx) {
		fmt.Fprintf(p.stderr, "toolgate: %s\n", printable.Line(probeResult(st)))
	}
}

// probeResult describes the state of one probed server.
func probeResult(st aggregator.Status) string {
	if st.State != aggregator.Ready {
		return fmt.Sprintf("%s does not run: %s; it stays in the config, and `toolgate doctor` tries it again",
			st.Name, cmp.Or(st.Error, string(st.State)))
	}
	tools := fmt.Sprintf("%d tools", st.Tools)
	if st.Tools == 1 {
		tools = "1 tool"
	}
	if len(st.Faults) > 0 {
		tools += "; left out: " + strings.Join(st.Faults, "; ")
	}
	return fmt.Sprintf("%s runs and offers %s", st.Name, tools)
}
