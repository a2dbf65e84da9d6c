package audit

import (
	"slices"
	"strings"

	"toolgate/internal/lazyregexp"
)

// shortest is the length in bytes of the shortest value that is redacted.
const shortest = 3

const (
	// quote is a quote that is escaped as often as the text around it asks for.
	quote = `\\*["']`

	secretText = `[a-z0-9_.-]*(?:` + secretWords + `)s?`
	otherName  = quote + `(?:name|key|header)` + quote + `\s*:\s*` + quote + secretText + quote
	members    = `(?:\s*,\s*` + quote + `\w+` + quote + `\s*:\s*(?:` + quote + `[^"'\\]*` + quote + `|\w+)){0,3}\s*,\s*`
)

var (
	// namedSecret matches a name up to its value. Its groups are the quote before the name,
	// the name, the quote behind it, and the separator with the space that follows it.
	namedSecret = lazyregexp.New(`(?i)(` + quote + `)?(` + secretText + `)(` + quote + `)?[ \t]*((?::=|=>|[:=])[ \t]*)`)

	// unnamedSecret matches what a secret follows without a separator.
	unnamedSecret = lazyregexp.New(`(?i)(?:^|\s)--?[a-z0-9_-]*(?:` + secretWords + `)\s+|\b(?:bearer|basic)[ \t]+`)

	// nameFirst and valueFirst match {"name": "Authorization", "value": …} up to the value.
	nameFirst  = lazyregexp.New(`(?i)` + otherName + members + quote + `value` + quote + `\s*:\s*`)
	valueFirst = lazyregexp.New(`(?i)` + quote + `value` + quote + `\s*:\s*`)
	nameNext   = lazyregexp.New(`(?i)^` + members + otherName)

	authorization = lazyregexp.New(`(?i)authorization$`)
	cookie        = lazyregexp.New(`(?i)cookie$`)

	// scheme matches the beginning of a value that is more than one word.
	scheme     = lazyregexp.New(`(?i)^(?:bearer|basic|token)[ \t]+`)
	parameter  = lazyregexp.New(`^[ \t]*,[ \t]*[^\s"',;|&]+(?:"[^"\n]*")?`) // of an Authorization header
	cookieNext = lazyregexp.New(`^;[ \t]*[^\s;="'|&]+=[^\s;"'|&]*`)

	number   = lazyregexp.New(`^[0-9]+$`)
	constant = lazyregexp.New(`^(?:true|false|null)$`)
	variable = lazyregexp.New(`^"?\$(?:\w+|\{\w+\})"?$`)
)

// A span is a part of a text.
type span struct{ start, end int }

// hideValues redacts the values of secrets that text names.
func hideValues(text string) string {
	var spans []span
	add := func(s span) {
		if len(strings.Trim(text[s.start:s.end], `"'\`)) >= shortest && text[s.start:s.end] != redacted {
			spans = append(spans, s)
		}
	}
	var quotes quoteState
	for _, m := range namedSecret.FindAllStringSubmatchIndex(text, -1) {
		quotes.advance(text, m[0])
		isOutside := quotes.open == 0
		quotes.advance(text, m[1])
		add(valueOf(text, m, isOutside, quotes.open))
	}
	quotes = quoteState{}
	for _, m := range unnamedSecret.FindAllStringIndex(text, -1) {
		quotes.advance(text, m[1])
		if !strings.HasPrefix(text[m[1]:], "-") {
			add(word(text, m[1], quotes.open))
		}
	}
	for _, m := range nameFirst.FindAllStringIndex(text, -1) {
		add(member(text, m[1]))
	}
	for _, m := range valueFirst.FindAllStringIndex(text, -1) {
		if s := member(text, m[1]); nameNext.MatchString(text[s.end:]) {
			add(s)
		}
	}
	return hide(text, spans)
}

// hide replaces the spans of text.
func hide(text string, spans []span) string {
	if len(spans) == 0 {
		return text
	}
	slices.SortFunc(spans, func(a, b span) int { return a.start - b.start })
	var b strings.Builder
	done := 0
	for i, s := range spans {
		if i == 0 || s.start > done {
			b.WriteString(text[done:s.start])
			b.WriteString(redacted)
		}
		done = max(done, s.end)
	}
	b.WriteString(text[done:])
	return b.String()
}

// valueOf returns the value behind the match m of namedSecret. isOutside is set if the match
// begins outside of quotes; open is the quote that is open where it ends, 0 for none.
func valueOf(text string, m []int, isOutside bool, open byte) span {
	name, at, separator := text[m[4]:m[5]], m[1], text[m[8]:m[9]]
	colon, space := separator[0] == ':' && !strings.HasPrefix(separator, ":="), len(separator) > 1
	var s span
	switch {
	case m[6] >= 0:
		s = member(text, at)
	case m[2] >= 0 && colon && (m[3]-m[2] > 1 || isOutside): // a header, as in -H 'NAME: VALUE'
		size, c := m[3]-m[2], text[m[3]-1]
		end := closing(text, at, size-1, c, size > 1 || c == '"')
		if end < 0 {
			end = len(text) + size
		}
		return withoutCommand(text, span{at, end - size}, c)
	case colon && space && authorization.MatchString(name):
		s = credentials(text, at, open)
	case colon && cookie.MatchString(name):
		s = word(text, at, open)
		for next := "x"; next != ""; s.end += len(next) {
			next = cookieNext.FindString(text[s.end:])
		}
	default:
		s = word(text, at, open)
	}
	if isCount(name) && number.MatchString(text[s.start:s.end]) {
		return span{at, at}
	}
	return s
}

// credentials returns the value of an Authorization header: a scheme and what follows it.
func credentials(text string, at int, open byte) span {
	s := word(text, at, open)
	if text[s.start:s.end] == redacted || s.end == len(text) || text[s.end] != ' ' {
		return s
	}
	if second := word(text, s.end+1, open); second.end > second.start {
		s.end = second.start + len(strings.TrimRight(text[second.start:second.end], ","))
	}
	for next := "x"; next != ""; s.end += len(next) {
		next = parameter.FindString(text[s.end:])
	}
	return s
}

// word returns the word of a shell at that place. If it is a variable, or runs a command,
// that is no part of it.
func word(text string, at int, open byte) span {
	s := span{at, at + len(scheme.FindString(text[at:]))}
	first := true
	for ; s.end < len(text); first = false {
		escapes, c := quoteAt(text, s.end)
		switch {
		case c != 0 && escapes == 0 && c == open, c != 0 && escapes > 0 && !first:
			return withoutCommand(text, s, 0)
		case c != 0:
			end := closing(text, s.end+escapes+1, escapes, c, c == '"')
			if end < 0 && !first {
				return withoutCommand(text, s, 0)
			}
			if end < 0 || escapes > 0 {
				return span{at, max(end, s.end)}
			}
			s.end = end
			continue
		case text[s.end] == '\\':
			s.end = min(s.end+2, len(text))
			continue
		case strings.IndexByte(" \t\r\n;|&", text[s.end]) >= 0:
			return withoutCommand(text, s, text[at])
		}
		s.end++
	}
	return withoutCommand(text, s, 0)
}

// withoutCommand returns s up to a command that a shell would run in it, because the log
// must show what ran. In single quotes there is none.
func withoutCommand(text string, s span, quote byte) span {
	value := text[s.start:s.end]
	if variable.MatchString(value) {
		return span{s.start, s.start}
	}
	if i := strings.IndexAny(value, "`"); quote != '\'' && i >= 0 {
		s.end = s.start + i
	}
	if i := strings.Index(text[s.start:s.end], "$("); quote != '\'' && i >= 0 {
		s.end = s.start + i
	}
	return s
}

// member returns the value of a member of a JSON object at that place.
func member(text string, at int) span {
	at += len(text[at:]) - len(strings.TrimLeft(text[at:], " \t\r\n"))
	if at == len(text) {
		return span{at, at}
	}
	if escapes, c := quoteAt(text, at); c != 0 {
		end := closing(text, at+escapes+1, escapes, c, true)
		if end < 0 {
			end = len(text)
		}
		return span{at, end}
	}
	if text[at] == '{' || text[at] == '[' {
		return span{at, bracketed(text, at)}
	}
	end := strings.IndexAny(text[at:], " \t\r\n,]}")
	if end < 0 {
		end = len(text) - at
	}
	if constant.MatchString(text[at : at+end]) {
		return span{at, at}
	}
	return span{at, at + end}
}

// bracketed returns the end of the JSON object or array that begins at that place.
func bracketed(text string, at int) int {
	depth := 0
	for i := at; i < len(text); i++ {
		if escapes, c := quoteAt(text, i); c == '"' {
			end := closing(text, i+escapes+1, escapes, c, true)
			if end < 0 {
				break
			}
			i = end - 1
			continue
		}
		switch text[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// quoteAt returns the quote at that place and how many backslashes are before it, or 0.
func quoteAt(text string, at int) (escapes int, c byte) {
	i := at
	for i < len(text) && text[i] == '\\' {
		i++
	}
	if i < len(text) && (text[i] == '"' || text[i] == '\'') {
		return i - at, text[i]
	}
	return 0, 0
}

// closing returns the end of the text in quotes that goes on at that place, -1 if it has
// none. Its quotes have that many backslashes; those in it have more, if it has escapes.
func closing(text string, at, escapes int, c byte, hasEscapes bool) int {
	run := 0
	for i := at; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			run++
			continue
		case text[i] == c && (!hasEscapes || run%(2*(escapes+1)) == escapes):
			return i + 1
		}
		run = 0
	}
	return -1
}

// A quoteState is which quote is open at a place of a shell's text.
type quoteState struct {
	at   int
	open byte // 0 for none
}

func (q *quoteState) advance(text string, to int) {
	for ; q.at < to; q.at++ {
		c := text[q.at]
		switch {
		case c == '\\' && q.open != '\'':
			q.at++
		case q.open == 0 && (c == '"' || c == '\''):
			q.open = c
		case c == q.open:
			q.open = 0
		}
	}
}
