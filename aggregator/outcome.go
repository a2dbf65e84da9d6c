package aggregator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"toolgate/policy"
)

// Run runs a built-in tool's call under f. It is a [policy.RunFunc].
func (w *Workers) Run(ctx context.Context, c policy.Call, f policy.Profile) (policy.Outcome, error) {
	res, level, err := w.Call(ctx, c.Caller, f, c.Action.Tool, c.Arguments, c.Progress)
	if err != nil {
		return policy.Outcome{Level: level}, err
	}
	out, err := outcome(res)
	out.Level = level
	return out, err
}

// outcome reads what the gate must know of a CallToolResult: whether it is an
// error and what the sandbox refused. The note about the latter is taken out;
// nothing else is touched.
func outcome(res json.RawMessage) (policy.Outcome, error) {
	var r struct {
		IsError bool `json:"isError"`
	}
	if err := json.Unmarshal(res, &r); err != nil {
		return policy.Outcome{}, fmt.Errorf("the backend's answer is no tool result: %w", err)
	}
	out := policy.Outcome{Result: res, IsError: r.IsError}
	if !bytes.Contains(res, []byte(policy.DeniedKey)) {
		return out, nil
	}
	var all, meta map[string]json.RawMessage
	if json.Unmarshal(res, &all) != nil || json.Unmarshal(all["_meta"], &meta) != nil {
		return out, nil // the words stand in a text, not in _meta
	}
	note, ok := meta[policy.DeniedKey]
	if !ok {
		return out, nil
	}
	if err := json.Unmarshal(note, &out.Denied); err != nil {
		return out, fmt.Errorf("reading the worker's note: %w", err)
	}
	delete(meta, policy.DeniedKey)
	delete(all, "_meta")
	if len(meta) > 0 {
		all["_meta"] = object(meta).bytes()
	}
	out.Result = object(all).bytes()
	return out, nil
}
