package audit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"toolgate/internal/gate"
)

// A prepared is the beginning of an event's line, up to the fields that are only known
// when the call ends.
type prepared struct {
	event gate.Event
	head  []byte
}

// emptyTail is the end of the line of an event without results.
const emptyTail = `,"outcome":"","duration_ns":0,"bytes":0}` + "\n"

// Prepare encodes the first part of an event while its call is still running. Record
// finds it in the event. It implements [gate.Gate.Prepare].
func (l *Log) Prepare(e gate.Event) any {
	e.Level, e.Denied, e.Hosts = "", nil, nil
	e.Outcome, e.Error, e.Bytes = "", "", 0
	e.Duration, e.Waited, e.Running = 0, 0, 0
	e.Prepared = nil
	head, ok := bytes.CutSuffix(encode(e), []byte(emptyTail))
	if !ok {
		return nil
	}
	return &prepared{event: e, head: slices.Grow(head, 200)}
}

// lineOf returns the line for an event. It completes the prepared part if that is still
// valid and the rest is simple.
func lineOf(e gate.Event) []byte {
	p, ok := e.Prepared.(*prepared)
	if !ok || p == nil || e.Denied != nil || len(e.Hosts) > 0 || e.Error != "" || !p.matches(e) {
		return encode(e)
	}
	b := p.head
	if e.Level != "" {
		b = appendString(b, "level", e.Level)
	}
	b = appendString(b, "outcome", e.Outcome)
	b = appendNumber(b, "duration_ns", int64(e.Duration))
	if e.Waited != 0 {
		b = appendNumber(b, "waited_ns", int64(e.Waited))
	}
	if e.Running != 0 {
		b = appendNumber(b, "run_ns", int64(e.Running))
	}
	b = appendNumber(b, "bytes", int64(e.Bytes))
	return append(b, "}\n"...)
}

// matches reports whether the prepared part is valid for e. A gate changes neither the
// arguments nor the action of a running call.
func (p *prepared) matches(e gate.Event) bool {
	o := p.event
	return o.Time.Equal(e.Time) && o.ID == e.ID && o.Caller == e.Caller && o.Server == e.Server && o.Tool == e.Tool &&
		o.Verdict == e.Verdict && o.Rule == e.Rule && o.Reason == e.Reason &&
		o.Asked == e.Asked && o.AnsweredBy == e.AnsweredBy && o.AnsweredAt.Equal(e.AnsweredAt) &&
		o.Profile == e.Profile && o.ProfileDigest == e.ProfileDigest
}

func appendString(b []byte, name, word string) []byte {
	quoted, _ := json.Marshal(word) // never fails for a string
	return append(append(append(append(b, `,"`...), name...), `":`...), quoted...)
}

func appendNumber(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(append(append(b, `,"`...), name...), `":`...), n, 10)
}
