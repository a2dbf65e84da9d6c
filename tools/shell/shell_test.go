package shell_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"toolgate/tools"
	"toolgate/tools/shell"
)

var update = flag.Bool("update", false, "write what the tools answered into testdata")

// TestTexts runs the scenarios of testdata. A scenario is a list of calls, a
// file named after the tool with its arguments, each followed by the file
// "text" or "error" with the exact answer. A line "needs: NAME" above them
// names a program without which the scenario is skipped, "options: JSON" what
// the config says.
func TestTexts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			scenario, err := txtar.ParseFile(file)
			require.NoError(t, err)
			var options shell.Options
			for line := range strings.Lines(string(scenario.Comment)) {
				if text, ok := strings.CutPrefix(line, "options: "); ok {
					require.NoError(t, json.Unmarshal([]byte(text), &options))
				}
				if name, ok := strings.CutPrefix(line, "needs: "); ok {
					need(t, strings.TrimSpace(name))
				}
			}
			b := newBench(t, options)
			var got txtar.Archive
			got.Comment = scenario.Comment
			for _, f := range scenario.Files {
				if f.Name != "text" && f.Name != "error" {
					answer := b.call(f.Name, string(f.Data))
					got.Files = append(got.Files, f, txtar.File{Name: kind(answer), Data: []byte(b.scrub(textOf(answer)))})
				}
			}
			if *update {
				require.NoError(t, os.WriteFile(file, txtar.Format(&got), 0o644))
				return
			}
			require.Equal(t, string(txtar.Format(scenario)), string(txtar.Format(&got)))
		})
	}
}

// need skips the test when there is no program of that name, or fails it when
// the environment says that it must be there.
func need(t testing.TB, name string) {
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if os.Getenv("REQUIRE_"+strings.ToUpper(name)) != "" {
		t.Fatalf("no %s here, and REQUIRE_%s is set", name, strings.ToUpper(name))
	}
	t.Skipf("no %s here", name)
}

func kind(res *mcp.CallToolResult) string {
	if res.IsError {
		return "error"
	}
	return "text"
}

func textOf(res *mcp.CallToolResult) string {
	var s strings.Builder
	for _, c := range res.Content {
		s.WriteString(c.(*mcp.TextContent).Text)
	}
	return s.String()
}

// A bench is a set of command tools in a folder of their own, whose processes
// can be told from all others. When the test ends nothing of them may be left.
type bench struct {
	t       testing.TB
	tools   map[string]tools.Tool
	mark    string
	folder  string
	session []string // ids of sessions in the order in which they were seen
}

// markOf returns a variable by which a test's processes are told from those of
// other tests, also when those are in another process.
func commandIDOf(t testing.TB) string {
	return fmt.Sprintf("TOOLGATE_TEST=%s-%d", t.Name(), os.Getpid())
}

func newBench(t testing.TB, o shell.Options) *bench {
	return newBenchOf(t, o, func(o shell.Options) []tools.Tool { return shell.Tools(o, nil) })
}

// newBenchOf is newBench with the tools that catalog returns.
func newBenchOf(t testing.TB, o shell.Options, catalog func(shell.Options) []tools.Tool) *bench {
	b := &bench{t: t, tools: make(map[string]tools.Tool), mark: commandIDOf(t), folder: t.TempDir()}
	if o.Environment.Set == nil {
		o.Environment.Set = make(map[string]string)
	}
	name, value, _ := strings.Cut(b.mark, "=")
	o.Environment.Set[name] = value
	for _, tool := range catalog(o) {
		b.tools[tool.Name()] = tool
	}
	t.Cleanup(func() {
		b.tools["shell"].Close()
		require.Empty(t, processesWith(b.mark), "processes left behind")
	})
	return b
}

// call runs a tool with arguments in which SESSION1 stands for the first
// session's id, and so on, and which runs in the bench's folder.
func (b *bench) call(tool, args string) *mcp.CallToolResult {
	b.t.Helper()
	require.Contains(b.t, b.tools, tool)
	for i, id := range b.session {
		args = strings.ReplaceAll(args, fmt.Sprintf("SESSION%d", i+1), id)
	}
	var a map[string]any
	if json.Unmarshal([]byte(args), &a) == nil {
		_, command := a["command"]
		_, cmd := a["cmd"]
		if _, given := a["workdir"]; !given && (command || cmd) {
			a["workdir"] = b.folder
			raw, err := json.Marshal(a)
			require.NoError(b.t, err)
			args = string(raw)
		}
	}
	res := b.tools[tool].Run(b.t.Context(), json.RawMessage(args))
	require.NotNil(b.t, res)
	return res
}

var (
	wallTime  = regexp.MustCompile(`(?m)^Wall time: \d+\.\d+ seconds$`)
	sessionID = regexp.MustCompile(`session(?: ID|_id) (\d+)`)
	started   = regexp.MustCompile(`started \d+ s ago`)
)

// scrub replaces what differs from run to run.
func (b *bench) scrub(text string) string {
	for _, m := range sessionID.FindAllStringSubmatch(text, -1) {
		known := false
		for _, id := range b.session {
			known = known || id == m[1]
		}
		if !known {
			b.session = append(b.session, m[1])
		}
	}
	for i, id := range b.session {
		text = strings.ReplaceAll(text, id, fmt.Sprintf("SESSION%d", i+1))
	}
	text = strings.ReplaceAll(text, b.folder, "$WORK")
	text = started.ReplaceAllString(text, "started X s ago")
	return wallTime.ReplaceAllString(text, "Wall time: X seconds")
}

// processesWith returns the processes that have the variable in their
// environment, as their command lines. It finds none where there is no /proc.
func processesWith(variable string) []string {
	var found []string
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environs {
		env, _ := os.ReadFile(file)
		if !strings.Contains("\x00"+string(env), "\x00"+variable+"\x00") {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
	}
	return found
}
