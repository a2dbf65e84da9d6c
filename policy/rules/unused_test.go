package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy/rules"
)

func TestRulesWithoutEffect(t *testing.T) {
	r, err := rules.Parse("my.rules", []byte(`
prefix_rule(pattern = ["git", "push"], decision = "allow")
prefix_rule(pattern = ["git"], decision = "prompt")
prefix_rule(pattern = ["gone", "x"], decision = "allow")
prefix_rule(pattern = ["gone"], decision = "forbidden")
prefix_rule(pattern = ["absent"], decision = "allow")
prefix_rule(pattern = ["absent"], decision = "prompt", justification = "it may come")
prefix_rule(pattern = [["absent", "make"]], decision = "allow")
prefix_rule(pattern = ["make", ["a", "b"]], decision = "prompt")
prefix_rule(pattern = ["make", "a"], decision = "prompt")
prefix_rule(pattern = ["make", "b", "c"], decision = "prompt")
prefix_rule(pattern = ["make", ["b", "c"]], decision = "allow")
tool_rule(server = "docs", tool = "*", decision = "allow")
tool_rule(server = "do*", tool = "x", decision = "allow")
tool_rule(server = "nope", tool = "*", decision = "forbidden")
`))
	require.NoError(t, err)
	there := func(program string) bool { return program == "git" || program == "make" }
	var got []string
	for _, i := range r.Unused(there, []string{"docs"}) {
		got = append(got, i.String())
	}
	require.Equal(t, []string{
		"my.rules:2: it has no effect: my.rules:3 says prompt for all of it, and the strictest rule holds",
		"my.rules:4: it has no effect: my.rules:5 says forbidden for all of it, and the strictest rule holds",
		"my.rules:6: it has no effect: my.rules:7 says prompt for all of it, and the strictest rule holds",
		"my.rules:10: it has no effect: my.rules:9 says the same already",
		"my.rules:15: it never matches: no server is called nope",
	}, got)
	var none *rules.Rules
	require.Empty(t, none.Unused(there, nil))
}
