package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"toolgate/internal/audit"
)

const (
	maxOutputs     = 200      // calls whose answers are kept
	maxOutputBytes = 16 << 10 // of one
)

// Outputs keeps what the last calls answered, in memory and nowhere else:
// the record has no answers. It may be used concurrently.
type Outputs struct {
	mu   sync.Mutex
	text map[string]string
	ids  []string // oldest first
}

// Keep keeps the text of a CallToolResult, shortened, and without what looks
// like a secret, as in the record.
func (o *Outputs) Keep(id string, result json.RawMessage) {
	text := textOf(result)
	if text == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.text == nil {
		o.text = map[string]string{}
	}
	if _, again := o.text[id]; !again {
		o.ids = append(o.ids, id)
	}
	o.text[id] = text
	if len(o.ids) > maxOutputs {
		delete(o.text, o.ids[0])
		o.ids = o.ids[1:]
	}
}

// Get returns what a call answered.
func (o *Outputs) Get(id string) (text string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text, ok = o.text[id]
	return text, ok
}

func textOf(result json.RawMessage) string {
	var r struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
			MIME string `json:"mimeType"`
			Data string `json:"data"`
		} `json:"content"`
	}
	if json.Unmarshal(result, &r) != nil {
		return ""
	}
	var b strings.Builder
	for _, c := range r.Content {
		switch c.Type {
		case "text":
			b.WriteString(c.Text)
		default:
			fmt.Fprintf(&b, "[%s %s, %d bytes]\n", c.Type, c.MIME, len(c.Data)*3/4)
		}
	}
	text := b.String()
	if n := len(text); n > maxOutputBytes {
		// A secret that is cut in two has no shape any more, so what is near
		// the cut goes too.
		const edge = 256
		head := audit.Redact(text[:maxOutputBytes/2+edge])
		tail := audit.Redact(text[n-maxOutputBytes/2-edge:])
		head, tail = head[:max(0, len(head)-edge)], tail[min(edge, len(tail)):]
		return strings.ToValidUTF8(fmt.Sprintf("%s\n… of %d bytes the middle is not kept here …\n%s", head, n, tail), "")
	}
	return strings.ToValidUTF8(audit.Redact(text), "\uFFFD")
}
