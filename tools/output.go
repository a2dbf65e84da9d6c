package tools

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// DefaultBudget is how many tokens of text a result holds unless a call or the
// config says otherwise. Clients cut what is longer, without a word.
const DefaultBudget = 10_000

// BytesPerToken is the estimate of a token's size that every client uses.
const BytesPerToken = 4

// Tokens returns the estimated number of tokens in n bytes of text.
func Tokens(n int64) int64 { return (n + BytesPerToken - 1) / BytesPerToken }

// Clip returns s when it fits a budget in tokens, and else its head and its
// tail with a line between them that says how much was left out and, when how
// is not empty, how to get it. A budget of 0 is [DefaultBudget].
func Clip(s string, budget int, how string) string {
	if budget == 0 {
		budget = DefaultBudget
	}
	limit := budget * BytesPerToken
	if len(s) <= limit {
		return s
	}
	head := HeadPart([]byte(s[:limit/2]))
	tail := TailPart([]byte(s[len(s)-limit/2:]))
	return string(head) + CutLine(int64(len(s)-len(head)-len(tail)), head, how) + string(tail)
}

// HeadPart returns b, the beginning of a longer text, without a character that
// was cut in two at its end, and, when that costs little, without the begun
// line.
func HeadPart(b []byte) []byte {
	b = WholeRunes(b)
	if nl := bytes.LastIndexByte(b, '\n'); nl >= len(b)*3/4 {
		return b[:nl+1]
	}
	return b
}

// TailPart returns b, the end of a longer text, without a character that was
// cut in two at its beginning, and, when that costs little, without the
// rest of a begun line.
func TailPart(b []byte) []byte {
	for range utf8.UTFMax - 1 {
		if len(b) == 0 || utf8.RuneStart(b[0]) {
			break
		}
		b = b[1:]
	}
	if nl := bytes.IndexByte(b, '\n'); nl >= 0 && nl < len(b)/4 {
		return b[nl+1:]
	}
	return b
}

// WholeRunes returns b without a UTF-8 sequence that has begun at its end and
// not ended. Bytes that are no UTF-8 at all stay.
func WholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		last := b[len(b)-i:]
		if !utf8.RuneStart(last[0]) {
			continue
		}
		if !utf8.FullRune(last) {
			return b[:len(b)-i]
		}
		break
	}
	return b
}

// CutLine returns the line that stands for n bytes left out after head. It
// begins on a line of its own; how, when not empty, says how to get them.
func CutLine(n int64, head []byte, how string) string {
	var s strings.Builder
	if len(head) > 0 && head[len(head)-1] != '\n' {
		s.WriteByte('\n')
	}
	fmt.Fprintf(&s, "[... %d tokens (%d bytes) cut", Tokens(n), n)
	if how != "" {
		s.WriteString("; " + how)
	}
	s.WriteString(" ...]\n")
	return s.String()
}
