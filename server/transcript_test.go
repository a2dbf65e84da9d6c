package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"toolgate/internal/gate"
	"toolgate/policy"
	"toolgate/server"
	"toolgate/tools"
)

// A transcript in testdata is a talk between a client and the server:
//
//	approval: untrusted     a setting, before the first line
//	# words                 a comment
//	-> {…}                  the client sends a line
//	<- {…}                  the server has written this, in any order of keys and lines
//	wait 5m                 the bubble's clock goes on
//	eof                     the client closes its end
//	ran 2                   that many calls have run so far
//
// In what the server writes, a string "$NAME" stands for any value; where the
// client sends it later, the value is put in its place.
func TestTranscripts(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			synctest.Test(t, func(t *testing.T) { play(t, string(text)) })
		})
	}
}

// A talk is a transcript being played.
type talk struct {
	t        *testing.T
	pol      *policy.Policy
	ran      int
	in       *io.PipeWriter
	out      lockedBuffer
	done     chan struct{}
	captured map[string]any
}

func play(t *testing.T, script string) {
	k := &talk{t: t, pol: &policy.Policy{
		Approval:         policy.OnRequest,
		Mode:             policy.WorkspaceWrite,
		Workspace:        "/w",
		WritableRoots:    []string{"/w"},
		ReadOnlySubpaths: policy.DefaultReadOnlySubpaths,
		Confines:         func() bool { return true },
	}, captured: map[string]any{}}
	defer k.end()
	for i, line := range strings.Split(script, "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "", "#":
		case "approval:":
			var err error
			k.pol.Approval, err = policy.ParseApproval(rest)
			require.NoError(t, err)
		case "->":
			k.send(rest)
		case "<-":
			k.expect(i+1, rest)
		case "wait":
			d, err := time.ParseDuration(rest)
			require.NoError(t, err)
			<-time.After(d)
		case "ran":
			synctest.Wait()
			require.Equal(t, rest, fmt.Sprint(k.ran), "line %d", i+1)
		case "eof":
			k.end()
		default:
			t.Fatalf("line %d: %q", i+1, line)
		}
	}
	require.Empty(t, k.out.take(), "the server wrote more")
}

// end closes the client's end and waits for the server.
func (k *talk) end() {
	if k.in != nil {
		k.in.Close()
		<-k.done
	}
}

func (k *talk) start() {
	r, w := io.Pipe()
	k.in, k.done = w, make(chan struct{})
	s := server.New(server.Options{Version: "1", Instructions: "use well", Catalog: []tools.Tool{change, look}, Gate: &gate.Gate{Policy: k.pol, Run: k.run}})
	go func() {
		defer close(k.done)
		s.ServeStdio(context.Background(), r, &k.out)
	}()
}

func (k *talk) run(_ context.Context, c gate.Call, f policy.Profile) (gate.Outcome, error) {
	k.ran++
	text := fmt.Sprintf("%s ran in %s", c.Action.Tool, f.Mode)
	out := gate.Outcome{Result: json.RawMessage(`{"content":[{"type":"text","text":"` + text + `"}],"big":9007199254740993}`)}
	if strings.Contains(string(c.Arguments), "denied") && f.Mode != policy.DangerFullAccess {
		out.Denied = &policy.Denial{Op: "write", Path: "denied"}
	}
	return out, nil
}

func (k *talk) send(line string) {
	if k.in == nil {
		k.start()
	}
	for name, v := range k.captured {
		b, err := json.Marshal(v)
		require.NoError(k.t, err)
		line = strings.ReplaceAll(line, `"$`+name+`"`, string(b))
	}
	_, err := io.WriteString(k.in, line+"\n")
	require.NoError(k.t, err)
}

// expect takes a line that the server has written once it can go no further.
// Which of several independent lines it writes first is not determined.
func (k *talk) expect(n int, want string) {
	k.t.Helper()
	synctest.Wait()
	var w any
	require.NoError(k.t, decode(want, &w), "line %d", n)
	written := k.out.lines()
	for i, line := range written {
		var g any
		require.NoError(k.t, decode(line, &g))
		if k.match(w, g) {
			k.out.put(slices.Delete(written, i, i+1))
			return
		}
	}
	k.t.Fatalf("line %d:\n got %s\nwant %s", n, strings.Join(written, "     "), want)
}

func decode(s string, v any) error {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	return d.Decode(v)
}

func (k *talk) match(want, got any) bool {
	switch w := want.(type) {
	case string:
		if name, ok := strings.CutPrefix(w, "$"); ok {
			k.captured[name] = got
			return true
		}
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for key := range w {
			if gv, ok := g[key]; !ok || !k.match(w[key], gv) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !k.match(w[i], g[i]) {
				return false
			}
		}
		return true
	}
	return want == got
}

type changeInput struct {
	Path string `json:"path" jsonschema:"file to change"`
}

var change = tools.New(tools.Def{Name: "change", Description: "Changes a file."},
	func(in changeInput) (policy.Action, error) { return policy.Action{Writes: []string{in.Path}}, nil },
	func(context.Context, changeInput) (*mcp.CallToolResult, error) { panic("not in the gate") })

var look = tools.New(tools.Def{Name: "look", Description: "Looks.", ReadOnly: true},
	func(struct{}) (policy.Action, error) { return policy.Action{}, nil },
	func(context.Context, struct{}) (*mcp.CallToolResult, error) { panic("not in the gate") })

// A lockedBuffer is what the server writes to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) line() (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	line, err := b.buf.ReadString('\n')
	return line, err == nil
}

// lines takes out all that was written.
func (b *lockedBuffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := slices.Collect(strings.Lines(b.buf.String()))
	b.buf.Reset()
	return lines
}

// put puts lines back before what was written since.
func (b *lockedBuffer) put(lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	since := b.buf.String()
	b.buf.Reset()
	b.buf.WriteString(strings.Join(lines, "") + since)
}

func (b *lockedBuffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
