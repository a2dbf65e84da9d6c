package cli

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"toolgate/internal/app"
	"toolgate/internal/approvals"
	"toolgate/internal/gate"
)

func (p *program) approvalsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "Answer what waits for a yes, and see what was remembered",
		Example: `  toolgate approvals list
  toolgate approvals approve k3jx
  toolgate approvals rules`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return p.approvalsList(false) },
	}
	var asJSON bool
	list := &cobra.Command{
		Use:     "list",
		Short:   "Print the questions that wait",
		Example: "  toolgate approvals list --json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return p.approvalsList(asJSON) },
	}
	list.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")

	var session, always bool
	approve := &cobra.Command{
		Use:   "approve ID",
		Short: "Say yes to a waiting question",
		Long: `Approve says yes to a question. The call that asked goes on if it still waits;
else the same call passes when it comes again within an hour. The beginning of
an id is enough.`,
		Example: "  toolgate approvals approve k3jx\n  toolgate approvals approve k3jx --session",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case always:
				return p.approvalsDecide(args[0], gate.Always)
			case session:
				return p.approvalsDecide(args[0], gate.Session)
			}
			return p.approvalsDecide(args[0], gate.Once)
		},
	}
	approve.Flags().BoolVar(&session, "session", false, "and to what the question says for that session")
	approve.Flags().BoolVar(&always, "always", false, "and add the rule that was offered")
	approve.MarkFlagsMutuallyExclusive("session", "always")

	deny := &cobra.Command{
		Use:     "deny ID",
		Short:   "Say no to a waiting question",
		Example: "  toolgate approvals deny k3jx",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return p.approvalsDecide(args[0], gate.No) },
	}

	var revoke int
	rules := &cobra.Command{
		Use:     "rules",
		Short:   "Print the rules that \"always\" has made, or revoke one",
		Example: "  toolgate approvals rules\n  toolgate approvals rules --revoke 3",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return p.approvalsRules(revoke) },
	}
	rules.Flags().IntVar(&revoke, "revoke", 0, "remove the rule on that `LINE`")

	cmd.AddCommand(list, approve, deny, rules)
	return cmd
}

// approvalQueue opens the approval queue of this user.
func (p *program) approvalQueue() (*approvals.Queue, error) {
	s, err := p.Load()
	if err != nil {
		return nil, err
	}
	return s.ApprovalQueue()
}

func (p *program) approvalsList(asJSON bool) error {
	l, err := p.approvalQueue()
	if err != nil {
		return err
	}
	waiting, err := l.Waiting()
	if err != nil {
		return err
	}
	if asJSON {
		return p.printJSON(append([]approvals.Entry{}, waiting...)) // [] for none
	}
	if len(waiting) == 0 {
		fmt.Fprintln(p.stdout, "nothing waits")
	}
	for _, e := range waiting {
		fmt.Fprintf(p.stdout, "%s  %s ago\n", e.ID, time.Since(e.Asked).Round(time.Second))
		for line := range strings.Lines(strings.TrimSpace(e.Message) + "\n") {
			fmt.Fprintf(p.stdout, "  %s", line)
		}
		fmt.Fprintln(p.stdout)
	}
	return nil
}

func (p *program) approvalsDecide(id string, a gate.Answer) error {
	l, err := p.approvalQueue()
	if err != nil {
		return err
	}
	e, err := l.Decide(id, a)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "%s: %s\n", e.ID, a)
	return nil
}

func (p *program) approvalsRules(revoke int) error {
	s, err := p.Load()
	if err != nil {
		return err
	}
	if revoke != 0 {
		gone, err := s.Rules.Remove(revoke, "")
		if err == nil {
			fmt.Fprintf(p.stdout, "revoked: %s\n", gone)
		}
		return err
	}
	text, _, err := readIfThere(filepath.Join(s.ConfigDir, "rules", app.KeptRules))
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		fmt.Fprintln(p.stdout, "nothing was remembered")
	}
	for i, line := range strings.Split(string(text), "\n") {
		if strings.TrimSpace(line) != "" {
			fmt.Fprintf(p.stdout, "%d  %s\n", i+1, line)
		}
	}
	return nil
}
