package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
)

// TestReadsWithoutASandbox: where nothing is enforced, what is read unasked is
// what the workspace holds, however the path is spelled.
func TestReadsWithoutASandbox(t *testing.T) {
	unix := &policy.Policy{
		Approval:      policy.OnRequest,
		Mode:          policy.WorkspaceWrite,
		Workspace:     "/Users/me/app",
		WritableRoots: []string{"/Users/me/app", "/tmp"},
		ReadRoots:     []string{"/Users/me/app"},
		Hidden:        []string{"/Users/me/.ssh", "/Users/me/app/keys/own"},
	}
	windows := &policy.Policy{
		Approval:      policy.OnRequest,
		Mode:          policy.WorkspaceWrite,
		Workspace:     `C:\Users\me\app`,
		WritableRoots: []string{`C:\Users\me\app`},
		ReadRoots:     []string{`C:\Users\me\app`},
		Hidden:        []string{`C:\Users\me\.ssh`, `C:\Users\me\app\keys\own`},
	}
	const allow, ask, deny = policy.Allow, policy.Ask, policy.Deny
	for _, tt := range []struct {
		name string
		p    *policy.Policy
		path string
		want policy.Verdict
	}{
		{"a file", unix, "main.go", allow},
		{"a file, absolute", unix, "/Users/me/app/x/main.go", allow},
		{"what comes back in", unix, "x/../main.go", allow},
		{"a folder", unix, "src", allow},
		{"a folder with a secret in it", unix, ".", ask},
		{"a secret in the workspace", unix, "keys/own/id", ask},
		{"the same, in capitals", unix, "KEYS/Own/id", ask},
		{"the same, with a letter that folds to s", unix, "key\u017f/own", ask},
		{"beside a secret", unix, "keys/public", allow},
		{"a secret", unix, "/Users/me/.ssh/id_rsa", ask},
		{"a secret, in capitals", unix, "/Users/me/.SSH/id_rsa", ask},
		{"a secret, by another mount", unix, "/System/Volumes/Data/Users/me/.ssh/id_rsa", ask},
		{"a secret, from the workspace", unix, "../.Ssh/id_rsa", ask},
		{"the home folder", unix, "/Users/me", ask},
		{"beside, by prefix", unix, "/Users/me/app2/x", ask},
		{"the system's", unix, "/etc/hosts", ask},
		{"a temporary folder", unix, "/tmp/x", ask},
		{"a device", unix, "/dev/fd/3", ask},

		{"a file", windows, `src\main.go`, allow},
		{"a file, with slashes", windows, "src/main.go", allow},
		{"a file, absolute", windows, `C:\Users\me\app\main.go`, allow},
		{"a file, absolute, with slashes", windows, "C:/Users/me/app/main.go", allow},
		{"a file, in other letters", windows, `c:\users\ME\App\main.go`, allow},
		{"what comes back in", windows, `x\..\main.go`, allow},
		{"a name that only looks like a device", windows, `console\NULL\com10`, allow},
		{"a folder with a secret in it", windows, "keys", ask},
		{"a secret in the workspace", windows, `KEYS\own\id`, ask},
		{"a secret", windows, `C:\Users\me\.ssh\id_rsa`, ask},
		{"a secret, with slashes", windows, "C:/Users/me/.ssh/id_rsa", ask},
		{"a secret, from the workspace", windows, `..\.ssh\id_rsa`, ask},
		{"a secret, above the root", windows, `C:\..\Users\me\.ssh\id_rsa`, ask},
		{"a secret, on this drive", windows, `\Users\me\.ssh\id_rsa`, ask},
		{"a secret, by a short name", windows, `C:\Users\me\SSH~1\id_rsa`, ask},
		{"another drive", windows, `D:\x`, ask},
		{"the home folder", windows, `C:\Users\me`, ask},
		{"the drive", windows, `C:\`, ask},
		{"a folder of a drive", windows, `D:x`, deny},
		{"a drive alone", windows, `C:`, deny},
		{"another computer", windows, `\\host\share\x`, deny},
		{"another computer, with slashes", windows, "//host/share/x", deny},
		{"another computer, with both", windows, `/\host\share\x`, deny},
		{"a device", windows, `\\.\PhysicalDrive0`, deny},
		{"a path past the checks", windows, `\\?\C:\Users\me\.ssh\id_rsa`, deny},
		{"a path of the kernel", windows, `\??\C:\Users\me\.ssh\id_rsa`, deny},
		{"a console", windows, "CON", deny},
		{"a port", windows, `src\com1.txt`, deny},
		{"a port by another digit", windows, "COM\u00b9", deny},
		{"nothing at all", windows, `x\nul .txt\y`, deny},
		{"a stream", windows, "main.go:stream", deny},
		{"a stream, absolute", windows, `C:\Users\me\app\main.go::$DATA`, deny},
		{"a folder's stream", windows, `keys::$INDEX_ALLOCATION\own`, deny},
	} {
		t.Run(tt.p.Workspace[:2]+" "+tt.name, func(t *testing.T) {
			a := policy.Action{Tool: "grep_files", Reads: []string{tt.path}, ReadOnly: true}.In(tt.p.Workspace)
			d := tt.p.Decide(a)
			require.Equal(t, tt.want.String(), d.Verdict.String(), "%s as %q", d.Reason, a.Reads)
			require.NotEmpty(t, d.Reason)
			// A yes does not turn it into a path that may be written.
			write := policy.Action{Tool: "apply_patch", Writes: []string{tt.path}}.In(tt.p.Workspace)
			require.Equal(t, tt.want == deny, tt.p.Decide(write).Verdict == deny)
			never := *tt.p
			never.Approval = policy.Never
			require.Equal(t, tt.want == allow, never.Decide(a).Verdict == allow)
		})
	}
}

// TestWindowsRoots: the folders of a policy and the paths of a call are
// compared in one form.
func TestWindowsRoots(t *testing.T) {
	p := &policy.Policy{
		Approval:         policy.Never,
		Mode:             policy.WorkspaceWrite,
		Workspace:        `C:\Users\me\app`,
		WritableRoots:    []string{`C:\Users\me\app`},
		ReadOnlySubpaths: []string{".git"},
		Hidden:           []string{`C:\Users\me\.ssh`},
		Confines:         yes, // as one day it may
	}
	for path, want := range map[string]policy.Verdict{
		`main.go`:                   policy.Allow,
		`C:\Users\me\app\main.go`:   policy.Allow,
		`c:\users\me\app\main.go`:   policy.Allow,
		`.git\config`:               policy.Deny,
		`C:/Users/me/app/.GIT/x`:    policy.Deny,
		`..\other\main.go`:          policy.Deny,
		`D:\Users\me\app\main.go`:   policy.Deny,
		`C:\Users\me\app2\main.go`:  policy.Deny,
		`\\host\share\main.go`:      policy.Deny,
		`main.go:stream`:            policy.Deny,
		`.git::$INDEX_ALLOCATION\x`: policy.Deny,
	} {
		d := p.Decide(policy.Action{Tool: "apply_patch", Writes: []string{path}}.In(p.Workspace))
		require.Equal(t, want.String(), d.Verdict.String(), "%s: %s", path, d.Reason)
	}
	d := p.Decide(policy.Action{Tool: "read_file", Reads: []string{`..\.SSH\x`}, ReadOnly: true}.In(p.Workspace))
	require.Equal(t, policy.Deny, d.Verdict)
}
