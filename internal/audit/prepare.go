package audit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"toolgate/internal/gate"
)

// A prepared is the line of an event up to what only the end of its call
// tells.
type prepared struct {
	of   gate.Event
	head []byte
}

// theEnd is how a line ends whose call has not.
const theEnd = `,"outcome":"","duration_ns":0,"bytes":0}` + "\n"

// Prepare makes of an event what can be made while its call still runs, for
// [Log.Record] to find in it. It is a [policy.Gate]'s Prepare.
func (l *Log) Prepare(e gate.Event) any {
	e.Level, e.Denied, e.Hosts = "", nil, nil
	e.Outcome, e.Error, e.Bytes = "", "", 0
	e.Duration, e.Waited, e.Running = 0, 0, 0
	e.Prepared = nil
	head, ok := bytes.CutSuffix(encode(e), []byte(theEnd))
	if !ok {
		return nil
	}
	return &prepared{of: e, head: slices.Grow(head, 200)}
}

// lineOf returns the line for an event: what is prepared, with the end put to
// it, where that is plain and all before it is still so.
func lineOf(e gate.Event) []byte {
	p, ok := e.Prepared.(*prepared)
	if !ok || p == nil || e.Denied != nil || len(e.Hosts) > 0 || e.Error != "" || !p.isOf(e) {
		return encode(e)
	}
	b := p.head
	if e.Level != "" {
		b = appendWord(b, "level", e.Level)
	}
	b = appendWord(b, "outcome", e.Outcome)
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

// isOf reports whether e still says what was prepared of it. A gate changes
// neither the arguments nor the action of a call that runs.
func (p *prepared) isOf(e gate.Event) bool {
	o := p.of
	return o.Time.Equal(e.Time) && o.ID == e.ID && o.Caller == e.Caller && o.Server == e.Server && o.Tool == e.Tool &&
		o.Verdict == e.Verdict && o.Rule == e.Rule && o.Reason == e.Reason &&
		o.Asked == e.Asked && o.AnsweredBy == e.AnsweredBy && o.AnsweredAt.Equal(e.AnsweredAt) &&
		o.Profile == e.Profile && o.ProfileDigest == e.ProfileDigest
}

func appendWord(b []byte, name, word string) []byte {
	quoted, _ := json.Marshal(word) // a string marshals
	return append(append(append(append(b, `,"`...), name...), `":`...), quoted...)
}

func appendNumber(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(append(append(b, `,"`...), name...), `":`...), n, 10)
}
