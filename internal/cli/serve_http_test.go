package cli

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const webToken = "tg_DEFAULTDEFAULTDEFAULTDEFAULT"

// A webServer is a running toolgate that serves over HTTP.
type webServer struct {
	t    testing.TB
	cmd  *exec.Cmd
	home string // TOOLGATE_HOME
	ws   string
	url  string // without a path
	log  *lineBuffer
}

// A lineBuffer keeps what a process prints.
type lineBuffer struct {
	mu    sync.Mutex
	text  strings.Builder
	lines chan string
}

func (b *lineBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

var servingAt = regexp.MustCompile(`serving MCP at (https?://[^/]+)/mcp`)

// startWeb starts this very program as `toolgate serve --http` in a workspace
// of its own, with a config.
func startWeb(t testing.TB, config string, args ...string) *webServer {
	t.Helper()
	return startWebAs(t, nil, config, args...)
}

// startWebAs is startWeb for a process with attr.
func startWebAs(t testing.TB, attr *syscall.SysProcAttr, config string, args ...string) *webServer {
	t.Helper()
	s := &webServer{t: t, home: filepath.Join(t.TempDir(), "home"), ws: t.TempDir(), log: &lineBuffer{lines: make(chan string, 1000)}}
	require.NoError(t, os.MkdirAll(s.home, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(s.home, "config.toml"), []byte(config), 0o600))
	if len(args) == 0 || args[0] != "wrap" {
		args = append([]string{"serve"}, args...)
	}
	args = append(args[:1:1], append([]string{"--http", "127.0.0.1:0"}, args[1:]...)...)
	s.cmd = exec.Command(ownBinary(t), args...)
	s.cmd.Dir, s.cmd.SysProcAttr = s.ws, attr
	s.cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(s.home), "TOOLGATE_HOME="+s.home, "TOOLGATE_HTTP_TOKEN="+webToken)
	stderr, err := s.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	at := make(chan string, 1)
	go func() { // ends with the program
		defer close(at)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			s.log.mu.Lock()
			s.log.text.WriteString(lines.Text() + "\n")
			s.log.mu.Unlock()
			if m := servingAt.FindStringSubmatch(lines.Text()); m != nil {
				at <- m[1]
			}
		}
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	})
	s.url = <-at
	require.NotEmpty(t, s.url, "%s", s.log)
	return s
}

// A webCaller is a client of a session-based protocol version.
type webCaller struct {
	s       *webServer
	token   string
	session string
	id      int
}

// do sends a request and returns the response, whose body is read.
func (c *webCaller) do(method, path, body string, headers ...string) (*http.Response, string) {
	c.s.t.Helper()
	r, err := http.NewRequestWithContext(c.s.t.Context(), method, c.s.url+path, strings.NewReader(body))
	require.NoError(c.s.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(c.s.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(c.s.t, err)
	return resp, string(b)
}

// webSession opens a session.
func (s *webServer) session(token string) *webCaller {
	s.t.Helper()
	c := &webCaller{s: s, token: token}
	resp, body := c.do("POST", "/mcp", greeting)
	require.Equal(s.t, 200, resp.StatusCode, body)
	c.session = resp.Header.Get("Mcp-Session-Id")
	require.NotEmpty(s.t, c.session)
	resp, _ = c.do("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	require.Equal(s.t, 202, resp.StatusCode)
	return c
}

// call makes a call and returns its answer, and the name of the request.
func (c *webCaller) call(tool, args string) (message, string) {
	c.s.t.Helper()
	c.id++
	resp, body := c.do("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, c.id, tool, args))
	require.Equal(c.s.t, 200, resp.StatusCode, body)
	return lastMessage(c.s.t, body), resp.Header.Get("X-Request-Id")
}

// lastMessage returns the last message of a stream of events.
func lastMessage(t testing.TB, body string) (m message) {
	t.Helper()
	found := false
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(line, "data: {"); ok {
			m, found = message{}, true
			require.NoError(t, json.Unmarshal([]byte("{"+data), &m))
		}
	}
	require.True(t, found, "%s", body)
	return m
}

// run runs another toolgate with the same home.
func (s *webServer) run(args ...string) string {
	s.t.Helper()
	cmd := exec.Command(s.cmd.Path, args...)
	cmd.Env, cmd.Dir = s.cmd.Env, s.ws
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(s.t, err, "%s", &stderr)
	return string(out)
}

func TestHTTPLetsInOnlyWhoBelongs(t *testing.T) {
	s := startWeb(t, "")
	nobody, wrong, known := &webCaller{s: s}, &webCaller{s: s, token: "tg_WRONG"}, &webCaller{s: s, token: webToken}

	t.Run("token", func(t *testing.T) {
		for _, path := range []string{"/mcp", "/metrics"} {
			for _, method := range []string{"POST", "GET", "DELETE", "PUT", "OPTIONS", "HEAD"} {
				for _, c := range []*webCaller{nobody, wrong} {
					resp, _ := c.do(method, path, greeting)
					require.Contains(t, []int{401, 405}, resp.StatusCode, "%s %s", method, path)
					require.Empty(t, resp.Header.Get("Mcp-Session-Id"))
					require.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"))
				}
			}
		}
		resp, _ := nobody.do("POST", "/mcp?token="+webToken+"&access_token="+webToken, greeting)
		require.Equal(t, 401, resp.StatusCode, "tokens in addresses end up in logs")
	})
	t.Run("paths", func(t *testing.T) {
		for _, path := range []string{"//mcp", "/mcp/", "/mcp/../mcp", "/./mcp", "/%6dcp", "/%6d%63%70", "/mcp%00", "/mcp%2f..%2fmcp", "/healthz/../mcp", "/healthz/..%2fmcp", "/MCP", "/..%2f..%2fetc%2fpasswd", "/../../etc/passwd", "/mcp;x", "/healthz/../metrics", "/readyz%2f..%2f..%2fmetrics", "/debug/pprof/", "/console", "/.well-known/oauth-protected-resource"} {
			resp, body := nobody.do("POST", path, greeting)
			require.NotEqual(t, 200, resp.StatusCode, "%s %s", path, body)
			require.NotContains(t, body, "root:")
			resp, body = nobody.do("GET", path, "")
			require.NotEqual(t, 200, resp.StatusCode, "%s %s", path, body)
		}
		for _, raw := range []string{"POST http://evil.example/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", "POST http://localhost/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", "POST /mcp HTTP/1.0\r\n\r\n", "GET /mcp HTTP/1.1\r\n\r\n", "CONNECT localhost:22 HTTP/1.1\r\nHost: localhost\r\n\r\n", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
			answer := s.raw(raw)
			require.NotContains(t, answer, "200 OK", "%q", raw)
		}
	})
	t.Run("pages of others", func(t *testing.T) {
		for _, headers := range [][]string{
			{"Host", "evil.example"},
			{"Host", "evil.example:8321"},
			{"Origin", "http://evil.example"},
			{"Origin", "null"},
			{"Origin", "http://localhost.evil.example"},
		} {
			for _, path := range []string{"/mcp", "/metrics", "/healthz"} {
				resp, _ := known.do("POST", path, greeting, headers...)
				require.Equal(t, 403, resp.StatusCode, "%v", headers)
				require.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"))
			}
		}
		// What a form or an image can send without a preflight.
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} {
			resp, _ := known.do("POST", "/mcp", greeting, "Content-Type", kind)
			require.Equal(t, 415, resp.StatusCode, kind)
		}
		resp, _ := known.do("OPTIONS", "/mcp", "", "Origin", s.url, "Access-Control-Request-Method", "POST")
		require.Equal(t, 405, resp.StatusCode)
		require.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"))
	})
	t.Run("bombs", func(t *testing.T) {
		require.NotContains(t, s.raw("POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+webToken+"\r\nX-Bomb: "+strings.Repeat("x", 100<<10)+"\r\n\r\n"), "200 OK")
		var many strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&many, "X-%d: y\r\n", i)
		}
		require.NotContains(t, s.raw("POST /mcp HTTP/1.1\r\nHost: localhost\r\n"+many.String()+"\r\n"), "200 OK")
		resp, body := known.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"`+strings.Repeat("x", 64<<20)+`"}}`)
		require.Equal(t, 413, resp.StatusCode)
		require.Contains(t, body, "longer than 67108864 bytes")
		resp, body = known.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping","params":`+strings.Repeat(`{"a":`, 1<<20)+"1"+strings.Repeat("}", 1<<20)+"}")
		require.Equal(t, 400, resp.StatusCode)
		require.Contains(t, body, "nested more than 512 deep")
	})
	t.Run("still well", func(t *testing.T) {
		for _, path := range []string{"/healthz", "/readyz"} {
			resp, _ := nobody.do("GET", path, "")
			require.Equal(t, 200, resp.StatusCode)
		}
		resp, body := known.do("GET", "/metrics", "")
		require.Equal(t, 200, resp.StatusCode)
		require.Regexp(t, `toolgate_http_refused_total\{reason="no-token"\} [1-9]`, body)
		require.Regexp(t, `toolgate_http_refused_total\{reason="host"\} [1-9]`, body)
		c := s.session(webToken)
		resp, _ = c.do("DELETE", "/mcp", "")
		require.Equal(t, 204, resp.StatusCode)
	})
	require.NotContains(t, s.log.String(), webToken)
}

// raw sends bytes and returns the beginning of the answer.
func (s *webServer) raw(text string) string {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(s.t, err)
	defer c.Close()
	go io.WriteString(c, text) // the server may hang up before it has all
	answer := make([]byte, 4096)
	n, err := io.ReadAtLeast(c, answer, 12)
	if err != nil {
		return ""
	}
	return string(answer[:n])
}

func TestHTTPStrangersKeepNobodyOut(t *testing.T) {
	s := startWeb(t, "")
	addr := strings.TrimPrefix(s.url, "http://")
	c := s.session(webToken)

	// Ten thousand who say nothing, or a little at a time.
	const many = 10_000
	var open []net.Conn
	defer func() {
		for _, k := range open {
			k.Close()
		}
	}()
	for i := range many {
		k, err := net.Dial("tcp", addr)
		if err != nil {
			require.Greater(t, i, 900, "%v", err) // a system may allow us no more
			break
		}
		open = append(open, k)
		if i%2 == 0 {
			k.Write([]byte("POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-A:"))
		}
		if i%1000 == 0 {
			m, _ := c.call("read_file", `{"path":"nothing"}`)
			require.True(t, m.Result.IsError, "and yet it answers")
		}
	}
	require.Equal(t, 200, status(t, s.url+"/healthz"))
	s.session(webToken) // also who comes new
	m, _ := c.call("list_dir", `{"dir_path":"."}`)
	require.False(t, m.Result.IsError, m.text())
	_, body := (&webCaller{s: s, token: webToken}).do("GET", "/metrics", "")
	found := regexp.MustCompile(`toolgate_http_connections (\d+)`).FindStringSubmatch(body)
	require.NotNil(t, found)
	t.Logf("%d connections made, %s kept", len(open), found[1])

	// Those who never come to the end of their headers are let go, at the
	// latest when their time is over.
	for i := len(open) - 2; i < len(open); i++ {
		_, err := io.ReadAll(open[i])
		if err != nil {
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
		}
	}
}

func status(t testing.TB, url string) int {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	resp.Body.Close()
	return resp.StatusCode
}

func TestHTTPCallersDoNotMeet(t *testing.T) {
	needSandbox(t)
	s := startWeb(t, "approval_wait = 0\n[permissions.shut]\nextends = \":workspace\"\n[permissions.shut.filesystem.\":workspace_roots\"]\n\"secret.txt\" = \"deny\"\n")
	alices := t.TempDir()
	alice := strings.TrimSpace(s.run("http", "token", "add", "alice", "--workspace", alices))
	bobs := t.TempDir()
	bob := strings.TrimSpace(s.run("http", "token", "add", "bob", "--workspace", bobs, "-s", "read-only"))
	carols := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(carols, "secret.txt"), []byte("not for carol"), 0o644))
	carol := strings.TrimSpace(s.run("http", "token", "add", "carol", "--workspace", carols, "-P", "shut"))
	require.NotContains(t, s.config(), alice, "only its hash is kept")
	s.until(func() bool {
		resp, _ := (&webCaller{s: s, token: carol}).do("GET", "/metrics", "")
		return resp.StatusCode == 200
	})
	a, b := s.session(alice), s.session(bob)

	t.Run("sessions", func(t *testing.T) {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			thief, guess := &webCaller{s: s, token: bob, session: a.session}, &webCaller{s: s, token: bob, session: "GUESSED"}
			theirs, body1 := thief.do(method, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			none, body2 := guess.do(method, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			require.Equal(t, 404, theirs.StatusCode)
			require.Equal(t, none.StatusCode, theirs.StatusCode)
			require.Equal(t, body2, body1)
		}
		m, _ := a.call("list_dir", `{"dir_path":"."}`)
		require.False(t, m.Result.IsError, m.text())
	})
	t.Run("workspaces and policy", func(t *testing.T) {
		m, _ := a.call("shell", `{"command":"echo hers > note && cat note"}`)
		require.Contains(t, m.text(), "hers")
		require.FileExists(t, filepath.Join(alices, "note"))
		m, _ = b.call("read_file", `{"file_path":"note"}`)
		require.True(t, m.Result.IsError, "it is not in his folder")
		m, _ = b.call("shell", `{"command":"echo his > note"}`)
		require.Contains(t, m.text(), "sandbox", "he may only read")
		require.NoFileExists(t, filepath.Join(bobs, "note"))
		c := s.session(carol)
		m, _ = c.call("shell", `{"command":"echo hers > note; cat secret.txt"}`)
		require.NotContains(t, m.text(), "not for carol", "her profile hides it")
		require.FileExists(t, filepath.Join(carols, "note"))
	})
	t.Run("running commands", func(t *testing.T) {
		m, _ := a.call("exec_command", `{"cmd":"echo secret-of-alice; sleep 1000","yield_time_ms":250}`)
		id := regexp.MustCompile(`session ID (\d+)`).FindStringSubmatch(m.text())
		require.NotNil(t, id, m.text())
		for _, try := range [][2]string{
			{"write_stdin", `{"session_id":` + id[1] + `,"chars":"x"}`},
			{"read_output", `{"session_id":` + id[1] + `}`},
			{"list_sessions", `{}`},
		} {
			m, _ := b.call(try[0], try[1])
			require.NotContains(t, m.text(), "secret-of-alice", try[0])
			require.NotContains(t, m.text(), "sleep 1000", try[0])
		}
		m, _ = a.call("list_sessions", `{}`)
		require.Contains(t, m.text(), "sleep 1000", "to her it is there")
	})
	t.Run("undo", func(t *testing.T) {
		m, _ := a.call("apply_patch", `{"input":"*** Begin Patch\n*** Add File: hello\n+hers\n*** End Patch"}`)
		require.False(t, m.Result.IsError, m.text())
		m, _ = b.call("undo_patch", `{}`)
		require.True(t, m.Result.IsError, m.text())
		require.FileExists(t, filepath.Join(alices, "hello"))
	})
	t.Run("the record", func(t *testing.T) {
		_, request := a.call("list_dir", `{"dir_path":"."}`)
		record := s.run("audit", "--json")
		require.Regexp(t, `"id":"`+request+`"[^\n]*"caller":"token:alice"|"caller":"token:alice"[^\n]*"id":"`+request+`"`, record)
	})
	t.Run("taken away", func(t *testing.T) {
		s.run("http", "token", "remove", "alice")
		s.until(func() bool {
			resp, _ := a.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			return resp.StatusCode == 401
		})
		m, _ := b.call("list_dir", `{"dir_path":"."}`)
		require.False(t, m.Result.IsError, "bob's token is good")
	})
}

// What a caller's workspace holds, and what its patches replaced, is hidden from the others, whether
// the workspaces lie side by side or one in another.
func TestHTTPCallersDoNotSeeWorkspaces(t *testing.T) {
	needSandbox(t)
	base := t.TempDir()
	add := func(name, dir string) string {
		dir = filepath.Join(base, dir)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "diary"), []byte("SECRET of "+name+"\n"), 0o600))
		return dir
	}
	outer := add("default", "all")
	alices, bobs := add("alice", "all/alice"), add("bob", "bob")
	s := startWeb(t, "approval_wait = 0\n", "-C", outer)
	tokens := map[string]string{"default": webToken}
	for name, dir := range map[string]string{"alice": alices, "bob": bobs} {
		tokens[name] = strings.TrimSpace(s.run("http", "token", "add", name, "--workspace", dir))
	}
	tokens["carol"] = strings.TrimSpace(s.run("http", "token", "add", "carol", "--workspace", alices, "-s", "read-only"))
	for _, token := range tokens {
		s.until(func() bool {
			resp, _ := (&webCaller{s: s, token: token}).do("GET", "/metrics", "")
			return resp.StatusCode == 200
		})
	}
	patch := func(c *webCaller) {
		m, _ := c.call("apply_patch", `{"input":"*** Begin Patch\n*** Update File: diary\n@@\n-`+
			map[string]string{tokens["alice"]: "SECRET of alice", tokens["bob"]: "SECRET of bob"}[c.token]+`\n+SECRET is gone\n*** End Patch"}`)
		require.False(t, m.Result.IsError, m.text())
	}
	alice, bob := s.session(tokens["alice"]), s.session(tokens["bob"])
	patch(alice)
	patch(bob)
	for name, dirs := range map[string][]string{
		"default": {alices, bobs}, "alice": {outer, bobs}, "bob": {outer, alices}, "carol": {outer, bobs},
	} {
		t.Run(name, func(t *testing.T) {
			c := s.session(tokens[name])
			m, _ := c.call("shell", `{"command":"cat diary"}`)
			require.Contains(t, m.text(), "SECRET", "its own it sees")
			m, _ = c.call("read_file", `{"file_path":"diary"}`)
			require.Contains(t, m.text(), "SECRET", "its own it sees")
			for _, dir := range dirs {
				for tool, args := range map[string]string{
					"shell":      `{"command":"cat ` + dir + `/diary; ls ` + dir + `; ln -sfn ` + dir + `/diary link; cat link"}`,
					"read_file":  `{"file_path":"` + dir + `/diary"}`,
					"grep_files": `{"pattern":"SECRET","path":"` + dir + `"}`,
					"list_dir":   `{"dir_path":"` + dir + `"}`,
				} {
					m, _ := c.call(tool, args)
					require.NotContains(t, m.text(), "SECRET", "%s %s", tool, args)
					require.NotRegexp(t, "(?m)^diary", m.text(), "%s %s", tool, args)
				}
				m, _ = c.call("read_file", `{"file_path":"link"}`)
				require.NotContains(t, m.text(), "SECRET")
			}
			m, _ = c.call("shell", `{"command":"grep -rls 'SECRET of' `+s.home+`/worker | xargs -r cat"}`)
			for _, other := range []string{"alice", "bob"} {
				if other != name && name != "carol" { // she shares alice's workspace
					require.NotContains(t, m.text(), "SECRET of "+other)
				}
			}
		})
	}
}

// Each caller has a /tmp of its own, which stays the same from call to call and ends with the caller.
func TestHTTPCallersDoNotShareTmp(t *testing.T) {
	needSandbox(t)
	s := startWeb(t, "approval_wait = 0\n")
	alice := strings.TrimSpace(s.run("http", "token", "add", "alice"))
	s.until(func() bool {
		resp, _ := (&webCaller{s: s, token: alice}).do("GET", "/metrics", "")
		return resp.StatusCode == 200
	})
	a, b := s.session(alice), s.session(webToken)
	outside, err := os.CreateTemp("/tmp", "toolgate-test-")
	require.NoError(t, err)
	t.Cleanup(func() { os.Remove(outside.Name()) })
	require.NoError(t, outside.Close())

	m, _ := a.call("shell", `{"command":"echo SECRET > /tmp/note; mkdir -p $TMPDIR/d/.git; touch $TMPDIR/d/.git/config; ls /tmp $TMPDIR; ls `+outside.Name()+`"}`)
	require.Contains(t, m.text(), "note\n")
	require.Contains(t, m.text(), "d\n")
	require.Contains(t, m.text(), "No such file", "it does not see the machine's")
	require.NoFileExists(t, "/tmp/note")
	m, _ = a.call("read_file", `{"file_path":"/tmp/note"}`)
	require.Contains(t, m.text(), "SECRET")
	m, _ = a.call("apply_patch", `{"input":"*** Begin Patch\n*** Add File: /tmp/patched\n+x\n*** End Patch"}`)
	require.False(t, m.Result.IsError, m.text())
	m, _ = a.call("shell", `{"command":"cat /tmp/patched && touch `+s.ws+`/here"}`)
	require.False(t, m.Result.IsError, m.text())
	require.FileExists(t, filepath.Join(s.ws, "here"), "a workspace below /tmp is the real one")
	for tool, args := range map[string]string{
		"shell":      `{"command":"ls -R /tmp; cat /tmp/note; grep -rs SECRET ` + s.home + `"}`,
		"read_file":  `{"file_path":"/tmp/note"}`,
		"grep_files": `{"pattern":"SECRET","path":"/tmp"}`,
	} {
		m, _ := b.call(tool, args)
		require.NotContains(t, m.text(), "SECRET", tool)
		require.NotContains(t, m.text(), "note\n", tool)
	}
	kept, err := filepath.Glob(filepath.Join(s.home, "worker/tmp/*/note"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	s.run("http", "token", "remove", "alice")
	s.until(func() bool {
		_, err := os.Stat(kept[0])
		return err != nil
	})
}

func (s *webServer) config() string {
	b, err := os.ReadFile(filepath.Join(s.home, "config.toml"))
	require.NoError(s.t, err)
	return string(b)
}

// until waits for what the server does when it has seen that a file changed.
func (s *webServer) until(ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-s.t.Context().Done():
			s.t.Fatal("it never happened")
		}
	}
}

// The token in the environment is nothing that a model's command sees.
func TestHTTPTokenIsNotInherited(t *testing.T) {
	needSandbox(t)
	s := startWeb(t, "[shell_environment_policy]\nignore_default_excludes = true\n")
	m, _ := s.session(webToken).call("shell", `{"command":"env; cat /proc/*/environ | tr '\\0' '\\n'"}`)
	require.Contains(t, m.text(), "PATH=")
	require.NotContains(t, m.text(), webToken)
	m, _ = s.session(webToken).call("shell", fmt.Sprintf(`{"command":["cat",%q]}`, filepath.Join(s.home, "config.toml")))
	require.NotContains(t, m.text(), "ignore_default_excludes")
}

func TestHTTPEndsInOrder(t *testing.T) {
	needSandbox(t)
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM")
	}
	s := startWeb(t, "")
	c := s.session(webToken)
	fifo := filepath.Join(s.ws, "running")
	out, err := exec.Command("mkfifo", fifo).CombinedOutput()
	require.NoError(t, err, "%s", out)
	answered := make(chan message, 1)
	go func() {
		m, _ := c.call("shell", `{"command":"echo up > running; read x < running; echo $x"}`)
		answered <- m
	}()
	waitFor(t, fifo)
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	s.until(func() bool { return status(t, s.url+"/readyz") == http.StatusServiceUnavailable })
	resp, _ := (&webCaller{s: s, token: webToken}).do("POST", "/mcp", greeting)
	require.Equal(t, 503, resp.StatusCode)
	require.Equal(t, 200, status(t, s.url+"/healthz"))
	require.NoError(t, os.WriteFile(fifo, []byte("to the end\n"), 0))
	require.Contains(t, (<-answered).text(), "to the end")
	require.NoError(t, s.cmd.Wait(), "%s", s.log)
}

func TestHTTPIsRefusedWhereTokensCouldBeRead(t *testing.T) {
	exe := ownBinary(t)
	for name, tt := range map[string]struct {
		env  string
		args []string
		want string
	}{
		"every address":    {"", []string{"--http", "0.0.0.0:0"}, "not a loopback address"},
		"no host":          {"", []string{"--http", ":0"}, "not a loopback address"},
		"a name":           {"", []string{"--http", "mcp.example.com:0"}, "not a loopback address"},
		"no port":          {"", []string{"--http", "127.0.0.1"}, "unknown address"},
		"half of TLS":      {"", []string{"--http", "127.0.0.1:0", "--tls-cert", "x"}, "belong together"},
		"TLS without file": {"", []string{"--http", "127.0.0.1:0", "--tls-cert", "nosuch", "--tls-key", "nosuch"}, "nosuch"},
		"a short token":    {"short", []string{"--http", "127.0.0.1:0"}, "TOOLGATE_HTTP_TOKEN is shorter than 20"},
		"a bad workspace":  {"", []string{"--http", "127.0.0.1:0", "-c", `http.tokens.a.workspace="/nonexistent"`, "-c", `http.tokens.a.hash="sha256:` + strings.Repeat("0", 64) + `"`}, "http.tokens.a"},
		"no server":        {"", []string{"--http", "127.0.0.1:0", "-c", `http.tokens.a={hash="sha256:` + strings.Repeat("0", 64) + `", servers=["git"]}`}, `there is no server "git"`},
		"a token no hash":  {"", []string{"--http", "127.0.0.1:0", "-c", `http.tokens.a={hash="secret"}`}, "hash is not sha256"},
		"OAuth without":    {"", []string{"--http", "127.0.0.1:0", "-c", `http.oauth={issuer="https://login.example.com"}`}, "resource is missing"},
		"OAuth in clear":   {"", []string{"--http", "127.0.0.1:0", "-c", `http.oauth={issuer="http://login.example.com",resource="https://x.example.com/mcp"}`}, "no https address"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			cmd := exec.CommandContext(t.Context(), exe, append([]string{"serve"}, tt.args...)...)
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "HOME="+home, "TOOLGATE_HOME="+filepath.Join(home, "t"), "TOOLGATE_HTTP_TOKEN="+tt.env)
			out, err := cmd.CombinedOutput()
			exit, ok := errors.AsType[*exec.ExitError](err)
			require.True(t, ok, "%v %s", err, out)
			require.Contains(t, []int{1, 2}, exit.ExitCode(), "%s", out)
			require.Contains(t, string(out), tt.want)
		})
	}
}

func TestHTTPOverTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	cert, private := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))

	s := startWeb(t, "", "--tls-cert", cert, "--tls-key", private)
	require.Contains(t, s.url, "https://")
	roots := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots.AddCert(parsed)
	for _, h2 := range []bool{false, true} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: h2}}
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/mcp", strings.NewReader(greeting))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+webToken)
		resp, err := client.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 200, resp.StatusCode)
		require.Contains(t, string(body), `"serverInfo"`)
	}
}

func TestHTTPMakesATokenOnce(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	start := func() (*exec.Cmd, string) {
		cmd := exec.Command(ownBinary(t), "serve", "--http", "127.0.0.1:0")
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(home), "TOOLGATE_HOME="+home, "TOOLGATE_HTTP_TOKEN=")
		stderr, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		lines := bufio.NewScanner(stderr)
		require.True(t, lines.Scan())
		file, ok := strings.CutPrefix(lines.Text(), "toolgate: the token is in ")
		require.True(t, ok, lines.Text())
		require.True(t, lines.Scan())
		url := servingAt.FindStringSubmatch(lines.Text())
		require.NotNil(t, url)
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		token := strings.TrimSpace(string(b))
		(&webServer{t: t, url: url[1]}).session(token)
		return cmd, token
	}
	_, first := start()
	_, second := start()
	require.Equal(t, first, second)
}

func TestHTTPServesTheConsole(t *testing.T) {
	s := startWeb(t, "[console]\nenabled = true\n")
	require.Regexp(t, `^`+regexp.QuoteMeta(s.url)+`/console/#code=\w+\n$`, s.run("console"))
	nobody := &webCaller{s: s}
	resp, body := nobody.do("GET", "/console/", "")
	require.Equal(t, 200, resp.StatusCode, "the page itself holds nothing")
	require.Contains(t, resp.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.Contains(t, body, "<html")
	resp, _ = nobody.do("GET", "/console/", "", "Host", "evil.example")
	require.Equal(t, 403, resp.StatusCode)
	for _, path := range []string{"/console/api/approvals", "/console/api/events", "/console/api/rules"} {
		for _, c := range []*webCaller{nobody, {s: s, token: webToken}} {
			resp, _ := c.do("GET", path, "")
			require.NotEqual(t, 200, resp.StatusCode, "%s: a caller's token is no way in for a browser", path)
		}
	}
}
