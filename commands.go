package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"toolgate/internal/console"
	"toolgate/internal/netproxy"
	"toolgate/policy"
	"toolgate/sandbox"
	"toolgate/server"
)

// A program is one run of the command line.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	flags        flags
	http         httpFlags
	wrapped      *wrapped // the one server to serve, nil for all
	started      bool     // a command has begun
	oneCall      bool     // this is `toolgate call`
	answersFirst bool     // downstream servers start behind the first answer

	caller      string             // over HTTP: whose program this is
	onlyServers []string           // of the config, nil for all
	control     *controlFiles      // nil until settings are read
	onEvent     func(policy.Event) // is told of each call; may be nil
	outputs     *console.Outputs   // what calls answered, of all callers; nil: each gate has its own
}

// flags are the common flags, in Codex's letters.
type flags struct {
	dir      string
	addDirs  []string
	sandbox  string
	profile  string
	approval string
	settings []string
	logLevel string
}

// command returns the whole command line.
func (p *program) command() *cobra.Command {
	root := p.rootCommand()
	p.addCommands(root)
	return root
}

// rootCommand returns the command line without commands.
func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "toolgate",
		Short: "MCP server with Codex's tools behind one policy, one approval, one sandbox",
		Long: `Toolgate is an MCP server on stdin and stdout. It gives the client the tools
shell, apply_patch, read_file, list_dir and grep_files, confines them to the
workspace, and asks you before anything reaches further.`,
		Example: `  toolgate                                   serve the current folder
  toolgate -C ~/src/app -s read-only         serve a folder that nothing may change
  toolgate call shell '{"command":["ls"]}'   one call through the whole gate`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.flags.checkDirectories(cmd); err != nil {
				return err
			}
			p.started = true
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return p.serve(cmd.Context()) },
	}
	f := root.PersistentFlags()
	f.StringVarP(&p.flags.dir, "cd", "C", "", "workspace `DIR`, default the current folder")
	f.StringArrayVar(&p.flags.addDirs, "add-dir", nil, "further writable `DIR` (repeatable)")
	f.StringVarP(&p.flags.sandbox, "sandbox", "s", "", "sandbox `MODE`: read-only, workspace-write, danger-full-access")
	f.StringVarP(&p.flags.profile, "permission-profile", "P", "", "permission profile `NAME`: of the config, or :read-only, :workspace, :danger-full-access")
	root.MarkFlagsMutuallyExclusive("sandbox", "permission-profile")
	f.StringVarP(&p.flags.approval, "ask-for-approval", "a", "", "approval `POLICY`: untrusted, on-request, never")
	f.StringArrayVarP(&p.flags.settings, "config", "c", nil, "config `KEY=VALUE` with a TOML value (repeatable)")
	f.StringVar(&p.flags.logLevel, "log-level", "warn", "log `LEVEL` on stderr: debug, info, warn, error")
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetHelpCommand(helpCommand())
	return root
}

func (p *program) addCommands(root *cobra.Command) {
	root.AddCommand(p.serveCommand(), p.wrapCommand(), p.mcpCommand(), p.httpCommand(), p.callCommand(), p.toolsCommand(), p.sandboxCommand(), p.doctorCommand(), p.policyCommand(), p.approvalsCommand(), p.consoleCommand(), p.auditCommand(), p.versionCommand(), p.workerCommand())
	root.AddCommand(p.setupCommand(), p.manCommand())
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND...]",
		Short:   "Print what a command does, as its --help",
		Example: "  toolgate help mcp add",
		RunE: func(cmd *cobra.Command, words []string) error {
			found, rest, err := cmd.Root().Find(words)
			if err != nil || len(rest) > 0 {
				return &policy.ValueError{What: "command", Value: strings.Join(words, " "), Known: commandNames(cmd.Root())}
			}
			return found.Help()
		},
	}
}

func commandNames(root *cobra.Command) string {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return list(names)
}

func (p *program) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve [DIR...]",
		Short: "Serve MCP on stdin and stdout (the default), or over HTTP",
		Long: `Serve is what toolgate does without a command: it serves one client on stdin
and stdout. The first DIR is the workspace, as with -C, and the others are
writable beside it, as with --add-dir. With --http it serves many at once over streamable HTTP. Each must
bring a token: the one in $TOOLGATE_HTTP_TOKEN, else one that is made once, in
a file whose path is printed.`,
		Example: `  toolgate serve -C ~/src/app
  toolgate serve -C ~/src/app --http 127.0.0.1:8321`,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if err := absolute("serve", dirs); err != nil {
				return err
			}
			if len(dirs) > 0 && p.flags.dir == "" {
				p.flags.dir, dirs = dirs[0], dirs[1:]
			}
			p.flags.addDirs = append(p.flags.addDirs, dirs...)
			return p.serve(cmd.Context())
		},
	}
	p.http.register(cmd)
	return cmd
}

func (p *program) callCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "call TOOL [JSON]",
		Short: "Make one call through the whole gate and print its text",
		Long: `Call leads one call through policy, approval, sandbox and record, as a client's
would go, and prints the text of its result. JSON is the arguments, "-" reads
them from stdin; without it they are {}. On a terminal you are asked where a
client's user would be.

Exit codes: 0 done, 3 the tool answered with an error, 4 refused.`,
		Example: `  toolgate call shell '{"command":["uname","-sr"]}'
  toolgate call grep_files '{"pattern":"TODO","include":"*.go"}'
  git diff | jq -Rs '{input: .}' | toolgate -C ../other call apply_patch -`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := ""
			if len(args) == 2 {
				text = args[1]
			}
			return p.call(cmd.Context(), args[0], text, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the CallToolResult as JSON")
	return cmd
}

func (p *program) toolsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "tools",
		Short:   "Print the tools a client would see",
		Example: "  toolgate tools --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := p.open()
			if err != nil {
				return err
			}
			defer a.close()
			a.downstreams.Settle(cmd.Context(), false)
			list, err := a.server.Listing()
			if err != nil {
				return err
			}
			return p.printTools(list, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the tools/list result as JSON")
	return cmd
}

func (p *program) printTools(list []server.Listed, asJSON bool) error {
	if asJSON {
		all := struct {
			Tools []json.RawMessage `json:"tools"`
		}{Tools: []json.RawMessage{}}
		for _, t := range list {
			all.Tools = append(all.Tools, t.Definition)
		}
		return p.printJSON(all)
	}
	for _, t := range list {
		first, _, _ := strings.Cut(t.Description, "\n")
		fmt.Fprintf(p.stdout, "%-16s %s\n", t.Name, first)
	}
	return nil
}

func (p *program) printJSON(v any) error {
	enc := json.NewEncoder(p.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func (p *program) sandboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sandbox [flags] -- CMD [ARG...]",
		Short: "Run a command under the sandbox in force",
		Long: `Sandbox runs CMD confined to the profile that a tool's command would have, with
your terminal, and ends with CMD's own exit code.`,
		Example: `  toolgate sandbox -- make test
  toolgate sandbox -s read-only -- cat /etc/hostname`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return p.sandboxed(args) },
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func (p *program) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this system can enforce, what is wrong and what to do",
		Long: `Doctor tries what the first call would need: which sandbox level is in force and
why it is no better one, with the steps to level full on Ubuntu, in containers
and in WSL; how soon toolgate answers, as started here and as each MCP client's
config file says; the servers behind it, each started once; and the rules that
can have no effect. It exits with 1 where something is wrong.`,
		Example: "  toolgate doctor --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.doctor(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  toolgate version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.stdout, "toolgate", version())
			return err
		},
	}
}

// release is the version that the release build was given.
var release string

// version returns the release, else the module's version, with the commit when
// it was built from a checkout.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return strings.Trim(info.Main.Version, "()")
}

// sandboxed runs argv confined and passes its exit code on.
func (p *program) sandboxed(argv []string) error {
	s, err := p.settings()
	if err != nil {
		return err
	}
	// To find out what this system can do takes as long as a sandbox does.
	cmd, err := p.startSandboxed(s, sandbox.Guess(), argv)
	if errors.Is(err, sandbox.ErrUnsupported) {
		cmd, err = p.startSandboxed(s, sandbox.Probe(), argv)
	}
	if err != nil {
		return err
	}
	if w := openWay(cmd, s.policy.Profile(), s.rules.Rules, nil, s.log); w != nil {
		defer w.close()
		defer func() { printRefused(p.stderr, w.proxy.Uses(time.Time{})) }()
	}
	err = cmd.WaitEnded()
	if code := sandbox.ExitCode(err); code > 0 {
		return exitStatus(code)
	}
	return err
}

// startSandboxed starts argv as the system sys can confine it.
func (p *program) startSandboxed(s *settings, sys sandbox.System, argv []string) (*sandbox.Cmd, error) {
	plan, err := s.planOn(sys, s.policy.Profile())
	if err != nil {
		return nil, err
	}
	cmd := plan.Command(argv...)
	cmd.Dir = s.dir()
	cmd.Env = s.environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.stdin, p.stdout, p.stderr
	if f := s.policy.Profile(); f.Network == policy.NetworkHosts {
		cmd.Env = append(slices.Clip(cmd.Env), netproxy.Environ("", f.Hosts)...)
	}
	return cmd, cmd.Start()
}

func list(words []string) string { return strings.Join(words, ", ") }

// isTerminal reports whether f is a terminal.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Mode()&os.ModeDevice != 0 && !isNull(info)
}

// isNull reports whether info is that of the null device.
func isNull(info os.FileInfo) bool {
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(null, info)
}
