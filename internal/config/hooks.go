package config

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"toolgate/internal/lazyregexp"
)

// Hooks is [hooks]: the user's own programs around calls, in Codex's tables.
type Hooks struct {
	PreToolUse        []HookGroup `toml:"PreToolUse"`        // before a call is decided
	PostToolUse       []HookGroup `toml:"PostToolUse"`       // after it has run
	PermissionRequest []HookGroup `toml:"PermissionRequest"` // before a person is asked

	// Codex's other events, so that the refusal says why.
	PreModelRequest, PostModelRequest, PreCompact, PostCompact, SessionStart, SessionEnd []any
	UserPromptSubmit, SubagentStart, SubagentStop, Stop, Interrupt                       []any

	State map[string]any `toml:"state"` // Codex's notes on which hooks it trusts; without effect here
}

// HookGroup is one [[hooks.EVENT]]: hooks for the tools that Matcher matches.
type HookGroup struct {
	Matcher string `toml:"matcher"` // see [HookGroup.Matches]
	Hooks   []Hook `toml:"hooks"`
}

// Hook is one [[hooks.EVENT.hooks]]. Its keys are Codex's, and below the line
// ours.
type Hook struct {
	Type                   string  `toml:"type"`    // "command"; Codex's other types are refused
	Command                string  `toml:"command"` // for the shell
	CommandWindows         string  `toml:"commandWindows"`
	Timeout                float64 `toml:"timeout"`                // seconds, default 600
	Async                  bool    `toml:"async"`                  // run beside the call, and nothing it says counts
	StatusMessage          string  `toml:"statusMessage"`          // for the log
	AdditionalContextLimit int     `toml:"additionalContextLimit"` // tokens for the model, default 2500

	// What belongs to the refused types, so that the refusal is about the type.
	Prompt any `toml:"prompt"`
	Model  any `toml:"model"`
	Server any `toml:"server"`
	Tool   any `toml:"tool"`
	Input  any `toml:"input"`

	OnFailure string `toml:"on_failure"` // when the hook breaks: "deny" (default) or "allow" to go on as if it were not there
}

// A HookEvent is when a hook runs.
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

// Matches reports whether the group is for a tool that goes by any of these
// names. As in Codex, no matcher and "*" match all, letters, digits,
// underlines and bars list whole names, and anything else is a regular
// expression that may match anywhere in the name.
func (g HookGroup) Matches(names ...string) bool {
	if g.Matcher == "" || g.Matcher == "*" {
		return true
	}
	if !listOfNames.MatchString(g.Matcher) {
		re, err := regexp.Compile(g.Matcher)
		if err != nil {
			return true // refused when the file was read; a hook too many is the safe side
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

// TimeLimit is how long the hook may run.
func (h Hook) TimeLimit() time.Duration {
	if h.Timeout > 0 {
		return seconds(h.Timeout)
	}
	return 10 * time.Minute
}

// unsupported returns an event of the config that never happens here, ""
// when there is none.
func (h Hooks) unsupported() string {
	for name, groups := range map[string][]any{
		"PreModelRequest": h.PreModelRequest, "PostModelRequest": h.PostModelRequest, "PreCompact": h.PreCompact, "PostCompact": h.PostCompact,
		"SessionStart": h.SessionStart, "SessionEnd": h.SessionEnd, "UserPromptSubmit": h.UserPromptSubmit,
		"SubagentStart": h.SubagentStart, "SubagentStop": h.SubagentStop, "Stop": h.Stop, "Interrupt": h.Interrupt,
	} {
		if groups != nil {
			return name
		}
	}
	return ""
}

// checkHooks refuses what would not run as it reads.
func (c *Config) checkHooks(text []byte, name string) error {
	if event := c.Hooks.unsupported(); event != "" {
		return &Error{File: name, Line: lineWith(text, "hooks."+event), Msg: fmt.Sprintf("hooks.%s never run here: toolgate sees calls of tools, not the conversation", event), Hint: "remove them; the events are PreToolUse, PostToolUse, PermissionRequest"}
	}
	for _, event := range []HookEvent{PreToolUse, PostToolUse, PermissionRequest} {
		for _, g := range c.Hooks.For(event) {
			if _, err := regexp.Compile(g.Matcher); err != nil && g.Matcher != "*" {
				return &Error{File: name, Line: lineOfValue(text, "matcher", g.Matcher), Msg: fmt.Sprintf("%s hook: matcher %q is not a regular expression: %v", event, g.Matcher, err)}
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

// A hookError is an error with the setting to look for in the file.
type hookError struct {
	Error
	key, value string
}

// check returns what is wrong with the hook, nil when nothing is.
func (h Hook) check() *hookError {
	fault := func(key, value, hint, format string, args ...any) *hookError {
		return &hookError{Error: Error{Msg: fmt.Sprintf(format, args...), Hint: hint}, key: key, value: value}
	}
	switch {
	case h.Type == "prompt" || h.Type == "agent" || h.Type == "mcp_tool":
		return fault("type", h.Type, "", "type %q cannot be run here: toolgate has no model and calls no tool on its own; use type \"command\" or remove the hook", h.Type)
	case h.Type != "command":
		return fault("type", h.Type, "type is \"command\"", "unknown type %q", h.Type)
	case strings.TrimSpace(h.Command) == "":
		return fault("type", h.Type, "", "there is no command to run")
	case h.Timeout < 0:
		return fault("timeout", "", "", "timeout is in seconds, and not negative")
	case h.OnFailure != "" && h.OnFailure != "deny" && h.OnFailure != "allow":
		return fault("on_failure", h.OnFailure, "on_failure is one of: deny, allow", "unknown on_failure %q", h.OnFailure)
	}
	return nil
}

// lineWith returns the first line that holds s, 0 when none does.
func lineWith(text []byte, s string) int {
	for i, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, s) {
			return i + 1
		}
	}
	return 0
}

// lineOfValue returns the line that sets key to value, else the first that
// sets key, 0 when none does.
func lineOfValue(text []byte, key, value string) int {
	for i, line := range strings.Split(string(text), "\n") {
		k, v, ok := strings.Cut(line, "=")
		if ok && strings.TrimSpace(k) == key && value != "" && strings.Contains(v, value) {
			return i + 1
		}
	}
	return lineOf(text, key)
}
