package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var comparisons = []comparison{
	{
		name: "A command", what: "Run `true` once. For toolgate's `shell` that is the whole call as a client makes it: policy, sandbox, record.", base: "fork and exec, no sandbox",
		contenders: []contender{
			{name: "fork and exec, no sandbox", open: program("true")},
			{name: "toolgate, `shell` call", open: tool("shell", `{"command":["true"]}`)},
			{name: "toolgate sandbox", open: program("toolgate", "sandbox", "--", "true")},
			{name: "bubblewrap", needs: []string{"bwrap"}, open: bubblewrap},
			{name: "Codex's sandbox", needs: []string{"codex"}, note: "native binary", open: program("codex", "sandbox", "--", "true"), times: 5},
			{name: "sandbox-runtime (srt)", needs: []string{"srt"}, open: program("srt", "true"), times: 1},
		},
	},
	{
		name: "A search", what: "Files in Go's own source that hold `func Test.*Context`, the newest first.", base: "rg by hand",
		contenders: []contender{
			{name: "rg by hand", needs: []string{"rg"}, open: programIn("source", "rg", "--files-with-matches", "--sortr=modified", "--no-messages", "-e", "func Test.*Context"), times: 3},
			{name: "toolgate, `grep_files` call", open: toolIn("source", "grep_files", `{"pattern":"func Test.*Context"}`), times: 3},
			{name: "grep -rl", needs: []string{"grep"}, open: programIn("source", "grep", "-rlE", "func Test.*Context", "."), times: 1},
		},
	},
	{
		name: "A patch", what: "Change one line of a file of a thousand lines.", base: "git apply",
		contenders: []contender{
			{name: "git apply", needs: []string{"git"}, open: gitApply},
			{name: "toolgate, `apply_patch` call", open: applyPatch},
			{name: "Codex's apply_patch", needs: []string{"codex"}, note: "no sandbox", open: codexPatch, times: 5},
		},
	},
	{
		name: "A proxied call over stdio", what: "`echo` of server-everything, through a gateway that the client talks to over stdio.", base: "server-everything itself",
		contenders: []contender{
			{name: "server-everything itself", needs: []string{"node", "server-everything"}, open: everythingStdio, times: 200},
			{name: "a proxy that only copies bytes", needs: []string{"node", "server-everything"}, open: copierStdio, times: 200},
			{name: "toolgate", needs: []string{"node", "server-everything"}, open: toolgateStdio, times: 200},
		},
	},
	{
		name: "A proxied call over HTTP", what: "The same, through gateways that speak HTTP to the client.", base: "server-everything itself",
		contenders: []contender{
			{name: "server-everything itself", needs: []string{"node", "server-everything"}, open: everythingHTTP},
			{name: "toolgate", needs: []string{"node", "server-everything"}, open: toolgateHTTP},
			{name: "tbxark/mcp-proxy", needs: []string{"tbxark/mcp-proxy", "node", "server-everything"}, open: tbxark},
			{name: "punkpeye/mcp-proxy", needs: []string{"punkpeye/mcp-proxy", "node", "server-everything"}, open: punkpeye},
			{name: "docker mcp gateway", needs: []string{"docker mcp gateway"}},
			{name: "mcpproxy-go", needs: []string{"mcpproxy-go"}},
		},
	},
	{
		name: "First answer", what: "From the start of the process to the answer to `initialize`.", base: "server-everything itself",
		contenders: []contender{
			{name: "server-everything itself", needs: []string{"node", "server-everything"}, open: starts(everythingStdio), times: 1},
			{name: "toolgate, no servers", open: starts(tool("list_sessions", `{}`)), times: 1},
			{name: "toolgate, server-everything behind", needs: []string{"node", "server-everything"}, open: starts(toolgateStdio), times: 1},
			{name: "tbxark/mcp-proxy", needs: []string{"tbxark/mcp-proxy", "node", "server-everything"}, open: starts(tbxark), times: 1, note: "over HTTP, looked for every 50 ms"},
			{name: "punkpeye/mcp-proxy", needs: []string{"punkpeye/mcp-proxy", "node", "server-everything"}, open: starts(punkpeye), times: 1, note: "over HTTP, looked for every 50 ms"},
		},
	},
	{
		name: "After a crash", what: "From a SIGKILL of server-everything to the next call that works, in the same session.", base: "toolgate",
		contenders: []contender{
			{name: "toolgate", needs: []string{"node", "server-everything"}, open: crashes(toolgateStdio), times: 1},
			{name: "tbxark/mcp-proxy", needs: []string{"tbxark/mcp-proxy", "node", "server-everything"}, open: crashes(tbxark), times: 1},
			{name: "punkpeye/mcp-proxy", needs: []string{"punkpeye/mcp-proxy", "node", "server-everything"}, open: crashes(punkpeye), times: 1},
		},
	},
}

// An opener gets a contender ready.
type opener = func(context.Context, *fixture) (run, error)

// program runs a command in the workspace; name is one of [findPrograms], or any.
func program(name string, args ...string) opener { return programIn("ws", name, args...) }

func programIn(where, name string, args ...string) opener {
	return func(ctx context.Context, f *fixture) (run, error) {
		argv := append([]string{cmp.Or(f.programs[name], name)}, args...)
		return run{once: func() error { return f.exec(ctx, f.folder(where), "", argv...) }}, nil
	}
}

// exec runs a command to its end.
func (f *fixture) exec(ctx context.Context, dir, stdin string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, f.env
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.300s", filepath.Base(argv[0]), err, out)
	}
	return nil
}

func bubblewrap(ctx context.Context, f *fixture) (run, error) {
	return program("bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--bind", f.ws, f.ws, "--dev", "/dev", "--proc", "/proc", "true")(ctx, f)
}

// tool is a call of toolgate's own.
func tool(name, args string) opener { return toolIn("ws", name, args) }

func toolIn(where, name, args string) opener {
	return func(ctx context.Context, f *fixture) (run, error) {
		dir := f.folder(where)
		return stdioCalls(ctx, f, dir, name, args, f.programs["toolgate"], "serve", "-C", dir)
	}
}

// stdioCalls starts a server on stdio and calls one of its tools.
func stdioCalls(ctx context.Context, f *fixture, dir, tool, args string, argv ...string) (run, error) {
	c, err := startStdio(ctx, dir, f.env, argv...)
	if err != nil {
		return run{}, err
	}
	return calls(c, c.cmd.Process.Pid, tool, args), nil
}

// calls is one call after the other.
func calls(c caller, pid int, name, args string) run {
	return run{
		once: func() error { return callTool(c, name, args) },
		end:  c.close,
		rss:  func() int64 { return rss(pid) },
	}
}

// turns calls f with the line to replace and its replacement, there and back.
func turns(f func(from, to string) error) func() error {
	from, to := "line 500", "line 500, changed"
	return func() error {
		err := f(from, to)
		from, to = to, from
		return err
	}
}

// pageIn writes page.txt, of a thousand lines, to the folder of the given name and returns the folder.
func (f *fixture) pageIn(name string) (dir string, err error) {
	dir = filepath.Join(f.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	var page []byte
	for i := range 1000 {
		page = fmt.Appendf(page, "line %d\n", i)
	}
	return dir, os.WriteFile(filepath.Join(dir, "page.txt"), page, 0o644)
}

func gitApply(ctx context.Context, f *fixture) (run, error) {
	dir, err := f.pageIn("git")
	if err != nil {
		return run{}, err
	}
	return run{once: turns(func(from, to string) error {
		diff := fmt.Sprintf("--- a/page.txt\n+++ b/page.txt\n@@ -500,3 +500,3 @@\n line 499\n-%s\n+%s\n line 501\n", from, to)
		return f.exec(ctx, dir, diff, f.programs["git"], "apply", "-")
	})}, nil
}

// envelope is the same change in Codex's format.
func envelope(from, to string) string {
	return fmt.Sprintf("*** Begin Patch\n*** Update File: page.txt\n@@\n line 499\n-%s\n+%s\n line 501\n*** End Patch\n", from, to)
}

func applyPatch(ctx context.Context, f *fixture) (run, error) {
	if _, err := f.pageIn("ws"); err != nil {
		return run{}, err
	}
	c, err := startStdio(ctx, f.ws, f.env, f.programs["toolgate"], "serve", "-C", f.ws)
	if err != nil {
		return run{}, err
	}
	return run{end: c.close, once: turns(func(from, to string) error {
		return callTool(c, "apply_patch", fmt.Sprintf(`{"input":%q}`, envelope(from, to)))
	})}, nil
}

func codexPatch(ctx context.Context, f *fixture) (run, error) {
	dir, err := f.pageIn("codex")
	if err != nil {
		return run{}, err
	}
	bin := filepath.Join(f.dir, "apply_patch") // under this name it is that tool
	if err := os.Symlink(f.programs["codex"], bin); err != nil {
		return run{}, err
	}
	return run{once: turns(func(from, to string) error {
		return f.exec(ctx, dir, "", bin, envelope(from, to))
	})}, nil
}

const echo = `{"message":"hello"}`

func everythingStdio(ctx context.Context, f *fixture) (run, error) {
	return stdioCalls(ctx, f, f.ws, "echo", echo, f.everything()...)
}

// everything is the command line of server-everything on stdio.
func (f *fixture) everything() []string {
	return []string{f.programs["node"], f.programs["server-everything"], "stdio"}
}

func copierStdio(ctx context.Context, f *fixture) (run, error) {
	self, err := os.Executable()
	if err != nil {
		return run{}, err
	}
	return stdioCalls(ctx, f, f.ws, "echo", echo, append([]string{self, copyName}, f.everything()...)...)
}

// echoHTTP starts a server that will listen at url, of which tool is the one that echoes.
func echoHTTP(ctx context.Context, f *fixture, tool, url, token string, env []string, argv ...string) (run, error) {
	c, err := startHTTP(ctx, f.ws, slices.Concat(f.env, env), url, token, argv...)
	if err != nil {
		return run{}, err
	}
	return calls(c, c.cmd.Process.Pid, tool, echo), nil
}

func everythingHTTP(ctx context.Context, f *fixture) (run, error) {
	port, url := f.url("/mcp")
	return echoHTTP(ctx, f, "echo", url, "", []string{"PORT=" + port},
		f.programs["node"], f.programs["server-everything"], "streamableHttp")
}

// behind is toolgate's config with server-everything behind it, trusted, so
// that nobody is asked.
func (f *fixture) behind() []string {
	return []string{
		"-c", "mcp_servers.everything.command=" + strconv.Quote(f.programs["node"]),
		"-c", fmt.Sprintf("mcp_servers.everything.args=[%q, \"stdio\"]", f.programs["server-everything"]),
		"-c", `mcp_servers.everything.default_tools_approval_mode="approve"`,
	}
}

func toolgateStdio(ctx context.Context, f *fixture) (run, error) {
	argv := append([]string{f.programs["toolgate"], "serve", "-C", f.ws}, f.behind()...)
	return stdioCalls(ctx, f, f.ws, "mcp__everything__echo", echo, argv...)
}

func toolgateHTTP(ctx context.Context, f *fixture) (run, error) {
	port, url := f.url("/mcp")
	argv := append([]string{f.programs["toolgate"], "serve", "--http", "127.0.0.1:" + port, "-C", f.ws}, f.behind()...)
	const token = "bench-token-of-no-value"
	return echoHTTP(ctx, f, "mcp__everything__echo", url, token, []string{"TOOLGATE_HTTP_TOKEN=" + token}, argv...)
}

func tbxark(ctx context.Context, f *fixture) (run, error) {
	port, url := f.url("/everything/")
	config := fmt.Appendf(nil, `{
		"mcpProxy": {
			"baseURL": "http://127.0.0.1:%[1]s", "addr": "127.0.0.1:%[1]s",
			"name": "bench", "version": "1", "type": "streamable-http"
		},
		"mcpServers": {"everything": {"command": %[2]q, "args": [%[3]q, "stdio"]}}
	}`, port, f.programs["node"], f.programs["server-everything"])
	file := filepath.Join(f.dir, "tbxark"+port+".json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return run{}, err
	}
	return echoHTTP(ctx, f, "echo", url, "", nil, f.programs["tbxark/mcp-proxy"], "-config", file)
}

func punkpeye(ctx context.Context, f *fixture) (run, error) {
	port, url := f.url("/mcp")
	argv := append([]string{
		f.programs["node"], f.programs["punkpeye/mcp-proxy"], "--port", port, "--host", "127.0.0.1", "--",
	}, f.everything()...)
	return echoHTTP(ctx, f, "echo", url, "", nil, argv...)
}

// starts measures getting ready alone.
func starts(open opener) opener {
	return func(ctx context.Context, f *fixture) (run, error) {
		var last run
		return run{
			once: func() (err error) {
				last, err = open(ctx, f)
				return err
			},
			after: func() {
				if last.end != nil {
					last.end()
				}
			},
		}, nil
	}
}

// crashes measures how long a gateway needs after its server was killed.
func crashes(open opener) opener {
	return func(ctx context.Context, f *fixture) (run, error) {
		before := processes("server-everything")
		r, err := open(ctx, f)
		if err != nil {
			return r, err
		}
		if err := r.once(); err != nil {
			return r, err
		}
		again := r.once
		r.once = func() error {
			for pid := range processes("server-everything") {
				if !before[pid] {
					syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			for start := time.Now(); time.Since(start) < 10*time.Second; {
				if again() == nil {
					return nil
				}
				time.Sleep(time.Millisecond)
			}
			return errNever
		}
		return r, nil
	}
}

// processes returns the processes of Node whose script's path holds word.
func processes(word string) map[int]bool {
	all := map[int]bool{}
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, d := range dirs {
		b, err := os.ReadFile(d)
		if err != nil {
			continue
		}
		argv := strings.Split(string(b), "\x00")
		if len(argv) < 2 || filepath.Base(argv[0]) != "node" || !strings.Contains(argv[1], word) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(d))); err == nil {
			all[pid] = true
		}
	}
	return all
}
