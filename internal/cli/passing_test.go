package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/audit"
)

// moodyPeer is a downstream server that does with a call what its arguments
// say.
const moodyPeer = "moodypeer"

// A mood is what is to become of a call.
type mood struct {
	Say      string `json:"say,omitempty"`
	Times    int    `json:"times,omitempty"` // it is said
	Progress int    `json:"progress,omitempty"`
	Hang     bool   `json:"hang,omitempty"`   // until it is cancelled
	Die      bool   `json:"die,omitempty"`    // without an answer
	Refuse   bool   `json:"refuse,omitempty"` // with an error of the protocol
}

func runMoodyPeer() {
	type params struct {
		Arguments mood
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	servePeer(func(method string, p params) string {
		do := p.Arguments
		for n := range do.Progress {
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`+"\n", p.Meta.ProgressToken, n)
		}
		switch {
		case method == "notifications/cancelled":
			fmt.Fprintf(os.Stderr, "cancelled %s\n", p.RequestID)
			os.WriteFile("cancelled", p.RequestID, 0o600)
		case method == "initialize":
			return peerStarts("moody")
		case method == "tools/list":
			return `"result":{"tools":[{"name":"do","inputSchema":{"type":"object"}}]}`
		case do.Hang:
			return ""
		case do.Die:
			os.Exit(1)
		case do.Refuse:
			return `"error":{"code":-32000,"message":"not today"}`
		}
		return fmt.Sprintf(`"result":{"content":[{"type":"text","text":%q}]}`, strings.Repeat(do.Say, max(do.Times, 1)))
	})
}

// A moody is a client of a toolgate with the moody peer behind.
type moody struct {
	*wireClient
	home string
}

func newMoody(t *testing.T, keys string) *moody {
	exe := ownBinary(t)
	peer := filepath.Join(filepath.Dir(exe), moodyPeer+filepath.Ext(exe))
	require.NoError(t, os.Link(exe, peer))
	cmd := proxiedBy(t, exe, []string{peer})
	m := &moody{}
	for _, v := range cmd.Env {
		if home, ok := strings.CutPrefix(v, "TOOLGATE_HOME="); ok {
			m.home = home
		}
	}
	config := filepath.Join(m.home, "config.toml")
	b, err := os.ReadFile(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(config, append(b, "default_tools_approval_mode = \"approve\"\n"+keys...), 0o600))
	m.wireClient = connectWire(t, "mcp__peer__do", cmd)
	t.Cleanup(func() { m.outcomes() }) // or it might not end, with more to write
	m.request("tools/list", "{}")
	return m
}

// send sends a call and returns its id.
func (m *moody) send(do mood, token string) int {
	m.id++
	args, err := json.Marshal(do)
	require.NoError(m.t, err)
	meta := ""
	if token != "" {
		meta = fmt.Sprintf(`,"_meta":{"progressToken":%q}`, token)
	}
	_, err = fmt.Fprintf(m.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`+"\n", m.id, m.tool, args, meta)
	require.NoError(m.t, err)
	return m.id
}

// A heard is a line for the client.
type heard struct {
	ID     int
	Method string
	Params json.RawMessage
	Result struct {
		Content []struct{ Text string }
		IsError bool
	}
	Error struct{ Message string }
}

func (m *moody) next() heard {
	for {
		var h heard
		line, err := m.out.ReadBytes('\n')
		require.NoError(m.t, err)
		require.NoError(m.t, json.Unmarshal(line, &h), "%s", line)
		if h.Method != "notifications/tools/list_changed" {
			return h
		}
	}
}

// outcomes ends the session and returns how often each outcome is in the
// record.
func (m *moody) outcomes() map[string]int {
	m.in.Close()
	io.Copy(io.Discard, m.out)
	m.cmd.Wait()
	count := map[string]int{}
	require.NoError(m.t, audit.Read(filepath.Join(m.home, "state"), audit.Filter{}, func(e audit.Entry) error {
		count[e.Event.Outcome]++
		return nil
	}))
	return count
}

// TestManyCallsAreUnderWayAtOnce: each gets its own answer, short or long, and
// a line in the record before that.
func TestManyCallsAreUnderWayAtOnce(t *testing.T) {
	m := newMoody(t, "")
	const calls = 300
	want := map[int]string{}
	type sent struct {
		id   int
		text string
	}
	all := make(chan sent, calls)
	go func() {
		defer close(all)
		for n := range calls {
			do := mood{Say: fmt.Sprintf("<%d>", n)}
			if n%7 == 0 {
				do.Times = 50_000 // more than goes into a pipe
			}
			all <- sent{m.send(do, ""), strings.Repeat(do.Say, max(do.Times, 1))}
		}
	}()
	got := map[int]string{}
	for len(got) < calls {
		h := m.next()
		require.Len(t, h.Result.Content, 1, "%+v", h.Error)
		got[h.ID] = h.Result.Content[0].Text
	}
	for s := range all {
		want[s.id] = s.text
	}
	require.Equal(t, want, got)
	require.Equal(t, map[string]int{"ok": calls}, m.outcomes())
}

// TestAClientThatDoesNotRead: its requests are read all the same, and what it
// is owed is there when it reads.
func TestAClientThatDoesNotRead(t *testing.T) {
	m := newMoody(t, "")
	const calls = 200
	for range calls { // their answers are far more than goes into a pipe
		m.send(mood{Say: "word ", Times: 500}, "")
	}
	m.send(mood{Say: "last"}, "")
	got := map[int]bool{}
	for len(got) < calls+1 {
		got[m.next().ID] = true
	}
	require.Equal(t, map[string]int{"ok": calls + 1}, m.outcomes())
}

// TestACallEndsInManyWays: and the next one is made as if nothing had been.
func TestACallEndsInManyWays(t *testing.T) {
	m := newMoody(t, "cwd = \"workspace\"\ntool_timeout_sec = 60\n[mcp_servers.peer.tools.do]\n")
	echo := func() {
		id := m.send(mood{Say: "still here"}, "")
		h := m.next()
		require.Equal(t, id, h.ID)
		require.Equal(t, "still here", h.Result.Content[0].Text)
	}
	echo()

	id := m.send(mood{Refuse: true}, "")
	h := m.next()
	require.Equal(t, id, h.ID)
	require.Equal(t, "not today", h.Error.Message)
	echo()

	id = m.send(mood{Progress: 3, Say: "done"}, "tick")
	for n := range 3 {
		h = m.next()
		require.Equal(t, "notifications/progress", h.Method)
		require.JSONEq(t, fmt.Sprintf(`{"progressToken":"tick","progress":%d}`, n), string(h.Params))
	}
	require.Equal(t, id, m.next().ID)

	id = m.send(mood{Hang: true}, "")
	echo() // beside it
	fmt.Fprintf(m.in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`+"\n", id)
	echo() // there is no answer to the cancelled one
	for _, err := os.Stat(filepath.Join(m.cmd.Dir, "cancelled")); err != nil; {
		runtime.Gosched()
		_, err = os.Stat(filepath.Join(m.cmd.Dir, "cancelled"))
	}

	hanging := m.send(mood{Hang: true, Progress: 1}, "hanging")
	require.Equal(t, "notifications/progress", m.next().Method)
	id = m.send(mood{Die: true}, "")
	ended := map[int]bool{}
	for range 2 {
		h = m.next()
		require.True(t, h.Result.IsError)
		require.Contains(t, h.Result.Content[0].Text, "ended while it worked on this")
		ended[h.ID] = true
	}
	require.Equal(t, map[int]bool{hanging: true, id: true}, ended)
	echo()
	require.Equal(t, map[string]int{"ok": 6, "cancelled": 1, "failed": 3}, m.outcomes())
}

// TestACallThatTakesTooLong: it is given up, and the next one is made.
func TestACallThatTakesTooLong(t *testing.T) {
	m := newMoody(t, "tool_timeout_sec = 0.2\n")
	id := m.send(mood{Hang: true}, "")
	h := m.next()
	require.Equal(t, id, h.ID)
	require.True(t, h.Result.IsError)
	require.Contains(t, h.Result.Content[0].Text, "gave no answer within 200ms")
	for range 3 {
		m.send(mood{Hang: true}, "")
	}
	for range 3 {
		require.Contains(t, m.next().Result.Content[0].Text, "gave no answer within 200ms")
	}
	require.Equal(t, map[string]int{"failed": 4}, m.outcomes())
}
