package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/syntax"

	"toolgate/internal/app"
	"toolgate/internal/config"
	"toolgate/policy/rules"
	"toolgate/tools"
)

// documents returns the names of all Markdown files of the project.
func documents(t *testing.T) []string {
	var names []string
	require.NoError(t, filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && (e.Name() == "testdata" || e.Name() == "node_modules" || e.Name() == "vendor" || name != "." && strings.HasPrefix(e.Name(), ".")) {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".md") {
			names = append(names, filepath.ToSlash(name))
		}
		return err
	}))
	require.Contains(t, names, "README.md")
	return names
}

// A block is one fenced block of a document.
type block struct {
	where    string // file and line
	language string
	text     string
}

// blocks returns the fenced blocks of a document, and its text without them.
func blocks(t *testing.T, name string) (all []block, prose string) {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	var open *block
	for i, line := range strings.Split(string(text), "\n") {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open == nil:
			all = append(all, block{where: fmt.Sprintf("%s:%d", name, i+1), language: strings.TrimSpace(fence)})
			open = &all[len(all)-1]
		case isFence:
			open = nil
		case open != nil:
			open.text += line + "\n"
		default:
			prose += line + "\n"
		}
	}
	require.Nil(t, open, "%s: a block does not end", name)
	return all, prose
}

// TestBlocksOfDocuments: every block of every document is what it says: config
// that is read, rules that are read, commands that there are, with flags that
// they take. Blocks of language text, and those without one, show output.
func TestBlocksOfDocuments(t *testing.T) {
	t.Chdir("../..")
	for _, name := range documents(t) {
		all, _ := blocks(t, name)
		for _, b := range all {
			t.Run(b.where, func(t *testing.T) {
				switch b.language {
				case "toml":
					checkConfig(t, b.text)
				case "json", "jsonc":
					checkJSON(t, b.text)
				case "python":
					_, err := rules.Parse("block.rules", []byte(b.text))
					require.NoError(t, err)
				case "sh", "bash":
					checkScript(t, b.text)
				case "", "text", "diff", "yaml", "dockerfile", "go", "xml":
				default:
					t.Errorf("nothing checks blocks of language %q", b.language)
				}
			})
		}
	}
}

func checkConfig(t *testing.T, text string) {
	file := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	c, err := config.Load(file)
	require.NoError(t, err)
	for name, s := range c.MCPServers {
		if s.Command == "toolgate" {
			checkCommand(t, append([]string{s.Command}, s.Args...), name)
		}
	}
}

// checkJSON checks that text is JSON, and that each server in it that is
// toolgate would start.
func checkJSON(t *testing.T, text string) {
	var v any
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if v["command"] == "toolgate" {
				argv := []string{"toolgate"}
				list, _ := v["args"].([]any)
				for _, a := range list {
					argv = append(argv, a.(string))
				}
				checkCommand(t, argv, "the entry")
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
}

// others are the programs beside toolgate that the documents' commands use.
var others = []string{"apparmor_parser", "apt", "brew", "bwrap", "cargo", "cat", "cd", "chmod", "claude", "code", "codex", "cp", "curl", "docker", "echo", "export", "git", "go", "goreleaser", "jq", "ls", "make", "mcpb", "mkdir", "mv", "node", "npm", "npx", "openssl", "printf", "python3", "sed", "ssh", "sudo", "sysctl", "systemd-run", "tar", "tee", "test", "uname"}

// checkScript checks the commands of a script: toolgate's own against its
// command line, the others by name.
func checkScript(t *testing.T, text string) {
	text = regexp.MustCompile(`(?m)^\$ `).ReplaceAllString(text, "")
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	require.NoError(t, err)
	here := true // in the checkout's own folder
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		var argv []string
		for _, w := range call.Args {
			argv = append(argv, wordText(w))
		}
		here = here && argv[0] != "cd"
		if here && len(argv) > 3 && slices.Equal(argv[:3], []string{"go", "run", "."}) {
			argv = append([]string{"toolgate"}, argv[3:]...)
		}
		switch {
		case filepath.Base(argv[0]) == "toolgate":
			checkCommand(t, argv, "the line")
		case strings.HasPrefix(argv[0], "./"), strings.HasPrefix(argv[0], ".ci/"):
			require.FileExists(t, argv[0])
		default:
			require.Contains(t, others, argv[0])
		}
		return true
	})
}

// wordText returns a word without its quotes.
func wordText(w *syntax.Word) string {
	var b strings.Builder
	var walk func([]syntax.WordPart)
	walk = func(parts []syntax.WordPart) {
		for _, p := range parts {
			switch p := p.(type) {
			case *syntax.Lit:
				b.WriteString(p.Value)
			case *syntax.SglQuoted:
				b.WriteString(p.Value)
			case *syntax.DblQuoted:
				walk(p.Parts)
			default:
				b.WriteString("X") // an expansion: some word
			}
		}
	}
	walk(w.Parts)
	return b.String()
}

// checkCommand checks that toolgate has the command of argv, that it takes
// the flags, and that the number of its arguments is right.
func checkCommand(t *testing.T, argv []string, what string) {
	root := (&program{}).command()
	root.InitDefaultCompletionCmd(argv[1:]...)
	cmd, rest, err := root.Find(argv[1:])
	require.NoError(t, err, "%s: %q", what, argv)
	err = cmd.ParseFlags(rest)
	if err == pflag.ErrHelp {
		return
	}
	require.NoError(t, err, "%s: %q", what, argv)
	require.True(t, cmd == root || cmd.Runnable(), "%s: %q is no whole command", what, argv)
	if cmd.DisableFlagParsing {
		return
	}
	require.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), "%s: %q", what, argv)
}

// TestLinksOfDocuments: every link inside the project leads to a file, and to
// a heading of it.
func TestLinksOfDocuments(t *testing.T) {
	t.Chdir("../..")
	link := regexp.MustCompile(`\]\(([^)\s]+)\)|src="([^"]+)"`)
	for _, name := range documents(t) {
		_, prose := blocks(t, name)
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target := m[1] + m[2]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, heading, _ := strings.Cut(target, "#")
			path := name
			if file != "" {
				path = filepath.Join(filepath.Dir(name), file)
			}
			_, err := os.Stat(path)
			require.NoError(t, err, "%s links to %s", name, target)
			if heading != "" {
				require.Contains(t, headings(t, path), heading, "%s links to %s", name, target)
			}
		}
	}
}

// headings returns the anchors of a document's headings, as the places where
// people read Markdown make them.
func headings(t *testing.T, name string) []string {
	_, prose := blocks(t, name)
	var anchors []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose, -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])
		anchors = append(anchors, anchor)
	}
	return anchors
}

// checkGolden compares text with a file, or writes it there.
func checkGolden(t *testing.T, name, text string) {
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	have, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(have), text, "%s is stale; run go test ./internal/cli -run 'TestToolsDocument|TestCommandsDocument' -update", name)
}

// TestToolsDocument: docs/tools.md says what a client sees.
func TestToolsDocument(t *testing.T) {
	t.Chdir("../..")
	var b bytes.Buffer
	b.WriteString("# The tools\n\nWhat a client sees of the built-in tools, word for word: this page is written by a test. " +
		"`[tools]` in the config switches tools off (`disabled`) and the ones that are off by default on (`enabled`).\n" +
		"Every call is first decided by the [policy](policy.md) and then held by the [sandbox](sandbox.md). Calls run side by side, also several\n" +
		"commands; changes to the files of one workspace by `apply_patch`, `edit_file` and `undo_patch` follow each other.\n" +
		argumentWords)
	writeSizes(t, &b)
	every := app.AllTools(app.ToolSettings{}, nil)
	slices.SortStableFunc(every, func(x, y tools.Tool) int { return strings.Compare(x.Name(), y.Name()) })
	for _, tool := range every {
		writeTool(&b, tool.MCP(), tool.Off())
	}
	checkGolden(t, "docs/tools.md", b.String())
}

const argumentWords = `
## Arguments

Built-in tools also take arguments as models know them from other agents. Policy, approval, record and worker see the
names and types below. Arguments of other servers' tools are passed on as they are.

- Known aliases, such as ` + "`path` for `file_path`, `cwd` for `workdir`, `cmd` for `command`, `timeout` for `timeout_ms`,\n" +
	"  `glob` for `include`, `head_limit` for `limit`, `patch` for `input`, `-i` for `case`, and `filePath` for `file_path`" + `.
  Two names for one argument with different values are an error.
- Numbers, booleans, arrays and objects in strings, and whole numbers such as ` + "`10.0`" + `. A string is split into
  program and arguments only if it is a JSON array of strings.
- An unknown argument is ignored, and the result says so. For a tool that changes something it is an error instead,
  since it may name a place, a limit or a mode such as ` + "`dry_run`" + `; only ` + "`description`, `explanation`" + ` and similar
  ones, which tell a person something, are ignored.
`

func writeTool(b *bytes.Buffer, tool *mcp.Tool, off bool) {
	fmt.Fprintf(b, "\n## %s\n\n", tool.Name)
	if off {
		b.WriteString("Off by default.\n\n")
	}
	a := tool.Annotations
	var hints []string
	for _, h := range []struct {
		is   bool
		word string
	}{{a.ReadOnlyHint, "only reads"}, {*a.DestructiveHint, "may overwrite or delete"}, {a.IdempotentHint, "idempotent"}, {*a.OpenWorldHint, "may reach beyond this machine"}} {
		if h.is {
			hints = append(hints, h.word)
		}
	}
	fmt.Fprintf(b, "%s: %s.\n\n```text\n%s\n```\n", a.Title, strings.Join(hints, ", "), tool.Description)
	var schema struct {
		Properties map[string]struct {
			Type        any
			Description string
			Enum        []string
		}
		Required []string
	}
	raw, _ := json.Marshal(tool.InputSchema)
	_ = json.Unmarshal(raw, &schema) // an empty one has no rows
	if len(schema.Properties) == 0 {
		return
	}
	b.WriteString("\n| argument | type | |\n| --- | --- | --- |\n")
	var names []string
	for name := range schema.Properties {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int {
		if rx, ry := slices.Contains(schema.Required, x), slices.Contains(schema.Required, y); rx != ry {
			if rx {
				return -1
			}
			return 1
		}
		return strings.Compare(x, y)
	})
	for _, name := range names {
		p := schema.Properties[name]
		text := p.Description
		if slices.Contains(schema.Required, name) {
			text = strings.TrimSuffix("required; "+text, "; ")
		}
		fmt.Fprintf(b, "| `%s` | %v | %s |\n", name, p.Type, strings.ReplaceAll(text, "|", "\\|"))
	}
}

// TestCommandsDocument: docs/cli.md holds every command's help.
func TestCommandsDocument(t *testing.T) {
	t.Chdir("../..")
	var b bytes.Buffer
	b.WriteString("# Command line\n\nThe help of every command, as `--help` prints it: this page is written by a test.\n\n" +
		"Exit codes: 0 done, 1 failed, 2 usage; `call` also 3, the tool answered with an error, and 4, refused.\n")
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "completion" && c.HasParent() && c.Parent() != c.Root() {
			return
		}
		var help bytes.Buffer
		c.SetOut(&help)
		require.NoError(t, c.Help())
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s```\n", c.CommandPath(), help.String())
		if c.Name() == "completion" {
			return
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	root := (&program{}).command()
	root.InitDefaultCompletionCmd()
	walk(root)
	checkGolden(t, "docs/cli.md", b.String())
}

// seenBy returns how many tools the client that calls itself client lists by default, and
// the bytes of JSON of what its model sees of them: names, descriptions and schemas.
func seenBy(t *testing.T, client string) (count, size int) {
	type seen struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		InputSchema any    `json:"input_schema"`
	}
	var list []seen
	o := app.ToolSettings{}
	for _, tool := range app.Catalog(o, nil) {
		if m := tool.MCP(); o.Listed(m.Name, client) {
			list = append(list, seen{m.Name, m.Description, m.InputSchema})
		}
	}
	b, err := json.Marshal(list)
	require.NoError(t, err)
	b = bytes.ReplaceAll(b, []byte(`\u0026`), []byte("&"))
	return len(list), len(b)
}

// tokens estimates the tokens of that many bytes of schemas. For these lists it is 3 % above
// what gpt-tokenizer 4.0.0 counts with o200k_base, and 6 % above cl100k_base.
func tokens(size int) int { return size * 10 / 42 }

var listClients = []struct{ title, name string }{
	{"Codex", "codex-mcp-client"}, {"Claude Code", "claude-code"}, {"Claude Desktop", "claude-ai"},
}

// writeSizes writes how much of its context each client spends on the list.
func writeSizes(t *testing.T, b *bytes.Buffer) {
	b.WriteString("\n## Size of the list\n\nWhat the model sees by default: names, descriptions and schemas as JSON. " +
		"The tokens are bytes by 4.2,\nwhich is 3 % more than GPT's tokenizer (o200k_base) counts; " +
		"Claude's is not public. With `approval_policy = \"never\"` the\nlist is shorter.\n\nFor clients that drive GPT " +
		"models, which were trained on `apply_patch`, `edit_file` is not listed; it can be called all the\nsame, and " +
		"`[tools] enabled = [\"edit_file\"]` lists it. Stateless clients (2026-07-28) all have the same list.\n\n" +
		"| client | tools | bytes | tokens |\n| --- | --- | --- | --- |\n")
	for _, c := range listClients {
		count, size := seenBy(t, c.name)
		fmt.Fprintf(b, "| %s (`%s`) | %d | %d | %d |\n", c.title, c.name, count, size, tokens(size))
	}
}

// TestToolListIsSmall: a client puts the list before every conversation. Every argument
// is described.
func TestToolListIsSmall(t *testing.T) {
	for _, c := range listClients {
		_, size := seenBy(t, c.name)
		require.LessOrEqual(t, tokens(size), 2400, c.title)
	}
	for _, tool := range app.AllTools(app.ToolSettings{}, nil) {
		var schema struct {
			Properties map[string]struct{ Description string }
		}
		b, err := json.Marshal(tool.MCP().InputSchema)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &schema))
		for name, p := range schema.Properties {
			require.NotEmpty(t, p.Description, "%s: %s", tool.Name(), name)
			require.NotContains(t, p.Description, "RE2")
		}
	}
}
