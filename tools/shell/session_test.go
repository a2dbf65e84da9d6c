package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/tools"
	"toolgate/tools/shell"
)

// open starts cmd with exec_command, waits until a line matches waitFor, and
// returns the session's id.
func (b *bench) open(args map[string]any) string {
	b.t.Helper()
	raw, err := json.Marshal(args)
	require.NoError(b.t, err)
	text := textOf(b.call("exec_command", string(raw)))
	m := sessionID.FindStringSubmatch(text)
	require.NotNil(b.t, m, text)
	return m[1]
}

// ask calls a tool and returns its text, which must not be an error.
func (b *bench) ask(tool, format string, args ...any) string {
	b.t.Helper()
	res := b.call(tool, fmt.Sprintf(format, args...))
	require.False(b.t, res.IsError, textOf(res))
	return textOf(res)
}

func TestVim(t *testing.T) {
	need(t, "vim")
	b := newBench(t, shell.Options{})
	id := b.open(map[string]any{"cmd": "exec vim -u NONE -N -n file", "tty": true, "wait_for": "file"})
	b.ask("write_stdin", `{"session_id":%s,"chars":"ihello","keys":["enter"],"wait_for":"hello"}`, id)
	text := b.ask("write_stdin", `{"session_id":%s,"keys":["escape","up","O","w","o","r","l","d","escape",":","w","q","enter"],"wait_for":"exit"}`, id)
	require.Contains(t, text, "Process exited with code 0\n")
	written, err := os.ReadFile(b.folder + "/file")
	require.NoError(t, err)
	require.Equal(t, "world\nhello\n\n", string(written))
}

func TestLess(t *testing.T) {
	need(t, "less")
	b := newBench(t, shell.Options{})
	id := b.open(map[string]any{"cmd": "seq 1 500 | less", "tty": true, "wait_for": "23"})
	require.Contains(t, b.ask("write_stdin", `{"session_id":%s,"keys":["end"],"wait_for":"500"}`, id), "500")
	require.Contains(t, b.ask("write_stdin", `{"session_id":%s,"keys":["home"],"wait_for":"^(.*[^0-9])?5$"}`, id), "23")
	require.Contains(t, b.ask("write_stdin", `{"session_id":%s,"chars":"q","wait_for":"exit"}`, id), "Process exited with code 0\n")
}

// TestCancel cancels a call in the middle.
func TestCancel(t *testing.T) {
	b := newBench(t, shell.Options{})
	for _, c := range []struct{ tool, args, want string }{
		{"shell", `{"command":"echo $$ > begun; echo begun; sleep 1000","workdir":%q}`, "Exit code: 143\n"},
		{"shell", `{"command":"trap '' TERM; echo $$ > begun; (setsid sleep 1000 &); while :; do sleep 1; done","workdir":%q}`, "Exit code: 137\n"},
		{"shell", `{"command":"trap '' TERM; while :; do setsid sh -c 'echo > begun; sleep 1000' & sleep 0.02; done","workdir":%q}`, "Exit code: 137\n"},
		{"exec_command", `{"cmd":"echo $$ > begun; sleep 1000","workdir":%q}`, "the call was cancelled and the command ended\n"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		folder := t.TempDir()
		var wait sync.WaitGroup
		wait.Go(func() {
			for !exists(folder + "/begun") {
				runtime.Gosched()
			}
			cancel()
		})
		res := b.tools[c.tool].Run(ctx, json.RawMessage(fmt.Sprintf(c.args, folder)))
		wait.Wait()
		require.Contains(t, textOf(res), c.want)
		require.Empty(t, processesWith(b.mark))
	}
}

// TestCancelledWait keeps the session, and what it prints for the next call.
func TestCancelledWait(t *testing.T) {
	b := newBench(t, shell.Options{})
	id := b.open(map[string]any{"cmd": "echo begun; until [ -e go ]; do sleep 0.02; done; echo gone on", "wait_for": "begun"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res := b.tools["write_stdin"].Run(ctx, json.RawMessage(fmt.Sprintf(`{"session_id":%s}`, id)))
	require.Equal(t, "the call was cancelled; the session goes on\n", textOf(res))
	require.NoError(t, os.WriteFile(b.folder+"/go", nil, 0o644))
	require.Contains(t, b.ask("write_stdin", `{"session_id":%s,"wait_for":"exit"}`, id), "gone on")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestProgress gives the last line printed, and none after the answer.
func TestProgress(t *testing.T) {
	b := newBench(t, shell.Options{})
	var mu sync.Mutex
	var messages []string
	call := &tools.Call{Notify: func(m string) {
		mu.Lock()
		defer mu.Unlock()
		messages = append(messages, m)
		if len(messages) == 2 {
			require.NoError(t, os.WriteFile(b.folder+"/go", nil, 0o644))
		}
	}}
	args := fmt.Sprintf(`{"command":"echo first; printf '\\033[1mbold\\033[0m 50%%%%\\r'; until [ -e go ]; do sleep 0.02; done","workdir":%q}`, b.folder)
	b.tools["shell"].RunCall(t.Context(), call, json.RawMessage(args))
	mu.Lock()
	defer mu.Unlock()
	require.GreaterOrEqual(t, len(messages), 2)
	require.Equal(t, "bold 50%", messages[1])
}

// TestUnreadTerminal writes more than a program that reads nothing can be
// given.
func TestUnreadTerminal(t *testing.T) {
	b := newBench(t, shell.Options{})
	id := b.open(map[string]any{"cmd": "stty raw -echo; echo begun; exec sleep 1000", "tty": true, "wait_for": "begun"})
	res := b.call("write_stdin", fmt.Sprintf(`{"session_id":%s,"chars":%q}`, id, strings.Repeat("x", 1<<20)))
	require.True(t, res.IsError)
	require.Regexp(t, `^write_stdin: the program took \d+ of 1048576 bytes and reads no more now; send the rest later$`, textOf(res))
	require.Contains(t, b.ask("write_stdin", `{"session_id":%s,"kill":true}`, id), "Process exited with code")
}

// TestForgottenChildren has a session start and forget many programs that
// leave its group. They are reaped while it goes on.
func TestForgottenChildren(t *testing.T) {
	b := newBench(t, shell.Options{})
	id := b.open(map[string]any{"cmd": "for i in $(seq 30); do (setsid true &); done; echo begun; read -r x", "tty": true, "wait_for": "begun"})
	for range 1000 {
		b.ask("shell", `{"command":["true"]}`)
		if len(children()) <= 1 {
			break
		}
	}
	require.Len(t, children(), 1, "the session itself")
	b.ask("write_stdin", `{"session_id":%s,"chars":"x\n","wait_for":"exit"}`, id)
}

// TestManySessions has 64 at once, which is as many as there may be, and then
// more: those that have ended go first, then those not used for longest.
func TestManySessions(t *testing.T) {
	b := newBench(t, shell.Options{})
	b.open(map[string]any{"cmd": "seq 1 20000", "max_output_tokens": 10}) // has ended, and is kept because it was cut
	ids := make([]string, 64)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			ids[i] = b.open(map[string]any{"cmd": fmt.Sprintf("echo begun %d; exec sleep 1000", i), "wait_for": "begun", "tty": i%2 == 0})
		})
	}
	all.Wait()
	list := b.ask("list_sessions", `{}`)
	require.Equal(t, 64, strings.Count(list, "running"), list)
	require.NotContains(t, list, "exited", "what has ended makes room first")
	for i, id := range ids {
		require.Contains(t, b.ask("read_output", `{"session_id":%s}`, id), fmt.Sprintf("begun %d", i))
	}
	res := b.call("exec_command", `{"cmd":"echo begun; exec sleep 1000","wait_for":"begun"}`)
	require.Regexp(t, regexp.MustCompile(`Session ID `+ids[0]+` \(echo begun 0; exec sleep 1000\) was ended`), textOf(res))
	res = b.call("write_stdin", fmt.Sprintf(`{"session_id":%s}`, ids[0]))
	require.True(t, res.IsError)
	require.Contains(t, b.ask("write_stdin", `{"session_id":%s,"kill":true}`, ids[1]), "Process exited with code")
}

// TestNoLeaks counts goroutines, descriptors and children after a thousand
// short commands and some sessions.
func TestNoLeaks(t *testing.T) {
	run := func(n int) {
		b := newBench(t, shell.Options{})
		for i := range n {
			switch i % 50 {
			case 0:
				id := b.open(map[string]any{"cmd": "echo begun; read -r x", "tty": true, "wait_for": "begun"})
				b.ask("write_stdin", `{"session_id":%s,"chars":"x\n","wait_for":"exit"}`, id)
			case 1:
				b.ask("shell", `{"command":["seq","1","30000"]}`)
			case 2:
				b.ask("shell", `{"command":"sleep 1000 & (setsid sleep 1000 &)"}`)
			case 3:
				b.call("shell", `{"command":["nosuch"]}`)
			default:
				b.ask("shell", `{"command":["true"]}`)
			}
		}
		b.tools["shell"].Close()
	}
	run(60) // what is made once
	goroutines, files := settled(runtime.NumGoroutine), descriptors(t)
	run(1000)
	require.LessOrEqual(t, settled(runtime.NumGoroutine), goroutines)
	require.Equal(t, files, descriptors(t))
	require.Empty(t, children(), "processes, also those that have ended")
}

// settled returns what count returns once it has not fallen for a while: a
// goroutine that has done its work may not have ended yet.
func settled(count func() int) int {
	least := count()
	for range 1000 {
		runtime.Gosched()
		least = min(least, count())
	}
	return least
}

func descriptors(t *testing.T) int {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc to count descriptors in")
	}
	return len(files)
}

// children returns the children of this process, with those that have ended
// and were not waited for.
func children() []string {
	var found []string
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		list, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		found = append(found, strings.Fields(string(list))...)
	}
	return found
}

// TestNoSpool pages through an output that no file can be made for, and
// through one of which the middle was not kept.
func TestNoSpool(t *testing.T) {
	b := newBench(t, shell.Options{})
	t.Setenv("TMPDIR", "/dev/null/nosuch")
	text := b.ask("shell", `{"command":["seq","1","200000"]}`)
	id := sessionID.FindStringSubmatch(text)[1]
	if runtime.GOOS == "linux" {
		require.Contains(t, b.ask("read_output", `{"session_id":%s,"offset":600000,"limit":14}`, id), "Output:\n587\n101588\n101")
	}
	b = newBenchOf(t, shell.Options{}, func(o shell.Options) []tools.Tool { return shell.ToolsWithSpool(o, 100_000) })
	text = b.ask("shell", `{"command":["seq","1","200000"]}`)
	id = sessionID.FindStringSubmatch(text)[1]
	page := b.ask("read_output", `{"session_id":%s,"offset":600000}`, id)
	require.Regexp(t, `^Bytes 600000 to 600000 of 1288895\nNot kept: the bytes from here to 1256127\nOutput:\n$`, page)
	require.Contains(t, b.ask("read_output", `{"session_id":%s,"offset":1256127}`, id), "\n200000\n")
}

// TestMemory prints without end, and a gigabyte in one line, and sees how much
// memory that takes, and that any part of it can be read.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		name, cmd string
		timeout   int
		exit      int
		total     int64 // 0: not known
	}{
		{"lines without end", "yes 'a line of text that is not short'", 1000, 124, 0},
		{"a line of a gigabyte", "head -c 1073741824 /dev/zero | tr '\\0' x", 600_000, 0, 1 << 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			b := newBench(t, shell.Options{})
			b.ask("shell", `{"command":["seq","1","30000"]}`)
			before := memory()
			peak := watch()
			raw, err := json.Marshal(c.cmd)
			require.NoError(t, err)
			text := b.ask("shell", `{"command":%s,"timeout_ms":%d}`, raw, c.timeout)
			require.Less(t, peak()-before, int64(8<<20))
			require.Regexp(t, fmt.Sprintf(`^Exit code: %d\n`, c.exit), text)
			require.Regexp(t, `\d+ tokens \(\d+ bytes\) cut; read_output with session_id \d+ and offset`, text)
			require.Less(t, len(text), 42_000)
			id := sessionID.FindStringSubmatch(text)[1]
			page := b.ask("read_output", `{"session_id":%s,"offset":-1}`, id)
			total, err := strconv.ParseInt(regexp.MustCompile(`of (\d+)`).FindStringSubmatch(page)[1], 10, 64)
			require.NoError(t, err)
			if c.total > 0 {
				require.Equal(t, c.total, total)
			}
			page = b.ask("read_output", `{"session_id":%s,"offset":%d,"limit":100}`, id, total/2)
			require.Contains(t, page, fmt.Sprintf("Bytes %d to %d of %d\nNext offset: %d\n", total/2, total/2+100, total, total/2+100))
		})
	}
}

// memory returns the bytes that Go holds from the system.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}

// watch follows the memory of this process until the function it returns is
// called, which returns the most there was.
func watch() (peak func() int64) {
	stop := make(chan struct{})
	result := make(chan int64)
	go func() { // ends when peak is called
		var most int64
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, int64(m.Sys-m.HeapReleased))
			select {
			case <-stop:
				result <- most
				return
			case <-ticker.C:
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-result
	}
}

// TestLastWords waits for a line that is printed just before the end.
func TestLastWords(t *testing.T) {
	b := newBench(t, shell.Options{})
	for range 50 {
		text := b.ask("exec_command", `{"cmd":"echo begun; echo the end","wait_for":"the end"}`)
		require.Contains(t, text, `Waited for: "the end", which was printed`)
	}
}

// TestNoBash runs scripts with sh where there is no bash, and says so where there is no
// shell, or not the one that was asked for. A relative folder in PATH is not looked in.
func TestNoBash(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here")
	}
	folder := t.TempDir()
	require.NoError(t, os.Symlink(sh, folder+"/sh"))
	b := newBench(t, shell.Options{Environment: shell.Environment{Set: map[string]string{"PATH": ".:" + folder}}})
	require.Contains(t, b.ask("shell", `{"command":"echo $0"}`), "Output:\nsh\n")
	require.Contains(t, b.ask("exec_command", `{"cmd":"echo $0"}`), "Output:\nsh\n")
	for _, name := range []string{"zsh", "pwsh", "/bin/bash", "cmd.exe"} {
		require.Regexp(t, `^exec_command: there is no (zsh|pwsh|bash|cmd) here; the shells are sh$`,
			textOf(b.call("exec_command", fmt.Sprintf(`{"cmd":"echo $0","shell":%q}`, name))))
	}
	require.NoError(t, os.Symlink(sh, b.folder+"/mine"))
	require.Equal(t, "shell: cannot start mine: not found on PATH", textOf(b.call("shell", `{"command":["mine","-c","echo x"]}`)))
	require.Contains(t, b.ask("shell", `{"command":["./mine","-c","echo x"]}`), "Output:\nx\n")

	b = newBench(t, shell.Options{Environment: shell.Environment{Set: map[string]string{"PATH": ""}}})
	require.Equal(t, "shell: there is no shell on PATH to run a script; use the tool shell with the path of a program", textOf(b.call("shell", `{"command":"echo x"}`)))
	require.Contains(t, b.ask("shell", `{"command":[%q,"-c","echo x"]}`, sh), "Output:\nx\n")
}
