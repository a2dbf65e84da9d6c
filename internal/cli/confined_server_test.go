package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/app"
	"toolgate/sandbox"
)

// probePeer is the name under which this binary is an MCP server on stdio that
// tries what it is asked to and tells what came of it. It is not tidy: it
// greets on stdout and grumbles on stderr.
const probePeer = "toolgate-test-probe"

// A trial is what the probe is asked to try, and what came of it.
type trial struct {
	Write   []string `json:"write,omitempty"` // paths
	Read    []string `json:"read,omitempty"`
	Connect string   `json:"connect,omitempty"`

	Allocate int `json:"allocate,omitempty"` // bytes, which are kept until the end of the process

	Env     []string          `json:"env,omitempty"`
	Dir     string            `json:"dir,omitempty"`
	Results map[string]string `json:"results,omitempty"` // "" for what worked
}

func (tr *trial) run() {
	tr.Env, tr.Results = os.Environ(), map[string]string{}
	tr.Dir, _ = os.Getwd()
	note := func(what string, err error) {
		tr.Results[what] = ""
		if err != nil {
			tr.Results[what] = err.Error()
		}
	}
	for _, path := range tr.Write {
		note("write "+path, os.WriteFile(os.ExpandEnv(path), []byte("x"), 0o600))
	}
	for _, path := range tr.Read {
		_, err := os.ReadFile(path)
		note("read "+path, err)
	}
	if kept := make([]byte, tr.Allocate); len(kept) > 0 {
		for i := range kept {
			kept[i] = 1
		}
		select {}
	}
	if tr.Connect != "" {
		c, err := net.DialTimeout("tcp", tr.Connect, 2*time.Second)
		if note("connect", err); err == nil {
			c.Close()
		}
	}
}

func runProbePeer() {
	fmt.Println("Welcome to the probe server!")
	fmt.Fprintln(os.Stderr, "probe: warming up")
	servePeer(func(method string, params struct{ Arguments trial }) string {
		switch method {
		case "initialize":
			return peerStarts("probe")
		case "tools/list":
			return `"result":{"tools":[{"name":"try","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			tr := params.Arguments
			tr.run()
			text, _ := json.Marshal(tr)
			quoted, _ := json.Marshal(string(text))
			return `"result":{"content":[{"type":"text","text":` + string(quoted) + `}]}`
		}
		return `"result":{}`
	})
}

// A probed is a desk with the probe as a server of the config.
type probed struct {
	*desk
}

func newProbed(t *testing.T, keys string) *probed {
	d := newDesk(t, "")
	probe := filepath.Join(filepath.Dir(d.toolgate), probePeer+filepath.Ext(d.toolgate))
	require.NoError(t, os.Link(d.toolgate, probe))
	entry := fmt.Sprintf("[mcp_servers.probe]\ncommand = %q\ndefault_tools_approval_mode = \"approve\"\n%s\n", probe, keys)
	d.configure(entry)
	return &probed{desk: d}
}

// try has the probe try things, and returns what came of it and what was
// logged.
func (p *probed) try(tr trial) (trial, string) {
	args, err := json.Marshal(tr)
	require.NoError(p.t, err)
	cmd := p.command("--log-level", "info", "call", "mcp__probe__try", string(args))
	cmd.Env = append(cmd.Env, "SECRET_TOKEN=s3cret", "PASSED_ON=yes", "XDG_CACHE_HOME="+filepath.Join(p.home, "cache"), "LANG=C.UTF-8")
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	require.NoError(p.t, err, "%s%s", out, log.String())
	var got trial
	require.NoError(p.t, json.Unmarshal(out, &got), "%s", out)
	return got, log.String()
}

// TestAServerIsConfined: by default a server on stdio reads what is not
// hidden, writes its own folder, has no network, and gets a short list of
// variables; its entry may say otherwise, which is shown.
func TestAServerIsConfined(t *testing.T) {
	needSandbox(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	outside := filepath.Join(t.TempDir(), "outside")
	data := t.TempDir()
	for _, tt := range []struct {
		name, keys        string
		own, ws, out, net bool // what works
		inData            bool
		shown             string
	}{
		{"by default", "", true, false, false, false, false, "own folder"},
		{"with the network", "network = true", true, false, false, true, false, "own folder"},
		{"with folders", fmt.Sprintf("sandbox = { mode = \"read-only\", writable_roots = [%q] }", data), true, false, false, false, true, "read-only and " + data},
		{"in the workspace", `sandbox = "workspace-write"`, true, true, false, false, false, "workspace-write"},
		{"without a sandbox", `sandbox = "none"`, true, true, true, true, true, "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newProbed(t, `env_vars = ["PASSED_ON"]`+"\nenv = { GIVEN = \"v\" }\n"+tt.keys)
			cache, ws, inData, config := "${XDG_CACHE_HOME}/own.txt", filepath.Join(p.home, "ws", "x"), filepath.Join(data, "x"), filepath.Join(p.own(), "config.toml")
			if tt.name == "without a sandbox" {
				require.NoError(t, os.MkdirAll(filepath.Join(p.home, "cache"), 0o700)) // the user's own, then
			}
			got, log := p.try(trial{Write: []string{cache, ws, outside, inData}, Read: []string{config, "/etc/hosts"}, Connect: l.Addr().String()})
			for what, works := range map[string]bool{
				"write " + cache: tt.own, "write " + ws: tt.ws, "write " + outside: tt.out, "write " + inData: tt.inData, "connect": tt.net,
				"read /etc/hosts": true, "read " + config: tt.shown == "none",
			} {
				require.Equal(t, works, got.Results[what] == "", "%s: %s", what, got.Results[what])
			}
			require.Equal(t, p.folder("probe"), got.Dir)
			require.Contains(t, got.Env, "GIVEN=v")
			require.Contains(t, got.Env, "PASSED_ON=yes")
			require.Contains(t, got.Env, "LANG=C.UTF-8")
			for _, v := range got.Env {
				require.NotContains(t, v, "s3cret")
				require.True(t, !strings.HasPrefix(v, "TOOLGATE") || v == "TOOLGATE_DEPTH=1", v)
			}
			own := "XDG_CACHE_HOME=" + filepath.Join(p.home, "cache")
			require.Equal(t, tt.shown == "none", slices.Contains(got.Env, own), "a confined one has its own")

			require.Contains(t, log, `downstream=probe line="probe: warming up"`)
			require.Contains(t, log, `line="Welcome to the probe server!"`)

			out, _ := p.run("mcp", "list")
			require.Regexp(t, `probe .* `+tt.shown, out)
			out, _ = p.run("doctor")
			require.Contains(t, out, "sandbox: "+tt.shown)
		})
	}
}

// folder is the folder of its own that a server has.
func (p *probed) folder(server string) string {
	return filepath.Join(p.own(), "state", "servers", server)
}

// TestWhereAServerStarts: in a folder of its own that commands cannot write,
// unless its entry says otherwise. It holds without a sandbox, too.
func TestWhereAServerStarts(t *testing.T) {
	data := t.TempDir()
	for _, tt := range []struct{ name, keys, want string }{
		{"by default", "", "own"},
		{"in the workspace", `cwd = "workspace"`, "ws"},
		{"below the workspace", `cwd = "sub"`, "ws/sub"},
		{"elsewhere", fmt.Sprintf("cwd = %q", data), data},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newProbed(t, "sandbox = \"none\"\n"+tt.keys)
			require.NoError(t, os.MkdirAll(filepath.Join(p.home, "ws", "sub"), 0o755))
			want := tt.want
			switch {
			case want == "own":
				want = p.folder("probe")
			case !filepath.IsAbs(want):
				want = filepath.Join(p.home, filepath.FromSlash(want))
			}
			for range 2 { // also the next time
				got, _ := p.try(trial{})
				require.Equal(t, want, got.Dir)
			}
			info, err := os.Stat(p.folder("probe"))
			require.NoError(t, err)
			if !(runtime.GOOS == "windows") {
				require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
			}
		})
	}
}

// planted writes a program that leaves a file behind when it runs.
func planted(t *testing.T, file, text string) {
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o755))
}

// TestPlantedProgramsDoNotStart: what a command left in the workspace is not
// what a server starts.
func TestPlantedProgramsDoNotStart(t *testing.T) {
	needProgram(t, "python3")
	p := newProbed(t, "")
	lib, caught := t.TempDir(), filepath.Join(t.TempDir(), "caught")
	probe := filepath.Join(filepath.Dir(p.toolgate), probePeer+filepath.Ext(p.toolgate))
	planted(t, filepath.Join(lib, "pkg.py"), fmt.Sprintf("import os\nos.execv(%q, [%q])\n", probe, probe))
	planted(t, filepath.Join(p.home, "ws", "pkg.py"), fmt.Sprintf("open(%q, 'w').write('x')\n", caught))
	configure := func(keys string) {
		p.configure("[mcp_servers.probe]\ncommand = \"python3\"\nargs = [\"-m\", \"pkg\"]\nsandbox = \"none\"\ndefault_tools_approval_mode = \"approve\"\n" +
			fmt.Sprintf("env = { PYTHONPATH = %q }\n", lib) + keys)
	}
	configure("")
	got, _ := p.try(trial{})
	require.Equal(t, p.folder("probe"), got.Dir)
	require.NoFileExists(t, caught)

	configure("cwd = \"workspace\"\n") // which is what was asked for
	p.run("doctor")
	require.FileExists(t, caught)
}

// TestNpxStartsNothingPlanted is the same for npx, which finds nothing then.
func TestNpxStartsNothingPlanted(t *testing.T) {
	needProgram(t, "npm") // which npx is part of
	p := newProbed(t, "")
	caught := filepath.Join(t.TempDir(), "caught")
	planted(t, filepath.Join(p.home, "ws", "node_modules", ".bin", "toolgate-planted"), "#!/bin/sh\necho > "+caught+"\n")
	p.configure("[mcp_servers.x]\ncommand = \"npx\"\nargs = [\"-y\", \"toolgate-planted\"]\nsandbox = \"none\"\nenv = { npm_config_offline = \"true\" }\n")
	out, _ := p.run("doctor")
	require.Contains(t, out, "the server x does not run")
	require.NoFileExists(t, caught)
}

// TestAFolderBelowTheWorkspaceIsTold: programs look in the folders above, too.
func TestAFolderBelowTheWorkspaceIsTold(t *testing.T) {
	p := newProbed(t, `sandbox = "none"`)
	_, log := p.try(trial{})
	require.NotContains(t, log, "commands can write above")
	cmd := p.command("-C", filepath.Dir(p.own()), "--add-dir", p.own(), "call", "mcp__probe__try", "{}")
	cmd.Env = append(cmd.Env, "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "commands can write above")
}

// TestWrappedServersHaveFoldersOfTheirOwn, though one program starts both.
func TestWrappedServersHaveFoldersOfTheirOwn(t *testing.T) {
	p := newProbed(t, "")
	probe := filepath.Join(filepath.Dir(p.toolgate), probePeer+filepath.Ext(p.toolgate))
	folder := func(args ...string) string {
		cmd := p.command(append([]string{"wrap", "--confine=false", "--approval-mode", "approve"}, args...)...)
		cmd.Stdin = strings.NewReader(greeting + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"try","arguments":{}}}` + "\n")
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		for line := range strings.Lines(string(out)) {
			var m message
			require.NoError(t, json.Unmarshal([]byte(line), &m), "%s", line)
			if string(m.ID) == "1" {
				var got trial
				require.NoError(t, json.Unmarshal([]byte(m.text()), &got), "%s", line)
				return got.Dir
			}
		}
		t.Fatalf("no answer in %s", out)
		return ""
	}
	ws := filepath.Join(p.home, "ws")
	one, two := folder("--", probe, "one"), folder("--", probe, "two")
	require.NotEqual(t, one, two)
	require.Equal(t, one, folder("--", probe, "one"))
	for _, dir := range []string{one, two} {
		require.Equal(t, filepath.Join(p.own(), "state", "servers"), filepath.Dir(dir))
	}
	require.Equal(t, ws, folder("--", probe, "./one"), "a relative path")
	require.Equal(t, ws, folder("--cwd", "workspace", "--", probe))
}

// TestTheEnvironmentOfAServer holds on systems without a sandbox, too.
func TestTheEnvironmentOfAServer(t *testing.T) {
	p := newProbed(t, `sandbox = "none"`)
	got, log := p.try(trial{})
	var names []string
	for _, v := range got.Env {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	for _, name := range names {
		require.True(t, slices.Contains(app.InheritedVars, name) || strings.HasPrefix(name, "XDG_") || name == "TMPDIR" || name == "TOOLGATE_DEPTH", "%s is passed on", name)
	}
	require.Contains(t, names, "PATH")
	require.Contains(t, log, "Welcome to the probe server!")
	if sandbox.Probe().Level() == sandbox.Full {
		out, _ := p.run("doctor", "--json")
		require.Contains(t, out, `"sandbox": "none"`)
	}
}
