package app

import (
	"fmt"
	"slices"
	"strings"

	"toolgate/policy"
	"toolgate/sandbox"
)

// Instructions returns what the model is told about the server. Codex shows the first 250
// characters and only where it defers tools, Claude Code the first 2,048.
func Instructions(s *Settings) string {
	var b strings.Builder
	b.WriteString("Run commands (shell), edit files (apply_patch), read (read_file), list (list_dir) " +
		"and search (grep_files) in the user's workspace")
	pol := s.Policy
	if sandbox.Guess().Level() == sandbox.None {
		b.WriteString(". This system confines nothing. ")
	} else {
		b.WriteString(", confined by a sandbox. ")
	}
	switch {
	case s.NoRoots != "":
		fmt.Fprintf(&b, "Nothing can be written: %s; the user must start toolgate with -C FOLDER.\n", s.NoRoots)
	case pol.Mode == policy.ReadOnly:
		b.WriteString("Nothing can be written.\n")
	case pol.Mode == policy.DangerFullAccess:
		b.WriteString("The sandbox is off.\n")
	default:
		fmt.Fprintf(&b, "Workspace: %s\n", pol.Workspace)
	}
	fmt.Fprintf(&b, "\nRelative paths count from %s. Sandbox mode: %s. Approval policy: %s.\n",
		pol.Workspace, pol.Mode, pol.Approval)
	b.WriteString(pathWords(pol.Profile()))
	if pol.Mode == policy.WorkspaceWrite && s.NoRoots == "" {
		fmt.Fprintf(&b, "Writable: %s; but not .git, .codex and other names that run code later.\n",
			strings.Join(pol.WritableRoots, ", "))
	}
	if pol.Mode != policy.DangerFullAccess {
		if pol.Network == policy.NetworkNone {
			b.WriteString("Commands have no network.\n")
		}
		if pol.Network == policy.NetworkHosts {
			fmt.Fprintf(&b, "Commands reach %s, through the proxy in HTTPS_PROXY.\n", NetworkWords(pol.Profile()))
		}
		if slices.Contains(pol.Withheld(), policy.RequireEscalated) {
			b.WriteString("Nothing runs outside the sandbox; what it denies stays denied.\n")
		} else {
			b.WriteString("When a command needs more, send it again with sandbox_permissions \"require_escalated\" " +
				"and a one-sentence justification; the user is asked. " +
				"Do not ask for it before the sandbox has denied something.\n")
		}
	}
	b.WriteString("Prefer grep_files and read_file to shell commands for looking at files, " +
		"and apply_patch or edit_file for changing them.\n")
	return b.String()
}
