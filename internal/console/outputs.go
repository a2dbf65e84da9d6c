package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"toolgate/internal/audit"
	"toolgate/internal/rawjson"
)

const (
	maxOutputs     = 200      // calls whose results are kept
	maxOutputBytes = 16 << 10 // of one result
)

// Outputs keeps the results of the latest calls in memory only: the record does not
// contain results. It may be used concurrently.
type Outputs struct {
	mu   sync.Mutex
	text map[string]string
	ids  []string // oldest first
}

// Keep stores the text of a CallToolResult, truncated and with secrets redacted as in the record.
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

// Get returns the stored result of a call. A nil *Outputs has none.
func (o *Outputs) Get(id string) (text string, ok bool) {
	if o == nil {
		return "", false
	}
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
	if rawjson.Unmarshal(result, &r) != nil {
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
		// A secret that is cut in two is not recognized, so the text near the cut is dropped as well.
		const edge = 256
		head := audit.Redact(text[:maxOutputBytes/2+edge])
		tail := audit.Redact(text[n-maxOutputBytes/2-edge:])
		head, tail = head[:max(0, len(head)-edge)], tail[min(edge, len(tail)):]
		cut := fmt.Sprintf("%s\n… of %d bytes the middle is not kept here …\n%s", head, n, tail)
		return strings.ToValidUTF8(cut, "")
	}
	return strings.ToValidUTF8(audit.Redact(text), "\uFFFD")
}
