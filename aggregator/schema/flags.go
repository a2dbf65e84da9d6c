package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"toolgate/internal/lazyregexp"
	"toolgate/internal/rawjson"
)

// suspicious are patterns of text in a definition that gives the model instructions
// beyond the use of the tool.
var suspicious = []struct {
	what string
	re   *lazyregexp.Regexp
}{
	{"tells to disregard instructions", lazyregexp.New(`(?i)\b(ignore|disregard|forget|override)\b.{0,40}` +
		`\b(instructions?|rules?|prompts?|above)\b`)},
	{"tells to hide something from the user", lazyregexp.New(`(?i)\b(do not|don't|never|without)\b.{0,30}` +
		`\b(tell|telling|inform|mention|notify|show|reveal)`)},
	{"demands to be called before other tools", lazyregexp.New(`(?i)\b(before|prior to)\b.{0,30}` +
		`\b(any|every|all|other)\b.{0,20}\btools?\b|\balways (call|use|run) this\b`)},
	{"speaks as the system", lazyregexp.New(`(?i)<\s*/?\s*(important|system|instructions?|secret)\s*>` +
		`|\bsystem prompt\b`)},
	{"names places where credentials are kept", lazyregexp.New(`(?i)\.ssh\b|id_rsa|\.aws/credentials|\.netrc|\.env\b` +
		`|mcp\.json|api[_ -]?keys? from`)},
	{"asks for the conversation", lazyregexp.New(`(?i)\b(entire|full|whole|previous)\b.{0,20}` +
		`\b(conversation|chat|message) (history|log)?`)},
}

// Flags returns what a reviewer should look at in a tool definition, such as text that
// instructs the model and invisible characters. It is a hint, not a protection: such
// text can be phrased in many other ways.
func Flags(def json.RawMessage) []string {
	var text strings.Builder
	collectText(def, &text, 0)
	var found []string
	for _, p := range suspicious {
		if m := p.re.FindString(text.String()); m != "" {
			found = append(found, fmt.Sprintf("%s: %q", p.what, m))
		}
	}
	if strings.ContainsFunc(text.String(), invisible) {
		found = append(found, "has invisible characters")
	}
	return found
}

// collectText writes all string values in v to b, each on a line.
func collectText(v json.RawMessage, b *strings.Builder, depth int) {
	if depth > maxDepth {
		return
	}
	switch rawjson.Kind(v) {
	case '"':
		b.WriteString(rawjson.Text(v))
		b.WriteByte('\n')
	case '[':
		for _, e := range rawjson.List(v) {
			collectText(e, b, depth+1)
		}
	case '{':
		o, _ := rawjson.Parse(v)
		for _, f := range o {
			collectText(f.Value, b, depth+1)
		}
	}
}

// invisible reports whether r is an invisible character: a tag, a direction mark, of
// zero width, or a control character other than white space.
func invisible(r rune) bool {
	switch {
	case r >= 0xe0000 && r <= 0xe007f, unicode.Is(unicode.Bidi_Control, r):
		return true
	case r == 0x200b || r == 0x2060 || r == 0xfeff:
		return true
	}
	return r < ' ' && r != '\n' && r != '\t' && r != '\r'
}
