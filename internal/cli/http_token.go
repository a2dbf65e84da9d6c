package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"toolgate/internal/config"
	"toolgate/internal/httpauth"
)

func (p *program) httpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "http",
		Short: "Who may call over HTTP: add, list, remove tokens",
		Example: `  toolgate http token add alice --workspace /srv/alice -s read-only
  toolgate http token list`,
	}
	token := &cobra.Command{
		Use:     "token",
		Short:   "The tokens in the config",
		Example: "  toolgate http token add ci --servers git",
	}
	token.AddCommand(p.tokenAdd(), p.tokenList(), p.tokenRemove())
	cmd.AddCommand(token)
	return cmd
}

func (p *program) tokenAdd() *cobra.Command {
	var t config.HTTPToken
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a token, print it once and put its hash into the config",
		Long: `Add makes a token for a caller, prints it, and adds its hash to the config: the
token itself is kept nowhere. -s or -P, -a, --workspace and --servers say what the
caller gets that is different from the rest of the config. A server that runs
takes it over.`,
		Example: `  toolgate http token add alice --workspace /srv/alice
  toolgate http token add ci -s read-only -a never --servers git,docs`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("workspace") {
				dirs := []string{t.Workspace}
				if err := absolute("--workspace", dirs); err != nil {
					return err
				}
				t.Workspace = dirs[0]
			}
			t.SandboxMode, t.Permissions, t.ApprovalPolicy = p.Sandbox, p.Profile, p.Approval
			secret := httpauth.NewToken()
			t.Hash = httpauth.TokenOf(args[0], secret).HashText()
			file, err := editConfig(func(text []byte) ([]byte, error) { return config.AddToken(text, args[0], t) })
			if err != nil {
				return err
			}
			fmt.Fprintf(p.stderr, "toolgate: %s is in %s; this is its token, it is not shown again:\n", args[0], file)
			_, err = fmt.Fprintln(p.stdout, secret)
			return err
		},
	}
	cmd.Flags().StringVar(&t.Workspace, "workspace", "", "workspace `DIR` of the caller")
	cmd.Flags().StringSliceVar(&t.Servers, "servers", nil, "`NAMES` of the downstream servers that the caller sees")
	return cmd
}

func (p *program) tokenList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the tokens in the config",
		Example: "  toolgate http token list",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := loadConfig()
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tWORKSPACE\tSANDBOX\tAPPROVAL\tSERVERS")
			for _, name := range slices.Sorted(maps.Keys(c.HTTP.Tokens)) {
				t := c.HTTP.Tokens[name]
				servers := "all"
				if t.Servers != nil {
					servers = strings.Join(t.Servers, ",")
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name, cmp.Or(t.Workspace, "default"),
					cmp.Or(t.SandboxMode, t.Permissions, "default"), cmp.Or(t.ApprovalPolicy, "default"), servers)
			}
			return w.Flush()
		},
	}
}

func (p *program) tokenRemove() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Take a token out of the config: it lets nobody in any more",
		Example: "  toolgate http token remove alice",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			_, err := editConfig(func(text []byte) ([]byte, error) { return config.RemoveToken(text, args[0]) })
			return err
		},
	}
}
