package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/gate"
	"toolgate/policy"
	"toolgate/sandbox"
)

// A client is a running toolgate and the client's ends of its streams.
type client struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	id  int
	ws  string

	home string // holds everything of this toolgate but the workspace
}

// startClient starts this very program as toolgate in a workspace of its own
// and opens the session.
func startClient(t testing.TB, args ...string) *client {
	t.Helper()
	home := t.TempDir()
	c := &client{t: t, ws: t.TempDir(), home: home}
	c.cmd = exec.Command(ownBinary(t), args...)
	c.cmd.Dir = c.ws
	c.cmd.Env = append(os.Environ(), "HOME="+home, "TOOLGATE_HOME="+filepath.Join(home, "state"))
	c.cmd.Stderr = os.Stderr
	var err error
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.out = bufio.NewReaderSize(out, 1<<20)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() {
		c.in.Close()
		c.cmd.Wait()
	})
	return c
}

// ownBinary returns this very binary under the name by which it is toolgate,
// see TestMain.
func ownBinary(t testing.TB) string { return binaryAs(t, "toolgate") }

func binaryAs(t testing.TB, name string) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	name = filepath.Join(t.TempDir(), name)
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if os.Link(exe, name) == nil {
		return name
	}
	b, err := os.ReadFile(exe)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, b, 0o755))
	return name
}

const greeting = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func (c *client) open() *client {
	c.send(greeting)
	c.receive()
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *client) send(line string) {
	_, err := io.WriteString(c.in, line+"\n")
	require.NoError(c.t, err)
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	} `json:"result"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (m message) text() string {
	if len(m.Result.Content) == 0 {
		return ""
	}
	return m.Result.Content[0].Text
}

func (c *client) receive() message {
	c.t.Helper()
	line, err := c.out.ReadBytes('\n')
	require.NoError(c.t, err)
	var m message
	require.NoError(c.t, json.Unmarshal(line, &m), "%s", line)
	return m
}

// start sends a call and returns its id.
func (c *client) start(tool, args string) int {
	c.id++
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, c.id, tool, args))
	return c.id
}

func (c *client) call(tool, args string) message {
	c.t.Helper()
	c.start(tool, args)
	return c.receive()
}

func needSandbox(t testing.TB) {
	t.Helper()
	if sandbox.Probe().Level() == sandbox.Full {
		return
	}
	if os.Getenv("REQUIRE_SANDBOX") != "" {
		t.Fatalf("no full sandbox here: %v", sandbox.Probe().Why())
	}
	t.Skipf("no full sandbox here: %v", sandbox.Probe().Why())
}

// descendants returns the processes below pid, found in /proc.
func descendants(t testing.TB, pid int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	children := map[int][]int{}
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		rest := string(b[strings.LastIndexByte(string(b), ')')+2:])
		fields := strings.Fields(rest)
		ppid, err := strconv.Atoi(fields[1])
		require.NoError(t, err)
		self, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		require.NoError(t, err)
		children[ppid] = append(children[ppid], self)
	}
	var all []int
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		all = append(all, children[todo[0]]...)
		todo = append(todo, children[todo[0]]...)
	}
	return all
}

// whatRuns returns the pid below pid whose command line contains word.
func whatRuns(t testing.TB, pid int, word string) int {
	t.Helper()
	for _, p := range descendants(t, pid) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p))
		if err == nil && strings.Contains(string(b), word) {
			return p
		}
	}
	return 0
}

func TestAWorkerThatDiesIsReplaced(t *testing.T) {
	needSandbox(t)
	c := startClient(t).open()
	require.Contains(t, c.call("shell", `{"command":["echo","one"]}`).text(), "one")

	// The call tells us that it runs by making a FIFO's reader go on.
	fifo := c.fifo("running")
	c.start("shell", `{"command":"echo up > running; sleep 1000"}`)
	waitFor(t, fifo)
	worker := whatRuns(t, c.cmd.Process.Pid, "worker")
	require.NotZero(t, worker)
	below := descendants(t, c.cmd.Process.Pid)
	p, err := os.FindProcess(worker)
	require.NoError(t, err)
	require.NoError(t, p.Kill())

	m := c.receive()
	require.True(t, m.Result.IsError)
	require.Contains(t, m.text(), "shell: the worker ended while it ran this call (signal: killed)")
	require.Contains(t, c.call("shell", `{"command":["echo","two"]}`).text(), "two", "the next call works")
	for _, pid := range below {
		require.NoDirExists(t, fmt.Sprintf("/proc/%d", pid), "what the dead worker had started has ended")
	}
}

// fifo makes a named pipe in the workspace.
func (c *client) fifo(name string) string {
	path := filepath.Join(c.ws, name)
	out, err := exec.Command("mkfifo", path).CombinedOutput()
	require.NoError(c.t, err, "%s", out)
	return path
}

// waitFor returns when somebody has written to the named pipe.
func waitFor(t testing.TB, fifo string) {
	t.Helper()
	_, err := os.ReadFile(fifo)
	require.NoError(t, err)
}

func TestNothingOutlivesTheGate(t *testing.T) {
	needSandbox(t)
	c := startClient(t).open()
	// The write end of this pipe is held by what the command leaves behind:
	// its reader sees the end when all of it is gone.
	held := c.fifo("held")
	up := c.fifo("up")
	c.start("shell", `{"command":"exec 9> held; setsid sh -c '(sleep 1000 &) ; echo up > up; exec sleep 1000' & trap '' TERM; sleep 1000"}`)
	ended := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(held) // opens when the command has, ends when all is gone
		ended <- err
	}()
	waitFor(t, up)
	require.NoError(t, c.cmd.Process.Kill()) // SIGKILL: no chance to tidy up
	require.NoError(t, <-ended)
}

// TestTenSessionsEndWithTheGate kills the gate while ten sessions run, each with
// what tries hardest to stay.
func TestTenSessionsEndWithTheGate(t *testing.T) {
	needSandbox(t)
	c := startClient(t).open()
	held := c.fifo("held")
	reader := make(chan *os.File)
	go func() {
		f, err := os.Open(held) // waits for the first session
		if err != nil {
			f = nil
		}
		reader <- f
	}()
	for range 10 {
		m := c.call("exec_command", `{"cmd":"exec 9>held; trap '' TERM HUP INT; (setsid env -i sh -c '(sleep 1000 &); exec sleep 1000' &); sleep 1000","yield_time_ms":250}`)
		require.Contains(t, m.text(), "Process running with session ID")
	}
	f := <-reader
	require.NotNil(t, f)
	defer f.Close()
	require.NoError(t, c.cmd.Process.Kill())
	killed := time.Now()
	_, err := io.ReadAll(f) // ends when nobody holds the other end any more
	require.NoError(t, err)
	t.Logf("all gone after %v", time.Since(killed))
}

// TestCallsRunSideBySide has a command wait for another one, and a call that reads answered
// meanwhile.
func TestCallsRunSideBySide(t *testing.T) {
	needSandbox(t)
	c := startClient(t).open()
	c.fifo("pipe")
	require.NoError(t, os.WriteFile(filepath.Join(c.ws, "file"), []byte("text\n"), 0o644))
	waits := c.start("shell", `{"command":["cat","pipe"]}`)
	require.Contains(t, c.call("read_file", `{"file_path":"`+c.ws+`/file"}`).text(), "text")
	c.start("shell", `{"command":["bash","-c","echo through > pipe"]}`)
	answers := map[string]string{}
	for range 2 {
		m := c.receive()
		answers[string(m.ID)] = m.text()
	}
	require.Contains(t, answers[strconv.Itoa(waits)], "through")
}

func TestTheEndOfStdinEndsTheServer(t *testing.T) {
	c := startClient(t).open()
	require.NoError(t, c.in.Close())
	rest, err := io.ReadAll(c.out)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.NoError(t, c.cmd.Wait())
}

func TestHugeAndDeepInput(t *testing.T) {
	c := startClient(t).open()

	c.start("shell", `{"command":["`+strings.Repeat("x", 64<<20)+`"]}`)
	m := c.receive()
	require.NotNil(t, m.Error)
	require.Contains(t, m.Error.Message, "message longer than")
	require.Equal(t, strconv.Itoa(c.id), string(m.ID))

	c.start("shell", `{"command":`+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)+`}`)
	m = c.receive()
	require.NotNil(t, m.Error)
	require.Contains(t, m.Error.Message, "nested")

	c.start("shell", "{\"command\":[\"\xff\xfe\"]}")
	m = c.receive()
	require.NotNil(t, m.Error)
	require.Contains(t, m.Error.Message, "UTF-8")

	require.True(t, c.call("shell", `{"command":{"a":[[[[1]]]]}}`).Result.IsError)
	c.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	require.Nil(t, c.receive().Error, "the server goes on")
}

func TestAPatchOfManyMegabytesPasses(t *testing.T) {
	needSandbox(t)
	c := startClient(t).open()
	line := strings.Repeat("y", 1000)
	patch, err := json.Marshal("*** Begin Patch\n*** Add File: big.txt\n" + strings.Repeat("+"+line+"\n", 20_000) + "*** End Patch\n")
	require.NoError(t, err)
	m := c.call("apply_patch", `{"input":`+string(patch)+`}`)
	require.False(t, m.Result.IsError, m.text())
	info, err := os.Stat(filepath.Join(c.ws, "big.txt"))
	require.NoError(t, err)
	require.Equal(t, int64(20_000*1001), info.Size())
}

// TestKernelRefusesWhatThePolicyWouldAskAbout sends calls straight to a worker,
// past the policy: the second wall stands by itself.
func TestKernelRefusesWhatThePolicyWouldAskAbout(t *testing.T) {
	needSandbox(t)
	root := t.TempDir()
	ws, outside := filepath.Join(root, "ws"), filepath.Join(root, "outside")
	require.NoError(t, os.MkdirAll(filepath.Join(ws, ".git", "hooks"), 0o755))
	require.NoError(t, os.Mkdir(outside, 0o755))
	require.NoError(t, os.Symlink("../outside", filepath.Join(ws, "out")))
	t.Setenv("TOOLGATE_HOME", filepath.Join(root, "home"))

	p := &program{stdin: strings.NewReader(""), stdout: io.Discard, stderr: os.Stderr}
	p.Dir, p.LogLevel = ws, "warn"
	p.ConfigValues = []string{"sandbox_workspace_write.exclude_slash_tmp=true", "sandbox_workspace_write.exclude_tmpdir_env_var=true"}
	a, err := p.Open()
	require.NoError(t, err)
	defer a.Close()
	a.Self = ownBinary(t)
	for _, path := range []string{".git/hooks/x", "../outside/x", "out/x", filepath.Join(outside, "x")} {
		args, err := json.Marshal(map[string]string{"input": "*** Begin Patch\n*** Add File: " + path + "\n+bad\n*** End Patch\n"})
		require.NoError(t, err)
		c := gate.Call{Caller: "test", Action: policy.Action{Tool: "apply_patch"}, Arguments: args}
		out, err := a.Workers.Run(t.Context(), c, a.Policy.Profile())
		require.NoError(t, err)
		require.Equal(t, "full", out.Level)
		require.Contains(t, string(out.Result), "denied by the sandbox", path)
		require.Contains(t, string(out.Result), `"isError":true`, path)
	}
	for _, dir := range []string{outside, filepath.Join(ws, ".git", "hooks")} {
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left, dir)
	}
}

// benchClient returns a client whose worker is warm.
func benchClient(b *testing.B) *client {
	needSandbox(b)
	c := startClient(b).open()
	require.NoError(b, os.WriteFile(filepath.Join(c.ws, "a.txt"), []byte(strings.Repeat("some words in a line\n", 200)), 0o644))
	c.call("shell", `{"command":["true"]}`)
	return c
}

func benchCall(b *testing.B, tool, args string) {
	c := benchClient(b)
	b.ReportAllocs()
	for b.Loop() {
		if m := c.call(tool, args); m.Result.IsError || m.Error != nil {
			b.Fatal(m.text(), m.Error)
		}
	}
}

// One whole call: client, gate, worker, command and back.
func BenchmarkCallShellTrue(b *testing.B) { benchCall(b, "shell", `{"command":["true"]}`) }
func BenchmarkCallReadFile(b *testing.B)  { benchCall(b, "read_file", `{"file_path":"a.txt"}`) }
func BenchmarkCallGrepFiles(b *testing.B) { benchCall(b, "grep_files", `{"pattern":"words"}`) }

// BenchmarkForkExecTrue is what BenchmarkCallShellTrue stands beside.
func BenchmarkForkExecTrue(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := exec.Command("true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirstAnswer is from the start of the process to the answer to
// initialize.
func BenchmarkFirstAnswer(b *testing.B) {
	exe := buildProgram(b)
	b.ReportAllocs()
	for b.Loop() {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "TOOLGATE_HOME="+b.TempDir())
		cmd.Dir = b.TempDir()
		in, err := cmd.StdinPipe()
		require.NoError(b, err)
		out, err := cmd.StdoutPipe()
		require.NoError(b, err)
		require.NoError(b, cmd.Start())
		io.WriteString(in, greeting+"\n")
		if _, err := bufio.NewReader(out).ReadBytes('\n'); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		in.Close()
		cmd.Wait()
		b.StartTimer()
	}
}

// BenchmarkFirstAnswerWithServers is the same with downstream servers behind,
// one of which never answers.
func BenchmarkFirstAnswerWithServers(b *testing.B) {
	exe := buildProgram(b)
	peer := peersOf(b)[rawPeer][0]
	config := ownTemp + "[mcp_servers.mute]\ncommand = \"sleep\"\nargs = [\"1000\"]\nsandbox = \"none\"\n"
	for i := range 5 {
		config += fmt.Sprintf("[mcp_servers.peer%d]\ncommand = %q\nsandbox = \"none\"\n", i, peer)
	}
	home := b.TempDir()
	require.NoError(b, os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600))
	b.ReportAllocs()
	for b.Loop() {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "TOOLGATE_HOME="+home)
		cmd.Dir = b.TempDir()
		in, err := cmd.StdinPipe()
		require.NoError(b, err)
		out, err := cmd.StdoutPipe()
		require.NoError(b, err)
		require.NoError(b, cmd.Start())
		io.WriteString(in, greeting+"\n")
		if _, err := bufio.NewReader(out).ReadBytes('\n'); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		in.Close()
		cmd.Wait()
		b.StartTimer()
	}
}

// BenchmarkEmptyProgram is what BenchmarkFirstAnswer stands beside: the start
// of the same binary that does nothing but print its version.
func BenchmarkEmptyProgram(b *testing.B) {
	exe := buildProgram(b)
	for b.Loop() {
		if err := exec.Command(exe, "version").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// buildProgram builds toolgate as it is shipped: the test binary would bring
// the start-up of the tests' own packages.
func buildProgram(b *testing.B) string {
	b.Helper()
	exe := filepath.Join(b.TempDir(), "toolgate")
	if runtime.GOOS == "windows" {
		exe += ".exe"
	}
	build := exec.Command("go", "build", "-o", exe, "../..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	out, err := build.CombinedOutput()
	require.NoError(b, err, "%s", out)
	return exe
}
