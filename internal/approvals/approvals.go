// Package approvals is the approval queue. It holds questions that no client could
// put to its user, and the answers given later from elsewhere, such as
// `toolgate approvals approve ID`.
//
//	queue, err := approvals.Open(dir)
//	answer, err := queue.Ask(ctx, waiting) // in the gate
//	err = queue.Decide(id, gate.Once)      // from another process
//
// Each question is a file in a folder that only its owner can access, so asking and
// answering can happen in different processes at different times. No tool can read
// or write the folder. An answer is a second file, which is created exclusively: the
// first answer wins.
//
// An answer is valid for the binding of its question and for one call, unless it is
// for the session or permanent. It is removed when used, and after an hour.
package approvals

import (
	"cmp"
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

	"toolgate/internal/atomicfile"
	"toolgate/internal/fileowner"
	"toolgate/internal/gate"
	"toolgate/policy"
)

// Lifetime is how long a question stays in the queue, and how long an answer is valid.
const Lifetime = time.Hour

// The queue is limited, so that a model in a loop cannot fill the disk, and so is each caller's share of it, so that
// it cannot keep others from asking.
const (
	maxPending   = 200
	maxPerCaller = 50
)

// ErrUnknown is returned for an ID that is not in the queue.
var ErrUnknown = errors.New("no such approval is waiting")

// ErrAnswered is returned by [Queue.Decide] if the question already has an answer.
var ErrAnswered = errors.New("already answered")

// An Entry is one question in the queue.
type Entry struct {
	ID      string          `json:"id"`
	Binding string          `json:"binding"` // what an answer is valid for, with Seen
	Seen    policy.Snapshot `json:"seen,omitzero"`
	Caller  string          `json:"caller"`
	Tool    string          `json:"tool"`
	Asked   time.Time       `json:"asked"`
	Message string          `json:"message"`          // the question as text
	Always  string          `json:"always,omitempty"` // the rule that "always" adds
	Each    bool            `json:"each,omitempty"`   // an answer for the session is not offered
	Grants  string          `json:"grants,omitempty"` // what else an answer for the session covers
	About   About           `json:"about,omitzero"`
	Held    time.Time       `json:"held,omitzero"`    // a call waits for the answer until then; zero: none waits
	Answer  gate.Answer     `json:"answer,omitempty"` // "" if not answered
	Decided time.Time       `json:"decided,omitzero"`
}

// About holds the parts of a question, for user interfaces that show more than text.
type About struct {
	Agent     string     `json:"agent,omitempty"` // the client program
	Workspace string     `json:"workspace,omitempty"`
	Stage     gate.Stage `json:"stage,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Rule      string     `json:"rule,omitempty"`   // that requires the approval
	Parallel  bool       `json:"beside,omitempty"` // the client asks its user at the same time

	Server        string         `json:"server,omitempty"`
	Command       []string       `json:"command,omitempty"`
	Dir           string         `json:"dir,omitempty"`
	Runs          []string       `json:"runs,omitempty"` // files with code that it runs, as they are now
	Writes        []string       `json:"writes,omitempty"`
	Session       string         `json:"session,omitempty"`
	Preview       string         `json:"preview,omitempty"`       // a patch, or arguments
	Cut           int            `json:"cut,omitempty"`           // bytes left out in the middle of the preview
	Justification string         `json:"justification,omitempty"` // the model's words
	Denied        *policy.Denial `json:"denied,omitempty"`

	// The profile that an approved call runs in.
	Mode    string   `json:"mode,omitempty"`
	Network string   `json:"network,omitempty"`
	Roots   []string `json:"roots,omitempty"` // writable
}

// maxPreview limits the size of a preview, in bytes.
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
		Dir:           w.Question.Folder(),
		Runs:          w.Question.Seen.Existing(),
		Writes:        a.ChangeLines(),
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

// A Queue is the approval queue of one user. It may be used concurrently, also by
// several processes.
type Queue struct {
	dir string

	// Wait is how long Ask waits for an answer. Zero means 20 seconds; if
	// negative, Ask does not wait.
	Wait time.Duration

	// Format returns a question as text. It must be set before Ask.
	Format func(gate.Question) string
}

// Open opens the queue in dir, which is created if missing.
func Open(dir string) (*Queue, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the approval queue: %w", err)
	}
	return &Queue{dir: dir}, nil
}

// Ask returns the answer to a question. If it has not been answered before, Ask
// queues it and waits. The error is a *[gate.PendingError] if nobody answers in
// time, or that of ctx. It implements [gate.Gate.Queue].
func (l *Queue) Ask(ctx context.Context, w gate.QueuedQuestion) (gate.Answer, error) {
	all, err := l.entries()
	if err != nil {
		return gate.No, err
	}
	var e Entry
	i := slices.IndexFunc(all, func(e Entry) bool { return e.Binding == w.Binding })
	if i >= 0 {
		if changes := all[i].Seen.Changes(w.Question.Seen); len(changes) > 0 {
			l.remove(all[i].ID) // with its answer, which was about something else
			w.Question.Since(changes)
			i = -1
		}
	}
	if i >= 0 {
		e = all[i]
	} else if e, err = l.add(w, false); err != nil {
		return gate.No, err
	}
	limit := cmp.Or(l.Wait, 20*time.Second)
	if w.NoWait {
		limit = 0
	}
	if limit > 0 {
		until := time.Now().Add(limit).Format(time.RFC3339Nano)
		_ = atomicfile.Write(l.path(e.ID, heldFile), []byte(until), 0o600) // it only informs the user
		defer os.Remove(l.path(e.ID, heldFile))
	}
	waiting, stop := context.WithTimeout(ctx, limit)
	defer stop()
	a, err := l.wait(waiting, e.ID)
	if err != nil && ctx.Err() == nil {
		err = &gate.PendingError{ID: e.ID}
	}
	return a, err
}

// wait returns the answer to a question as soon as there is one, or the error of ctx.
func (l *Queue) wait(ctx context.Context, id string) (gate.Answer, error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if a, ok := l.consume(id); ok {
			return a, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return gate.No, ctx.Err()
		}
	}
}

// AskInParallel queues a question that a client is putting to its user at the same
// time, and waits for an answer or for ctx. It removes the question before it
// returns, so the answer is valid for this call only. It implements
// [gate.Gate.AskInParallel].
func (l *Queue) AskInParallel(ctx context.Context, w gate.QueuedQuestion) (gate.Answer, error) {
	w.Binding = "beside " + rand.Text() // unique to this call
	e, err := l.add(w, true)
	if err != nil {
		return gate.No, err
	}
	a, err := l.wait(ctx, e.ID)
	if err != nil {
		l.remove(e.ID)
	}
	return a, err
}

// remove deletes a question and its answer.
func (l *Queue) remove(id string) {
	for _, kind := range []string{questionFile, answerFile, heldFile} {
		os.Remove(l.path(id, kind))
	}
}

// Waiting returns the questions without an answer, oldest first.
func (l *Queue) Waiting() ([]Entry, error) {
	all, err := l.entries()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(e Entry) bool { return e.Answer != "" }), nil
}

// Decide answers the question with the given ID or unique ID prefix. Errors wrap
// [ErrUnknown] if there is no such question, and [ErrAnswered] if it has an answer.
func (l *Queue) Decide(id string, a gate.Answer) (Entry, error) {
	waiting, err := l.Waiting()
	if err != nil {
		return Entry{}, err
	}
	waiting = slices.DeleteFunc(waiting, func(e Entry) bool { return !strings.HasPrefix(e.ID, id) })
	if id == "" || len(waiting) == 0 {
		return Entry{}, fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	if len(waiting) > 1 {
		return Entry{}, fmt.Errorf("%q matches %d ids", id, len(waiting))
	}
	e := waiting[0]
	switch {
	case a == gate.Always && e.Always == "":
		return Entry{}, fmt.Errorf("%s: always is not offered for this question; answer once, session or no", e.ID)
	case a == gate.Session && e.Each:
		return Entry{}, fmt.Errorf("%s: this question must be asked each time; answer once or no", e.ID)
	case a != gate.Once && a != gate.Session && a != gate.Always && a != gate.No:
		return Entry{}, fmt.Errorf("unknown answer %q", a)
	}
	e.Answer, e.Decided = a, time.Now()
	return e, l.answer(e)
}

// add queues a question; parallel is [About.Parallel].
func (l *Queue) add(w gate.QueuedQuestion, parallel bool) (Entry, error) {
	all, err := l.entries()
	if err != nil {
		return Entry{}, err
	}
	if err := l.makeRoom(all, w); err != nil {
		return Entry{}, err
	}
	e := Entry{
		ID:      strings.ToLower(rand.Text()[:8]),
		Binding: w.Binding,
		Seen:    w.Question.Seen,
		Caller:  w.Caller,
		Tool:    w.Question.Action.Tool,
		Asked:   time.Now(),
		Message: l.Format(w.Question),
		Always:  w.Question.AlwaysRule,
		Each:    w.Question.OnceOnly,
		Grants:  w.Question.Grants,
		About:   about(w),
	}
	e.About.Parallel = parallel
	b, err := json.Marshal(e)
	if err != nil {
		return e, err
	}
	return e, atomicfile.Write(l.path(e.ID, questionFile), b, 0o600)
}

// An asker is what has a share of the queue. Clients on stdio have the same name, but not the same workspace.
type asker struct{ caller, workspace string }

// makeRoom returns nil if w may be added to all the entries. If the queue is full, it removes the latest question of
// the asker with the most, unless that has no more than w's asker would have.
func (l *Queue) makeRoom(all []Entry, w gate.QueuedQuestion) error {
	count := map[asker]int{}
	most, latest := 0, ""
	for _, e := range all {
		by := asker{e.Caller, e.About.Workspace}
		if count[by]++; count[by] >= most && e.Answer == "" {
			most, latest = count[by], e.ID
		}
	}
	own := count[asker{w.Caller, w.Workspace}]
	switch {
	case own >= maxPerCaller:
		return fmt.Errorf("%d questions of this caller wait already; see `toolgate approvals list`", own)
	case len(all) < maxPending:
		return nil
	case most <= own+1:
		return fmt.Errorf("the approval queue is full (%d questions); see `toolgate approvals list`", len(all))
	}
	l.remove(latest)
	return nil
}

// consume returns and removes the answer to a question. If several processes wait
// for the answer, only one gets it.
func (l *Queue) consume(id string) (gate.Answer, bool) {
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

// entries returns all live entries, oldest first, and deletes expired ones.
func (l *Queue) entries() ([]Entry, error) {
	names, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, f := range names {
		id, kind, _ := strings.Cut(f.Name(), ".")
		if kind != questionFile {
			l.removeStale(f)
			continue
		}
		e, err := l.read(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // consumed in the meantime
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

// removeStale deletes an old file left behind by a dead process or by an answer that
// came too late.
func (l *Queue) removeStale(f fs.DirEntry) {
	if info, err := f.Info(); err == nil && f.Type().IsRegular() && time.Since(info.ModTime()) > Lifetime {
		os.Remove(filepath.Join(l.dir, f.Name()))
	}
}

// Suffixes of the files of a question. The first always exists.
const (
	questionFile = "json"
	answerFile   = "answer"
	heldFile     = "held"
)

func (l *Queue) path(id, kind string) string { return filepath.Join(l.dir, id+"."+kind) }

func (l *Queue) read(id string) (Entry, error) {
	name := l.path(id, questionFile)
	b, err := fileowner.ReadFile(name)
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
	if b, err := fileowner.ReadFile(l.path(id, heldFile)); err == nil {
		if until, err := time.Parse(time.RFC3339Nano, string(b)); err == nil && time.Now().Before(until) {
			e.Held = until
		}
	}
	return e, nil
}

// A decision is the content of an answer file.
type decision struct {
	Answer  gate.Answer `json:"answer"`
	Decided time.Time   `json:"decided"`
}

// decision returns the answer to a question. A partly written file does not count.
func (l *Queue) decision(id string) (d decision, ok bool) {
	b, err := fileowner.ReadFile(l.path(id, answerFile))
	if err != nil || json.Unmarshal(b, &d) != nil || d.Answer == "" {
		return decision{}, false
	}
	return d, true
}

// answer creates the answer file. The error wraps [ErrAnswered] if it exists.
func (l *Queue) answer(e Entry) error {
	b, err := json.Marshal(decision{e.Answer, e.Decided})
	if err != nil {
		return err
	}
	err = atomicfile.Create(l.path(e.ID, answerFile), b)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", e.ID, ErrAnswered)
	}
	return err
}
