// Toolgate is an MCP server that gives a client the built-in tools of
// OpenAI's Codex behind one policy, one approval, one sandbox and one record.
package main

import (
	"os"

	"toolgate/internal/cli"
	"toolgate/sandbox"
)

func main() {
	sandbox.Main() // does not return in the processes that set a sandbox up
	os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
