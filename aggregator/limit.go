package aggregator

import (
	"encoding/json"
	"fmt"
	"strings"

	"toolgate/internal/rawjson"
)

// bytesPerToken is the length of a token, as Codex counts it.
const bytesPerToken = 4

// limitResult cuts the middle of the texts in a result that exceed the limit; 0 means no
// limit. Everything else keeps its bytes.
func limitResult(res json.RawMessage, tokens int) json.RawMessage {
	budget := tokens * bytesPerToken
	if tokens <= 0 || len(res) <= budget {
		return res
	}
	o, err := rawjson.Parse(res)
	if err != nil {
		return res
	}
	content := rawjson.List(o.Get("content"))
	cut := false
	for i, c := range content {
		item, err := rawjson.Parse(c)
		if err != nil || item.Text("type") != "text" {
			continue
		}
		text := item.Text("text")
		short := cutMiddle(text, budget)
		budget -= min(budget, len(text))
		if short != text {
			item.Set("text", rawjson.Quote(short))
			content[i], cut = item.Bytes(), true
		}
	}
	if !cut {
		return res
	}
	o.Set("content", rawjson.Array(content))
	return o.Bytes()
}

// cutMiddle replaces the middle of s by a note if s is longer than n bytes.
func cutMiddle(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head := strings.ToValidUTF8(s[:n/2], "")
	tail := strings.ToValidUTF8(s[len(s)-n/2:], "")
	return fmt.Sprintf("%s\n… %d bytes cut by output_token_limit; ask for less at a time …\n%s",
		head, len(s)-len(head)-len(tail), tail)
}
