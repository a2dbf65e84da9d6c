package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunsPackage(t *testing.T) {
	for _, tt := range []struct {
		words []string
		want  bool
	}{
		{[]string{"npx", "-y", "p"}, true},
		{[]string{"/usr/bin/npx", "p"}, true},
		{[]string{`C:\node\npx.cmd`, "p"}, true},
		{[]string{"pnpm", "dlx", "p"}, true},
		{[]string{"npm", "exec", "p"}, true},
		{[]string{"npm", "start"}, false},
		{[]string{"npm"}, false},
		{[]string{"node", "npx"}, false},
		{[]string{"bun", "x", "p"}, true},
		{[]string{"bun", "run", "x.ts"}, false},
	} {
		require.Equal(t, tt.want, runsPackage(tt.words[0], tt.words[1:]), "%v", tt.words)
	}
}
