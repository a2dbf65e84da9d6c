package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"toolgate/internal/app"
	"toolgate/internal/limits"
	"toolgate/internal/netproxy"
	"toolgate/policy"
	"toolgate/sandbox"
)

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

// sandboxed runs argv confined and returns its exit code as an exitStatus.
func (p *program) sandboxed(argv []string) error {
	s, err := p.Load()
	if err != nil {
		return err
	}
	limits.Delegated() // before a process is started
	removeTmp, err := s.MakePrivateTmp()
	if err != nil {
		return err
	}
	defer removeTmp()
	// Probing takes as long as setting a sandbox up, so assume first and probe on failure.
	cmd, group, err := p.startSandboxed(s, sandbox.Guess(), argv)
	if errors.Is(err, sandbox.ErrUnsupported) {
		cmd, group, err = p.startSandboxed(s, sandbox.Probe(), argv)
	}
	if err != nil {
		return err
	}
	for _, note := range cmd.Notes() {
		fmt.Fprintf(p.stderr, "toolgate: sandbox: %s\n", note)
	}
	if w := s.OpenEgress(cmd, s.Policy.Profile(), nil, s.Log); w != nil {
		defer w.Close()
		defer func() {
			for _, d := range w.Refused() {
				why := strings.TrimSuffix(d.Why, "\n")
				fmt.Fprintf(p.stderr, "toolgate: the sandbox refused the host %s: %s\n", d.Path, why)
			}
		}()
	}
	end := s.WatchLimits(cmd, s.Policy.Profile(), group)
	err = end(group.End(cmd.WaitEnded()))
	if code := sandbox.ExitCode(err); code > 0 {
		return exitStatus(code)
	}
	return err
}

// startSandboxed starts argv as the system sys can confine it.
func (p *program) startSandboxed(
	s *app.Settings, sys sandbox.System, argv []string,
) (*sandbox.Cmd, *limits.Group, error) {
	plan, err := s.PlanOn(sys, s.Policy.Profile())
	if err != nil {
		return nil, nil, err
	}
	cmd := plan.Command(argv...)
	cmd.Dir = s.Policy.Workspace
	cmd.Env = app.TmpEnv(s.Environ, plan)
	cmd.Rlimits = s.Limits().Rlimits()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.stdin, p.raw.stdout, p.raw.stderr
	if f := s.Policy.Profile(); f.Network == policy.NetworkHosts {
		cmd.Env = append(slices.Clip(cmd.Env), netproxy.Environ("", f.Hosts)...)
	}
	group := s.Group(cmd, s.Policy.Profile(), false)
	if err := cmd.Start(); err != nil {
		return nil, nil, group.End(err)
	}
	return cmd, group, nil
}
