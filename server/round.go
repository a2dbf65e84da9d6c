package server

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// A round is one tools/call of the stateless era, or another request that may
// ask: it may end with a question, and it may bring the answer to the question
// of an earlier round.
type round struct {
	s      *Server
	caller string
	digest []byte // of the request without its rounds
	canAsk bool   // the client shows questions

	given  *state            // what the client brought back, nil in a first round
	answer *mcp.ElicitResult // with it
	denied *policy.Denial    // resume at the widening
	asked  *gate.Question    // what this round ends with
}

// A state is what a client carries from a question to its answer. It is
// sealed: "servers MUST treat requestState as attacker-controlled input"
// (specification 2026-07-28, multi round-trip requests).
type state struct {
	ID     string         `json:"id"` // one use only
	Caller string         `json:"caller"`
	Digest []byte         `json:"digest"` // of tool and arguments
	Stage  gate.Stage     `json:"stage"`
	Action []byte         `json:"action,omitempty"` // digest of what the question was about
	Server string         `json:"server,omitempty"` // the downstream server that the question or answer is about
	Denied *policy.Denial `json:"denied,omitempty"`
	Park   string         `json:"park,omitempty"`  // the parked call that the answers are for
	Pass   bool           `json:"pass,omitempty"`  // the answers are for the downstream server itself
	Inner  string         `json:"inner,omitempty"` // that server's own requestState
	Bare   bool           `json:"bare,omitempty"`  // it gave none
	Until  time.Time      `json:"until"`
}

func (s *Server) newRound(caller string, digest []byte, req clientRequest) *round {
	return &round{s: s, caller: caller, digest: digest, canAsk: canAsk(req)}
}

// openRound reads what the client brought back. An error means that the state
// is not one of ours, or not for this call any more.
func (s *Server) openRound(caller string, req *mcp.CallToolRequest) (*round, error) {
	r := s.newRound(caller, callDigest(req.Params), req)
	if req.Params.RequestState == "" {
		return r, nil // answers without a state answer nothing that we asked
	}
	st, err := s.seal.open(req.Params.RequestState)
	if err != nil {
		return nil, err
	}
	if st.Caller != caller || !bytes.Equal(st.Digest, r.digest) {
		return nil, errors.New("requestState belongs to another call; send this call again without it")
	}
	res := approval(req)
	if res == nil {
		return r, nil // "missing answers: ask again"; the state stays good
	}
	if !s.seal.use(st) {
		return nil, errors.New("requestState was used before or has expired; send this call again without it")
	}
	r.given, r.answer = st, res
	if st.Stage == gate.Widen {
		r.denied = st.Denied
	}
	return r, nil
}

// approval returns the answer to our question that a request brings, nil for
// none. The SDK has read it too, but with names in any case.
func approval(req *mcp.CallToolRequest) *mcp.ElicitResult {
	var answers map[string]json.RawMessage
	var res mcp.ElicitResult
	if json.Unmarshal(rawPart(req.Extra, rawAnswers), &answers) != nil {
		return nil
	}
	if rawjson.Unmarshal(answers[approvalRequest], &res) != nil || res.Action == "" {
		return nil
	}
	return &res
}

// ask answers from what the client brought, or suspends the call.
func (r *round) ask(_ context.Context, q gate.Question) (gate.Answer, error) {
	// A hook may have made another action of the same call since.
	if r.given != nil && r.given.Stage == q.Stage && bytes.Equal(r.given.Action, actionDigest(q.Action)) {
		asked := r.given.Until.Add(-r.s.opts.AskTimeout)
		return answer(q, r.answer, time.Since(asked))
	}
	if !r.canAsk {
		return gate.No, errCannotAsk
	}
	r.asked = &q
	return gate.No, gate.ErrSuspended
}

// suspend returns the result that carries the question.
func (r *round) suspend() (mcp.Result, error) {
	if r.asked == nil {
		return nil, errors.New("bug: suspended without a question")
	}
	st := state{
		ID:     rand.Text(),
		Caller: r.caller,
		Digest: r.digest,
		Server: r.asked.Action.Server,
		Stage:  r.asked.Stage,
		Action: actionDigest(r.asked.Action),
		Until:  time.Now().Add(r.s.opts.AskTimeout),
	}
	if r.asked.Stage == gate.Widen {
		st.Denied = r.asked.Denied
	}
	sealed, err := r.s.seal.close(st)
	if err != nil {
		return nil, err
	}
	return inputRequired(form(*r.asked), sealed)
}

func callDigest(p *mcp.CallToolParamsRaw) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q", p.Name)
	h.Write(p.Arguments)
	return h.Sum(nil)
}

// actionDigest tells one action from another.
func actionDigest(a policy.Action) []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic("bug: an action does not marshal: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// A seal makes states that only it can open, each once. Its key lives and
// dies with the process.
type seal struct {
	aead cipher.AEAD

	mu   sync.Mutex
	used map[string]time.Time // state ids, until when they matter
}

func newSeal() *seal {
	key := make([]byte, 32)
	rand.Read(key) // never fails (crypto/rand)
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("server: " + err.Error()) // the key has the right length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("server: " + err.Error())
	}
	return &seal{aead: aead, used: map[string]time.Time{}}
}

func (s *seal) close(st state) (string, error) {
	b, err := json.Marshal(st)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, b, nil)), nil
}

func (s *seal) open(sealed string) (*state, error) {
	errBad := errors.New("requestState is not one that this server gave out; send this call again without it")
	b, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return nil, errBad
	}
	if b, err = s.aead.Open(nil, nil, b, nil); err != nil {
		return nil, errBad
	}
	var st state
	if json.Unmarshal(b, &st) != nil {
		return nil, errBad
	}
	return &st, nil
}

// use reports whether st is still good, and spends it.
func (s *seal) use(st *state) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, until := range s.used {
		if now.After(until) {
			delete(s.used, id)
		}
	}
	if _, spent := s.used[st.ID]; spent || now.After(st.Until) {
		return false
	}
	s.used[st.ID] = st.Until
	return true
}
