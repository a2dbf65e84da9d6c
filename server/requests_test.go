package server_test

import (
	"bufio"
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

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/internal/audit"
	"toolgate/internal/gate"
	"toolgate/policy"
	"toolgate/policy/rules"
	"toolgate/server"
	"toolgate/tools"
)

// requestSetup is a server with downstream servers, a policy and a record.
type requestSetup struct {
	servers   []string // names, in order; default "raw"
	approval  func(tool string) policy.ToolApproval
	published func(tool string) bool
	trusted   bool
	rules     string
	never     bool
	verbatim  bool // as wrap has it: one server, its names unchanged, no tools of our own
	change    func(*gate.Gate)
}

// A requestStage is a running requestSetup.
type requestStage struct {
	t      *testing.T
	server *server.Server
	set    *aggregator.Downstreams
	dir    string

	mu  sync.Mutex
	got []string // requests that reached a downstream server, lists and handshakes left out
}

func newRequestStage(t *testing.T, o requestSetup) *requestStage {
	parsed, err := rules.Parse("test.rules", []byte(o.rules))
	require.NoError(t, err)
	st := &requestStage{t: t, dir: t.TempDir()}
	st.set = aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: t.TempDir()})
	if o.servers == nil {
		o.servers = []string{"raw"}
	}
	var specs []aggregator.Spec
	for _, name := range o.servers {
		specs = append(specs, aggregator.Spec{
			Name: name, Approval: o.approval, Published: o.published, Trusted: o.trusted, Verbatim: o.verbatim,
			StartupTimeout: time.Second,
			ToolTimeout:    func(string) time.Duration { return time.Minute },
			Launch:         func() (*aggregator.Process, error) { return st.launch(name) },
		})
	}
	st.set.Update(specs)
	st.set.WaitListed(context.Background(), false)
	record, err := audit.Open(st.dir)
	require.NoError(t, err)
	pol := &policy.Policy{Approval: policy.OnRequest, Mode: policy.WorkspaceWrite, Workspace: "/w"}
	if o.never {
		pol.Approval = policy.Never
	}
	pol.Rules = func() *rules.Rules { return parsed }
	g := &gate.Gate{Policy: pol, Run: st.set.Run, Record: record.Record}
	if o.change != nil {
		o.change(g)
	}
	options := server.Options{Version: "1", Catalog: []tools.Tool{look}, Downstreams: st.set, Gate: g}
	if o.verbatim {
		options.Catalog = nil
	}
	st.server = server.New(options)
	t.Cleanup(func() { require.NoError(t, record.Close()) })
	return st
}

// launch starts a server of the older era that answers everything.
func (st *requestStage) launch(name string) (*aggregator.Process, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan struct{})
	go func() { // ends with its input
		defer close(done)
		defer outW.Close()
		write := func(format string, args ...any) { fmt.Fprintf(outW, format+"\n", args...) }
		for s := bufio.NewScanner(inR); s.Scan(); {
			var m line
			json.Unmarshal(s.Bytes(), &m)
			switch {
			case m.Method == "initialize":
				const caps = `{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{}}`
				write(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":%s}}`, m.ID, caps)
			case legacyBack(write, m), len(m.ID) == 0:
			default:
				st.mu.Lock()
				st.got = append(st.got, name+" "+m.Method+" "+string(m.Params))
				st.mu.Unlock()
				write(`{"jsonrpc":"2.0","id":%s,"result":{"from":%q}}`, m.ID, name)
			}
		}
	}()
	return &aggregator.Process{In: inW, Out: outR, Wait: func() error { <-done; return nil }, Kill: inR.Close}, nil
}

// reached returns the requests that a downstream server got.
func (st *requestStage) reached() []string {
	synctest.Wait()
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.Clone(st.got)
}

// recorded returns the record, as "server tool verdict asked outcome".
func (st *requestStage) recorded() []string {
	st.t.Helper()
	b, err := os.ReadFile(filepath.Join(st.dir, "audit.jsonl"))
	require.NoError(st.t, err)
	var list []string
	for l := range bytes.Lines(b) {
		var e gate.Event
		require.NoError(st.t, json.Unmarshal(l, &e))
		require.Contains(st.t, string(l), `"duration_ns":`)
		require.NotEmpty(st.t, e.Args)
		list = append(list, strings.Join([]string{e.Server, e.Tool, e.Verdict, e.Asked, e.Outcome}, " "))
	}
	return list
}

// An askFunc sends a request, answers the question that comes back with
// decision, and returns the last message: the answer, or what says that a
// stream is open.
type askFunc func(method, name, params, decision string) (last line, asked bool)

// A transport connects a client to the server.
type transport struct {
	name   string
	modern bool
	open   func(t *testing.T, st *requestStage) (ask askFunc, close func())
}

const form = `{"action":"accept","content":{"decision":%q}}`

// retry answers the question in a result by sending the request once more.
func retry(t *testing.T, res line, params, decision string) (more string, asked bool) {
	var in inquiry
	if json.Unmarshal(res.Result, &in) != nil || in.Type != "input_required" {
		return "", false
	}
	require.Contains(t, in.Requests, "approval")
	return fmt.Sprintf(`%s,"requestState":%q,"inputResponses":{"approval":`+form+`}`, params, in.State, decision), true
}

var transports = []transport{
	{"stdio", false, func(t *testing.T, st *requestStage) (askFunc, func()) {
		f := openStdio(t, st)
		f.initialize()
		return func(method, _, params, decision string) (line, bool) {
			f.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params)
			got := f.next()
			if got.Method != "elicitation/create" {
				return got, false
			}
			f.send(`{"jsonrpc":"2.0","id":%s,"result":`+form+`}`, got.ID, decision)
			return f.next(), true
		}, f.close
	}},
	{"stdio stateless", true, func(t *testing.T, st *requestStage) (askFunc, func()) {
		f := openStdio(t, st)
		return func(method, _, params, decision string) (line, bool) {
			send := func(params string) line {
				f.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{%s}}}`, method, params, modernCaps)
				return f.next()
			}
			got := send(params)
			if more, asked := retry(t, got, params, decision); asked {
				return send(more), true
			}
			return got, false
		}, f.close
	}},
	{"HTTP", false, func(t *testing.T, st *requestStage) (askFunc, func()) {
		c := (&webClient{t: t, e: st.server.NewEndpoint(server.EndpointOptions{Caller: "token:t"})}).initialize()
		return func(method, _, params, decision string) (line, bool) {
			x := c.post(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params)
			got := x.next().line
			if got.Method != "elicitation/create" {
				return got, false
			}
			c.post(`{"jsonrpc":"2.0","id":%s,"result":`+form+`}`, got.ID, decision)
			return x.next().line, true
		}, func() { c.e.Close(); st.set.Close() }
	}},
	{"HTTP stateless", true, func(t *testing.T, st *requestStage) (askFunc, func()) {
		c := &webClient{t: t, e: st.server.NewEndpoint(server.EndpointOptions{Caller: "token:t"})}
		return func(method, name, params, decision string) (line, bool) {
			send := func(params string) line {
				x := c.modern(1, method, name, params)
				if text := x.text(); strings.HasPrefix(text, "{") { // an error that the SDK writes as JSON
					var m line
					require.NoError(t, json.Unmarshal([]byte(text), &m))
					return m
				}
				return x.next().line
			}
			got := send(params)
			if more, asked := retry(t, got, params, decision); asked {
				return send(more), true
			}
			return got, false
		}, func() { c.e.Close(); st.set.Close() }
	}},
}

func openStdio(t *testing.T, st *requestStage) *front {
	r, w := io.Pipe()
	f := &front{t: t, set: st.set, in: w, done: make(chan struct{})}
	go func() { // ends with the client's input
		defer close(f.done)
		st.server.ServeStdio(context.Background(), r, &f.out)
	}()
	return f
}

type request struct {
	method, name, params string
	down                 string // what the server gets
	asks                 string // the request whose rules and approvals hold
}

// requests are the protocol's own requests to downstream servers. PROMPT is the
// published name of the prompt.
var requests = []request{
	{"resources/read", "raw://a", `"uri":"raw://a"`, `{"uri":"raw://a"}`, "resources/read"},
	{"resources/read", "raw://t/5", `"uri":"raw://t/5"`, `{"uri":"raw://t/5"}`, "resources/read"},
	{"resources/read", "other://x", `"uri":"other://x"`, `{"uri":"other://x"}`, "resources/read"},
	{"prompts/get", "PROMPT", `"name":"PROMPT","arguments":{"a":"1"}`,
		`{"name":"ask_me","arguments":{"a":"1"}}`, "prompts/get"},
	{"completion/complete", "",
		`"ref":{"type":"ref/prompt","name":"PROMPT"},"argument":{"name":"a","value":"x"}`,
		`{"ref":{"type":"ref/prompt","name":"ask_me"},"argument":{"name":"a","value":"x"}}`, "prompts/get"},
	{"completion/complete", "",
		`"ref":{"type":"ref/resource","uri":"raw://t/{id}"},"argument":{"name":"id","value":"x"}`,
		`{"ref":{"type":"ref/resource","uri":"raw://t/{id}"},"argument":{"name":"id","value":"x"}}`, "resources/read"},
	{"resources/subscribe", "", `"uri":"raw://a"`, `{"uri":"raw://a"}`, "resources/read"},
}

// decisions are what may become of a request.
var decisions = []struct {
	name    string
	setup   requestSetup
	answer  string // to the question
	asked   bool
	passes  bool
	refusal string // in the error
	record  string // verdict, answer, outcome
}{
	{name: "approved", setup: requestSetup{approval: approve}, passes: true, record: "allow  ok"},
	{name: "trusted", setup: requestSetup{approval: auto, trusted: true}, passes: true, record: "allow  ok"},
	{name: "asked, yes", answer: "once", asked: true, passes: true, record: "ask once ok"},
	{name: "asked, no", answer: "no", asked: true, refusal: "the user said no", record: "ask no refused"},
	{name: "never", setup: requestSetup{never: true},
		refusal: "the approval policy is never", record: "deny  refused"},
	{name: "a rule that forbids",
		setup:   requestSetup{approval: approve, rules: `tool_rule(server="raw", tool="ASKS", decision="forbidden")`},
		refusal: "forbids it", record: "deny  refused"},
	{name: "a rule that asks",
		setup:  requestSetup{approval: approve, rules: `tool_rule(server="raw", tool="ASKS", decision="prompt")`},
		answer: "once", asked: true, passes: true, record: "ask once ok"},
	{name: "a list of tools",
		setup:   requestSetup{approval: approve, published: func(tool string) bool { return tool == "do_it" }},
		refusal: "enabled_tools", record: "deny  refused"},
}

func approve(string) policy.ToolApproval { return policy.ApproveAlways }

func auto(string) policy.ToolApproval { return policy.ApproveAuto }

// TestRequestsGoThroughTheGate covers each method, transport and decision:
// what is not allowed reaches no server, and everything is recorded once.
func TestRequestsGoThroughTheGate(t *testing.T) {
	for _, verbatim := range []bool{false, true} {
		for _, tr := range transports {
			for _, rq := range requests {
				for _, d := range decisions {
					name := tr.name
					if verbatim {
						name = "wrap, " + name
					}
					t.Run(strings.Join([]string{name, rq.method, rq.params, d.name}, "/"), func(t *testing.T) {
						setup := d.setup
						setup.verbatim = verbatim
						setup.rules = strings.ReplaceAll(setup.rules, "ASKS", rq.asks)
						want := expected{d.asked, d.passes, d.refusal, d.record}
						synctest.Test(t, func(t *testing.T) {
							checkRequest(t, tr, setup, rq, d.answer, want)
						})
					})
				}
			}
		}
	}
}

type expected struct {
	asked, passes   bool
	refusal, record string
}

func checkRequest(t *testing.T, tr transport, setup requestSetup, rq request, answer string, want expected) {
	method, name, params, down := rq.method, rq.name, rq.params, rq.down
	st := newRequestStage(t, setup)
	ask, done := tr.open(t, st)
	defer done()
	prompt := "mcp__raw__ask_me"
	if setup.verbatim {
		prompt = "ask_me"
	}
	params, name = strings.ReplaceAll(params, "PROMPT", prompt), strings.ReplaceAll(name, "PROMPT", prompt)
	sent := method
	switch {
	case method == "completion/complete" && want.asked: // nobody is asked at each key
		want = expected{record: "ask  refused"}
	case method == "resources/subscribe" && tr.modern:
		sent, params = "subscriptions/listen", `"notifications":{"resourceSubscriptions":["raw://a"]}`
		if want.asked { // this request has no result that could ask
			want = expected{refusal: "nobody could be asked", record: "ask nobody refused"}
		}
	}
	got, asked := ask(sent, name, params, answer)
	require.Equal(t, want.asked, asked, got.Raw)
	records := []string{"raw " + method + " " + want.record}
	require.Equal(t, records, st.recorded())
	if want.passes {
		require.Equal(t, []string{"raw " + method + " " + down}, st.reached())
		require.Empty(t, got.Error)
		return
	}
	require.Empty(t, st.reached())
	if want.refusal == "" {
		require.Contains(t, string(got.Result), `"completion":{"values":[]}`)
		return
	}
	require.Contains(t, string(got.Error), want.refusal)
	require.Contains(t, string(got.Error), `"code":-31000`)
}

// withClient runs f with a client that is connected over a transport.
func withClient(t *testing.T, tr transport, o requestSetup, f func(*testing.T, *requestStage, askFunc)) {
	t.Run(tr.name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newRequestStage(t, o)
			ask, done := tr.open(t, st)
			defer done()
			f(t, st, ask)
		})
	})
}

// A URI that several servers may have goes to none of them, and is recorded.
func TestAmbiguousURIReachesNoServer(t *testing.T) {
	for _, tr := range transports {
		withClient(t, tr, requestSetup{servers: []string{"a", "b"}, approval: approve},
			func(t *testing.T, st *requestStage, ask askFunc) {
				got, _ := ask("resources/read", "other://x", `"uri":"other://x"`, "")
				require.Contains(t, string(got.Error), "several servers may have the resource")
				require.Empty(t, st.reached())
				require.Equal(t, []string{" resources/read deny  invalid"}, st.recorded())
			})
	}
}

// A yes to a prompt for the session covers completing its arguments; a rule
// for one prompt holds for its completion too.
func TestCompletionGoesWithItsPrompt(t *testing.T) {
	const prompt = "mcp__raw__ask_me"
	const complete = `"ref":{"type":"ref/prompt","name":"mcp__raw__ask_me"},"argument":{"name":"a","value":"x"}`
	for _, tr := range transports {
		withClient(t, tr, requestSetup{}, func(t *testing.T, st *requestStage, ask askFunc) {
			_, asked := ask("prompts/get", prompt, `"name":"mcp__raw__ask_me"`, "session")
			require.True(t, asked)
			got, asked := ask("completion/complete", "", complete, "")
			require.False(t, asked)
			require.Contains(t, string(got.Result), `"from":"raw"`)
			records := st.recorded()
			require.Equal(t, "raw completion/complete ask remembered ok", records[len(records)-1])
		})
		for _, args := range []string{`{"name": "ask_me"}`, `{"arguments": {"a": "x"}}`} {
			rules := `tool_rule(server="raw", tool="prompts/get", args=` + args + `, decision="forbidden")`
			withClient(t, tr, requestSetup{approval: approve, rules: rules},
				func(t *testing.T, st *requestStage, ask askFunc) {
					got, _ := ask("completion/complete", "", complete, "")
					require.Contains(t, string(got.Error), "forbids it")
					require.Empty(t, st.reached())
					require.Equal(t, []string{"raw completion/complete deny  refused"}, st.recorded())
				})
		}
	}
}

// Where the client cannot ask, the question goes to the approval queue.
func TestRequestsWaitForApproval(t *testing.T) {
	for _, modern := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			given := map[string]bool{}
			st := newRequestStage(t, requestSetup{change: func(g *gate.Gate) {
				g.Queue = func(_ context.Context, w gate.QueuedQuestion) (gate.Answer, error) {
					if given[w.Binding] {
						return gate.Once, nil
					}
					given[w.Binding] = true
					return gate.No, &gate.PendingError{ID: "abc"}
				}
			}})
			f := openStdio(t, st)
			defer f.close()
			meta := ""
			if modern {
				meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
					`"io.modelcontextprotocol/clientCapabilities":{}}`
			} else {
				f.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25",` +
					`"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
				f.next()
				f.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			}
			for i, uri := range []string{"raw://a", "raw://t/1", "raw://a"} {
				f.send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":%q%s}}`, uri, meta)
				got := f.next()
				if i < 2 { // an answer is for one resource
					require.Contains(t, string(got.Error), "toolgate approvals approve abc")
					require.Empty(t, st.reached())
					continue
				}
				require.Contains(t, string(got.Result), `"from":"raw"`)
				require.Equal(t, []string{`raw resources/read {"uri":"raw://a"}`}, st.reached())
			}
			const waits = "raw resources/read ask nobody refused"
			require.Equal(t, []string{waits, waits, "raw resources/read ask once ok"}, st.recorded())
		})
	}
}

func TestHooksSeeRequests(t *testing.T) {
	seen := func(tool *string) func(*gate.Gate) {
		return func(g *gate.Gate) {
			g.Before = func(_ context.Context, c *gate.Call) error {
				*tool = c.Action.Tool
				return &gate.RefusedError{Reason: "a hook refused it"}
			}
		}
	}
	for _, tr := range transports {
		for _, rq := range requests {
			if rq.method == "resources/subscribe" && tr.modern { // another request there
				continue
			}
			var tool string
			withClient(t, tr, requestSetup{approval: approve, change: seen(&tool)},
				func(t *testing.T, st *requestStage, ask askFunc) {
					named := strings.NewReplacer("PROMPT", "mcp__raw__ask_me")
					got, _ := ask(rq.method, named.Replace(rq.name), named.Replace(rq.params), "")
					require.Contains(t, string(got.Error), "a hook refused it")
					require.Equal(t, rq.method, tool)
					require.Empty(t, st.reached())
					require.Len(t, st.recorded(), 1)
				})
		}
	}
}

// A request that no server can be asked is recorded, too.
func TestUnknownRequestsAreRecorded(t *testing.T) {
	for _, tr := range transports {
		withClient(t, tr, requestSetup{}, func(t *testing.T, st *requestStage, ask askFunc) {
			got, _ := ask("prompts/get", "nope", `"name":"nope"`, "")
			require.Contains(t, string(got.Error), "unknown prompt")
			require.Equal(t, []string{" prompts/get deny  invalid"}, st.recorded())
		})
	}
}

// So is a call of a tool that does not exist, or that the gate answers itself.
func TestCallsWithoutABackendAreRecorded(t *testing.T) {
	for _, tr := range transports {
		withClient(t, tr, requestSetup{}, func(t *testing.T, st *requestStage, ask askFunc) {
			got, _ := ask("tools/call", "nope", `"name":"nope","arguments":{"a":1}`, "")
			require.Contains(t, string(got.Error), "unknown tool")
			got, _ = ask("tools/call", "list_mcp_resources", `"name":"list_mcp_resources","arguments":{}`, "")
			require.Contains(t, string(got.Result), "raw://a")
			got, _ = ask("tools/call", "list_mcp_resources", `"name":"list_mcp_resources","arguments":{"server":"none"}`, "")
			require.Contains(t, string(got.Result), "unknown MCP server")
			require.Equal(t, []string{" nope deny  invalid", " list_mcp_resources allow  ok",
				" list_mcp_resources allow  failed"}, st.recorded())
		})
	}
}

// The tool that reads resources heeds the lists of tools as the request does.
func TestTheListsOfToolsHoldForReadingResources(t *testing.T) {
	published := func(tool string) bool { return tool != "resources/read" }
	withClient(t, transports[0], requestSetup{approval: approve, published: published},
		func(t *testing.T, st *requestStage, ask askFunc) {
			got, _ := ask("tools/call", "", `"name":"read_mcp_resource","arguments":{"server":"raw","uri":"raw://a"}`, "")
			require.Contains(t, string(got.Result), "disabled_tools of [mcp_servers.raw] leaves out resources/read")
			require.Empty(t, st.reached())
			require.Equal(t, []string{"raw resources/read deny  refused"}, st.recorded())
		})
}

// A server of the newer era that asks in a result is answered in a retry,
// which is not asked about anew.
func TestARequestIsApprovedOnceForAllRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		f := newFront(t, policy.ApprovePrompt, func(write func(string, ...any), m line) {
			switch m.Method {
			case "server/discover":
				write(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",`+
					`"supportedVersions":["2026-07-28"],"capabilities":{"prompts":{}}}}`, m.ID)
			case "prompts/list":
				write(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",`+
					`"prompts":[{"name":"ask_me"}],"ttlMs":3600000}}`, m.ID)
			case "prompts/get":
				got = append(got, string(m.Params))
				if len(got) == 1 {
					write(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","requestState":"theirs",`+
						`"inputRequests":{"who":{"method":"elicitation/create","params":%s}}}}`, m.ID, question)
					return
				}
				write(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","messages":[]}}`, m.ID)
			default:
				askingModern(write, m)
			}
		})
		defer f.close()
		send := func(more string) line {
			const get = `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"mcp__raw__ask_me","_meta":{%s}%s}}`
			f.send(get, modernCaps, more)
			return f.next()
		}
		ours := inquiryOf(t, send(""))
		require.Contains(t, string(ours.Requests["approval"]), "the request prompts/get to the server raw")
		yes := fmt.Sprintf(`,"requestState":%q,"inputResponses":{"approval":`+form+`}`, ours.State, "once")
		require.Contains(t, string(send(`,"arguments":{"a":"2"}`+yes).Error), "belongs to another call")
		require.Contains(t, string(send(`,"more":1`+yes).Error), "belongs to another call")
		theirs := inquiryOf(t, send(yes))
		require.Contains(t, string(theirs.Requests["who"]), `"message":"Your name?"`)
		require.Contains(t, string(send(yes).Error), "used before")
		last := send(fmt.Sprintf(`,"requestState":%q,"inputResponses":{"who":%s}`, theirs.State, answered))
		require.Contains(t, string(last.Result), `"messages":[]`)
		require.Len(t, got, 2)
		require.Contains(t, got[1], `"inputResponses":{"who":`+answered+`},"requestState":"theirs"`)
	})
}

// A server whose answer has no result, or one that is no object.
func TestAResultIsAnObject(t *testing.T) {
	const params = `"name":"mcp__raw__ask_me","uri":"raw://a","ref":{"type":"ref/prompt","name":"mcp__raw__ask_me"},"argument":{"name":"a","value":"x"}`
	for _, member := range []string{"", `,"result":null`, `,"result":[]`, `,"result":5`, `,"result":""`} {
		for _, method := range []string{"prompts/get", "resources/read", "completion/complete"} {
			for _, meta := range []string{"", modernCaps} {
				synctest.Test(t, func(t *testing.T) {
					f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
						if m.Method == "initialize" {
							write(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{},"completions":{}}}}`, m.ID)
						} else if !legacyBack(write, m) && len(m.ID) > 0 {
							write(`{"jsonrpc":"2.0","id":%s%s}`, m.ID, member)
						}
					})
					defer f.close()
					f.initialize()
					f.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{%s}}}`, method, params, meta)
					require.NotEmpty(t, f.next().Error, "%s%s", method, member)
				})
			}
		}
	}
}

// TestUnknownTool: the error names the tool that may be meant.
func TestUnknownTool(t *testing.T) {
	known := []string{"apply_patch", "edit_file", "exec_command", "find_files", "grep_files", "list_dir", "list_sessions",
		"mcp__files__read_text", "read_file", "read_output", "shell", "view_image", "write_file", "write_stdin"}
	for name, want := range map[string]string{
		"read_files":                 "did you mean read_file?; ",
		"ReadFile":                   "did you mean read_file?; ",
		"mcp__toolgate__read_file":   "did you mean read_file?; ",
		"mcp__files__read_txt":       "did you mean mcp__files__read_text?; ",
		"applypatch":                 "did you mean apply_patch?; ",
		"Bash":                       "did you mean shell?; ",
		"run_in_terminal":            "did you mean shell?; ",
		"execute_command":            "did you mean exec_command?; ",
		"Edit":                       "did you mean edit_file?; ",
		"str_replace":                "did you mean edit_file?; ",
		"Grep":                       "did you mean grep_files?; ",
		"Glob":                       "did you mean find_files?; ",
		"list_directory":             "did you mean list_dir?; ",
		"weather":                    "",
		strings.Repeat("x", 1000000): "",
	} {
		err := &server.UnknownToolError{Name: name, Known: known}
		require.Equal(t, want+"the tools are "+strings.Join(known, ", "), err.Hint(), "%.20s", name)
	}
}
