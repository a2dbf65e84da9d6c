package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"toolgate/internal/audit"
	"toolgate/policy"
)

func (p *program) auditCommand() *cobra.Command {
	var (
		follow, asJSON bool
		since          string
		f              audit.Filter
	)
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print what was called, by whom, and what became of it",
		Long: `Audit prints the record of calls, one line each, oldest first. Secrets were
taken out when it was written, as far as names and shapes give them away.

Outcomes are ok, tool-error, refused, cancelled, failed and invalid.`,
		Example: `  toolgate audit --since 2h --outcome refused
  toolgate audit --follow --tool shell
  toolgate audit --json -n 100 | jq -r .action.command`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if f.Since, err = sinceTime(since, time.Now()); err != nil {
				return err
			}
			if f.Outcome != "" && !slices.Contains(strings.Split(outcomes, ", "), f.Outcome) {
				return &policy.ValueError{What: "outcome", Value: f.Outcome, Known: outcomes}
			}
			if follow && !cmd.Flags().Changed("lines") && since == "" {
				f.Last = followLines
			}
			return p.printAudit(cmd.Context(), f, follow, asJSON)
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&follow, "follow", "f", false, "go on with what is called from now on")
	fs.BoolVar(&asJSON, "json", false, "print the events as JSON, one a line")
	fs.StringVar(&since, "since", "", "calls since `TIME`: 90m, 3d, 2026-01-31, 2026-01-31T12:00:00Z")
	fs.StringVar(&f.Tool, "tool", "", "calls of the tool or server `NAME`")
	fs.StringVar(&f.Outcome, "outcome", "", "calls with the outcome `X`")
	fs.StringVar(&f.Caller, "caller", "", "calls of the caller or client program `NAME`")
	fs.IntVarP(&f.Last, "lines", "n", 0, "the last `N` of them; default all, with --follow 10")
	return cmd
}

const (
	followLines = 10
	outcomes    = "ok, tool-error, refused, cancelled, failed, invalid"
)

// printAudit prints the calls that match f.
func (p *program) printAudit(ctx context.Context, f audit.Filter, follow, asJSON bool) error {
	s, err := p.Load()
	if err != nil {
		return err
	}
	print := func(e audit.Entry) error {
		line := e.String()
		if asJSON {
			line = string(e.Line)
		}
		_, err := fmt.Fprintln(p.stdout, line)
		return err
	}
	if !follow {
		return audit.Read(s.StateDir, f, print)
	}
	if err := audit.Follow(ctx, s.StateDir, f, print); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil // the user has seen enough
}

// sinceTime parses a point in time: a duration before now, a day, or a day and time.
func sinceTime(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	var days float64
	if n, err := fmt.Sscanf(s, "%fd", &days); n == 1 && err == nil && strings.HasSuffix(s, "d") {
		return now.Add(-time.Duration(days * 24 * float64(time.Hour))), nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		return now.Add(-d.Abs()), nil
	}
	layouts := []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02 15:04", time.DateTime, time.DateOnly}
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	const known = "a duration such as 90m or 3d, a day such as 2026-01-31, or RFC 3339"
	return time.Time{}, &policy.ValueError{What: "time", Value: s, Known: known}
}
