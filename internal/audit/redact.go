package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"toolgate/internal/gate"
	"toolgate/internal/lazyregexp"
)

// Limits on the logged parts of a call.
const (
	maxString   = 2 << 10 // bytes of one value
	maxArgs     = 8 << 10 // bytes of a call's arguments
	maxItems    = 64      // elements of a list
	maxParsed   = 1 << 20 // bytes of arguments that are parsed
	shortString = 200     // bytes of one value if the arguments exceed maxArgs
	shortItems  = 8
	redacted    = "[redacted]"
)

// clean returns e without secrets and with long values truncated.
func clean(e gate.Event) gate.Event {
	e.Args, e.Rewritten = cleanArgs(e.Args), cleanArgs(e.Rewritten)
	a := &e.Action
	a.Command, a.PrefixRule = cleanWords(a.Command), cleanWords(a.PrefixRule)
	a.Reads, a.Writes = cleanWords(a.Reads), cleanWords(a.Writes)
	a.Justification = cleanString(a.Justification, maxString)
	a.Arguments, a.Preview = nil, ""
	e.Tool, e.Server = cleanString(e.Tool, shortString), cleanString(e.Server, shortString)
	a.Tool, a.Server = e.Tool, e.Server
	e.Agent = cleanString(e.Agent, shortString)
	e.Reason, e.Error = cleanString(e.Reason, maxString), cleanString(e.Error, maxString)
	e.Rule = cleanString(e.Rule, maxString)
	e.SandboxNotes = cleanWords(e.SandboxNotes)
	if e.Denied != nil {
		d := *e.Denied
		d.Path, d.Why = cleanString(d.Path, maxString), cleanString(d.Why, maxString)
		e.Denied = &d
	}
	return e
}

// cleanArgs returns arguments for the log, or nil if there are none.
func cleanArgs(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return nil
	}
	note := func(what string) json.RawMessage {
		b, _ := json.Marshal(fmt.Sprintf("%d bytes, %s", len(args), what)) // never fails for a string
		return b
	}
	if len(args) > maxParsed {
		return note("not kept")
	}
	if needsNoCleaning(args) {
		return args
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return note("not JSON")
	}
	for _, l := range []limits{{maxString, maxItems}, {shortString, shortItems}} {
		b, err := json.Marshal(l.clean("", false, v))
		if err == nil && len(b) <= maxArgs {
			return b
		}
	}
	return note("not kept")
}

// needsNoCleaning is a fast path: it reports whether args, without being decoded, can be
// seen to contain no secrets and no long values.
func needsNoCleaning(args json.RawMessage) bool {
	return len(args) <= maxString && bytes.IndexByte(args, '\\') < 0 && bytes.Count(args, []byte(",")) < maxItems &&
		!hasHint(string(args)) && utf8.Valid(args) && json.Valid(args)
}

// limits are the maximum sizes of values.
type limits struct{ text, items int }

// clean returns a copy of v for the log. name is the name of the field that holds it, and
// secret is set if that field or one around it is named like a secret.
func (l limits) clean(name string, secret bool, v any) any {
	secret = secret || namesSecret(name)
	switch v := v.(type) {
	case string:
		if secret && v != "" {
			return redacted
		}
		return cleanString(v, l.text)
	case json.Number:
		if secret && !isCount(name) {
			return redacted
		}
	case []any:
		var list []any
		words := true
		for i, x := range v {
			if i == l.items {
				list = append(list, fmt.Sprintf("[%d more]", len(v)-i))
				break
			}
			_, isWord := x.(string)
			words = words && isWord
			list = append(list, l.clean(name, secret, x))
		}
		if words && !secret {
			return hideOptionValues(list)
		}
		return list
	case map[string]any:
		m := map[string]any{}
		named := namesOther(v)
		for k, x := range v {
			if len(m) == l.items {
				m["…"] = fmt.Sprintf("[%d more]", len(v)-len(m))
				break
			}
			m[cleanString(k, l.text)] = l.clean(k, secret || named && strings.EqualFold(k, "value"), x)
		}
		return m
	}
	return v
}

// namesOther reports whether an object holds a name and a value, as {"name":
// "Authorization", "value": "…"}, and the name is that of a secret.
func namesOther(v map[string]any) bool {
	for k, x := range v {
		name, _ := x.(string)
		if nameField.MatchString(k) && namesSecret(name) {
			return true
		}
	}
	return false
}

// isCount reports whether a number of this name counts tokens.
func isCount(name string) bool { return strings.HasSuffix(strings.ToLower(name), "tokens") }

// hideOptionValues redacts the argument of an option with a secret's name, as in
// ["--password", "x"].
func hideOptionValues(list []any) []any {
	for i := 1; i < len(list); i++ {
		option, _ := list[i-1].(string)
		value, ok := list[i].(string)
		if ok && hasHint(option) && secretOption.MatchString(option) && !strings.HasPrefix(value, "-") {
			list[i] = redacted
		}
	}
	return list
}

func cleanWords(words []string) []string {
	list := make([]any, len(words))
	for i, w := range words {
		list[i] = w
	}
	cleaned := limits{maxString, maxItems}.clean("", false, list).([]any)
	var out []string
	for _, w := range cleaned {
		out = append(out, w.(string))
	}
	return out
}

// cleanString redacts s and truncates it to about n bytes.
func cleanString(s string, n int) string {
	// Only the part that may be kept is searched. Its end is dropped below, because
	// a secret that is cut in two is not recognized.
	const edge = 256
	window, whole := s, true
	if len(s) > 2*n+edge {
		window, whole = s[:2*n+edge], false
	}
	text := Redact(window)
	if !whole {
		text = text[:max(0, len(text)-edge)]
	}
	if len(text) > n {
		text, whole = text[:n], false
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if !whole {
		text += fmt.Sprintf("[… of %d bytes]", len(s))
	}
	return text
}

// Redact returns text with likely secrets replaced: well-known token formats, private
// keys, passwords in URLs, and values of variables, options, headers and fields with a
// secret's name, also in JSON that is quoted in the text. It cannot recognize a password that
// stands alone, and keeps a command that a shell runs to get the value.
func Redact(text string) string {
	if len(text) < 6 || !hasHint(text) { // a cheap check before the regular expressions
		return text
	}
	text = knownTokens.ReplaceAllString(text, redacted)
	text = urlPassword.ReplaceAllString(text, "${1}"+redacted+"${2}")
	return hideValues(text)
}

// namesSecret reports whether a field of this name holds a secret.
func namesSecret(name string) bool { return hasHint(name) && secretName.MatchString(name) }

// hasHint reports whether text may hold a secret, or the name of one.
func hasHint(text string) bool {
	by := hints()
	for i := range len(text) {
		for _, h := range by[text[i]] {
			if len(text)-i >= len(h) && strings.EqualFold(text[i:i+len(h)], h) {
				return true
			}
		}
	}
	return false
}

// hints are substrings of which every recognized secret contains at least one, by first
// byte in either case.
var hints = sync.OnceValue(func() *[256][]string {
	var by [256][]string
	words := strings.Fields(`
		secret pass pwd credential authorization cookie bearer key token jwt ://
		akia asia github_ ghp_ gho_ ghu_ ghs_ ghr_ glpat- gldt- glrt- glsoat- xox xapp
		sk- sk_ rk- rk_ aiza ya29 npm_ pypi hf_ dop_ sg.`)
	for _, c := range "abcdefghijklmnopqrstuvwxyz0123456789_-" {
		words = append(words, "ey"+string(c)) // a JSON Web Token
	}
	for _, w := range words {
		by[w[0]] = append(by[w[0]], w)
		if up := strings.ToUpper(w[:1])[0]; up != w[0] {
			by[up] = append(by[up], w)
		}
	}
	return &by
})

const secretWords = `secret|passw(?:or)?d|passphrase|passwd|pwd|credentials?|authorization|cookie|bearer|` +
	`private[_-]?key|api[_-]?key|apikey|access[_-]?key|auth[_-]?key|signing[_-]?key|encryption[_-]?key|token|jwt`

var (
	// secretName matches names of fields. Only the last word counts:
	// max_tokens_used is not a secret.
	secretName = lazyregexp.New(`(?i)(?:` + secretWords + `)s?$`)

	// nameField matches names of fields that hold the name of something beside its value.
	nameField = lazyregexp.New(`(?i)^(?:name|key|header)$`)

	secretOption = lazyregexp.New(`(?i)^--?[a-z0-9_-]*(?:` + secretWords + `)$`)

	knownTokens = lazyregexp.New(strings.Join([]string{
		`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`,
		`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`,                              // AWS
		`\bgh[pousr]_[A-Za-z0-9]{20,}`,                               // GitHub
		`\bgithub_pat_[A-Za-z0-9_]{20,}`,                             //
		`\bgl(?:pat|dt|rt|soat)-[A-Za-z0-9_-]{16,}`,                  // GitLab
		`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`,                           // Slack
		`\bxapp-[A-Za-z0-9-]{10,}`,                                   //
		`\b[sr]k[-_](?:[A-Za-z]+[-_])*[A-Za-z0-9_-]{16,}`,            // OpenAI, Anthropic, Stripe
		`\bAIza[A-Za-z0-9_-]{30,}`,                                   // Google
		`\bya29\.[A-Za-z0-9_-]{20,}`,                                 //
		`\bnpm_[A-Za-z0-9]{30,}`,                                     //
		`\bpypi-[A-Za-z0-9_-]{30,}`,                                  //
		`\bhf_[A-Za-z0-9]{20,}`,                                      // Hugging Face
		`\bdop_v1_[a-f0-9]{32,}`,                                     // DigitalOcean
		`\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`,               // SendGrid
		`\bey[A-Za-z0-9_-]{8,}\.ey[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`, // JWT
	}, "|"))

	// urlPassword matches passwords with a slash too, unless what is before it may be a port.
	urlPassword = lazyregexp.New(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@'"\[]*:)` +
		`(?:[^\s/@'"]+|[^\s/@'"]*[^\s/@'"0-9][^\s/@'"]*/[^\s@'"]*|/[^\s@'"]*)(@)`)
)
