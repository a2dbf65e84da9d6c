package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A service is what is to be reached, on this machine's loopback.
type service struct {
	plain, secure string // ports
	address       string // of plain
}

func startService(t testing.TB) service {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "hello"), []byte("hello from outside\n"), 0o644))
	if _, err := exec.LookPath("git"); err == nil {
		script := `set -e
git init -q --bare repo.git; git init -q work; cd work
git -c user.name=t -c user.email=t@example.com commit -q --allow-empty -m "a commit from outside"
git push -q ../repo.git HEAD:refs/heads/main; cd ../repo.git; git symbolic-ref HEAD refs/heads/main; git update-server-info`
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "HOME="+folder, "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(folder)))
	mux.HandleFunc("/-/ping", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("{}")) }) // npm's
	plain, secure := httptest.NewServer(mux), httptest.NewTLSServer(mux)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	port := func(s *httptest.Server) string {
		_, port, err := net.SplitHostPort(s.Listener.Addr().String())
		require.NoError(t, err)
		return port
	}
	return service{port(plain), port(secure), plain.Listener.Addr().String()}
}

// withNetwork starts a toolgate whose commands may reach what is listed.
func withNetwork(t testing.TB, allow ...string) *client {
	t.Helper()
	needSandbox(t)
	list, err := json.Marshal(allow)
	require.NoError(t, err)
	if allow == nil {
		list = []byte("[]")
	}
	return startClient(t, "-c", "sandbox_workspace_write.network_access=true", "-c", "sandbox_workspace_write.allowed_domains="+string(list))
}

// sh runs a script and returns the text of the result.
func (c *client) sh(format string, args ...any) string {
	c.t.Helper()
	b, err := json.Marshal(map[string]any{"command": []string{"sh", "-c", fmt.Sprintf(format, args...)}})
	require.NoError(c.t, err)
	return c.call("shell", string(b)).text()
}

// needProgram skips without the program, or fails where it is required.
func needProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if os.Getenv("REQUIRE_"+strings.ToUpper(name)) != "" {
		t.Fatalf("%s is required and not there", name)
	}
	t.Skipf("no %s", name)
}

// Programs that people use find the proxy, and reach through it what is
// listed.
func TestListedHostsAreReached(t *testing.T) {
	s := startService(t)
	c := withNetwork(t, "localhost").open()
	for _, tt := range []struct{ program, name, script, want string }{
		{"curl", "plain", "curl -sS http://localhost:PLAIN/hello", "hello from outside"},
		{"curl", "capitals and a dot", "curl -sS http://LOCALHOST.:PLAIN/hello", "hello from outside"},
		{"curl", "tls", "curl -sSk https://localhost:SECURE/hello", "hello from outside"},
		{"curl", "socks", "curl -sS --socks5-hostname 127.0.0.1:3128 http://localhost:PLAIN/hello", "hello from outside"},
		{"curl", "socks and tls", "curl -sSk --proxy socks5h://127.0.0.1:3128 https://localhost:SECURE/hello", "hello from outside"},
		{"curl", "without credentials", "curl -sS --proxy http://127.0.0.1:3128 http://localhost:PLAIN/hello", "hello from outside"},
		{"curl", "an upload", "head -c 3000000 /dev/zero | curl -sS -o /dev/null -w '%{http_code}' -T - http://localhost:PLAIN/hello", "200"},
		{"python3", "urllib", `python3 -c 'import urllib.request; print(urllib.request.urlopen("http://localhost:PLAIN/hello").read())'`, "hello from outside"},
		{"git", "clone", "GIT_CONFIG_NOSYSTEM=1 git clone -q http://localhost:PLAIN/repo.git there && git -C there log --format=%s", "a commit from outside"},
		{"npm", "ping", "npm ping --no-update-notifier --registry=http://localhost:PLAIN/", "PONG"},
	} {
		t.Run(tt.program+" "+tt.name, func(t *testing.T) {
			needProgram(t, tt.program)
			text := c.sh("%s", strings.NewReplacer("PLAIN", s.plain, "SECURE", s.secure).Replace(tt.script))
			require.Contains(t, text, tt.want)
			require.Contains(t, text, "Exit code: 0")
			require.NotContains(t, text, "sandbox refused")
		})
	}
}

// What is not listed is refused, and the result says which host; there is no
// way around the proxy.
func TestOtherHostsAreNot(t *testing.T) {
	needProgram(t, "curl")
	s := startService(t)
	c := withNetwork(t, "listed.example").open()
	for _, tt := range []struct{ name, script, want string }{
		{"tls", "curl -sS https://other.example/", `The sandbox refused this: network other.example: it is not on the list of allowed hosts; the user can allow it with the rule network_rule(host="other.example", protocol="https", decision="allow").`},
		{"plain", "curl -fsS http://other.example/", "The sandbox refused this: network other.example: "},
		{"socks", "curl -sS --socks5-hostname 127.0.0.1:3128 http://other.example/", "The sandbox refused this: network other.example:80: "},
		{"by hand", `printf 'GET http://` + s.address + `/hello HTTP/1.0\r\n\r\n' | curl -s telnet://127.0.0.1:3128; exit 3`, "The sandbox refused this: network 127.0.0.1:" + s.plain + ": "},
		{"loopback", "curl -fsS --noproxy '' http://localhost:" + s.plain + "/hello", "The sandbox refused this: network localhost:" + s.plain + ": "},
		{"an address", "curl -fsS --noproxy '' http://" + s.address + "/hello", "The sandbox refused this: network 127.0.0.1:" + s.plain + ": "},
		{"an address in disguise", "curl -fsS --noproxy '' 'http://[::ffff:127.0.0.1]:" + s.plain + "/hello'", "The sandbox refused this: network 127.0.0.1:" + s.plain + ": "},
		{"after a success", "curl -s https://other.example/; true", "While it ran, the sandbox refused the host other.example: "},
		{"without the proxy", "env -u HTTP_PROXY -u http_proxy -u ALL_PROXY -u all_proxy curl -sS http://other.example/", "The sandbox refused this: network: there is only the proxy that HTTPS_PROXY names"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := c.sh("%s", tt.script)
			require.Contains(t, text, tt.want)
			require.NotContains(t, text, "hello from outside")
		})
	}
	for name, script := range map[string]string{
		"direct":      "curl -sS --noproxy '*' http://" + s.address + "/hello",
		"a failure":   "exit 7",
		"not found":   "ls nowhere",
		"own server":  "curl -sS http://127.0.0.1:9/",
		"the command": "curl -sS --proxy '' --connect-timeout 2 http://127.0.0.1:" + s.plain + "/hello",
	} {
		t.Run("no claim about "+name, func(t *testing.T) {
			text := c.sh("%s", script)
			require.NotContains(t, text, "Exit code: 0")
			require.NotContains(t, text, "sandbox refused")
			require.NotContains(t, text, "hello from outside")
		})
	}
}

// An empty list is no host at all.
func TestEmptyListOfHosts(t *testing.T) {
	needProgram(t, "curl")
	s := startService(t)
	c := withNetwork(t).open()
	for _, at := range []string{"localhost:" + s.plain, s.address} {
		text := c.sh("curl -sS --noproxy '' http://%s/hello; curl -sS --noproxy '*' http://%s/hello; true", at, at)
		require.Contains(t, text, "it is not on the list of allowed hosts")
		require.NotContains(t, text, "from outside")
	}
}

// A command is told of what was refused to it, and not to another.
func TestRefusedToWhom(t *testing.T) {
	needProgram(t, "curl")
	c := withNetwork(t).open()
	b, err := json.Marshal(map[string]any{"yield_time_ms": 250, "cmd": "while ! test -e go; do :; done; curl -s http://theirs.example/; touch done; sleep 1000"})
	require.NoError(t, err)
	require.Contains(t, c.call("exec_command", string(b)).text(), "running with session ID")
	text := c.sh("touch go; while ! test -e done; do :; done; curl -s http://mine.example/; exit 3")
	require.Contains(t, text, "network mine.example: ")
	require.NotContains(t, text, "sandbox refused the host theirs.example")
	require.NotContains(t, text, "network theirs.example")
}

// A command that goes on is told of while it does, and once.
func TestRefusedWhileItRuns(t *testing.T) {
	needProgram(t, "curl")
	c := withNetwork(t).open()
	text := c.call("exec_command", `{"yield_time_ms":250,"tty":true,"cmd":"curl -s http://first.example/ >/dev/null; echo asked; read line; curl -s http://second.example/; exit 3"}`).text()
	_, id, ok := strings.Cut(text, "running with session ID ")
	require.True(t, ok, text)
	id, _, _ = strings.Cut(id, "\n")
	for !strings.Contains(text, "asked") {
		text += c.call("write_stdin", `{"session_id":`+id+`,"chars":"","yield_time_ms":250}`).text()
	}
	require.Contains(t, text, "While it ran, the sandbox refused the host first.example: ")
	text = c.call("write_stdin", `{"session_id":`+id+`,"chars":"go on\n","yield_time_ms":30000}`).text()
	require.Contains(t, text, "Process exited with code 3")
	require.Contains(t, text, "The sandbox refused this: network second.example: ")
	require.NotContains(t, text, "first.example")
}

// openAsking opens as a client that can ask.
func (c *client) openAsking() *client {
	c.send(strings.Replace(greeting, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	c.receive()
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

// asked starts a script, answers the one question it leads to, and returns the
// question and the result.
func (c *client) asked(script, answer string) (question, text string) {
	c.t.Helper()
	b, err := json.Marshal(map[string]any{"command": []string{"sh", "-c", script}})
	require.NoError(c.t, err)
	c.start("shell", string(b))
	line, err := c.out.ReadString('\n')
	require.NoError(c.t, err)
	var q struct {
		ID     json.RawMessage
		Method string
		Params struct{ Message string }
	}
	require.NoError(c.t, json.Unmarshal([]byte(line), &q))
	require.Equal(c.t, "elicitation/create", q.Method, line)
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"decision":%q}}}`, q.ID, answer))
	return q.Params.Message, c.receive().text()
}

// A rule can have a host asked about while the command waits.
func TestHostsAreAskedAbout(t *testing.T) {
	needProgram(t, "curl")
	s := startService(t)
	c := withNetwork(t)
	rules := filepath.Join(c.home, "state", "rules", "user.rules")
	require.NoError(t, os.MkdirAll(filepath.Dir(rules), 0o700))
	require.NoError(t, os.WriteFile(rules, []byte(`network_rule(host="localhost", protocol="http", decision="prompt", justification="it is mine")`+"\n"), 0o600))
	c.openAsking()
	get := fmt.Sprintf("curl -fsS --noproxy '' http://localhost:%s/hello", s.plain)

	question, text := c.asked(get, "no")
	require.Contains(t, question, "Let shell reach the host localhost (http, port "+s.plain+")?")
	require.Contains(t, question, "it is mine")
	require.Contains(t, text, "the user said no")
	require.NotContains(t, text, "from outside")

	_, text = c.asked(get, "once")
	require.Contains(t, text, "hello from outside")
	_, text = c.asked(get, "session")
	require.Contains(t, text, "hello from outside")
	require.Contains(t, c.sh("%s", get), "hello from outside", "not asked again")

	require.NoError(t, os.WriteFile(rules, []byte(`network_rule(host="localhost", protocol="http", decision="forbidden", justification="no more")`+"\n"), 0o600))
	require.Contains(t, c.sh("%s", get), "a rule forbids it (no more)", "rules are read anew")

	// All of it is in the record.
	c.in.Close()
	c.cmd.Wait()
	record, err := os.ReadFile(filepath.Join(c.home, "state", "state", "audit.jsonl"))
	require.NoError(t, err)
	type use struct {
		Host    string
		Refused bool
		Asked   string
	}
	var all []use
	for line := range strings.Lines(string(record)) {
		var ev struct{ Hosts []use }
		require.NoError(t, json.Unmarshal([]byte(line), &ev))
		all = append(all, ev.Hosts...)
	}
	require.Equal(t, []use{
		{"localhost", true, "no"}, {"localhost", false, "once"}, {"localhost", false, "session"}, {"localhost", false, "remembered"}, {"localhost", true, ""},
	}, all)
}

// A downstream server that is started can have hosts of its own.
func TestHostsOfADownstreamServer(t *testing.T) {
	needProgram(t, "curl")
	needSandbox(t)
	s := startService(t)
	inner := func(key, value string) string { return "mcp_servers.inner." + key + "=" + value }
	c := startClient(t,
		"-c", inner("command", fmt.Sprintf("%q", ownBinary(t))),
		"-c", inner("args", `["serve", "-s", "danger-full-access", "-a", "never"]`),
		"-c", inner("default_tools_approval_mode", `"approve"`),
		"-c", inner("trusted", "true"),
		"-c", inner("network", "true"),
		"-c", inner("allowed_domains", `["localhost"]`),
		"-c", inner("env.TOOLGATE_HOME", fmt.Sprintf("%q", t.TempDir())),
	).open()
	script := fmt.Sprintf("curl -sS http://localhost:%s/hello; curl -sS http://other.example/; curl -sS --noproxy '*' http://%s/hello; true", s.plain, s.address)
	b, err := json.Marshal(map[string]any{"command": []string{"sh", "-c", script}})
	require.NoError(t, err)
	text := c.called("mcp__inner__shell", string(b))
	require.Equal(t, 1, strings.Count(text, "hello from outside"), text)
	require.Contains(t, text, "toolgate: the sandbox refused the host other.example")
}

// called is call that passes over notifications.
func (c *client) called(tool, args string) string {
	c.start(tool, args)
	for {
		if m := c.receive(); m.Method == "" {
			return m.text()
		}
	}
}

// BenchmarkCallShellTrueWithHosts is BenchmarkCallShellTrue where commands have
// the proxy.
func BenchmarkCallShellTrueWithHosts(b *testing.B) {
	c := withNetwork(b, "example.com").open()
	c.call("shell", `{"command":["true"]}`) // starts the worker
	b.ReportAllocs()
	for b.Loop() {
		c.call("shell", `{"command":["true"]}`)
	}
}
