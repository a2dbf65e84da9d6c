package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"toolgate/internal/config"
)

// An answer is what a hook said. The zero value is that it has nothing to say.
type answer struct {
	Blocked       bool
	Allowed       bool   // to a PermissionRequest
	Reason        string // of Blocked
	Context       string // for the model
	UpdatedInput  json.RawMessage
	UpdatedOutput json.RawMessage
}

// exitBlock is the exit code that objects.
const exitBlock = 2

// read returns what the hook said by its exit code and its output. An error
// means that it did not speak the language.
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
		return answer{}, nil // words that are no JSON are for nobody
	}
	if p.overflow {
		return answer{}, fmt.Errorf("it printed more than %d bytes", maxStdout)
	}
	var w hookOutput
	if err := json.Unmarshal(out, &w); err != nil {
		return answer{}, fmt.Errorf("its JSON is not understood: %w", err)
	}
	return w.answer(e)
}

// A hookOutput is a hook's JSON.
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

// A decision is the answer to a PermissionRequest.
type decision struct {
	Behavior           string          `json:"behavior"`
	Message            string          `json:"message"`
	UpdatedInput       json.RawMessage `json:"updatedInput"`
	UpdatedPermissions json.RawMessage `json:"updatedPermissions"`
	Interrupt          bool            `json:"interrupt"`
}

// answer reads the JSON for the event. A word that is not known, or is known
// and cannot be done here, is an error: a hook that meant to restrict
// something must not be without effect.
func (w hookOutput) answer(e config.HookEvent) (answer, error) {
	if w.Specific.Event != "" && w.Specific.Event != string(e) {
		return answer{}, fmt.Errorf("it answered for %s when asked for %s", w.Specific.Event, e)
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
		if w.StopReason == "" {
			w.StopReason = w.Reason
		}
		return block(w.StopReason), nil
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
		return answer{}, errors.New(`permissionDecision "ask" cannot be done here; answer "deny", or leave it to the policy`)
	default:
		return answer{}, fmt.Errorf("unknown permissionDecision %q", w.Specific.PermissionDecision)
	}
	a.UpdatedInput = nonNull(w.Specific.UpdatedInput)
	if a.UpdatedInput != nil && w.Specific.PermissionDecision != "allow" {
		return answer{}, errors.New(`updatedInput counts only with permissionDecision "allow"`)
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
			return answer{}, errors.New("a PermissionRequest hook can allow or deny, and change nothing")
		}
		a.Allowed = true
		return a, nil
	}
	return answer{}, fmt.Errorf("unknown behavior %q", d.Behavior)
}

// nonNull returns v, nil for JSON's null.
func nonNull(v json.RawMessage) json.RawMessage {
	if string(v) == "null" {
		return nil
	}
	return v
}

func block[T string | []byte](reason T) answer {
	return answer{Blocked: true, Reason: reasonText([]byte(reason))}
}

// reasonText returns what a hook wrote for a reader.
func reasonText(b []byte) string {
	s := strings.TrimSpace(strings.ToValidUTF8(string(b), "\uFFFD"))
	if s == "" {
		return "no reason given"
	}
	return cut(s, maxReason)
}

const maxReason = 4 << 10 // bytes
