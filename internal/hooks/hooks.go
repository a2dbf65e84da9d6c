// Package hooks runs the user's hooks, which are programs that Codex also supports:
// before a call is decided, before a person is asked, and after a call has run.
//
//	set := hooks.New(config.Hooks, hooks.Options{Dir: workspace, Log: log})
//	defer set.Close()
//	set.Install(gate)
//
// A hook gets the call as JSON on stdin. It blocks the call with exit code 2 and a
// reason on stderr, or with JSON on stdout, which can also rewrite the arguments, add
// text for the model, or answer for the person. The hooks of an event run one after the
// other in the order of the config. Each sees the arguments as left by the previous one,
// and the first that blocks ends the sequence.
//
// Unlike in Codex, a hook that crashes, times out or prints invalid JSON blocks the
// call, unless its on_failure is "allow". A hook cannot override the policy: only the
// answer to PermissionRequest replaces a person's.
//
// Hooks run in the workspace, with the gate's environment and outside the sandbox. They
// are configured only in the user's config, never in a workspace. Their PATH contains no
// folder that sandboxed commands can write to, and a hook whose program or script is in
// such a folder does not run.
package hooks

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"toolgate/internal/config"
	"toolgate/internal/gate"
	"toolgate/internal/programs"
	"toolgate/policy"
)

// Options configure a [Set].
type Options struct {
	Dir      string // the workspace
	Approval policy.Approval
	Log      *slog.Logger // nil: nothing is logged
	Check    func() error // an error means that no hook may run now; may be nil

	Programs programs.Finder // where hooks find programs
	// AnyPath allows hooks to name a file by path even if commands can write to it.
	AnyPath bool
}

// A Set is the hooks of a gate. The caller must close it. It may be used concurrently.
type Set struct {
	config  config.Hooks
	opts    Options
	session string

	background sync.WaitGroup
	ctx        context.Context
	cancel     context.CancelFunc
}

// New returns the hooks of c, which must have been validated.
func New(c config.Hooks, o Options) *Set {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	s := &Set{config: c, opts: o, session: rand.Text()[:12]}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Install sets the gate's functions for events that have hooks.
func (s *Set) Install(g *gate.Gate) {
	if len(s.config.PreToolUse) > 0 {
		g.Before = s.Before
	}
	if len(s.config.PreToolUse)+len(s.config.PostToolUse) > 0 {
		g.After = s.After
	}
	if len(s.config.PermissionRequest) > 0 {
		g.AskHook = s.Ask
	}
}

// Close waits up to two seconds for background hooks and then kills them.
func (s *Set) Close() {
	defer time.AfterFunc(closeWait, s.cancel).Stop()
	s.background.Wait()
}

const closeWait = 2 * time.Second

// Before runs the PreToolUse hooks. It may change the call's arguments and add notes.
// It implements [gate.Gate.Before].
func (s *Set) Before(ctx context.Context, c *gate.Call) error {
	current := func() view { return viewOf(*c) }
	return s.each(ctx, config.PreToolUse, current, func(h config.Hook, v view, a answer) error {
		if a.Blocked {
			return &gate.RefusedError{Reason: "blocked by a PreToolUse hook: " + a.Reason}
		}
		if a.Context != "" {
			c.Notes = append(c.Notes, a.Context)
		}
		if a.UpdatedInput == nil {
			return nil
		}
		args, err := v.rewrite(a.UpdatedInput)
		if err != nil {
			return s.fail(config.PreToolUse, h, err)
		}
		c.Arguments = args
		return nil
	})
}

// Ask runs the PermissionRequest hooks. A hook that denies wins over one that allows.
// It implements [gate.Gate.AskHook].
func (s *Set) Ask(ctx context.Context, c gate.Call, q gate.Question) (gate.Answer, bool, error) {
	allowed := false
	current := func() view {
		v := viewOf(c)
		v.input["description"] = cmp.Or(q.Action.Justification, q.Reason) // what a person would see
		return v
	}
	err := s.each(ctx, config.PermissionRequest, current, func(_ config.Hook, _ view, a answer) error {
		if a.Blocked {
			return &gate.RefusedError{
				Reason: "a PermissionRequest hook said no: " + a.Reason,
				Hint:   "do not try it again in another way",
			}
		}
		allowed = allowed || a.Allowed
		return nil
	})
	if err != nil || !allowed {
		return gate.No, err != nil, err
	}
	return gate.Once, true, nil
}

// After runs the PostToolUse hooks, which may add text or replace the result, and then
// appends the notes of all hooks. It implements [gate.Gate.After].
func (s *Set) After(ctx context.Context, c gate.Call, out *gate.Outcome) error {
	notes := slices.Clone(c.Notes)
	current := func() view {
		v := viewOf(c)
		v.response = response(c, *out)
		return v
	}
	err := s.each(ctx, config.PostToolUse, current, func(_ config.Hook, _ view, a answer) error {
		if a.Blocked {
			return &gate.RefusedError{Reason: a.Reason}
		}
		if a.UpdatedOutput != nil {
			updated, err := resultOf(c, a.UpdatedOutput)
			if err != nil {
				return &gate.RefusedError{Reason: err.Error()}
			}
			out.Result = updated
		}
		if a.Context != "" {
			notes = append(notes, a.Context)
		}
		return nil
	})
	if no, ok := errors.AsType[*gate.RefusedError](err); ok {
		// The model must know that the call has run.
		why := "the call has run, and a PostToolUse hook keeps its output back: " + no.Reason
		if c.Action.Request { // its result cannot express an error
			return &gate.RefusedError{Reason: why}
		}
		out.Result = marshal(map[string]any{"content": []textContent{text(why)}, "isError": true})
		out.IsError, out.Denied = true, nil
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range notes {
		if out.Result, err = appendText(c, out.Result, n); err != nil {
			return fmt.Errorf("adding a hook's text to the result: %w", err)
		}
	}
	return nil
}

// each runs the event's hooks that match the call, in order, and passes their answers
// to use until it returns an error. Async hooks run in the background, and their answers
// are ignored.
func (s *Set) each(
	ctx context.Context, e config.HookEvent, current func() view, use func(config.Hook, view, answer) error,
) error {
	names := current().names
	for _, g := range s.config.For(e) {
		if !g.Matches(names...) {
			continue
		}
		for _, h := range g.Hooks {
			v := current()
			in, err := s.stdin(e, v)
			if err != nil {
				return err
			}
			if h.Async {
				s.background.Go(func() { // ends with the hook, or with Close
					if _, err := s.run(s.ctx, h, in); err != nil && s.ctx.Err() == nil {
						s.opts.Log.Warn("hook failed", "event", e, "command", h.Command, "err", err)
					}
				})
				continue
			}
			a, err := s.ask(ctx, e, h, in)
			if err != nil {
				return err
			}
			if err := use(h, v, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask runs one hook and returns its answer. If the hook fails, the error is a
// *[gate.RefusedError], or nil if the config says so.
func (s *Set) ask(ctx context.Context, e config.HookEvent, h config.Hook, in []byte) (answer, error) {
	if h.StatusMessage != "" {
		s.opts.Log.Info(h.StatusMessage, "event", e)
	}
	got, err := s.run(ctx, h, in)
	if ctx.Err() != nil {
		return answer{}, context.Cause(ctx)
	}
	var a answer
	if err == nil {
		a, err = read(e, got)
	}
	if err != nil {
		return answer{}, s.fail(e, h, err)
	}
	limit := h.AdditionalContextLimit
	if limit <= 0 {
		limit = defaultContextTokens
	}
	a.Context = cut(a.Context, limit*bytesPerToken)
	return a, nil
}

const (
	defaultContextTokens = 2500
	bytesPerToken        = 4
)

// fail logs that a hook failed, and returns the error for the call.
func (s *Set) fail(e config.HookEvent, h config.Hook, why error) error {
	s.opts.Log.Warn("hook failed", "event", e, "command", h.Command, "on_failure", h.OnFailure, "err", why)
	if h.OnFailure == "allow" {
		return nil
	}
	return &gate.RefusedError{
		Reason: fmt.Sprintf("a %s hook of the user's failed, which counts as no: %v", e, why),
		Hint:   `only the user can fix it, or set on_failure = "allow" for it`,
	}
}

// stdin returns the JSON that a hook gets, in Codex's schema.
func (s *Set) stdin(e config.HookEvent, v view) ([]byte, error) {
	mode := "default"
	if s.opts.Approval == policy.Never {
		mode = "bypassPermissions"
	}
	in, err := json.Marshal(struct {
		Session    string           `json:"session_id"`
		Turn       string           `json:"turn_id"`
		Transcript *string          `json:"transcript_path"`
		Dir        string           `json:"cwd"`
		Event      config.HookEvent `json:"hook_event_name"`
		Model      string           `json:"model"`
		Mode       string           `json:"permission_mode"`
		Tool       string           `json:"tool_name"`
		Input      map[string]any   `json:"tool_input"`
		Response   any              `json:"tool_response,omitempty"`
		ID         string           `json:"tool_use_id"`
	}{
		Session: s.session + "-" + v.caller, Turn: v.id, Dir: s.opts.Dir, Event: e, Mode: mode,
		Tool: v.names[0], Input: v.input, Response: v.response, ID: v.id,
	})
	if err != nil {
		return nil, &gate.RefusedError{Reason: "encoding its arguments for a hook: " + err.Error()}
	}
	return in, nil
}

// cut truncates text to n bytes and appends a note.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + fmt.Sprintf("\n[%d bytes of the hook's text left out]", len(text)-n)
}
