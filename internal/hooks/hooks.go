// Package hooks runs the user's own programs around calls, as Codex does:
// before a call is decided, before a person is asked, and after a run.
//
//	set := hooks.New(config.Hooks, hooks.Options{Dir: workspace, Log: log})
//	defer set.Close()
//	set.Install(gate)
//
// A hook is told of the call by JSON on its stdin. It objects with exit code 2
// and a reason on stderr, or with JSON on stdout, which can also rewrite the
// arguments, add text for the model and answer for the person. Hooks of one
// event run one after the other in the config's order; each sees the arguments
// as the one before left them, and the first that objects ends it.
//
// Unlike Codex's, a hook that breaks, runs out of time or answers with JSON
// that is not understood counts as an objection, unless its on_failure is
// "allow". What a hook allows, the policy still decides: only the answer to
// PermissionRequest takes the place of a person's.
//
// Hooks run in the workspace, with the gate's environment and outside the
// sandbox: they come from the user's config alone, never from a workspace. Nor
// do their programs: PATH has no folder that commands in the sandbox can write,
// and a command that names a program or script there does not run.
package hooks

import (
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

// Options say where hooks run and what they are told.
type Options struct {
	Dir      string // the workspace
	Approval policy.Approval
	Log      *slog.Logger // nil: nothing is logged
	Check    func() error // why no hook may run now; may be nil

	Programs programs.Finder // where hooks find programs
	// AnyPath lets a hook name by its path a file that commands can write.
	AnyPath bool
}

// A Set is the hooks of a gate. Close it. It may be used concurrently.
type Set struct {
	config  config.Hooks
	opts    Options
	session string

	background sync.WaitGroup
	ending     context.Context
	end        context.CancelFunc
}

// New returns the hooks of c, which has been checked when it was read.
func New(c config.Hooks, o Options) *Set {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Set{config: c, opts: o, session: rand.Text()[:12]}
	s.ending, s.end = context.WithCancel(context.Background())
	return s
}

// Install gives the gate the functions for which there are hooks.
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

// Close waits a little for the hooks that run in the background, and ends
// those that take longer.
func (s *Set) Close() {
	defer time.AfterFunc(endWait, s.end).Stop()
	s.background.Wait()
}

const endWait = 2 * time.Second

// Before runs the PreToolUse hooks. It may change the call's arguments and
// add to its notes. It is a [policy.Gate]'s Before.
func (s *Set) Before(ctx context.Context, c *gate.Call) error {
	look := func() view { return see(*c) }
	return s.each(ctx, config.PreToolUse, look, func(h config.Hook, v view, a answer) error {
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
			return s.failed(config.PreToolUse, h, err)
		}
		c.Arguments = args
		return nil
	})
}

// Ask runs the PermissionRequest hooks. One that says no is the answer, else
// one that says yes. It is a [policy.Gate]'s AskHook.
func (s *Set) Ask(ctx context.Context, c gate.Call, q gate.Question) (gate.Answer, bool, error) {
	allowed := false
	look := func() view { return see(c).described(q) }
	err := s.each(ctx, config.PermissionRequest, look, func(_ config.Hook, _ view, a answer) error {
		if a.Blocked {
			return &gate.RefusedError{Reason: "a PermissionRequest hook said no: " + a.Reason, Hint: "do not try it again in another way"}
		}
		allowed = allowed || a.Allowed
		return nil
	})
	if err != nil || !allowed {
		return gate.No, err != nil, err
	}
	return gate.Once, true, nil
}

// After adds the notes of the PreToolUse hooks to what the run gave, and runs
// the PostToolUse hooks, which may add text or put their own in its place. It
// is a [policy.Gate]'s After.
func (s *Set) After(ctx context.Context, c gate.Call, out *gate.Outcome) error {
	notes := slices.Clone(c.Notes)
	look := func() view { return see(c).ran(c, *out) }
	err := s.each(ctx, config.PostToolUse, look, func(_ config.Hook, _ view, a answer) error {
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
		// The call has run: that must not be lost with its output.
		why := "the call has run, and a PostToolUse hook keeps its output back: " + no.Reason
		if c.Action.Request { // its result has no form for an error
			return &gate.RefusedError{Reason: why}
		}
		out.Result = errorResult(why)
		out.IsError, out.Denied = true, nil
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range notes {
		if out.Result, err = appendText(c, out.Result, n); err != nil {
			return fmt.Errorf("adding a hook's words to the result: %w", err)
		}
	}
	return nil
}

// each asks the hooks of the event that are for the call's tool, in order,
// and hands their answers to use, until one of it errs. look shows the call
// as it is by then. Hooks that are async run on their own.
func (s *Set) each(ctx context.Context, e config.HookEvent, look func() view, use func(config.Hook, view, answer) error) error {
	names := look().names()
	for _, g := range s.config.For(e) {
		if !g.Matches(names...) {
			continue
		}
		for _, h := range g.Hooks {
			v := look()
			in, err := s.stdin(e, v)
			if err != nil {
				return err
			}
			if h.Async {
				s.inBackground(e, h, in)
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

// inBackground runs a hook whose answer does not count.
func (s *Set) inBackground(e config.HookEvent, h config.Hook, in []byte) {
	s.background.Go(func() { // ends with the hook, or with Close
		if _, err := s.run(s.ending, h, in); err != nil && s.ending.Err() == nil {
			s.opts.Log.Warn("hook failed", "event", e, "command", h.Command, "err", err)
		}
	})
}

// ask runs one hook and reads its answer. What goes wrong is a
// *[policy.RefusedError], or nothing where the config says so.
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
		return answer{}, s.failed(e, h, err)
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

// failed is what a hook that broke does to the call.
func (s *Set) failed(e config.HookEvent, h config.Hook, why error) error {
	s.opts.Log.Warn("hook failed", "event", e, "command", h.Command, "on_failure", h.OnFailure, "err", why)
	if h.OnFailure == "allow" {
		return nil
	}
	return &gate.RefusedError{
		Reason: fmt.Sprintf("a %s hook of the user's failed, which counts as no: %v", e, why),
		Hint:   `only the user can mend it, or set on_failure = "allow" for it`,
	}
}

// stdin is what a hook is told, in Codex's words.
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
		Tool: v.name, Input: v.input, Response: v.response, ID: v.id,
	})
	if err != nil {
		return nil, &gate.RefusedError{Reason: "its arguments cannot be shown to a hook: " + err.Error()}
	}
	return in, nil
}

// cut shortens text to n bytes and says so.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + fmt.Sprintf("\n[%d bytes of the hook's words left out]", len(text)-n)
}
