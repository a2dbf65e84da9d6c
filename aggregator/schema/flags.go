package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"toolgate/internal/lazyregexp"
	"toolgate/internal/rawjson"
)

// suspicious are words in a definition that try to tell the model what to do
// beyond the tool itself.
var suspicious = []struct {
	what string
	re   *lazyregexp.Regexp
}{
	{"tells to disregard instructions", lazyregexp.New(`(?i)\b(ignore|disregard|forget|override)\b.{0,40}\b(instructions?|rules?|prompts?|above)\b`)},
	{"tells to hide something from the user", lazyregexp.New(`(?i)\b(do not|don't|never|without)\b.{0,30}\b(tell|telling|inform|mention|notify|show|reveal)`)},
	{"demands to be called before other tools", lazyregexp.New(`(?i)\b(before|prior to)\b.{0,30}\b(any|every|all|other)\b.{0,20}\btools?\b|\balways (call|use|run) this\b`)},
	{"speaks as the system", lazyregexp.New(`(?i)<\s*/?\s*(important|system|instructions?|secret)\s*>|\bsystem prompt\b`)},
	{"names places where credentials are kept", lazyregexp.New(`(?i)\.ssh\b|id_rsa|\.aws/credentials|\.netrc|\.env\b|mcp\.json|api[_ -]?keys? from`)},
	{"asks for the conversation", lazyregexp.New(`(?i)\b(entire|full|whole|previous)\b.{0,20}\b(conversation|chat|message) (history|log)?`)},
}

// Flags returns what a person should look at in a definition. It is a hint
// and no protection: words can be put in any way.
func Flags(def json.RawMessage) []string {
	var text strings.Builder
	collectText(def, &text, 0)
	var found []string
	for _, p := range suspicious {
		if m := p.re.FindString(text.String()); m != "" {
			found = append(found, fmt.Sprintf("%s: %q", p.what, m))
		}
	}
	if i := strings.IndexFunc(text.String(), invisible); i >= 0 {
		found = append(found, "has characters that cannot be seen")
	}
	return found
}

// collectText writes all strings in v to b.
func collectText(v json.RawMessage, b *strings.Builder, depth int) {
	if depth > maxDepth {
		return
	}
	switch rawjson.Kind(v) {
	case '"':
		b.WriteString(rawjson.Text(v))
		b.WriteByte('\n')
	case '[':
		for _, e := range rawjson.Elements(v) {
			collectText(e, b, depth+1)
		}
	case '{':
		o, _ := rawjson.Parse(v)
		for _, f := range o {
			collectText(f.Value, b, depth+1)
		}
	}
}

// invisible reports whether r hides: tags, direction marks, widths of zero.
func invisible(r rune) bool {
	return r >= 0xe0000 && r <= 0xe007f || unicode.Is(unicode.Bidi_Control, r) || r == 0x200b || r == 0x2060 || r == 0xfeff || r < ' ' && r != '\n' && r != '\t' && r != '\r'
}
