package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
)

// A parked call is one of a stateless client that a downstream server has
// asked something about. The call goes on while the client brings the answers
// in retries, each of which takes the call up again where it is.
type parked struct {
	id     string
	caller string
	digest []byte                          // of the request without its rounds
	refuse func(error) (mcp.Result, error) // words a refusal as this method has it
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when reply, err and server are set
	reply  Reply
	err    error
	server string // that answered, for a request which may go to several

	mu    sync.Mutex
	last  int
	open  map[string]*inquiry // by key, put to the client or about to be
	fresh chan struct{}       // signalled when open has grown
	caps  *mcp.ClientCapabilities
	news  news        // of the round under way
	limit *time.Timer // until when the next round must come
}

// news are what tell the client of a request what comes before its answer.
type news struct {
	progress func(json.RawMessage)      // nil: it wants none
	log      func(json.RawMessage) bool // as [policy.Call] has it
}

// An inquiry is one request of a downstream server.
type inquiry struct {
	method string
	params json.RawMessage
	answer chan json.RawMessage
}

// parking holds the parked calls.
type parking struct {
	mu    sync.Mutex
	calls map[string]*parked
}

// Limits of what may be parked.
const (
	maxParked          = 256
	maxParkedPerCaller = 32
)

var errParkExpired = errors.New("the client did not come back with an answer in time")

// callModern leads a call of the stateless era: as one that may suspend itself
// to ask for approval, and be parked while a downstream server asks.
func (s *Server) callModern(ctx context.Context, caller string, req *mcp.CallToolRequest,
	call gate.Call) (mcp.Result, error) {
	p := req.Params
	round := s.newRound(caller, callDigest(p), req)
	st, err := s.stateOf(caller, p)
	switch {
	case err != nil: // the client's fault, and nothing that a model could mend
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	case st != nil && st.Park != "":
		return s.resume(ctx, caller, req, st, news{call.Progress, call.Log})
	case st != nil && st.Pass:
		if !s.seal.use(st) {
			return errorResult(p.Name, errStateSpent), nil
		}
		call.Approved, call.Inputs = true, inputs(st, req)
	default:
		if round, err = s.openRound(caller, req); err != nil {
			return errorResult(p.Name, err), nil
		}
	}
	call.Ask, call.Denied, call.Rounds = round.ask, round.denied, true
	if !s.isDownstream(p.Name) {
		reply, err := s.call(ctx, p.Name, call)
		if errors.Is(err, gate.ErrSuspended) {
			return round.suspend()
		}
		return s.result(reply, err, true)
	}
	k := newParked(caller, callDigest(p), req.ClientCapabilities())
	k.refuse = func(err error) (mcp.Result, error) { return errorResult(p.Name, err), nil }
	k.news = news{call.Progress, call.Log}
	if call.Progress != nil {
		call.Progress = k.onProgress
	}
	call.Client, call.Log = k.ask, k.onLog
	s.start(ctx, k, func(ctx context.Context) (Reply, error) { return s.call(ctx, p.Name, call) })
	res, err := s.round(ctx, k)
	if errors.Is(err, gate.ErrSuspended) {
		return round.suspend()
	}
	return res, err
}

func newParked(caller string, digest []byte, caps *mcp.ClientCapabilities) *parked {
	return &parked{
		id:     rand.Text(),
		caller: caller,
		digest: digest,
		done:   make(chan struct{}),
		open:   map[string]*inquiry{},
		fresh:  make(chan struct{}, 1),
		caps:   caps,
	}
}

// start has run make the call, for longer than the round of ctx.
func (s *Server) start(ctx context.Context, k *parked, run func(context.Context) (Reply, error)) {
	ctx, k.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	go func() { // ends with the call, which cancel ends
		defer k.cancel(nil)
		k.reply, k.err = run(ctx)
		close(k.done)
		s.parking.remove(k.id)
	}()
}

var errStateSpent = errors.New("requestState was used before or has expired; " +
	"what the call has done is unknown; check before you send it again without it")

// stateOf returns the state that a call brings, nil when it brings none.
func (s *Server) stateOf(caller string, p *mcp.CallToolParamsRaw) (*state, error) {
	if p.RequestState == "" {
		return nil, nil
	}
	st, err := s.seal.open(p.RequestState)
	if err != nil {
		return nil, err
	}
	if st.Caller != caller || string(st.Digest) != string(callDigest(p)) {
		return nil, errors.New("requestState belongs to another call; send this call again without it")
	}
	return st, nil
}

// inputs returns what a retry brings to the downstream server that asked.
func inputs(st *state, req *mcp.CallToolRequest) json.RawMessage {
	in := map[string]any{}
	if raw := rawPart(req.Extra, rawAnswers); len(raw) > 0 {
		in["inputResponses"] = raw
	} else if len(req.Params.InputResponses) > 0 {
		in["inputResponses"] = req.Params.InputResponses
	}
	if !st.Bare {
		in["requestState"] = st.Inner
	}
	b, err := marshal(in)
	if err != nil {
		return nil
	}
	return b
}

// passQuestions puts the requestState of a result that asks for input into
// one of our own, which names the call and the caller it belongs to: "servers
// MUST treat requestState as attacker-controlled input".
func (s *Server) passQuestions(res *rawResult, caller, server string, digest []byte) (mcp.Result, error) {
	var top struct {
		Type  string  `json:"resultType"`
		State *string `json:"requestState"`
	}
	if !bytes.Contains(res.raw, []byte(`"input_required"`)) || rawjson.Unmarshal(res.raw, &top) != nil ||
		top.Type != "input_required" {
		return res, nil
	}
	st := state{ID: rand.Text(), Caller: caller, Server: server, Digest: digest, Pass: true, Bare: top.State == nil}
	st.Until = time.Now().Add(s.opts.AskTimeout)
	if top.State != nil {
		st.Inner = *top.State
	}
	sealed, err := s.seal.close(st)
	if err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(res.raw, &all); err != nil {
		return nil, err
	}
	if all["requestState"], err = json.Marshal(sealed); err != nil {
		return nil, err
	}
	raw, err := marshal(all)
	return &rawResult{raw: raw, modern: true}, err
}

// resume takes a parked call up again with the answers that came.
func (s *Server) resume(ctx context.Context, caller string, req *mcp.CallToolRequest,
	st *state, n news) (mcp.Result, error) {
	p := req.Params
	k := s.parking.get(st.Park)
	switch {
	case !s.seal.use(st) || k == nil || !k.resume(n):
		return errorResult(p.Name, errStateSpent), nil
	}
	var answers map[string]json.RawMessage
	if raw := rawPart(req.Extra, rawAnswers); len(raw) > 0 {
		if err := json.Unmarshal(raw, &answers); err != nil {
			answers = nil // "missing answers: ask again"
		}
	} else if len(p.InputResponses) > 0 {
		answers = map[string]json.RawMessage{}
		for key, a := range p.InputResponses {
			if b, err := json.Marshal(a); err == nil {
				answers[key] = b
			}
		}
	}
	k.deliver(answers)
	return s.round(ctx, k)
}

// round waits until the call is done or asks something.
func (s *Server) round(ctx context.Context, k *parked) (mcp.Result, error) {
	for {
		select {
		case <-k.done:
			return s.outcome(k)
		default:
		}
		if questions := k.questions(); questions != nil {
			if !s.parking.add(k) {
				k.cancel(errors.New("too many calls wait for answers"))
				return k.refuse(errors.New("too many calls wait for answers of this client; answer those first"))
			}
			select {
			case <-k.done: // it may have gone by before it was added
				s.parking.remove(k.id)
				return s.outcome(k)
			default:
			}
			k.expect(s.opts.AskTimeout)
			return s.ask(k, questions)
		}
		select {
		case <-k.done:
		case <-k.fresh:
		case <-ctx.Done():
			k.cancel(context.Cause(ctx))
			<-k.done
			return nil, ctx.Err()
		}
	}
}

// outcome returns what a call that is done gave.
func (s *Server) outcome(k *parked) (mcp.Result, error) {
	res, err := s.result(k.reply, k.err, true)
	if raw, ok := res.(*rawResult); ok && err == nil {
		return s.passQuestions(raw, k.caller, k.server, k.digest)
	}
	return res, err
}

// ask returns the result that carries the questions.
func (s *Server) ask(k *parked, questions map[string]any) (mcp.Result, error) {
	sealed, err := s.seal.close(state{
		ID:     rand.Text(),
		Caller: k.caller,
		Digest: k.digest,
		Park:   k.id,
		Until:  time.Now().Add(s.opts.AskTimeout),
	})
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(map[string]any{
		"resultType": "input_required", "inputRequests": questions, "requestState": sealed,
	})
	if err != nil {
		return nil, err
	}
	return &rawResult{raw: b, modern: true}, nil
}

// ask is a [policy.ClientFunc]: it waits until a round brings the answer.
func (k *parked) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if err := supports(k.caps, method, params); err != nil {
		return nil, err
	}
	q := &inquiry{method: method, params: params, answer: make(chan json.RawMessage, 1)}
	k.mu.Lock()
	k.last++
	key := fmt.Sprintf("q%d", k.last)
	k.open[key] = q
	k.mu.Unlock()
	select {
	case k.fresh <- struct{}{}:
	default:
	}
	select {
	case a := <-q.answer:
		return a, nil
	case <-k.done:
		return nil, errors.New("the call has ended")
	case <-ctx.Done():
		k.mu.Lock()
		delete(k.open, key)
		k.mu.Unlock()
		return nil, context.Cause(ctx)
	}
}

// questions returns what is open, nil when nothing is.
func (k *parked) questions() map[string]any {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.open) == 0 {
		return nil
	}
	all := map[string]any{}
	for key, q := range k.open {
		in := map[string]any{"method": q.method}
		if len(q.params) > 0 {
			in["params"] = q.params
		}
		all[key] = in
	}
	return all
}

func (k *parked) deliver(answers map[string]json.RawMessage) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, a := range answers {
		if q, ok := k.open[key]; ok {
			q.answer <- a
			delete(k.open, key)
		}
	}
}

// expect ends the call when no round comes within d.
func (k *parked) expect(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.news = news{}
	k.limit = time.AfterFunc(d, func() { k.cancel(errParkExpired) })
}

// resume begins a round, and reports false when it came too late.
func (k *parked) resume(n news) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.limit != nil && !k.limit.Stop() {
		return false
	}
	k.limit, k.news = nil, n
	return true
}

func (k *parked) onProgress(params json.RawMessage) {
	k.mu.Lock()
	progress := k.news.progress
	k.mu.Unlock()
	if progress != nil {
		progress(params)
	}
}

// onLog holds up the end of a round until the message is written, since none
// may follow its answer.
func (k *parked) onLog(params json.RawMessage) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.news.log != nil && k.news.log(params)
}

func (p *parking) add(k *parked) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls = map[string]*parked{}
	}
	if p.calls[k.id] == k {
		return true
	}
	own := 0
	for _, other := range p.calls {
		if other.caller == k.caller {
			own++
		}
	}
	if len(p.calls) >= maxParked || own >= maxParkedPerCaller {
		return false
	}
	p.calls[k.id] = k
	return true
}

func (p *parking) get(id string) *parked {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[id]
}

func (p *parking) remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, id)
}

// close ends all parked calls: nobody can take them up any more.
func (p *parking) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.calls {
		k.cancel(errors.New("the client has gone"))
	}
}

// result turns what a call gave into what the client gets. An error of a
// downstream server's protocol stays one, word for word.
func (s *Server) result(reply Reply, err error, modern bool) (mcp.Result, error) {
	if rpc, ok := errors.AsType[*aggregator.RPCError](err); ok {
		return nil, rpcError(rpc)
	}
	if err != nil {
		return nil, err
	}
	return &rawResult{raw: reply.Result, modern: modern}, nil
}
