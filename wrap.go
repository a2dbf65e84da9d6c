package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"toolgate/internal/config"
	"toolgate/policy"
)

// A wrapped is the one server that wrap serves.
type wrapped struct {
	name   string
	server config.MCPServer
}

func (p *program) wrapCommand() *cobra.Command {
	var (
		w       wrapped
		env     []string
		confine = true
	)
	cmd := &cobra.Command{
		Use:   "wrap [flags] -- CMD [ARG...]",
		Short: "Serve one MCP server behind the gate, its names unchanged",
		Long: `Wrap starts one MCP server, or connects to one at --url, and serves its tools,
resources and prompts on stdin and stdout as they are, behind the same policy,
approval, sandbox and record as everything else. The servers of the config and
the built-in tools are left out.

CMD may read what you may read, except credentials, and write in a folder of
its own, where it starts; it has no network unless you give it --network.`,
		Example: `  toolgate wrap -- npx -y @modelcontextprotocol/server-everything
  toolgate wrap --trust --network -- uvx mcp-server-fetch
  toolgate wrap --url https://example.com/mcp --bearer-token-env-var TOKEN`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.from(args, env, confine); err != nil {
				return err
			}
			p.place(w.name, &w.server, ".")
			p.wrapped = &w
			return p.serve(cmd.Context())
		},
	}
	p.http.register(cmd)
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&w.server.URL, "url", "", "connect to the server at `URL` instead of starting one")
	f.StringVar(&w.server.BearerTokenEnvVar, "bearer-token-env-var", "", "`NAME` of the variable that holds the token for --url")
	f.StringVar(&w.name, "name", "", "`NAME` of the server in questions and the record, default the command's")
	f.StringArrayVar(&env, "env", nil, "variable `KEY=VALUE` for CMD, or KEY to pass yours on (repeatable)")
	f.StringVar(&w.server.Cwd, "cwd", "", cwdUsage)
	f.BoolVar(&w.server.Trusted, "trust", false, "what the server says of its tools counts")
	f.StringVar(&w.server.DefaultToolsApprovalMode, "approval-mode", "", "`MODE` of its tools: auto, prompt, writes, approve")
	f.BoolVar(&w.server.Network, "network", false, "CMD may use the network")
	f.BoolVar(&confine, "confine", true, "confine CMD; --confine=false runs it without a sandbox")
	return cmd
}

// from completes w with the words of the command line.
func (w *wrapped) from(args, env []string, confine bool) error {
	switch {
	case w.server.URL == "" && len(args) == 0:
		return &policy.ValueError{What: "server", Value: "", Known: "a command behind --, or --url URL"}
	case w.server.URL != "" && len(args) > 0:
		return errors.New("wrap takes a command or --url, not both")
	case len(args) > 0:
		w.server.Command, w.server.Args = args[0], args[1:]
	}
	for _, e := range env {
		key, value, ok := strings.Cut(e, "=")
		if !ok {
			w.server.EnvVars = append(w.server.EnvVars, key)
			continue
		}
		if w.server.Env == nil {
			w.server.Env = map[string]string{}
		}
		w.server.Env[key] = value
	}
	if !confine {
		w.server.Sandbox = "none"
	}
	if err := w.absoluteCwd(); err != nil {
		return err
	}
	w.server.Required = true // a client that asks for the list waits for it
	if w.name == "" {
		w.name = wrappedName(w.server)
	}
	return config.CheckServer(w.name, w.server)
}

const cwdUsage = "`DIR` to start CMD in, or \"workspace\"; default a folder of its own"

// absoluteCwd makes a folder of the command line mean the same in any folder.
func (w *wrapped) absoluteCwd() (err error) {
	if w.server.Cwd != "" && w.server.Cwd != config.CwdWorkspace {
		w.server.Cwd, err = filepath.Abs(w.server.Cwd)
	}
	return err
}

// place has a server start in the workspace, and says so, where a word of its
// command is a relative path. Those of files are known by the files below dir.
func (p *program) place(name string, s *config.MCPServer, dir string) {
	if s.Command == "" || s.Cwd != "" {
		return
	}
	words := slices.Clone(s.Args)
	if strings.ContainsAny(s.Command, `/\`) { // others are looked for in PATH
		words = append(words, s.Command)
	}
	i := slices.IndexFunc(words, func(word string) bool {
		if strings.HasPrefix(word, "-") {
			_, word, _ = strings.Cut(word, "=")
		}
		return isRelativePath(word, dir)
	})
	if i < 0 {
		return
	}
	s.Cwd = config.CwdWorkspace
	fmt.Fprintf(p.stderr, "toolgate: note: %s starts in the workspace, because %q is a relative path; commands can change what it runs there\n", name, words[i])
}

// isRelativePath reports whether word is written as a relative path, or is that
// of a file below dir.
func isRelativePath(word, dir string) bool {
	first, _, _ := strings.Cut(filepath.ToSlash(word), "/")
	if first == "." || first == ".." {
		return true
	}
	info, err := os.Stat(filepath.Join(dir, word))
	return word != "" && !filepath.IsAbs(word) && err == nil && info.Mode().IsRegular()
}

// wrappedName returns a name for a server that has none.
func wrappedName(s config.MCPServer) string {
	name := filepath.Base(s.Command)
	if s.URL != "" {
		_, rest, _ := strings.Cut(s.URL, "://")
		name, _, _ = strings.Cut(rest, "/")
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}, name)
}
