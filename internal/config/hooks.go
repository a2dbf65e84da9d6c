package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
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
	groups := map[HookEvent][]HookGroup{
		PreToolUse: h.PreToolUse, PostToolUse: h.PostToolUse, PermissionRequest: h.PermissionRequest,
	}
	return groups[e]
}

// Matches reports whether the group is for a tool with any of these names. As in Codex, an
// empty matcher and "*" match all tools, a matcher of letters, digits, underscores and
// bars is a list of full names, and anything else is an unanchored regular expression.
func (g HookGroup) Matches(names ...string) bool {
	if g.Matcher == "" || g.Matcher == "*" {
		return true
	}
	if listOfNames.MatchString(g.Matcher) {
		wanted := strings.Split(g.Matcher, "|")
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(wanted, n) })
	}
	re, err := regexp.Compile(g.Matcher)
	if err != nil {
		return true // rejected by Load; running a hook is the safe default
	}
	return slices.ContainsFunc(names, re.MatchString)
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
	for field, v := range reflect.ValueOf(h).Fields() {
		if groups, ok := v.Interface().([]any); ok && groups != nil {
			return field.Name
		}
	}
	return ""
}

// checkHooks rejects hooks that would never run or fail to run.
func (c *Config) checkHooks(src source) error {
	if event := c.Hooks.unsupported(); event != "" {
		name := "hooks." + event
		line := src.find(func(s setting) bool { return strings.Contains(s.table+" "+s.key, name) })
		return src.fault(line, name+" never run here: toolgate sees tool calls, not the conversation",
			"remove them; the events are PreToolUse, PostToolUse, PermissionRequest")
	}
	for _, event := range []HookEvent{PreToolUse, PostToolUse, PermissionRequest} {
		for _, g := range c.Hooks.For(event) {
			if _, err := regexp.Compile(g.Matcher); err != nil && g.Matcher != "*" {
				msg := fmt.Sprintf("%s hook: matcher %q is not a regular expression: %v", event, g.Matcher, err)
				return src.fault(src.lineOfValue("matcher", g.Matcher), msg, "")
			}
			for _, h := range g.Hooks {
				if key, value, msg, hint := h.check(); msg != "" {
					return src.fault(src.lineOfValue(key, value), fmt.Sprintf("%s hook: %s", event, msg), hint)
				}
			}
		}
	}
	return nil
}

// check returns what is wrong with the hook and the setting to locate in the file; msg is "" if there is nothing.
func (h Hook) check() (key, value, msg, hint string) {
	switch {
	case h.Type == "prompt" || h.Type == "agent" || h.Type == "mcp_tool":
		return "type", h.Type, fmt.Sprintf("type %q cannot be run here: toolgate has no model "+
			"and calls no tools itself; use type \"command\" or remove the hook", h.Type), ""
	case h.Type != "command":
		return "type", h.Type, fmt.Sprintf("unknown type %q", h.Type), "type is \"command\""
	case strings.TrimSpace(h.Command) == "":
		return "type", h.Type, "there is no command to run", ""
	case h.Timeout < 0:
		return "timeout", "", "timeout is in seconds, and must not be negative", ""
	case h.OnFailure != "" && h.OnFailure != "deny" && h.OnFailure != "allow":
		return "on_failure", h.OnFailure, fmt.Sprintf("unknown on_failure %q", h.OnFailure),
			"on_failure is one of: deny, allow"
	}
	return "", "", "", ""
}
