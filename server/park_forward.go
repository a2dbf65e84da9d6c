package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/wire"
)

// mayAsk are the forwarded methods whose result may be a question: those and
// tools/call, says the specification 2026-07-28 (multi round-trip requests).
var mayAsk = map[string]bool{"prompts/get": true, "resources/read": true}

// forwardModern passes on a request of the stateless era. Where the method
// allows it, it is parked while a server of the older era asks something.
func (b *behind) forwardModern(ctx context.Context, req mcp.Request, f aggregator.Forward) (mcp.Result, error) {
	n := news{log: b.s.logTo(ctx, b.client, req)}
	rounds, err := b.openForward(&f, n)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	if k := rounds.parked; k != nil {
		k.deliver(rounds.answers)
		return b.s.round(ctx, k)
	}
	f.Log = n.log
	c, is := req.(clientRequest)
	if !is || !mayAsk[f.Method] {
		raw, err := b.s.opts.Downstreams.Forward(ctx, f)
		if err != nil {
			return nil, forwardError(err, true)
		}
		return b.s.passQuestions(&rawResult{raw: raw, modern: true}, b.caller, rounds.digest)
	}
	k := newParked(b.caller, rounds.digest, c.ClientCapabilities())
	k.refuse = func(err error) (mcp.Result, error) { return nil, forwardError(err, true) }
	k.news = n
	f.Client, f.Log = k.ask, k.onLog
	b.s.start(ctx, k, func(ctx context.Context) (Reply, error) {
		raw, err := b.s.opts.Downstreams.Forward(ctx, f)
		if err != nil {
			err = forwardError(err, true)
		}
		return Reply{Result: raw}, err
	})
	return b.s.round(ctx, k)
}

// forwardRounds is what a request tells of the rounds before it.
type forwardRounds struct {
	digest  []byte  // of the request without its rounds
	parked  *parked // the call that it takes up again, nil for none
	answers map[string]json.RawMessage
}

var errForwardState = errors.New("requestState is not for this request, has expired or was used before; send it again without it")

// openForward reads what the client brought back. A server's own requestState
// takes the place of ours, in which it travelled.
func (b *behind) openForward(f *aggregator.Forward, n news) (r forwardRounds, err error) {
	var in map[string]json.RawMessage
	if json.Unmarshal(f.Params, &in) != nil {
		return r, errors.New("params is not an object")
	}
	h := sha256.New()
	for _, key := range []string{"name", "uri", "arguments", "ref", "argument"} {
		fmt.Fprintf(h, "%q %q %q\n", f.Method, key, in[key])
	}
	r.digest = h.Sum(nil)
	sealed := stateIn(f.Params)
	if sealed == "" {
		return r, nil
	}
	st, err := b.s.seal.open(sealed)
	if err != nil {
		return r, err
	}
	if !st.Pass && st.Park == "" || st.Caller != b.caller || !bytes.Equal(st.Digest, r.digest) || !b.s.seal.use(st) {
		return r, errForwardState
	}
	if st.Park != "" {
		if r.parked = b.s.parking.get(st.Park); r.parked == nil || !r.parked.resume(n) {
			return r, errForwardState
		}
		if json.Unmarshal(in["inputResponses"], &r.answers) != nil {
			r.answers = nil // "missing answers: ask again"
		}
		return r, nil
	}
	delete(in, "requestState")
	if !st.Bare {
		if in["requestState"], err = json.Marshal(st.Inner); err != nil {
			return r, err
		}
	}
	f.Params, err = marshal(in)
	return r, err
}

// stateIn returns the requestState of params, "" when there is none.
func stateIn(params json.RawMessage) string {
	var p struct {
		State string `json:"requestState"`
	}
	if !mayName(params, "requestState") || wire.Unmarshal(params, &p) != nil {
		return ""
	}
	return p.State
}
