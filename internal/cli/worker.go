package cli

import (
	"github.com/spf13/cobra"

	"toolgate/internal/app"
)

func (p *program) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Short:  "Run the built-in tools for a gate (internal)",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return app.RunWorker(cmd.Context(), p.stdin, p.raw.stdout, p.raw.stderr)
		},
	}
}
