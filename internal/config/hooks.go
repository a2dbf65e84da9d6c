package config

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"toolgate/internal/lazyregexp"
)

// Hooks is [hooks]: programs that run before and after calls, in Codex's schema.
type Hooks struct {
	PreToolUse        []HookGroup `toml:"PreToolUse"`        // before a call is decided
	PostToolUse       []HookGroup `toml:"PostToolUse"`       // after it has run
	PermissionRequest []HookGroup `toml:"PermissionRequest"` // before a person is asked

	// Codex's other events, decoded for a better error message.
	PreModelRequest, PostModelRequest, PreCompact, PostCompact, SessionStart, SessionEnd []any
	UserPromptSubmit, SubagentStart, SubagentStop, Stop, Interrupt                       []any

	State map[string]any `toml:"state"` // the hooks that Codex trusts; ignored
}

// HookGroup is one [[hooks.EVENT]]: hooks for the tools that Matcher matches.
type HookGroup struct {
	Matcher string `toml:"matcher"` // see [HookGroup.Matches]
	Hooks   []Hook `toml:"hooks"`
}

// Hook is one [[hooks.EVENT.hooks]]. The keys are Codex's, except for on_failure.
type Hook struct {
	Type                   string  `toml:"type"`    // "command"; Codex's other types are rejected
	Command                string  `toml:"command"` // for the shell
	CommandWindows         string  `toml:"commandWindows"`
	Timeout                float64 `toml:"timeout"`                // seconds, default 600
	Async                  bool    `toml:"async"`                  // run in the background and ignore the answer
	StatusMessage          string  `toml:"statusMessage"`          // for the log
	AdditionalContextLimit int     `toml:"additionalContextLimit"` // tokens for the model, default 2500

	// Keys of the rejected types, decoded so that the error is about the type.
	Prompt any `toml:"prompt"`
	Model  any `toml:"model"`
	Server any `toml:"server"`
	Tool   any `toml:"tool"`
	Input  any `toml:"input"`

	OnFailure string `toml:"on_failure"` // if the hook fails: "deny" (default) or "allow", which ignores it
}

// A HookEvent is an event that hooks run on.
type HookEvent string

const (
	PreToolUse        HookEvent = "PreToolUse"
	PostToolUse       HookEvent = "PostToolUse"
	PermissionRequest HookEvent = "PermissionRequest"
)

// For returns the groups of the event.
func (h Hooks) For(e HookEvent) []HookGroup {
	switch e {
	case PreToolUse:
		return h.PreToolUse
	case PostToolUse:
		return h.PostToolUse
	case PermissionRequest:
		return h.PermissionRequest
	}
	return nil
}

// Matches reports whether the group is for a tool with any of these names. As in Codex, an
// empty matcher and "*" match all tools, a matcher of letters, digits, underscores and
// bars is a list of full names, and anything else is an unanchored regular expression.
func (g HookGroup) Matches(names ...string) bool {
	if g.Matcher == "" || g.Matcher == "*" {
		return true
	}
	if !listOfNames.MatchString(g.Matcher) {
		re, err := regexp.Compile(g.Matcher)
		if err != nil {
			return true // rejected by Load; running a hook is the safe default
		}
		for _, n := range names {
			if re.MatchString(n) {
				return true
			}
		}
		return false
	}
	for want := range strings.SplitSeq(g.Matcher, "|") {
		for _, n := range names {
			if n == want {
				return true
			}
		}
	}
	return false
}

var listOfNames = lazyregexp.New(`^[A-Za-z0-9_|]+$`)

// TimeLimit returns how long the hook may run.
func (h Hook) TimeLimit() time.Duration {
	if h.Timeout > 0 {
		return seconds(h.Timeout)
	}
	return 10 * time.Minute
}

// unsupported returns a configured event that toolgate does not have, or "".
func (h Hooks) unsupported() string {
	for name, groups := range map[string][]any{
		"PreModelRequest": h.PreModelRequest, "PostModelRequest": h.PostModelRequest,
		"PreCompact": h.PreCompact, "PostCompact": h.PostCompact,
		"SessionStart": h.SessionStart, "SessionEnd": h.SessionEnd, "UserPromptSubmit": h.UserPromptSubmit,
		"SubagentStart": h.SubagentStart, "SubagentStop": h.SubagentStop, "Stop": h.Stop, "Interrupt": h.Interrupt,
	} {
		if groups != nil {
			return name
		}
	}
	return ""
}

// checkHooks rejects hooks that would never run or fail to run.
func (c *Config) checkHooks(text []byte, name string) error {
	if event := c.Hooks.unsupported(); event != "" {
		return &Error{
			File: name, Line: lineWith(text, "hooks."+event),
			Msg:  fmt.Sprintf("hooks.%s never run here: toolgate sees tool calls, not the conversation", event),
			Hint: "remove them; the events are PreToolUse, PostToolUse, PermissionRequest",
		}
	}
	for _, event := range []HookEvent{PreToolUse, PostToolUse, PermissionRequest} {
		for _, g := range c.Hooks.For(event) {
			if _, err := regexp.Compile(g.Matcher); err != nil && g.Matcher != "*" {
				return &Error{
					File: name, Line: lineOfValue(text, "matcher", g.Matcher),
					Msg: fmt.Sprintf("%s hook: matcher %q is not a regular expression: %v", event, g.Matcher, err),
				}
			}
			for _, h := range g.Hooks {
				if e := h.check(); e != nil {
					e.File, e.Msg = name, fmt.Sprintf("%s hook: %s", event, e.Msg)
					e.Line = lineOfValue(text, e.key, e.value)
					return &e.Error
				}
			}
		}
	}
	return nil
}

// A hookError is an error with the setting to locate in the file.
type hookError struct {
	Error
	key, value string
}

// check returns what is wrong with the hook, or nil.
func (h Hook) check() *hookError {
	fault := func(key, value, hint, format string, args ...any) *hookError {
		return &hookError{Error: Error{Msg: fmt.Sprintf(format, args...), Hint: hint}, key: key, value: value}
	}
	switch {
	case h.Type == "prompt" || h.Type == "agent" || h.Type == "mcp_tool":
		return fault("type", h.Type, "", "type %q cannot be run here: toolgate has no model "+
			"and calls no tools itself; use type \"command\" or remove the hook", h.Type)
	case h.Type != "command":
		return fault("type", h.Type, "type is \"command\"", "unknown type %q", h.Type)
	case strings.TrimSpace(h.Command) == "":
		return fault("type", h.Type, "", "there is no command to run")
	case h.Timeout < 0:
		return fault("timeout", "", "", "timeout is in seconds, and must not be negative")
	case h.OnFailure != "" && h.OnFailure != "deny" && h.OnFailure != "allow":
		hint := "on_failure is one of: deny, allow"
		return fault("on_failure", h.OnFailure, hint, "unknown on_failure %q", h.OnFailure)
	}
	return nil
}

// lineWith returns the first line that contains s, or 0.
func lineWith(text []byte, s string) int {
	for i, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, s) {
			return i + 1
		}
	}
	return 0
}

// lineOfValue returns the line that sets key to value, else the first line that sets key,
// or 0.
func lineOfValue(text []byte, key, value string) int {
	for i, line := range strings.Split(string(text), "\n") {
		k, v, ok := strings.Cut(line, "=")
		if ok && strings.TrimSpace(k) == key && value != "" && strings.Contains(v, value) {
			return i + 1
		}
	}
	return lineOf(text, key)
}
