package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"toolgate/internal/app"
	"toolgate/internal/atomicfile"
	"toolgate/policy"
	"toolgate/policy/rules"
	"toolgate/policy/shell"
)

func (p *program) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "policy",
		Short:   "Explain the rules, and take over Codex's",
		Example: "  toolgate policy check -- bash -c 'make && git push'",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.policyCheckCommand(), p.policyImportCommand())
	return cmd
}

func (p *program) policyCheckCommand() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "check [--rules FILE]... -- CMD [ARG...]",
		Short: "Say what the rules make of a command",
		Long: `Check prints, as JSON, what would become of CMD under the policy in force: the
decision, why, every rule that speaks of a command in it, and where in the
script that command stands. For a command that the rules allow, the reason says
whether it runs outside the sandbox, or inside and why. Nothing is run. Without
--rules the user's rule files are used.`,
		Example: `  toolgate policy check -- git push
  toolgate policy check --rules my.rules -- bash -c 'if true; then git push; fi'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return p.policyCheck(files, args) },
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringArrayVar(&files, "rules", nil, "rule `FILE` (repeatable)")
	return cmd
}

// A checked is the output of policy check. Decision, matchedRules and their fields are those of
// Codex's `execpolicy check`.
type checked struct {
	Decision string               `json:"decision"` // allow, ask, deny
	Reason   string               `json:"reason"`
	Hint     string               `json:"hint,omitempty"`
	Sandbox  string               `json:"sandbox"` // mode it would run in
	Ruling   rules.Decision       `json:"rules,omitempty"`
	Matches  []rules.CommandMatch `json:"matchedRules"`
	Dangers  []rules.Danger       `json:"dangers,omitempty"`
	Found    shell.Found          `json:"found"`
}

func (p *program) policyCheck(files, argv []string) error {
	s, err := p.Load()
	if err != nil {
		return err
	}
	if len(files) > 0 {
		all, _, err := app.ReadRules(files, nil)
		if err != nil {
			return err
		}
		s.Policy.Rules = func() *rules.Rules { return all }
	}
	d := s.Policy.Decide(policy.Action{Tool: "shell", Command: argv}.In(s.Policy.Workspace))
	j := s.Policy.Rules().Judge(argv)
	return p.printJSON(checked{
		Decision: d.Verdict.String(), Reason: d.Reason, Hint: d.Hint, Sandbox: d.Profile.Mode.String(),
		Ruling: j.Decision, Matches: j.Matches, Dangers: j.Dangers, Found: j.Found,
	})
}

func (p *program) policyImportCommand() *cobra.Command {
	var from string
	var yes bool
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Copy Codex's rule files into toolgate's",
		Long: `Import shows the rule files of Codex and, with --yes, copies them into toolgate's
own folder. A file that is there already is never replaced.`,
		Example: "  toolgate policy import\n  toolgate policy import --yes",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return p.policyImport(from, yes) },
	}
	cmd.Flags().StringVar(&from, "from", "", "`DIR` with rule files, default the rules folder of Codex")
	cmd.Flags().BoolVar(&yes, "yes", false, "copy them")
	return cmd
}

func (p *program) policyImport(from string, yes bool) error {
	s, err := p.Load()
	if err != nil {
		return err
	}
	if from == "" {
		codex := os.Getenv("CODEX_HOME")
		if codex == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return fmt.Errorf("finding Codex's folder: %w", err)
			}
			codex = filepath.Join(home, ".codex")
		}
		from = filepath.Join(codex, "rules")
	}
	names, err := app.RuleFiles(from)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("no rule files in %s", from)
	}
	to := filepath.Join(s.ConfigDir, "rules")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("reading the rules: %w", err)
		}
		if _, err := rules.Parse(name, text); err != nil {
			return err
		}
		target := filepath.Join(to, "codex-"+filepath.Base(name))
		fmt.Fprintf(p.stdout, "%s -> %s\n", name, target)
		for line := range strings.Lines(string(text)) {
			fmt.Fprintf(p.stdout, "  %s", line)
		}
		fmt.Fprintln(p.stdout)
		if !yes {
			continue
		}
		err = atomicfile.Create(target, text)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s is there already; remove it first", target)
		}
		if err != nil {
			return err
		}
	}
	if !yes {
		fmt.Fprintln(p.stdout, "Nothing was copied; --yes copies them.")
	}
	return nil
}
