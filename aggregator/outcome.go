package aggregator

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// Run runs the call of a built-in tool under profile f, or under the profile of the
// session that the call continues. It is a [gate.RunFunc].
func (w *Workers) Run(ctx context.Context, c gate.Call, f policy.Profile) (gate.Outcome, error) {
	if opened, ok := w.SessionProfile(c.Caller, c.Action.Session); ok {
		f = opened
	}
	res, ran, wk, err := w.call(ctx, c, f)
	if err != nil {
		return ran, err
	}
	defer w.release(wk)
	out, session, err := outcome(res)
	out.Level, out.Hosts, out.Notes = ran.Level, ran.Hosts, ran.Notes
	if err == nil && len(out.Notes) > 0 && !c.Action.ReadOnly {
		out.Result = AddText(out.Result, "Sandbox: "+strings.Join(out.Notes, "\n"))
	}
	w.recordSession(c, session, wk)
	return out, err
}

// AddText returns the CallToolResult res with another text at the end of its content.
func AddText(res json.RawMessage, text string) json.RawMessage {
	all, err := rawjson.Parse(res)
	if err != nil {
		return res
	}
	var content []json.RawMessage
	if json.Unmarshal(all.Get("content"), &content) != nil {
		return res
	}
	item := rawjson.Object{
		{Key: "type", Value: rawjson.Quote("text")},
		{Key: "text", Value: rawjson.Quote(text)},
	}
	list, err := json.Marshal(append(content, item.Bytes()))
	if err != nil {
		return res
	}
	all.Set("content", list)
	return all.Bytes()
}

// maxSessions limits the remembered sessions. It is far above what the workers keep,
// so sessions that are forgotten have ended.
const maxSessions = 10_000

// SessionProfile returns the profile of a caller's session.
func (w *Workers) SessionProfile(caller, session string) (policy.Profile, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wk, ok := w.sessions[caller+"\x00"+session]
	if !ok {
		return policy.Profile{}, false
	}
	return wk.profile, true
}

// outcome reads a CallToolResult: whether it is an error, what the sandbox denied,
// and the session that the call left running. It removes the worker's notes on the
// latter two from _meta and changes nothing else.
func outcome(res json.RawMessage) (out gate.Outcome, session string, err error) {
	var r struct {
		IsError bool `json:"isError"`
	}
	if err := rawjson.Unmarshal(res, &r); err != nil {
		return out, "", fmt.Errorf("the backend's answer is not a tool result: %w", err)
	}
	out = gate.Outcome{Result: res, IsError: r.IsError}
	if !rawjson.Mentions(res, policy.DeniedKey) && !rawjson.Mentions(res, policy.SessionKey) {
		return out, "", nil
	}
	all, err := rawjson.Parse(res)
	if err != nil {
		return out, "", nil
	}
	meta, err := rawjson.Parse(all.Get("_meta"))
	if err != nil {
		return out, "", nil // the keys occur in a text, not in _meta
	}
	for key, into := range map[string]any{policy.DeniedKey: &out.Denied, policy.SessionKey: &session} {
		note := meta.Get(key)
		if note == nil {
			continue
		}
		if err := json.Unmarshal(note, into); err != nil {
			return out, "", fmt.Errorf("reading the worker's note: %w", err)
		}
	}
	meta.Delete(policy.DeniedKey, policy.SessionKey)
	all.SetObject("_meta", meta)
	out.Result = all.Bytes()
	return out, session, nil
}
