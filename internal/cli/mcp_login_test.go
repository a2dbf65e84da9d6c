package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/oauth/oauthtest"
	"toolgate/sandbox"
)

// webBrowser is the name under which this binary is a browser whose person
// says yes to everything.
const webBrowser = "toolgate-test-browser"

func runBrowser() {
	resp, err := http.Get(os.Args[1])
	if err != nil {
		panic(err)
	}
	io.Copy(io.Discard, resp.Body)
}

// A desk is a user with a home of their own, at a shell.
type desk struct {
	t        *testing.T
	home     string
	toolgate string
	browser  string
}

func newDesk(t *testing.T, config string) *desk {
	d := &desk{t: t, home: t.TempDir(), toolgate: ownBinary(t)}
	d.browser = filepath.Join(filepath.Dir(d.toolgate), webBrowser+filepath.Ext(d.toolgate))
	require.NoError(t, os.Link(d.toolgate, d.browser))
	require.NoError(t, os.MkdirAll(filepath.Join(d.home, "ws"), 0o755))
	require.NoError(t, os.MkdirAll(d.own(), 0o700))
	d.configure(config)
	return d
}

// own is toolgate's own folder.
func (d *desk) own() string { return filepath.Join(d.home, ".toolgate") }

func (d *desk) configure(text string) {
	require.NoError(d.t, os.WriteFile(filepath.Join(d.own(), "config.toml"), []byte(text+ownTemp), 0o600))
}

func (d *desk) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	d.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, d.toolgate, args...)
	cmd.Dir = filepath.Join(d.home, "ws")
	cmd.Env = append(os.Environ(), "HOME="+d.home, "TOOLGATE_HOME="+d.own(), "BROWSER="+d.browser)
	return cmd
}

// run runs a command and returns what it prints, and its exit code.
func (d *desk) run(args ...string) (string, int) {
	out, err := d.command(args...).CombinedOutput()
	if _, exit := err.(*exec.ExitError); !exit {
		require.NoError(d.t, err)
	}
	code := 0
	if err != nil {
		code = err.(*exec.ExitError).ExitCode()
	}
	return string(out), code
}

func guardedConfig(as *oauthtest.Server) string {
	return "[mcp_servers.guarded]\nurl = \"" + as.Endpoint() + "\"\ndefault_tools_approval_mode = \"approve\"\n[mcp_servers.guarded.tools.hello]\ntimeout_sec = 20\n"
}

// TestLogin is the whole story: a client runs, the server wants a login, a
// person logs in beside it, the client's next call works, the token expires
// and is renewed, the login is taken back.
func TestLogin(t *testing.T) {
	as := oauthtest.New(t)
	d := newDesk(t, guardedConfig(as))

	out, code := d.run("mcp", "list")
	require.Zero(t, code)
	require.Regexp(t, `guarded .* none `, out)
	out, code = d.run("doctor")
	require.Equal(t, 1, code)
	require.Contains(t, out, "problem: the server guarded does not run: login needed: run toolgate mcp login guarded")
	require.Regexp(t, `server guarded +login needed`, out)
	out, _ = d.run("mcp", "list")
	require.Contains(t, out, "guarded: login needed: run toolgate mcp login guarded")

	cmd := d.command("serve")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	messages := json.NewDecoder(stdout)
	await := func(has string) string {
		for {
			var m json.RawMessage
			require.NoError(t, messages.Decode(&m))
			if strings.Contains(string(m), has) {
				return string(m)
			}
		}
	}
	say := func(line string) {
		_, err := io.WriteString(in, line+"\n")
		require.NoError(t, err)
	}
	say(greeting)
	await(`"id":0`)
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)

	out, code = d.run("mcp", "login", "guarded")
	require.Zero(t, code, out)
	require.Contains(t, out, "Log in at this address:\n\n"+as.URL+"/authorize?")
	require.Contains(t, out, `toolgate: logged in to guarded, for ["read" "offline_access"]`)
	require.NotContains(t, out, "token=")
	await("notifications/tools/list_changed")
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__guarded__hello","arguments":{}}}`
	say(call)
	require.Contains(t, await(`"id":1`), "hello from behind the login")
	as.Expire()
	say(strings.Replace(call, `"id":1`, `"id":2`, 1))
	require.Contains(t, await(`"id":2`), "hello from behind the login")
	require.Equal(t, 1, as.Count("token refresh_token"))

	// Several processes find it expired at once: one renews it for all.
	as.Expire()
	var all sync.WaitGroup
	codes := make([]int, 4)
	for i := range codes {
		all.Go(func() { _, codes[i] = d.run("call", "mcp__guarded__hello") })
	}
	all.Wait()
	require.Equal(t, []int{0, 0, 0, 0}, codes)
	require.Equal(t, 2, as.Count("token refresh_token"))
	out, _ = d.run("mcp", "list")
	require.Regexp(t, `guarded .* logged in `, out)
	out, code = d.run("call", "mcp__guarded__hello")
	require.Zero(t, code, out)
	require.Contains(t, out, "hello from behind")
	as.Need("write")
	out, code = d.run("call", "mcp__guarded__hello")
	require.Equal(t, 3, code)
	require.Contains(t, out, `insufficient scope: the server guarded asks for "write"`)
	out, code = d.run("mcp", "login", "guarded", "--scopes", "read,write")
	require.Zero(t, code, out)
	out, code = d.run("call", "mcp__guarded__hello")
	require.Zero(t, code, out)

	// No command sees the tokens.
	kept := filepath.Join(d.own(), "state", "oauth", "guarded.json")
	require.FileExists(t, kept)
	out, _ = d.run("call", "shell", `{"command":"cat `+kept+`; echo ran"}`)
	require.NotContains(t, out, "access_token")
	if sandbox.Probe().Level() == sandbox.Full {
		require.Contains(t, out, "ran")
	}
	out, code = d.run("mcp", "logout", "guarded")
	require.Zero(t, code)
	require.Contains(t, out, "logged out of guarded")
	say(strings.Replace(call, `"id":1`, `"id":3`, 1))
	require.Contains(t, await(`"id":3`), "login needed: run toolgate mcp login guarded")
	in.Close()
	cmd.Wait()
	require.Empty(t, as.Faults())
	secrets, err := filepath.Glob(filepath.Join(d.own(), "state", "oauth", "*.json"))
	require.NoError(t, err)
	for _, f := range secrets {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NotContains(t, string(b), "access_token")
	}
}

// TestLoginWithoutABrowser pastes the address that a browser elsewhere ended
// at.
func TestLoginWithoutABrowser(t *testing.T) {
	as := oauthtest.New(t)
	d := newDesk(t, guardedConfig(as))
	cmd := d.command("mcp", "login", "guarded", "--no-browser")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var talk bytes.Buffer
	cmd.Stderr = &talk
	require.NoError(t, cmd.Start())
	var seen bytes.Buffer
	var address string
	for b := make([]byte, 4096); address == ""; {
		n, err := out.Read(b)
		require.NoError(t, err)
		seen.Write(b[:n])
		address = regexp.MustCompile(`http\S+authorize\S+\n`).FindString(seen.String())
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Get(strings.TrimSpace(address))
	require.NoError(t, err)
	resp.Body.Close()
	_, err = io.WriteString(in, resp.Header.Get("Location")+"\n")
	require.NoError(t, err)
	io.Copy(io.Discard, out)
	require.NoError(t, cmd.Wait(), "%s", talk.String())
	require.Contains(t, talk.String(), "logged in to guarded")
}

func TestLoginsThatMakeNoSense(t *testing.T) {
	d := newDesk(t, "[mcp_servers.local]\ncommand = \"x\"\n[mcp_servers.key]\nurl = \"https://example.com\"\nbearer_token_env_var = \"K\"\n[mcp_servers.clear]\nurl = \"http://example.com/mcp\"\n")
	for name, want := range map[string]string{
		"local": "is started here", "key": "remove bearer_token_env_var", "clear": "is not https", "nobody": "unknown server",
	} {
		out, code := d.run("mcp", "login", name)
		require.NotZero(t, code)
		require.Contains(t, out, want)
	}
	out, _ := d.run("mcp", "list")
	require.Regexp(t, `key .* bearer token `, out)
	require.Regexp(t, `local .* - +no`, out)
}

// TestLoginToAWrappedServer is for one that is not in the config.
func TestLoginToAWrappedServer(t *testing.T) {
	as := oauthtest.New(t)
	d := newDesk(t, "")
	wrap := func() string {
		cmd := d.command("wrap", "--name", "w", "--url", as.Endpoint(), "--approval-mode", "approve")
		cmd.Stdin = strings.NewReader(greeting + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hello","arguments":{}}}` + "\n")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err)
		return string(out)
	}
	command := "toolgate mcp login w --url " + as.Endpoint()
	require.Contains(t, wrap(), "login needed: run "+command)
	out, code := d.run(strings.Fields(command)[1:]...)
	require.Zero(t, code, out)
	require.Contains(t, wrap(), "hello from behind the login")
	out, code = d.run("mcp", "logout", "w", "--url", as.Endpoint())
	require.Zero(t, code, out)
	require.Zero(t, as.Live())
}
