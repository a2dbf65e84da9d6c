package hooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"toolgate/internal/config"
)

// An answer is the result of a hook. The zero value changes nothing.
type answer struct {
	Blocked       bool
	Allowed       bool   // by a PermissionRequest hook
	Reason        string // of Blocked
	Context       string // text for the model
	UpdatedInput  json.RawMessage
	UpdatedOutput json.RawMessage
}

// exitBlock is the exit code of a hook that blocks the call.
const exitBlock = 2

// read parses the answer from a hook's exit code and output.
func read(e config.HookEvent, p output) (answer, error) {
	switch p.code {
	case 0:
	case exitBlock:
		return block(p.stderr), nil
	default:
		return answer{}, fmt.Errorf("exit code %d: %s", p.code, reasonText(p.stderr))
	}
	out := bytes.TrimSpace(p.stdout)
	if len(out) == 0 || out[0] != '{' && out[0] != '[' {
		return answer{}, nil // other output is ignored
	}
	if p.overflow {
		return answer{}, fmt.Errorf("it printed more than %d bytes", maxStdout)
	}
	var w hookOutput
	if err := json.Unmarshal(out, &w); err != nil {
		return answer{}, fmt.Errorf("invalid JSON: %w", err)
	}
	return w.answer(e)
}

// A hookOutput is the JSON that a hook prints.
type hookOutput struct {
	Continue   *bool  `json:"continue"`
	StopReason string `json:"stopReason"`
	Decision   string `json:"decision"`
	Reason     string `json:"reason"`

	Specific struct {
		Event              string          `json:"hookEventName"`
		PermissionDecision string          `json:"permissionDecision"`
		PermissionReason   string          `json:"permissionDecisionReason"`
		UpdatedInput       json.RawMessage `json:"updatedInput"`
		Context            string          `json:"additionalContext"`
		Decision           *decision       `json:"decision"`
		UpdatedOutput      json.RawMessage `json:"updatedToolOutput"`
		UpdatedMCPOutput   json.RawMessage `json:"updatedMCPToolOutput"`
	} `json:"hookSpecificOutput"`
}

// A decision is the part of a [hookOutput] that answers a PermissionRequest.
type decision struct {
	Behavior           string          `json:"behavior"`
	Message            string          `json:"message"`
	UpdatedInput       json.RawMessage `json:"updatedInput"`
	UpdatedPermissions json.RawMessage `json:"updatedPermissions"`
	Interrupt          bool            `json:"interrupt"`
}

// answer interprets the JSON for the event. An unknown or unsupported value is an
// error, because a hook that is meant to restrict something must not be ignored.
func (w hookOutput) answer(e config.HookEvent) (answer, error) {
	if w.Specific.Event != "" && w.Specific.Event != string(e) {
		return answer{}, fmt.Errorf("hookEventName is %s, but the event is %s", w.Specific.Event, e)
	}
	a := answer{Context: w.Specific.Context}
	switch w.Decision {
	case "", "approve", "allow":
	case "block", "deny":
		return block(w.Reason), nil
	default:
		return answer{}, fmt.Errorf("unknown decision %q", w.Decision)
	}
	if w.Continue != nil && !*w.Continue {
		return block(cmp.Or(w.StopReason, w.Reason)), nil
	}
	switch e {
	case config.PreToolUse:
		return w.preToolUse(a)
	case config.PermissionRequest:
		return w.permissionRequest(a)
	}
	if a.UpdatedOutput = nonNull(w.Specific.UpdatedOutput); a.UpdatedOutput == nil {
		a.UpdatedOutput = nonNull(w.Specific.UpdatedMCPOutput)
	}
	return a, nil
}

func (w hookOutput) preToolUse(a answer) (answer, error) {
	switch w.Specific.PermissionDecision {
	case "", "allow":
	case "deny":
		return block(w.Specific.PermissionReason), nil
	case "ask":
		return answer{}, errors.New(
			`permissionDecision "ask" is not supported; answer "deny" or leave it to the policy`)
	default:
		return answer{}, fmt.Errorf("unknown permissionDecision %q", w.Specific.PermissionDecision)
	}
	a.UpdatedInput = nonNull(w.Specific.UpdatedInput)
	if a.UpdatedInput != nil && w.Specific.PermissionDecision != "allow" {
		return answer{}, errors.New(`updatedInput requires permissionDecision "allow"`)
	}
	return a, nil
}

func (w hookOutput) permissionRequest(a answer) (answer, error) {
	d := w.Specific.Decision
	if d == nil {
		return a, nil
	}
	switch d.Behavior {
	case "deny":
		return block(d.Message), nil
	case "allow":
		if nonNull(d.UpdatedInput) != nil || nonNull(d.UpdatedPermissions) != nil || d.Interrupt {
			return answer{}, errors.New("a PermissionRequest hook can only allow or deny, not change the call")
		}
		a.Allowed = true
		return a, nil
	}
	return answer{}, fmt.Errorf("unknown behavior %q", d.Behavior)
}

// nonNull returns v, or nil if it is null.
func nonNull(v json.RawMessage) json.RawMessage {
	if string(v) == "null" {
		return nil
	}
	return v
}

func block[T string | []byte](reason T) answer {
	return answer{Blocked: true, Reason: reasonText([]byte(reason))}
}

// reasonText returns the text that a hook wrote, shortened.
func reasonText(b []byte) string {
	s := strings.TrimSpace(strings.ToValidUTF8(string(b), "\uFFFD"))
	if s == "" {
		return "no reason given"
	}
	return cut(s, maxReason)
}

const maxReason = 4 << 10 // bytes
