// Package approvals is the waiting list: questions that no client could put to
// its user, and the answers given to them later from another place, such as
// `toolgate approvals approve ID`.
//
//	list, err := approvals.Open(dir)
//	answer, err := list.Ask(ctx, waiting) // in the gate
//	err = list.Decide(id, policy.Once)    // from another process
//
// Each question is a file in a folder that is its owner's alone, so it does not
// matter which process asks, which one answers, and whether the first has
// ended by then. The folder lies where no tool can read or write it. An answer
// is a file of its own beside it, which can be made once: of two answers the
// first holds.
//
// An answer holds for the binding it was asked under and for one call, unless
// it is for the session or for good; it is gone once it has been used, and
// after an hour.
package approvals

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolgate/internal/gate"
	"toolgate/policy"
)

// Lifetime is how long a question waits, and how long an answer is good.
const Lifetime = time.Hour

// maxWaiting bounds the list: a model in a loop must not fill the disk.
const maxWaiting = 200

// ErrUnknown is wrapped by errors about an id that is not on the list.
var ErrUnknown = errors.New("no such approval is waiting")

// ErrAnswered is wrapped by the error for an answer that came second.
var ErrAnswered = errors.New("it has been answered already")

// An Entry is one question on the list.
type Entry struct {
	ID      string      `json:"id"`
	Binding string      `json:"binding"` // what an answer holds for
	Caller  string      `json:"caller"`
	Tool    string      `json:"tool"`
	Asked   time.Time   `json:"asked"`
	Message string      `json:"message"`          // the question in words
	Always  string      `json:"always,omitempty"` // the rule that "always" adds
	Each    bool        `json:"each,omitempty"`   // an answer for the session is not offered
	About   About       `json:"about,omitzero"`
	Held    time.Time   `json:"held,omitzero"`    // until when a call waits for the answer; zero: none does
	Answer  gate.Answer `json:"answer,omitempty"` // "" until somebody has answered
	Decided time.Time   `json:"decided,omitzero"`
}

// About is the question in its parts, for a list that is more than words.
type About struct {
	Agent     string     `json:"agent,omitempty"` // the client program
	Workspace string     `json:"workspace,omitempty"`
	Stage     gate.Stage `json:"stage,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Rule      string     `json:"rule,omitempty"`   // that made it a question
	Beside    bool       `json:"beside,omitempty"` // the client asks its user at the same time

	Server        string         `json:"server,omitempty"`
	Command       []string       `json:"command,omitempty"`
	Dir           string         `json:"dir,omitempty"`
	Writes        []string       `json:"writes,omitempty"`
	Session       string         `json:"session,omitempty"`
	Preview       string         `json:"preview,omitempty"`       // a patch, or arguments
	Cut           int            `json:"cut,omitempty"`           // bytes of the preview that are left out in its middle
	Justification string         `json:"justification,omitempty"` // the model's words
	Denied        *policy.Denial `json:"denied,omitempty"`

	// What it runs under after a yes.
	Mode    string   `json:"mode,omitempty"`
	Network string   `json:"network,omitempty"`
	Roots   []string `json:"roots,omitempty"` // that may be written
}

// maxPreview bounds what of a patch is kept, in bytes.
const maxPreview = 128 << 10

func about(w gate.QueuedQuestion) About {
	a := w.Question.Action
	b := About{
		Agent:         w.Agent,
		Workspace:     w.Workspace,
		Stage:         w.Question.Stage,
		Reason:        w.Question.Reason,
		Rule:          w.Rule,
		Server:        a.Server,
		Command:       a.Command,
		Dir:           a.Dir,
		Writes:        a.Writes,
		Session:       a.Session,
		Preview:       a.Preview,
		Justification: a.Justification,
		Denied:        w.Question.Denied,
		Mode:          w.Profile.Mode.String(),
		Network:       w.Profile.Network.String(),
		Roots:         w.Profile.WritableRoots,
	}
	if n := len(a.Preview); n > maxPreview {
		head := strings.ToValidUTF8(a.Preview[:maxPreview/2], "")
		tail := strings.ToValidUTF8(a.Preview[n-maxPreview/2:], "")
		b.Preview, b.Cut = head+"\n…\n"+tail, n-len(head)-len(tail)
	}
	return b
}

// A List is the waiting list of one user. It may be used concurrently, also
// by several processes.
type List struct {
	dir string

	// Wait is how long Ask waits for an answer; zero means 20 seconds, a
	// negative value not at all.
	Wait time.Duration

	// Words puts a question in words; it must be set before Ask.
	Words func(gate.Question) string
}

// Open opens the list in dir, which is made if it is missing.
func Open(dir string) (*List, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the waiting list: %w", err)
	}
	return &List{dir: dir}, nil
}

// Ask returns the answer to a question that was answered before, or puts it
// on the list and waits. Its error is a *[policy.PendingError] when nobody has
// answered by then, or ctx's. It is made for [policy.Gate.Later].
func (l *List) Ask(ctx context.Context, w gate.QueuedQuestion) (gate.Answer, error) {
	e, err := l.find(w.Binding)
	if err != nil {
		return gate.No, err
	}
	if e == nil {
		if e, err = l.add(w); err != nil {
			return gate.No, err
		}
	}
	wait := l.Wait
	switch {
	case w.NoWait:
		wait = 0
	case wait == 0:
		wait = 20 * time.Second
	}
	if wait > 0 {
		l.hold(e.ID, time.Now().Add(wait))
		defer os.Remove(l.path(e.ID, heldFile))
	}
	deadline := time.After(max(wait, 0))
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if a, ok := l.take(e.ID); ok {
			return a, nil
		}
		select {
		case <-tick.C:
		case <-deadline:
			return gate.No, &gate.PendingError{ID: e.ID}
		case <-ctx.Done():
			return gate.No, ctx.Err()
		}
	}
}

// Beside puts a question on the list that a client is asking its user now, and
// returns the answer, or the error of ctx. Then the question is off the list
// again: the answer is for this call alone. It is made for
// [policy.Gate.Beside].
func (l *List) Beside(ctx context.Context, w gate.QueuedQuestion) (gate.Answer, error) {
	w.Binding = "beside " + rand.Text() // no other call's
	e, err := l.addAs(w, func(e *Entry) { e.About.Beside = true })
	if err != nil {
		return gate.No, err
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if a, ok := l.take(e.ID); ok {
			return a, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			l.remove(e.ID)
			return gate.No, ctx.Err()
		}
	}
}

// remove takes a question off the list, with its answer.
func (l *List) remove(id string) {
	for _, kind := range []string{questionFile, answerFile, heldFile} {
		os.Remove(l.path(id, kind))
	}
}

// Waiting returns what waits for an answer, the oldest first.
func (l *List) Waiting() ([]Entry, error) {
	all, err := l.entries()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(e Entry) bool { return e.Answer != "" }), nil
}

// Decide answers the question with that id, or the only one whose id begins
// with it. Errors wrap [ErrUnknown] when there is none.
func (l *List) Decide(id string, a gate.Answer) (Entry, error) {
	waiting, err := l.Waiting()
	if err != nil {
		return Entry{}, err
	}
	waiting = slices.DeleteFunc(waiting, func(e Entry) bool { return !strings.HasPrefix(e.ID, id) })
	if id == "" || len(waiting) == 0 {
		return Entry{}, fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	if len(waiting) > 1 {
		return Entry{}, fmt.Errorf("%q is the beginning of %d ids", id, len(waiting))
	}
	e := waiting[0]
	switch {
	case a == gate.Always && e.Always == "":
		return Entry{}, fmt.Errorf("%s: always is not offered for this question; answer once, session or no", e.ID)
	case a == gate.Session && e.Each:
		return Entry{}, fmt.Errorf("%s: this question is asked each time; answer once or no", e.ID)
	case a != gate.Once && a != gate.Session && a != gate.Always && a != gate.No:
		return Entry{}, fmt.Errorf("unknown answer %q", a)
	}
	e.Answer, e.Decided = a, time.Now()
	return e, l.answer(e)
}

func (l *List) add(w gate.QueuedQuestion) (*Entry, error) { return l.addAs(w, func(*Entry) {}) }

func (l *List) addAs(w gate.QueuedQuestion, change func(*Entry)) (*Entry, error) {
	waiting, err := l.entries()
	if err != nil {
		return nil, err
	}
	if len(waiting) >= maxWaiting {
		return nil, fmt.Errorf("%d questions wait already, see `toolgate approvals list`", len(waiting))
	}
	e := Entry{
		ID:      strings.ToLower(rand.Text()[:8]),
		Binding: w.Binding,
		Caller:  w.Caller,
		Tool:    w.Question.Action.Tool,
		Asked:   time.Now(),
		Message: l.Words(w.Question),
		Always:  w.Question.AlwaysRule,
		Each:    w.Question.OnceOnly,
		About:   about(w),
	}
	change(&e)
	return &e, l.write(e)
}

// find returns the entry for a binding, nil when there is none.
func (l *List) find(binding string) (*Entry, error) {
	all, err := l.entries()
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if e.Binding == binding {
			return &e, nil
		}
	}
	return nil, nil
}

// take returns the answer to a question and spends it: of several processes
// that wait for it, one gets it.
func (l *List) take(id string) (gate.Answer, bool) {
	d, ok := l.decision(id)
	if !ok {
		return gate.No, false
	}
	if err := os.Remove(l.path(id, questionFile)); err != nil {
		return gate.No, false
	}
	os.Remove(l.path(id, answerFile))
	return d.Answer, true
}

// entries returns every entry that has not expired, the oldest first, and
// removes the others.
func (l *List) entries() ([]Entry, error) {
	names, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, f := range names {
		id, kind, _ := strings.Cut(f.Name(), ".")
		if kind != questionFile {
			l.tidy(f)
			continue
		}
		e, err := l.read(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // answered and used meanwhile
		}
		since := e.Asked
		if e.Answer != "" {
			since = e.Decided
		}
		if err != nil || time.Since(since) > Lifetime {
			l.remove(id)
			continue
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return a.Asked.Compare(b.Asked) })
	return all, nil
}

// tidy removes what a process left that died, or an answer that came too late
// for its question.
func (l *List) tidy(f fs.DirEntry) {
	if info, err := f.Info(); err == nil && f.Type().IsRegular() && time.Since(info.ModTime()) > Lifetime {
		os.Remove(filepath.Join(l.dir, f.Name()))
	}
}

// Each question has a file named by its id and this, and may have the others.
const (
	questionFile = "json"
	answerFile   = "answer"
	heldFile     = "held"
)

func (l *List) path(id, kind string) string { return filepath.Join(l.dir, id+"."+kind) }

func (l *List) read(id string) (Entry, error) {
	name := l.path(id, questionFile)
	b, err := os.ReadFile(name)
	if err != nil {
		return Entry{}, err
	}
	var e Entry
	if err := json.Unmarshal(b, &e); err != nil {
		return Entry{}, fmt.Errorf("reading %s: %w", name, err)
	}
	if e.ID != id {
		return Entry{}, fmt.Errorf("%s holds the entry %q", name, e.ID)
	}
	e.Answer, e.Decided, e.Held = "", time.Time{}, time.Time{}
	if d, ok := l.decision(id); ok {
		e.Answer, e.Decided = d.Answer, d.Decided
	}
	if b, err := os.ReadFile(l.path(id, heldFile)); err == nil {
		if until, err := time.Parse(time.RFC3339Nano, string(b)); err == nil && time.Now().Before(until) {
			e.Held = until
		}
	}
	return e, nil
}

// A decision is what an answer's file holds.
type decision struct {
	Answer  gate.Answer `json:"answer"`
	Decided time.Time   `json:"decided"`
}

// decision returns the answer to a question, if there is one. A file that is
// being written is none yet.
func (l *List) decision(id string) (d decision, ok bool) {
	b, err := os.ReadFile(l.path(id, answerFile))
	if err != nil || json.Unmarshal(b, &d) != nil || d.Answer == "" {
		return decision{}, false
	}
	return d, true
}

// answer makes the file of an answer, if there is none.
func (l *List) answer(e Entry) error {
	b, err := json.Marshal(decision{e.Answer, e.Decided})
	if err != nil {
		return err
	}
	name := l.path(e.ID, answerFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", e.ID, ErrAnswered)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(name)
	}
	return err
}

// hold says that a call waits. It is for those who look at the list, so what
// goes wrong is let go.
func (l *List) hold(id string, until time.Time) {
	l.put(l.path(id, heldFile), []byte(until.Format(time.RFC3339Nano)))
}

// write puts e in its file, whole or not at all.
func (l *List) write(e Entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return l.put(l.path(e.ID, questionFile), b)
}

func (l *List) put(name string, b []byte) error {
	f, err := os.CreateTemp(l.dir, "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
