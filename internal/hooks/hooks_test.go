//go:build !windows

package hooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/config"
	"toolgate/internal/gate"
	"toolgate/internal/hooks"
	"toolgate/policy"
)

// A house is a gate with real hooks and a backend that notes what it ran.
type house struct {
	t      *testing.T
	dir    string // the workspace, where hooks run
	gate   *gate.Gate
	set    *hooks.Set
	ran    []gate.Call
	result string
	events []gate.Event
}

// newHouse reads the config as a user writes it.
func newHouse(t *testing.T, text string) *house {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	c, err := config.Load(file)
	require.NoError(t, err)

	h := &house{t: t, dir: t.TempDir(), result: `{"content":[{"type":"text","text":"done"}],"big":9007199254740993}`}
	h.gate = &gate.Gate{
		Policy: &policy.Policy{Approval: policy.OnRequest, Mode: policy.WorkspaceWrite, Workspace: h.dir, WritableRoots: []string{h.dir}, Confines: func() bool { return true }},
		Run: func(_ context.Context, c gate.Call, _ policy.Profile) (gate.Outcome, error) {
			h.ran = append(h.ran, c)
			return gate.Outcome{Result: json.RawMessage(h.result)}, nil
		},
		Record: func(e gate.Event) { h.events = append(h.events, e) },
	}
	h.set = hooks.New(c.Hooks, hooks.Options{Dir: h.dir})
	h.set.Install(h.gate)
	t.Cleanup(h.set.Close)
	return h
}

// call makes a call of a tool, described as far as the tests need it.
func (h *house) call(tool, args string) (gate.Outcome, error) {
	describe := func(raw json.RawMessage) (policy.Action, error) {
		var in struct {
			Command     []string
			Cmd         string
			Path        string
			Permissions string `json:"sandbox_permissions"`
		}
		if err := json.Unmarshal(raw, &in); err != nil {
			return policy.Action{}, err
		}
		a := policy.Action{Tool: tool, Command: in.Command, Permissions: policy.Permissions(in.Permissions)}
		if server, name, ok := strings.Cut(tool, "/"); ok {
			a.Server, a.Tool, a.Downstream = server, name, &policy.Downstream{Approval: policy.ApproveAlways}
		}
		if in.Cmd != "" {
			a.Command = []string{"bash", "-c", in.Cmd}
		}
		if in.Path != "" {
			a.Writes = []string{in.Path}
		}
		return a, nil
	}
	a, err := describe(json.RawMessage(args))
	require.NoError(h.t, err)
	return h.gate.Call(h.t.Context(), gate.Call{ID: "call-1", Caller: "c", Action: a, Arguments: json.RawMessage(args), Describe: describe})
}

// hook returns the config of one hook of sh text.
func hook(event, matcher, script string, more ...string) string {
	return fmt.Sprintf("[[hooks.%s]]\nmatcher = '%s'\n[[hooks.%s.hooks]]\ntype = \"command\"\ncommand = '''%s'''\n%s\n", event, matcher, event, script, strings.Join(more, "\n"))
}

func TestWhatAHookIsTold(t *testing.T) {
	for _, tt := range []struct {
		name, tool, args string
		wantTool         string
		wantInput        string
	}{
		{"list", "shell", `{"command":["git","commit","-m","it's"],"workdir":"x"}`, "Bash", `{"command":"git commit -m 'it'\\''s'","workdir":"x"}`},
		{"shell's script", "shell", `{"command":["bash","-lc","a | b"]}`, "Bash", `{"command":"a | b"}`},
		{"exec_command", "exec_command", `{"cmd":"ls"}`, "Bash", `{"command":"ls"}`},
		{"patch", "apply_patch", `{"input":"*** Begin"}`, "apply_patch", `{"command":"*** Begin"}`},
		{"another server", "my-files/read.it", `{"n":9007199254740993}`, "mcp__my_files__read_it", `{"n":9007199254740993}`},
		{"another tool", "read_file", `{"a":1}`, "read_file", `{"a":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, hook("PreToolUse", "*", "cat > pre.json")+hook("PostToolUse", "*", "cat > post.json"))
			_, err := h.call(tt.tool, tt.args)
			require.NoError(t, err)
			var got struct {
				Session    string          `json:"session_id"`
				Cwd        string          `json:"cwd"`
				Event      string          `json:"hook_event_name"`
				Mode       string          `json:"permission_mode"`
				Tool       string          `json:"tool_name"`
				ID         string          `json:"tool_use_id"`
				Input      json.RawMessage `json:"tool_input"`
				Response   json.RawMessage `json:"tool_response"`
				Transcript any             `json:"transcript_path"`
			}
			read := func(name string) {
				b, err := os.ReadFile(filepath.Join(h.dir, name))
				require.NoError(t, err, "the hook ran in the workspace")
				require.NoError(t, json.Unmarshal(b, &got))
			}
			read("pre.json")
			require.NotEmpty(t, got.Session)
			require.Equal(t, h.dir, got.Cwd)
			require.Equal(t, "PreToolUse", got.Event)
			require.Equal(t, "default", got.Mode)
			require.Equal(t, "call-1", got.ID)
			require.Equal(t, tt.wantTool, got.Tool)
			require.Equal(t, tt.wantInput, string(got.Input))
			require.Nil(t, got.Response)
			read("post.json")
			require.Equal(t, "PostToolUse", got.Event)
			if strings.Contains(tt.tool, "/") {
				require.Equal(t, h.result, string(got.Response))
			} else {
				require.Equal(t, `"done"`, string(got.Response))
			}
		})
	}
}

func TestPreToolUse(t *testing.T) {
	deny := `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"not on Fridays"}}`
	for _, tt := range []struct {
		name, script string
		refused      string // "" when it runs
	}{
		{"nothing to say", "exit 0", ""},
		{"words", "echo looks fine", ""},
		{"does not read its stdin", "exec 0<&-", ""},
		{"exit 2", "echo no way >&2; exit 2", "blocked by a PreToolUse hook: no way"},
		{"exit 2 without a reason", "exit 2", "blocked by a PreToolUse hook: no reason given"},
		{"deny", "echo '" + deny + "'", "blocked by a PreToolUse hook: not on Fridays"},
		{"block", `echo '{"decision":"block","reason":"old form"}'`, "blocked by a PreToolUse hook: old form"},
		{"continue false", `echo '{"continue":false,"stopReason":"enough"}'`, "blocked by a PreToolUse hook: enough"},
		{"approve", `echo '{"decision":"approve"}'`, ""},
		{"allow", `echo '{"hookSpecificOutput":{"permissionDecision":"allow"}}'`, ""},

		{"breaks", "echo oops >&2; exit 1", "failed, which counts as no: exit code 1: oops"},
		{"is not there", "/no/such/program", "failed, which counts as no: exit code 127"},
		{"is killed", "kill -9 $$", "failed, which counts as no: ended by signal"},
		{"bad JSON", `echo '{"decision":'`, "failed, which counts as no: invalid JSON"},
		{"JSON of another shape", `echo '[1]'`, "invalid JSON"},
		{"unknown decision", `echo '{"decision":"perhaps"}'`, `unknown decision "perhaps"`},
		{"unknown permission", `echo '{"hookSpecificOutput":{"permissionDecision":"Deny"}}'`, `unknown permissionDecision "Deny"`},
		{"ask", `echo '{"hookSpecificOutput":{"permissionDecision":"ask"}}'`, `"ask" is not supported`},
		{"rewrite without allow", `echo '{"hookSpecificOutput":{"updatedInput":{"command":"x"}}}'`, "updatedInput requires"},
		{"rewrite with a list", `echo '{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"command":["x"]}}}'`, "updatedInput.command is not a string"},
		{"answers for another event", `echo '{"hookSpecificOutput":{"hookEventName":"PostToolUse"}}'`, "hookEventName is PostToolUse"},
		{"prints too much JSON", `printf '{"reason":"'; head -c 2000000 /dev/zero | tr '\0' x; printf '"}'`, "it printed more than"},
		{"out of time", "sleep 600", "timed out after"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			more := ""
			if tt.name == "out of time" {
				more = "timeout = 0.05"
			}
			h := newHouse(t, hook("PreToolUse", "Bash", tt.script, more))
			_, err := h.call("shell", `{"command":["ls"]}`)
			require.Len(t, h.events, 1)
			if tt.refused == "" {
				require.NoError(t, err)
				require.Len(t, h.ran, 1)
				require.JSONEq(t, `{"command":["ls"]}`, string(h.ran[0].Arguments))
				return
			}
			_, ok := errors.AsType[*gate.RefusedError](err)
			require.True(t, ok, "%v", err)
			require.ErrorContains(t, err, tt.refused)
			require.Empty(t, h.ran)
			require.Equal(t, "refused", h.events[0].Outcome)
			require.Equal(t, "deny", h.events[0].Verdict)

			// The same failure, where the user takes the risk: only what was an
			// objection stays one.
			h = newHouse(t, hook("PreToolUse", "Bash", tt.script, more, `on_failure = "allow"`))
			_, err = h.call("shell", `{"command":["ls"]}`)
			if strings.Contains(tt.refused, "blocked by") {
				require.Error(t, err)
				require.Empty(t, h.ran)
			} else {
				require.NoError(t, err)
				require.Len(t, h.ran, 1)
				require.JSONEq(t, `{"command":["ls"]}`, string(h.ran[0].Arguments))
			}
		})
	}
}

func TestMatcher(t *testing.T) {
	for _, tt := range []struct {
		matcher, tool string
		want          bool
	}{
		{"", "shell", true},
		{"*", "read_file", true},
		{"Bash", "shell", true},
		{"Bash", "exec_command", true},
		{"exec_command", "exec_command", true},
		{"exec_command", "shell", false},
		{"Bas", "shell", false},
		{"Edit|Write", "apply_patch", true},
		{"apply_patch", "apply_patch", true},
		{"apply_patch", "edit_file", true},
		{"Edit|Write", "edit_file", true},
		{"Edit|Write", "shell", false},
		{"^Ba", "shell", true},
		{"mcp__memory", "memory/create", false},
		{"mcp__memory__.*", "memory/create", true},
		{"mcp__memory__create", "memory/create", true},
		{"mcp__.*__write.*", "files/read", false},
		{"ead_.ile", "read_file", true},
	} {
		t.Run(tt.matcher+" "+tt.tool, func(t *testing.T) {
			h := newHouse(t, hook("PreToolUse", tt.matcher, "exit 2"))
			_, err := h.call(tt.tool, `{"command":["x"],"cmd":"x"}`)
			require.Equal(t, tt.want, err != nil)
		})
	}
}

func TestRewrite(t *testing.T) {
	for _, tt := range []struct {
		name, tool, args, updated, want string
	}{
		{"a list becomes a script", "shell_command", `{"command":"x","workdir":"d"}`, `{"command":"echo hi"}`, `{"command":"echo hi","workdir":"d"}`},
		{"cmd", "exec_command", `{"cmd":"x","tty":true}`, `{"command":"echo hi"}`, `{"cmd":"echo hi","tty":true}`},
		{"what stands beside the command", "exec_command", `{"cmd":"x","tty":true}`, `{"command":"x","tty":false}`, `{"cmd":"x","tty":false}`},
		{"without the command", "exec_command", `{"cmd":"x"}`, `{"tty":false}`, `{"cmd":"x","tty":false}`},
		{"patch", "apply_patch", `{"input":"a"}`, `{"command":"b"}`, `{"input":"b"}`},
		{"another server", "s/t", `{"a":1,"b":2}`, `{"a":9007199254740993}`, `{"a":9007199254740993}`},
		{"the same list", "shell", `{"command":["a","b c"]}`, `{"command":"a 'b c'","workdir":"w"}`, `{"command":["a","b c"],"workdir":"w"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, rewriteTo(t, tt.updated))
			describe := func(json.RawMessage) (policy.Action, error) { return described(tt.tool), nil }
			_, err := h.gate.Call(t.Context(), gate.Call{Action: described(tt.tool), Arguments: json.RawMessage(tt.args), Describe: describe})
			require.NoError(t, err)
			require.Len(t, h.ran, 1)
			require.JSONEq(t, tt.want, string(h.ran[0].Arguments))
			require.Equal(t, tt.args, string(h.events[0].Args), "the record has what was sent")
			require.JSONEq(t, tt.want, string(h.events[0].Rewritten))
			if tt.tool == "s/t" {
				require.Equal(t, tt.want, string(h.ran[0].Arguments), "numbers stay")
			}
		})
	}
}

func described(tool string) policy.Action {
	if server, name, ok := strings.Cut(tool, "/"); ok {
		return policy.Action{Server: server, Tool: name, Downstream: &policy.Downstream{Approval: policy.ApproveAlways}}
	}
	return policy.Action{Tool: tool, Command: []string{"make"}}
}

// rewriteTo returns the config of a hook that rewrites the arguments.
func rewriteTo(t *testing.T, args string) string {
	name := filepath.Join(t.TempDir(), "answer.json")
	require.NoError(t, os.WriteFile(name, []byte(`{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":`+args+`}}`), 0o600))
	return hook("PreToolUse", "*", "cat "+name)
}

func TestARewrittenCallIsDecidedAnew(t *testing.T) {
	h := newHouse(t, rewriteTo(t, `{"path":"/etc/passwd"}`))
	_, err := h.call("write_it", `{"path":"a.txt"}`)
	require.ErrorContains(t, err, "it would write /etc/passwd")
	require.Empty(t, h.ran)
	require.Equal(t, []string{"/etc/passwd"}, h.events[0].Action.Writes)

	h = newHouse(t, rewriteTo(t, `{"path":"a.txt"}`))
	_, err = h.call("write_it", `{"path":"/etc/passwd"}`)
	require.NoError(t, err, "made harmless")
	require.Len(t, h.ran, 1)

	h = newHouse(t, rewriteTo(t, `{"path":7}`))
	_, err = h.call("write_it", `{"path":"a.txt"}`)
	require.ErrorContains(t, err, "a hook changed the arguments, and they do not fit any more")
	require.Empty(t, h.ran)
}

func TestHooksRunInOrderOnWhatTheOneBeforeLeft(t *testing.T) {
	rewrite := rewriteTo(t, `{"command":"rm -rf x"}`)
	check := hook("PreToolUse", "*", `if grep -q "rm -rf"; then echo no rm >&2; exit 2; fi`)
	h := newHouse(t, rewrite+check)
	_, err := h.call("exec_command", `{"cmd":"ls"}`)
	require.ErrorContains(t, err, "no rm")
	require.Empty(t, h.ran)

	h = newHouse(t, hook("PreToolUse", "*", "exit 2")+hook("PreToolUse", "*", "touch second"))
	_, err = h.call("exec_command", `{"cmd":"ls"}`)
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(h.dir, "second"), "the first objection ends it")
}

func TestPostToolUse(t *testing.T) {
	for _, tt := range []struct {
		name, script, want string
		isError            bool
	}{
		{"nothing to say", "exit 0", `{"content":[{"type":"text","text":"done"}],"big":9007199254740993}`, false},
		{"adds", `echo '{"hookSpecificOutput":{"additionalContext":"now run the tests"}}'`, `{"content":[{"type":"text","text":"done"},{"type":"text","text":"now run the tests"}],"big":9007199254740993}`, false},
		{"block", `echo '{"decision":"block","reason":"it prints a key"}'`, `{"content":[{"type":"text","text":"the call has run, and a PostToolUse hook keeps its output back: it prints a key"}],"isError":true}`, true},
		{"exit 2", `echo secret >&2; exit 2`, `{"content":[{"type":"text","text":"the call has run, and a PostToolUse hook keeps its output back: secret"}],"isError":true}`, true},
		{"continue false", `echo '{"continue":false,"stopReason":"stop"}'`, `{"content":[{"type":"text","text":"the call has run, and a PostToolUse hook keeps its output back: stop"}],"isError":true}`, true},
		{"breaks", `exit 3`, `{"content":[{"type":"text","text":"the call has run, and a PostToolUse hook keeps its output back: a PostToolUse hook of the user's failed, which counts as no: exit code 3: no reason given"}],"isError":true}`, true},
		{"new text", `echo '{"hookSpecificOutput":{"updatedToolOutput":"short"}}'`, `{"content":[{"type":"text","text":"short"}]}`, false},
		{"new result", `echo '{"hookSpecificOutput":{"updatedMCPToolOutput":{"content":[],"n":1}}}'`, `{"content":[],"n":1}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, hook("PostToolUse", "Bash", tt.script))
			out, err := h.call("shell", `{"command":["ls"]}`)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(out.Result))
			require.Equal(t, tt.isError, out.IsError)
			require.Len(t, h.ran, 1)
		})
	}
}

// Other requests than tools/call have results of their own forms.
func TestPostToolUseOfRequests(t *testing.T) {
	const add = `echo '{"hookSpecificOutput":{"additionalContext":"note"}}'`
	const change = `echo '{"hookSpecificOutput":{"updatedToolOutput":"short"}}'`
	const replace = `echo '{"hookSpecificOutput":{"updatedToolOutput":{"contents":[],"n":1}}}'`
	const block = `echo '{"decision":"block","reason":"it prints a key"}'`
	for _, tt := range []struct{ name, method, script, result, want, err string }{
		{"adds to a resource", "resources/read", add, `{"contents":[{"uri":"a:b"}],"big":9007199254740993}`,
			`{"contents":[{"uri":"a:b"},{"mimeType":"text/plain","text":"note","uri":"a:b"}],"big":9007199254740993}`, ""},
		{"adds to a prompt", "prompts/get", add, `{"messages":[]}`,
			`{"messages":[{"content":{"type":"text","text":"note"},"role":"user"}]}`, ""},
		{"adds to a completion", "completion/complete", add, `{"completion":{"values":["a"]}}`,
			`{"completion":{"values":["a"]}}`, ""},
		{"new text of a resource", "resources/read", change, `{"contents":[]}`,
			`{"contents":[{"mimeType":"text/plain","text":"short","uri":"a:b"}]}`, ""},
		{"new text of a prompt", "prompts/get", change, `{"messages":[]}`,
			`{"messages":[{"content":{"type":"text","text":"short"},"role":"user"}]}`, ""},
		{"new resource", "resources/read", replace, `{"contents":[{"uri":"a:b"}]}`, `{"contents":[],"n":1}`, ""},
		{"new text of a completion", "completion/complete", change, `{"completion":{"values":["a"]}}`, "", "holds no text"},
		{"blocks", "resources/read", block, `{"contents":[]}`, "", "keeps its output back: it prints a key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, hook("PostToolUse", "mcp__s__.*", tt.script))
			h.result = tt.result
			a := policy.Action{Server: "s", Tool: tt.method, Request: true}
			a.Downstream = &policy.Downstream{Approval: policy.ApproveAlways}
			args := json.RawMessage(`{"uri":"a:b"}`)
			out, err := h.gate.Call(t.Context(), gate.Call{ID: "1", Caller: "c", Action: a, Arguments: args})
			require.Len(t, h.ran, 1)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				require.Empty(t, out.Result)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, string(out.Result))
		})
	}
}

func TestWordsOfAPreToolUseHookReachTheModel(t *testing.T) {
	h := newHouse(t, hook("PreToolUse", "Bash", `echo '{"hookSpecificOutput":{"additionalContext":"123456789"}}'`, "additionalContextLimit = 1"))
	h.result = `{ "content" : [ ] }`
	out, err := h.call("shell", `{"command":["ls"]}`)
	require.NoError(t, err)
	require.Equal(t, `{ "content" : [ {"type":"text","text":"1234\n[5 bytes of the hook's text left out]"}] }`, string(out.Result))
}

func TestPermissionRequest(t *testing.T) {
	says := func(decision string) string {
		return `cat > asked.json; echo '{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":` + decision + `}}'`
	}
	for _, tt := range []struct {
		name, script string
		more         string
		want         string // error, "" when it runs, "person" when the person is asked
	}{
		{"allow", says(`{"behavior":"allow"}`), "", ""},
		{"deny", says(`{"behavior":"deny","message":"never that"}`), "", "a PermissionRequest hook said no: never that"},
		{"exit 2", "echo nope >&2; exit 2", "", "a PermissionRequest hook said no: nope"},
		{"nothing to say", "exit 0", "", "person"},
		{"breaks", "exit 1", "", "counts as no"},
		{"breaks and may", "exit 1", `on_failure = "allow"`, "person"},
		{"allow with more", says(`{"behavior":"allow","updatedInput":{}}`), "", "can only allow or deny"},
		{"unknown", says(`{"behavior":"Allow"}`), "", "unknown behavior"},
		{"no behavior", says(`{}`), "", "unknown behavior"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, hook("PermissionRequest", "Bash", tt.script, tt.more))
			a := policy.Action{Tool: "exec_command", Command: []string{"make"}, Permissions: policy.RequireEscalated, Justification: "because"}
			asked := 0
			ask := func(context.Context, gate.Question) (gate.Answer, error) { asked++; return gate.Once, nil }
			_, err := h.gate.Call(t.Context(), gate.Call{Action: a, Arguments: json.RawMessage(`{"cmd":"make"}`), Ask: ask, AskedVia: "client"})
			switch tt.want {
			case "":
				require.NoError(t, err)
				require.Zero(t, asked)
				require.Equal(t, "hook", h.events[0].AnsweredBy)
				require.Equal(t, "once", h.events[0].Asked)
				b, err := os.ReadFile(filepath.Join(h.dir, "asked.json"))
				require.NoError(t, err)
				require.Contains(t, string(b), `"tool_input":{"command":"make","description":"because"}`)
			case "person":
				require.NoError(t, err)
				require.Equal(t, 1, asked)
				require.Equal(t, "client", h.events[0].AnsweredBy)
			default:
				require.ErrorContains(t, err, tt.want)
				require.Zero(t, asked)
				require.Empty(t, h.ran)
				require.Equal(t, "hook", h.events[0].AnsweredBy)
			}
			if tt.want != "person" {
				require.False(t, h.events[0].AnsweredAt.IsZero())
			}
		})
	}
}

func TestPermissionHookCannotOverruleThePolicy(t *testing.T) {
	h := newHouse(t, hook("PermissionRequest", "*", `echo '{"hookSpecificOutput":{"decision":{"behavior":"allow"}}}'`))
	h.gate.Policy.Approval = policy.Never
	_, err := h.gate.Call(t.Context(), gate.Call{Action: policy.Action{Tool: "shell", Command: []string{"make"}, Permissions: policy.RequireEscalated}})
	require.ErrorContains(t, err, "the approval policy is never")
	require.Empty(t, h.ran)
}

// TestATimeOutEndsAllThatTheHookStarted holds a grandchild against it, which
// has a stream of the hook's open.
func TestATimeOutEndsAllThatTheHookStarted(t *testing.T) {
	h := newHouse(t, hook("PreToolUse", "*", "mkfifo gate; sleep 600 & echo $! > child; : > gate; wait", "timeout = 20"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := h.gate.Call(ctx, gate.Call{Action: policy.Action{Tool: "shell", Command: []string{"make"}}})
		done <- err
	}()
	var f *os.File
	require.Eventually(t, func() bool { // the hook waits for a reader behind the mkfifo
		var err error
		f, err = os.Open(filepath.Join(h.dir, "gate"))
		return err == nil
	}, time.Minute, time.Millisecond)
	f.Close()
	b, err := os.ReadFile(filepath.Join(h.dir, "child"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0))
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Empty(t, h.ran)
	require.Equal(t, "cancelled", h.events[0].Outcome)
	require.Eventually(t, func() bool { return dead(pid) }, time.Minute, time.Millisecond)
}

// dead reports whether the process is gone, or gone but not yet waited for.
func dead(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}

func TestAsyncHooksDecideNothing(t *testing.T) {
	h := newHouse(t, hook("PreToolUse", "*", "cat > seen; mv seen done; exit 2", "async = true"))
	_, err := h.call("shell", `{"command":["ls"]}`)
	require.NoError(t, err)
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(h.dir, "done")); return err == nil }, time.Minute, time.Millisecond)
	h.set.Close()
}

func TestWithoutHooksTheGateCallsNothing(t *testing.T) {
	h := newHouse(t, "")
	require.Nil(t, h.gate.Before)
	require.Nil(t, h.gate.After)
	require.Nil(t, h.gate.AskHook)
}

func BenchmarkHook(b *testing.B) {
	b.ReportAllocs()
	c := config.Hooks{PreToolUse: []config.HookGroup{{Hooks: []config.Hook{{Type: "command", Command: "exit 0"}}}}}
	set := hooks.New(c, hooks.Options{Dir: b.TempDir()})
	call := gate.Call{Action: policy.Action{Tool: "shell"}, Arguments: json.RawMessage(`{"command":["ls"]}`)}
	for b.Loop() {
		if err := set.Before(b.Context(), &call); err != nil {
			b.Fatal(err)
		}
	}
}
