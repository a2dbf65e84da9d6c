package aggregator

import (
	"encoding/json"
	"fmt"
	"strings"

	"toolgate/internal/rawjson"
)

// bytesPerToken is what a token is counted as, as Codex does.
const bytesPerToken = 4

// limitResult cuts the texts of a result to what the config allows its tool,
// keeping both ends of each. Without a limit, and below it, the result keeps
// its bytes; so does whatever is no text.
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

// cutMiddle returns s with its middle cut out where it is longer than n bytes,
// and says so in its place.
func cutMiddle(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head := strings.ToValidUTF8(s[:n/2], "")
	tail := strings.ToValidUTF8(s[len(s)-n/2:], "")
	return fmt.Sprintf("%s\n… %d bytes cut by output_token_limit; ask for less at a time …\n%s",
		head, len(s)-len(head)-len(tail), tail)
}
