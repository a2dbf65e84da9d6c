package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"toolgate/policy"
	"toolgate/server"
)

// silence is how long a client may say nothing before the downstream servers
// are started all the same.
const silence = 2 * time.Second

// serve serves one client on stdin and stdout until stdin ends, or callers
// over HTTP until ctx does.
func (p *program) serve(ctx context.Context) error {
	if p.http.addr != "" {
		return p.serveHTTP(ctx)
	}
	p.answersFirst = true
	a, err := p.open()
	if err != nil {
		return err
	}
	defer a.close()
	if a.noRoots != "" {
		a.log.Warn("nothing is writable; start with -C FOLDER", "why", a.noRoots)
	}
	defer p.watchConfig(a)()
	defer time.AfterFunc(silence, a.downstreams.Begin).Stop()
	// The goroutine that reads stdin is in a system call most of the time, and
	// keeps one of the runtime's processors that the others would have to be
	// given back, by a thread that must be awake for it.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	out, restore := unblocked(p.stdout)
	defer restore()
	return a.server.ServeStdio(ctx, p.stdin, out)
}

// call makes one call and prints what it gave.
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
	p.oneCall = true
	a, err := p.open()
	if err != nil {
		return err
	}
	defer a.close()
	var ask policy.AskFunc
	if !fromStdin && isTerminal(p.stdin) && isTerminal(p.stderr) {
		ask = p.askHere
	}
	if !a.server.Has(tool) {
		a.downstreams.Settle(ctx, false)
	}
	reply, err := a.server.Call(ctx, "cli", tool, json.RawMessage(text), ask)
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

// printReply prints the text of a result, or the result itself.
func (p *program) printReply(r server.Reply, asJSON bool) error {
	if asJSON {
		_, err := fmt.Fprintf(p.stdout, "%s\n", r.Result)
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
		if _, err := io.WriteString(p.stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// askHere asks the person at the terminal. Anything but one of the words is no.
func (p *program) askHere(_ context.Context, q policy.Question) (policy.Answer, error) {
	fmt.Fprintf(p.stderr, "%s\n[o]nce, or no? ", server.Message(q))
	line, err := bufio.NewReader(p.stdin).ReadString('\n')
	if err != nil && line == "" {
		return policy.No, err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "o", "once", "y", "yes":
		return policy.Once, nil
	}
	return policy.No, nil
}

func (p *program) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Short:  "Run the built-in tools for a gate (internal)",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE:   func(cmd *cobra.Command, _ []string) error { return p.workerMain(cmd.Context()) },
	}
}
