package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
)

// mayAsk are the forwarded methods whose result may be a question: those and
// tools/call, says the specification 2026-07-28 (multi round-trip requests).
var mayAsk = map[string]bool{"prompts/get": true, "resources/read": true}

// forwardModern passes on a request of the stateless era. Where the method
// allows it, it is parked while a server of the older era asks something.
func (b *behind) forwardModern(ctx context.Context, req mcp.Request, f aggregator.Forward) (mcp.Result, error) {
	notes := newOutbox()
	defer notes.flush()
	n := news{log: b.s.logTo(ctx, b.client, req, notes)}
	rounds, err := b.openForward(&f, n)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	if k := rounds.parked; k != nil {
		k.deliver(rounds.answers)
		return b.s.round(ctx, k)
	}
	f.Log = n.log
	if _, is := taskMethods[f.Method]; is {
		raw, err := b.s.opts.Downstreams.Forward(ctx, f)
		if err != nil {
			return nil, forwardError(err, true)
		}
		return b.s.passQuestions(&rawResult{raw: raw, modern: true}, b.caller, "", rounds.digest)
	}
	call := b.requestCall(req, f)
	call.Approved, call.Inputs = rounds.inputs != nil, rounds.inputs
	c, is := req.(clientRequest)
	if !is || !mayAsk[f.Method] {
		raw, server, err := b.s.request(ctx, f.Method, f.Params, rounds.server, call)
		if err != nil {
			return nil, forwardError(err, true)
		}
		return b.s.passQuestions(&rawResult{raw: raw, modern: true}, b.caller, server, rounds.digest)
	}
	r := b.s.newRound(b.caller, rounds.digest, c)
	r.given, r.answer = rounds.given, rounds.answer
	call.Ask = r.ask
	k := newParked(b.caller, rounds.digest, c.ClientCapabilities())
	k.refuse = func(err error) (mcp.Result, error) { return nil, forwardError(err, true) }
	k.news = n
	call.Client, call.Log = k.ask, k.onLog
	b.s.start(ctx, k, func(ctx context.Context) (Reply, error) {
		raw, server, err := b.s.request(ctx, f.Method, f.Params, rounds.server, call)
		k.server = server
		if err != nil && !errors.Is(err, gate.ErrSuspended) {
			err = forwardError(err, true)
		}
		return Reply{Result: raw}, err
	})
	res, err := b.s.round(ctx, k)
	if errors.Is(err, gate.ErrSuspended) {
		return r.suspend()
	}
	return res, err
}

// forwardRounds is what a request tells of the rounds before it.
type forwardRounds struct {
	digest  []byte  // of the request without its rounds
	parked  *parked // the call that it takes up again, nil for none
	answers map[string]json.RawMessage
	server  string            // that the rounds before are about, "" for none
	given   *state            // of our question, when its answer came
	answer  *mcp.ElicitResult // with it
	inputs  json.RawMessage   // for the server that asked in a result
}

var errForwardState = errors.New("requestState is not for this request, has expired or was used before; " +
	"send it again without it")

// openForward reads what the client brought back. For a request about a task, a
// server's own requestState takes the place of ours, in which it travelled.
func (b *behind) openForward(f *aggregator.Forward, n news) (r forwardRounds, err error) {
	var in map[string]json.RawMessage
	if json.Unmarshal(f.Params, &in) != nil {
		return r, errors.New("params is not an object")
	}
	r.digest = forwardDigest(f.Method, in)
	sealed := stateIn(f.Params)
	if sealed == "" {
		return r, nil
	}
	st, err := b.s.seal.open(sealed)
	if err != nil {
		return r, err
	}
	asked := st.Stage != "" // by us
	if !asked && !st.Pass && st.Park == "" || st.Caller != b.caller || !bytes.Equal(st.Digest, r.digest) {
		return r, errForwardState
	}
	if json.Unmarshal(in["inputResponses"], &r.answers) != nil {
		r.answers = nil // "missing answers: ask again"
	}
	r.server = st.Server
	if asked && (rawjson.Unmarshal(r.answers[approvalRequest], &r.answer) != nil || r.answer == nil) {
		return r, nil // the state stays good
	}
	if !b.s.seal.use(st) {
		return r, errForwardState
	}
	if asked {
		r.given = st
		return r, nil
	}
	if st.Park != "" {
		if r.parked = b.s.parking.get(st.Park); r.parked == nil || !r.parked.resume(n) {
			return r, errForwardState
		}
		return r, nil
	}
	r.inputs, err = unwrapState(f, in, st)
	return r, err
}

// forwardDigest returns the digest of a request without what its rounds add.
func forwardDigest(method string, params map[string]json.RawMessage) []byte {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(params)) {
		if key != "_meta" && key != "requestState" && key != "inputResponses" {
			fmt.Fprintf(h, "%q %q %q\n", method, key, params[key])
		}
	}
	return h.Sum(nil)
}

// unwrapState puts the server's own requestState, which travelled in st, into the
// params of f, and returns what the server is to get of this round. It changes in.
func unwrapState(f *aggregator.Forward, in map[string]json.RawMessage, st *state) (_ json.RawMessage, err error) {
	delete(in, "requestState")
	if !st.Bare {
		if in["requestState"], err = json.Marshal(st.Inner); err != nil {
			return nil, err
		}
	}
	if f.Params, err = marshal(in); err != nil {
		return nil, err
	}
	maps.DeleteFunc(in, func(key string, _ json.RawMessage) bool {
		return key != "requestState" && key != "inputResponses"
	})
	return marshal(in)
}

// stateIn returns the requestState of params, "" when there is none.
func stateIn(params json.RawMessage) string {
	var p struct {
		State string `json:"requestState"`
	}
	if !mayName(params, "requestState") || rawjson.Unmarshal(params, &p) != nil {
		return ""
	}
	return p.State
}
