package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"toolgate/internal/app"
	"toolgate/internal/config"
	"toolgate/internal/lazyregexp"
	"toolgate/policy"
)

func (p *program) wrapCommand() *cobra.Command {
	var (
		w       app.Wrapped
		env     []string
		confine bool
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
			if err := complete(&w, args, env, confine); err != nil {
				return err
			}
			p.place(w.Name, &w.Server, ".")
			p.Wrapped = &w
			return p.serve(cmd.Context())
		},
	}
	httpFlags(cmd, &p.http)
	serverFlags(cmd, &w.Server, &env, &confine)
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&w.Server.URL, "url", "", "connect to the server at `URL` instead of starting one")
	f.StringVar(&w.Name, "name", "", "`NAME` of the server in questions and the record, default the command's")
	f.BoolVar(&w.Server.Trusted, "trust", false, "what the server says of its tools counts")
	return cmd
}

// serverFlags registers the flags that wrap and mcp add share.
func serverFlags(cmd *cobra.Command, s *config.MCPServer, env *[]string, confine *bool) {
	f := cmd.Flags()
	f.StringVar(&s.BearerTokenEnvVar, "bearer-token-env-var", "",
		"`NAME` of the variable that holds the token for --url")
	f.StringArrayVar(env, "env", nil, "variable `KEY=VALUE` for CMD, or KEY to pass yours on (repeatable)")
	f.StringVar(&s.Cwd, "cwd", "", "`DIR` to start CMD in, or \"workspace\"; default a folder of its own")
	f.StringVar(&s.DefaultToolsApprovalMode, "approval-mode", "", "`MODE` of its tools: auto, prompt, writes, approve")
	f.BoolVar(&s.Network, "network", false, "CMD may use the network")
	f.BoolVar(confine, "confine", true, "confine CMD; --confine=false runs it without a sandbox")
}

// complete applies the arguments and flags to w.
func complete(w *app.Wrapped, args, env []string, confine bool) error {
	switch {
	case w.Server.URL == "" && len(args) == 0:
		return &policy.ValueError{What: "server", Value: "", Known: "a command behind --, or --url URL"}
	case w.Server.URL != "" && len(args) > 0:
		return errors.New("wrap takes a command or --url, not both")
	case len(args) > 0:
		w.Server.Command, w.Server.Args = args[0], args[1:]
	}
	for _, e := range env {
		key, value, ok := strings.Cut(e, "=")
		if !ok {
			w.Server.EnvVars = append(w.Server.EnvVars, key)
			continue
		}
		if w.Server.Env == nil {
			w.Server.Env = map[string]string{}
		}
		w.Server.Env[key] = value
	}
	if !confine {
		w.Server.Sandbox = "none"
	}
	if w.Server.Cwd != "" && w.Server.Cwd != config.CwdWorkspace {
		abs, err := filepath.Abs(w.Server.Cwd)
		if err != nil {
			return err
		}
		w.Server.Cwd = abs
	}
	w.Server.Required = true // a client that asks for the list waits for it
	if w.Name == "" {
		w.Name = wrappedName(w.Server)
	}
	return config.CheckServer(w.Name, w.Server)
}

// place sets the workspace as the working folder of a server whose command has a relative path,
// and prints a note. Files are recognized below dir.
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
	fmt.Fprintf(p.stderr, "toolgate: note: %s starts in the workspace, because %q is a relative path; "+
		"commands can change what it runs there\n", name, words[i])
}

// isRelativePath reports whether word is written as a relative path or names a file below dir.
func isRelativePath(word, dir string) bool {
	first, _, _ := strings.Cut(filepath.ToSlash(word), "/")
	if first == "." || first == ".." {
		return true
	}
	info, err := os.Stat(filepath.Join(dir, word))
	return word != "" && !filepath.IsAbs(word) && err == nil && info.Mode().IsRegular()
}

// wrappedName returns a name for a server without one.
func wrappedName(s config.MCPServer) string {
	name := filepath.Base(s.Command)
	if s.URL != "" {
		_, rest, _ := strings.Cut(s.URL, "://")
		name, _, _ = strings.Cut(rest, "/")
	}
	return notInName.ReplaceAllString(name, "_")
}

var notInName = lazyregexp.New(`[^A-Za-z0-9_.-]`)
