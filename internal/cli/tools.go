package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"toolgate/internal/printable"
)

func (p *program) toolsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "tools",
		Short:   "Print the tools a client would see",
		Example: "  toolgate tools --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := p.Open()
			if err != nil {
				return err
			}
			defer a.Close()
			a.Downstreams.WaitListed(cmd.Context(), false)
			list, err := a.Server.Listing()
			if err != nil {
				return err
			}
			if !asJSON {
				for _, t := range list {
					first, _, _ := strings.Cut(t.Description, "\n")
					fmt.Fprintf(p.stdout, "%-16s %s\n", t.Name, printable.Line(first))
				}
				return nil
			}
			all := []json.RawMessage{}
			for _, t := range list {
				all = append(all, t.Definition)
			}
			return p.printJSON(map[string]any{"tools": all})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the tools/list result as JSON")
	return cmd
}
