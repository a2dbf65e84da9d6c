package cli

import (
	"encoding/json"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"toolgate/internal/app"
	"toolgate/policy"
)

// A program is one run of the command line.
type program struct {
	app.Options
	stdin          io.Reader
	stdout, stderr io.Writer // for text, whoever wrote it: see [printable.Writer]
	raw            streams   // for what must arrive as it is
	http           app.HTTPOptions
	started        bool // a command has begun
}

type streams struct{ stdout, stderr io.Writer }

// command returns the command line with all commands.
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
			if err := p.checkDirectories(cmd); err != nil {
				return err
			}
			p.started = true
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return p.serve(cmd.Context()) },
	}
	f := root.PersistentFlags()
	f.StringVarP(&p.Dir, "cd", "C", "", "workspace `DIR`, default the current folder")
	f.StringArrayVar(&p.AddDirs, "add-dir", nil, "further writable `DIR` (repeatable)")
	f.StringVarP(&p.Sandbox, "sandbox", "s", "", "sandbox `MODE`: read-only, workspace-write, danger-full-access")
	f.StringVarP(&p.Profile, "permission-profile", "P", "",
		"permission profile `NAME`: of the config, or :read-only, :workspace, :danger-full-access")
	root.MarkFlagsMutuallyExclusive("sandbox", "permission-profile")
	f.StringVarP(&p.Approval, "ask-for-approval", "a", "", "approval `POLICY`: untrusted, on-request, never")
	f.StringArrayVarP(&p.ConfigValues, "config", "c", nil, "config `KEY=VALUE` with a TOML value (repeatable)")
	f.StringVar(&p.LogLevel, "log-level", "warn", "log `LEVEL` on stderr: debug, info, warn, error")
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetHelpCommand(helpCommand())
	return root
}

func (p *program) addCommands(root *cobra.Command) {
	root.AddCommand(p.serveCommand(), p.wrapCommand(), p.mcpCommand(), p.httpCommand(), p.callCommand())
	root.AddCommand(p.toolsCommand(), p.sandboxCommand(), p.doctorCommand(), p.policyCommand(), p.approvalsCommand())
	root.AddCommand(p.consoleCommand(), p.auditCommand(), p.setupCommand(), p.versionCommand())
	root.AddCommand(p.manCommand(), p.workerCommand())
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND...]",
		Short:   "Print what a command does, as its --help",
		Example: "  toolgate help mcp add",
		RunE: func(cmd *cobra.Command, words []string) error {
			found, rest, err := cmd.Root().Find(words)
			if err != nil || len(rest) > 0 {
				var known []string
				for _, c := range cmd.Root().Commands() {
					if c.IsAvailableCommand() {
						known = append(known, c.Name())
					}
				}
				return &policy.ValueError{
					What: "command", Value: strings.Join(words, " "), Known: strings.Join(known, ", "),
				}
			}
			return found.Help()
		},
	}
}

func (p *program) printJSON(v any) error {
	enc := json.NewEncoder(p.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// checkDirectories checks the directories in the flags of any command and makes those of --add-dir absolute.
func (p *program) checkDirectories(cmd *cobra.Command) error {
	if cmd.Flags().Changed("cd") {
		if _, err := app.Directory("-C", p.Dir); err != nil {
			return err
		}
	}
	return absolute("--add-dir", p.AddDirs)
}

// absolute checks the directories that the flag what names and makes them absolute.
func absolute(what string, dirs []string) error {
	for i, dir := range dirs {
		if _, err := app.Directory(what, dir); err != nil {
			return err
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		dirs[i] = abs
	}
	return nil
}
