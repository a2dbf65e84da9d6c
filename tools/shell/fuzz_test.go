package shell_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/tools/shell"
)

// FuzzDescribe gives every tool any arguments: what it says is one line, and
// what it would run holds nothing that no program can be given.
func FuzzDescribe(f *testing.F) {
	catalog := shell.Tools(shell.Options{}, nil)
	for _, args := range []string{
		`{"command":["ls","-l"],"workdir":"x","timeout_ms":5}`,
		`{"command":"ls | cat","justification":"j","sandbox_permissions":"require_escalated","prefix_rule":["ls"]}`,
		`{"cmd":"ls","shell":"C:\\x\\pwsh.exe","login":true,"tty":true,"rows":1,"cols":1000,"wait_for":"a|b"}`,
		`{"session_id":"12345","chars":"x","keys":["ctrl-c","alt-enter"],"yield_time_ms":0}`,
		`{"session_id":1e3}`, `{"session_id":null}`, `{"command":null}`, `null`, `[]`, `{"command":{}}`, `{"command":"\u0000"}`,
	} {
		f.Add([]byte(args))
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		for _, tool := range catalog {
			a, err := tool.Describe(args)
			if err != nil {
				require.NotContains(t, err.Error(), "\n", "one line")
				continue
			}
			require.True(t, json.Valid(args) || len(strings.TrimSpace(string(args))) == 0)
			require.Equal(t, tool.Name(), a.Tool)
			require.False(t, slices.ContainsFunc(a.Command, func(s string) bool { return strings.Contains(s, "\x00") }))
			switch tool.Name() {
			case "list_sessions":
			case "write_stdin", "read_output":
				require.NotEmpty(t, a.Session)
			default:
				require.NotEmpty(t, a.Command)
				require.NotEmpty(t, a.Command[0])
				require.Contains(t, []policy.Permissions{"", policy.UseDefault, policy.RequireEscalated}, a.Permissions)
			}
		}
	})
}
