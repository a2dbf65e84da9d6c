package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
)

// A pendingCall is a call of a stateless client that may ask its client. The
// client gets a question as the result of its request, and retries the request
// with the answer and the requestState of the result (specification 2026-07-28,
// multi round-trip requests). The call goes on in between; each retry takes it
// up where it is.
type pendingCall struct {
	digest []byte // of the request without what a retry adds
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when result and err are set
	result json.RawMessage
	err    error

	mu     sync.Mutex
	last   int                  // number of the last question of a server
	open   map[string]*question // without an answer, by key in inputRequests
	shown  map[string]*question // of those, the ones that the client has
	asked  chan struct{}        // signalled when open has grown
	expiry *time.Timer          // set between two requests

	// Of the request that waits for the result, nil between two requests.
	sendProgress func(json.RawMessage)
	sendLog      func(json.RawMessage) bool
}

// A question is one of a result's inputRequests.
type question struct {
	request json.RawMessage
	answer  chan json.RawMessage
}

// pendingCalls are a connection's pending calls whose client has a question. They
// are keyed by the requestState of the result that carries it, which is random,
// secret and valid for one retry.
type pendingCalls struct {
	mu     sync.Mutex
	closed bool
	calls  map[string]*pendingCall
}

// maxPending is how many calls of a connection may wait for answers.
const maxPending = 32

// afterExpiry is how long a pending call outlives the time for an answer, so that
// it ends as a refusal.
const afterExpiry = time.Second

// A retryError is the error for a request that cannot be retried or suspended.
type retryError string

func (e retryError) Error() string { return string(e) }

const (
	errSpentState = retryError("requestState was used before or has expired; what the call has done is unknown; " +
		"check before you send it again without it")
	errTooManyPending = retryError("too many calls wait for answers of this client; answer those first")
)

func badState(why string) error {
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidParams,
		Message: "requestState " + why + "; send this call again without it",
	}
}

// run runs the call of the request r, or takes up the pending call that r is a
// retry of. It returns the result of the call or the next question.
func (s *pendingCalls) run(
	ctx context.Context, r *request, call gate.Call,
	do func(context.Context, gate.Call) (json.RawMessage, error),
) (json.RawMessage, error) {
	timeout := r.conn.s.opts.AskTimeout
	p, err := s.resume(r)
	if err != nil {
		return nil, err
	}
	if p != nil {
		p.attach(call)
		return s.wait(ctx, p, timeout)
	}
	p = &pendingCall{
		digest: digest(r),
		done:   make(chan struct{}),
		open:   map[string]*question{},
		asked:  make(chan struct{}, 1),
	}
	p.attach(call)
	call.Log, call.Inputs = p.log, p.ask
	if call.Progress != nil {
		call.Progress = p.progress
	}
	call.Client = func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		if err := supports(r.caps, method, params); err != nil {
			return nil, err
		}
		p.mu.Lock()
		p.last++
		key := fmt.Sprintf("q%d", p.last)
		p.mu.Unlock()
		return p.askOne(ctx, key, method, params)
	}
	call.Ask = r.approver(func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		return p.askOne(ctx, "approval", method, params)
	})
	// The call outlives the request.
	ctx2, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	p.cancel = cancel
	go func() { // ends with the call, which cancel ends
		defer cancel(nil)
		p.result, p.err = do(ctx2, call)
		close(p.done)
	}()
	return s.wait(ctx, p, timeout)
}

// resume returns the pending call that r is a retry of, with the answers that r
// brings delivered; nil if r is no retry.
func (s *pendingCalls) resume(r *request) (*pendingCall, error) {
	value := r.params.Get("requestState")
	if kind := rawjson.Kind(value); kind == 0 || kind == 'n' {
		return nil, nil
	}
	state := rawjson.Text(value)
	if len(state) != len(newState()) || !strings.HasPrefix(state, statePrefix) {
		return nil, badState("is not one that this server gave out")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.calls[state]
	switch {
	case p == nil:
		return nil, errSpentState
	case !bytes.Equal(p.digest, digest(r)):
		return nil, badState("belongs to another call")
	}
	delete(s.calls, state)
	if !p.expiry.Stop() {
		return nil, errSpentState
	}
	answers, _ := rawjson.Parse(r.params.Get("inputResponses")) // without answers the questions are asked again
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range answers {
		// A key may be that of another question now, which nobody has seen.
		if q := p.shown[a.Key]; q != nil && p.open[a.Key] == q {
			q.answer <- a.Value
			delete(p.open, a.Key)
		}
	}
	p.shown = nil
	return p, nil
}

// wait waits until the call is done or asks something.
func (s *pendingCalls) wait(ctx context.Context, p *pendingCall, timeout time.Duration) (json.RawMessage, error) {
	defer p.attach(gate.Call{})
	for {
		switch {
		case p.isDone():
			return p.result, p.err
		case ctx.Err() != nil:
			p.end(context.Cause(ctx))
			return nil, ctx.Err()
		}
		if questions := p.show(); questions != nil {
			res, err := s.suspend(p, questions, timeout)
			if err != nil {
				p.end(err)
			}
			return res, err
		}
		select {
		case <-p.done:
		case <-p.asked:
		case <-ctx.Done():
		}
	}
}

// suspend returns the result that carries questions. The call is cancelled if its
// client does not come back in time.
func (s *pendingCalls) suspend(
	p *pendingCall, questions rawjson.Object, timeout time.Duration,
) (json.RawMessage, error) {
	p.attach(gate.Call{})
	state := newState()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClientGone
	}
	if len(s.calls) >= maxPending {
		// Calls that were answered elsewhere and have ended need not wait.
		maps.DeleteFunc(s.calls, func(_ string, other *pendingCall) bool { return other.isDone() })
	}
	if len(s.calls) >= maxPending {
		return nil, errTooManyPending
	}
	if s.calls == nil {
		s.calls = map[string]*pendingCall{}
	}
	s.calls[state] = p
	p.expiry = time.AfterFunc(timeout+afterExpiry, func() {
		s.mu.Lock()
		delete(s.calls, state)
		s.mu.Unlock()
		p.cancel(errors.New("the client did not come back with an answer in time"))
	})
	return rawjson.Object{
		{Key: "resultType", Value: rawjson.Quote("input_required")},
		{Key: "inputRequests", Value: questions.Bytes()},
		{Key: "requestState", Value: rawjson.Quote(state)},
	}.Bytes(), nil
}

// close cancels all pending calls, and those that are about to be.
func (s *pendingCalls) close() {
	s.mu.Lock()
	calls := s.calls
	s.calls, s.closed = nil, true
	s.mu.Unlock()
	for _, p := range calls {
		p.expiry.Stop()
		p.end(errClientGone)
	}
}

// statePrefix begins each requestState.
const statePrefix = "toolgate-"

func newState() string { return statePrefix + rand.Text() }

// digest returns a digest of r without what a retry adds.
func digest(r *request) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", r.method)
	byKey := func(a, b rawjson.Field) int { return strings.Compare(a.Key, b.Key) }
	for _, m := range slices.SortedFunc(slices.Values(r.params), byKey) {
		if m.Key != "_meta" && m.Key != "requestState" && m.Key != "inputResponses" {
			fmt.Fprintf(h, "%q %q\n", m.Key, m.Value)
		}
	}
	return h.Sum(nil)
}

// askOne asks one question under a key and returns the answer.
func (p *pendingCall) askOne(
	ctx context.Context, key, method string, params json.RawMessage,
) (json.RawMessage, error) {
	q := rawjson.Object{{Key: "method", Value: rawjson.Quote(method)}}
	if len(params) > 0 {
		q.Set("params", params)
	}
	answers, err := p.askAll(ctx, rawjson.Object{{Key: key, Value: q.Bytes()}})
	if err != nil {
		return nil, err
	}
	return answers[0].Value, nil
}

// ask is a [gate.Call]'s Inputs.
func (p *pendingCall) ask(ctx context.Context, requests json.RawMessage) (json.RawMessage, error) {
	questions, err := rawjson.Parse(requests)
	if err != nil {
		return nil, fmt.Errorf("inputRequests is %w", err)
	}
	answers, err := p.askAll(ctx, questions)
	return answers.Bytes(), err
}

// askAll asks questions at once and returns the answers under the same keys.
func (p *pendingCall) askAll(ctx context.Context, questions rawjson.Object) (rawjson.Object, error) {
	keys := make([]string, len(questions))
	waiting := make([]*question, len(questions))
	p.mu.Lock()
	for i, q := range questions {
		keys[i] = q.Key
		for n := 2; p.open[keys[i]] != nil; n++ {
			keys[i] = fmt.Sprintf("%s-%d", q.Key, n)
		}
		waiting[i] = &question{request: q.Value, answer: make(chan json.RawMessage, 1)}
		p.open[keys[i]] = waiting[i]
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, key := range keys {
			if p.open[key] == waiting[i] {
				delete(p.open, key)
			}
		}
	}()
	select {
	case p.asked <- struct{}{}:
	default:
	}
	answers := make(rawjson.Object, len(questions))
	for i, q := range waiting {
		select {
		case a := <-q.answer:
			answers[i] = rawjson.Field{Key: questions[i].Key, Value: a}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return answers, nil
}

// show returns the open questions in the order of their keys, for the client; nil if
// there are none.
func (p *pendingCall) show() rawjson.Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all rawjson.Object
	for _, key := range slices.Sorted(maps.Keys(p.open)) {
		all = append(all, rawjson.Field{Key: key, Value: p.open[key].request})
	}
	p.shown = maps.Clone(p.open)
	return all
}

func (p *pendingCall) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// end cancels the call and waits until it has ended.
func (p *pendingCall) end(why error) {
	p.cancel(why)
	<-p.done
}

// attach makes the request that c belongs to get progress and log messages from now
// on. With a zero c nobody gets them.
func (p *pendingCall) attach(c gate.Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sendProgress, p.sendLog = c.Progress, c.Log
}

// progress and log hold the lock while they send: nothing may follow the answer of
// the request.

func (p *pendingCall) progress(params json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sendProgress != nil {
		p.sendProgress(params)
	}
}

func (p *pendingCall) log(params json.RawMessage) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sendLog != nil && p.sendLog(params)
}
