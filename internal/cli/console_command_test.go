package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/approvals"
)

// run runs another command of toolgate with the client's environment.
func (c *client) run(args ...string) (stdout, stderr string, err error) {
	cmd := exec.Command(c.cmd.Path, args...)
	cmd.Env, cmd.Dir = c.cmd.Env, c.ws
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	return string(out), errs.String(), err
}

// A guest has got in by a link, as a browser does.
type guest struct {
	t      testing.TB
	url    string
	cookie *http.Cookie
	token  string
}

func (g *guest) do(method, path, body string) *http.Response {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, g.url+"/console/"+path, strings.NewReader(body))
	require.NoError(g.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", g.url)
	if g.cookie != nil {
		r.AddCookie(g.cookie)
		r.Header.Set("X-Toolgate-Console", g.token)
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(g.t, err)
	g.t.Cleanup(func() { res.Body.Close() })
	return res
}

func enter(t testing.TB, link string) *guest {
	t.Helper()
	url, code, ok := strings.Cut(strings.TrimSpace(link), "/console/#code=")
	require.True(t, ok, link)
	g := &guest{t: t, url: url}
	res := g.do(http.MethodPost, "login", fmt.Sprintf(`{"code":%q}`, code))
	require.Equal(t, http.StatusOK, res.StatusCode)
	var in struct{ Token string }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&in))
	g.cookie, g.token = res.Cookies()[0], in.Token
	return g
}

func TestConsoleCommand(t *testing.T) {
	off := startClient(t).open()
	off.call("list_dir", `{"dir_path":"."}`)
	_, stderr, err := off.run("console")
	require.Error(t, err, "there is none unless the config wants one")
	require.Contains(t, stderr, "no toolgate with a console runs")
	require.Contains(t, stderr, "set enabled = true in [console]")

	c := startClient(t, "-c", "console.enabled=true").open()
	link := c.consoleLink()
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/console/#code=[A-Z2-7]{26}$`, link)
	require.NotEqual(t, link, c.consoleLink())
	enter(t, link)

	// A second gate of the same user: both are listed, and can be told apart.
	second := &client{t: t, ws: t.TempDir(), home: c.home}
	second.start2("-c", "console.enabled=true")
	var out string
	c.eventually(func() bool {
		out, _, err = c.run("console")
		return strings.Count(out, "#code=") == 2
	})
	require.Contains(t, out, strconv.Itoa(c.cmd.Process.Pid)+"  "+c.ws)
	require.Contains(t, out, strconv.Itoa(second.cmd.Process.Pid)+"  "+second.ws)
	out, _, err = c.run("console", filepath.Base(second.ws))
	if filepath.Base(second.ws) == filepath.Base(c.ws) {
		out, _, err = c.run("console", second.ws)
	}
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(out, "#code="), out)
	_, stderr, err = c.run("console", "--open")
	require.Error(t, err)
	require.Contains(t, stderr, "name the one to open")
	_, _, err = c.run("console", "no such workspace")
	require.Error(t, err)

	// One that was killed is left out, and its notice is removed.
	require.NoError(t, second.cmd.Process.Kill())
	second.cmd.Wait()
	out, _, err = c.run("console")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(out, "#code="), out)
	left, err := filepath.Glob(filepath.Join(c.home, "state", "state", "consoles", "*"))
	require.NoError(t, err)
	require.Len(t, left, 1)
	info, err := os.Stat(left[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	// One that ends in order removes its own.
	c.in.Close()
	require.NoError(t, c.cmd.Wait())
	left, err = filepath.Glob(filepath.Join(c.home, "state", "state", "consoles", "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// start2 starts toolgate in the home of another client.
func (c *client) start2(args ...string) {
	c.t.Helper()
	c.cmd = exec.Command(ownBinary(c.t), args...)
	c.cmd.Dir = c.ws
	c.cmd.Env = append(os.Environ(), "HOME="+c.home, "TOOLGATE_HOME="+filepath.Join(c.home, "state"))
	var err error
	c.in, err = c.cmd.StdinPipe()
	require.NoError(c.t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(c.t, err)
	c.out = bufio.NewReaderSize(out, 1<<20)
	require.NoError(c.t, c.cmd.Start())
	c.open()
}

func TestConsoleAlone(t *testing.T) {
	c := &client{t: t, ws: t.TempDir(), home: t.TempDir()}
	cmd := exec.Command(ownBinary(t), "console", "--serve")
	cmd.Env = append(os.Environ(), "HOME="+c.home, "TOOLGATE_HOME="+filepath.Join(c.home, "state"))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	link, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	g := enter(t, link)
	res := g.do(http.MethodGet, "api/about", "")
	require.Equal(t, http.StatusOK, res.StatusCode)
	var about struct{ Views []string }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&about))
	require.Equal(t, []string{"approvals", "calls", "rules"}, about.Views)
	require.Equal(t, http.StatusNotFound, g.do(http.MethodGet, "api/servers/x", "").StatusCode)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
}

func TestConsoleOfOtherHosts(t *testing.T) {
	c := startClient(t, "-c", "console.enabled=true", "-c", `console.address="0.0.0.0:0"`).open()
	c.call("list_dir", `{"dir_path":"."}`)
	c.in.Close()
	require.NoError(t, c.cmd.Wait())
	left, err := filepath.Glob(filepath.Join(c.home, "state", "state", "consoles", "*"))
	require.NoError(t, err)
	require.Empty(t, left, "it is not served at all")
}

// A command that may use the network reaches the port, and no further: it
// can read neither the notice nor anything else that would let it in.
func TestConsoleIsClosedToCommands(t *testing.T) {
	needSandbox(t)
	needProgram(t, "bash")
	c := startClient(t, "-c", "console.enabled=true", "-c", "sandbox_workspace_write.network_access=true").open()
	url, _, _ := strings.Cut(c.consoleLink(), "/console/")
	port := url[strings.LastIndexByte(url, ':')+1:]
	ask := func(method, path, body string) string {
		script := fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%s; printf '%s /console/%s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nOrigin: http://127.0.0.1:%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' >&3; cat <&3`,
			port, method, path, port, port, len(body), body)
		b, err := json.Marshal(map[string]any{"command": []string{"bash", "-c", script}})
		require.NoError(t, err)
		return c.answer(c.start("shell", string(b))).text()
	}
	require.Contains(t, ask("GET", "", ""), "200 OK", "the network is open, so the port can be reached")
	require.Contains(t, ask("GET", "api/about", ""), "401 Unauthorized")
	require.Contains(t, ask("GET", "api/events", ""), "401 Unauthorized")
	require.Contains(t, ask("POST", "api/approvals/aaaaaaaa", `{"answer":"once"}`), "401 Unauthorized")
	require.Contains(t, ask("POST", "login", `{"code":"AAAAAAAAAAAAAAAAAAAAAAAAAA"}`), "401 Unauthorized")
	require.Contains(t, ask("POST", "code", `{"nonce":"AAAAAAAAAAAAAAAAAAAAAAAAAA","proof":""}`), "403 Forbidden")
	m := c.answer(c.start("shell", `{"command":["sh","-c","cat `+filepath.Join(c.home, "state", "state", "consoles")+`/*; toolgate console; tr '\\0' '\\n' < /proc/1/environ | grep -c . ; ls /proc"]}`))
	require.NotContains(t, m.text(), "secret")
	require.NotContains(t, m.text(), "#code=")
}

func consoleOverHTTP(t *testing.T, b *chrome) {
	needSandbox(t)
	s := startWeb(t, "approval_wait = 300\n")
	link := strings.TrimSpace(s.run("console"))
	require.True(t, strings.HasPrefix(link, s.url+"/console/#code="), link)
	p := b.open(t, link)

	a := s.session(webToken)
	done := make(chan message, 1)
	file := filepath.Join(s.ws, "..", "over-http")
	go func() { // ends with the answer
		m, _ := a.call("shell", outside("touch", file))
		done <- m
	}()
	p.see(".card.armed")
	require.Contains(t, p.text(".card .facts"), "token:default")
	require.NoFileExists(t, file)
	p.click(".card .answer.once")
	m := <-done
	require.False(t, m.Result.IsError, m.text())
	require.FileExists(t, file)
	p.keys("2")
	p.see("#view-calls .row .good")
	eval[any](p, `document.querySelector("#view-calls .row").open = true`)
	p.see("#view-calls .row .output")
	p.atEase()

	// A caller's token lets nobody in here.
	for _, header := range []string{"", "Bearer " + webToken} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/console/api/about", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", header)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, http.StatusUnauthorized, res.StatusCode)
	}
	// An open page does not hold up the end.
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, s.cmd.Wait())
	p.until(`document.querySelector("#link.closed")`)
	require.NotRegexp(t, regexp.MustCompile(`(?i)panic|race`), s.log.String())
}

// What the client asks its user can be answered on the console, too.
func TestConsoleBesideTheClient(t *testing.T) {
	needSandbox(t)
	c := startClient(t, "-c", "console.enabled=true")
	c.send(strings.Replace(greeting, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	c.receive()
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	waiting := func() (list []approvals.Entry) {
		out, _, err := c.run("approvals", "list", "--json")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(out), &list))
		return list
	}

	id := c.start("shell", outside("touch", filepath.Join(c.home, "there")))
	asked := c.receive()
	require.Equal(t, "elicitation/create", asked.Method)
	c.eventually(func() bool { return len(waiting()) == 1 })
	q := waiting()[0]
	require.True(t, q.About.Parallel)
	_, _, err := c.run("approvals", "approve", q.ID)
	require.NoError(t, err)
	m := c.receive()
	require.Equal(t, "notifications/cancelled", m.Method, "the client need not ask any longer")
	require.False(t, c.answer(id).Result.IsError)
	require.FileExists(t, filepath.Join(c.home, "there"))
	require.Empty(t, waiting())

	id = c.start("shell", outside("touch", filepath.Join(c.home, "here")))
	asked = c.receive()
	c.eventually(func() bool { return len(waiting()) == 1 })
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"decision":"once"}}}`, asked.ID))
	require.False(t, c.answer(id).Result.IsError)
	require.FileExists(t, filepath.Join(c.home, "here"))
	require.Empty(t, waiting())
}
