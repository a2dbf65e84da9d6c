package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"toolgate/internal/gate"
	"toolgate/server"
)

func (p *program) callCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "call TOOL [JSON]",
		Short: "Make one call through the whole gate and print its text",
		Long: `Call leads one call through policy, approval, sandbox and record, as a client's
would go, and prints the text of its result. JSON is the arguments, "-" reads
them from stdin; without it they are {}. On a terminal you are asked where a
client's user would be, and control characters in the text are shown as escapes.

Exit codes: 0 done, 3 the tool answered with an error, 4 refused.`,
		Example: `  toolgate call shell '{"command":["uname","-sr"]}'
  toolgate call grep_files '{"pattern":"TODO","include":"*.go"}'
  git diff | jq -Rs '{input: .}' | toolgate -C ../other call apply_patch -`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := ""
			if len(args) == 2 {
				text = args[1]
			}
			return p.call(cmd.Context(), args[0], text, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the CallToolResult as JSON")
	return cmd
}

// call makes one call and prints the result.
func (p *program) call(ctx context.Context, tool, text string, asJSON bool) error {
	fromStdin := text == "-"
	if fromStdin {
		b, err := io.ReadAll(io.LimitReader(p.stdin, server.MaxLine+1))
		if err != nil {
			return fmt.Errorf("reading the arguments: %w", err)
		}
		if len(b) > server.MaxLine {
			return fmt.Errorf("the arguments are longer than %d bytes", server.MaxLine)
		}
		text = string(b)
	}
	p.OneCall = true
	a, err := p.Open()
	if err != nil {
		return err
	}
	defer a.Close()
	var ask gate.AskFunc
	if !fromStdin && isTerminal(p.stdin) && isTerminal(p.raw.stderr) {
		ask = p.askHere
	}
	if !a.Server.Has(tool) {
		a.Downstreams.WaitListed(ctx, false)
	}
	reply, err := a.Server.Call(ctx, "cli", tool, json.RawMessage(text), ask)
	if err != nil {
		return err
	}
	if err := p.printReply(reply, asJSON); err != nil {
		return err
	}
	switch {
	case reply.Refused:
		return exitStatus(exitRefused)
	case reply.IsError:
		return exitStatus(exitTool)
	}
	return nil
}

// printReply prints the text of a result, or the result itself. A file gets the text as it is.
func (p *program) printReply(r server.Reply, asJSON bool) error {
	out := p.raw.stdout
	if isTerminal(out) {
		out = p.stdout
	}
	if asJSON {
		var line bytes.Buffer // a server may have sent several lines
		if err := json.Compact(&line, r.Result); err != nil {
			return fmt.Errorf("reading the result: %w", err)
		}
		_, err := fmt.Fprintf(p.stdout, "%s\n", &line)
		return err
	}
	var res mcp.CallToolResult
	if err := json.Unmarshal(r.Result, &res); err != nil {
		return fmt.Errorf("reading the result: %w", err)
	}
	for _, c := range res.Content {
		var text string
		switch c := c.(type) {
		case *mcp.TextContent:
			text = c.Text
		case *mcp.ImageContent:
			text = fmt.Sprintf("[image %s, %d bytes]", c.MIMEType, len(c.Data))
		default:
			text = fmt.Sprintf("[%T, see --json]", c)
		}
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
	}
	return nil
}

// askHere asks the user at the terminal. Any answer but one of the words is no.
func (p *program) askHere(_ context.Context, q gate.Question) (gate.Answer, error) {
	q.Grants = "" // the session ends with this call
	fmt.Fprintf(p.stderr, "%s\n[o]nce, or no? ", server.Message(q))
	line, err := bufio.NewReader(p.stdin).ReadString('\n')
	if err != nil && line == "" {
		return gate.No, err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "o", "once", "y", "yes":
		return gate.Once, nil
	}
	return gate.No, nil
}

// isTerminal reports whether f is a terminal.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || info.Mode()&os.ModeDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(null, info)
}
