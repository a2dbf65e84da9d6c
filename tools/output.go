package tools

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// DefaultBudget is the default maximum of tokens of text in a result. Clients silently
// truncate longer results.
const DefaultBudget = 10_000

// BytesPerToken is the estimated size of a token, as used by all clients.
const BytesPerToken = 4

// Tokens returns the estimated number of tokens in n bytes of text.
func Tokens(n int64) int64 { return (n + BytesPerToken - 1) / BytesPerToken }

// HeadPart returns b, the start of a longer text, without an incomplete character at
// its end and, if it is short, without the incomplete last line.
func HeadPart(b []byte) []byte {
	b = WholeRunes(b)
	if nl := bytes.LastIndexByte(b, '\n'); nl >= len(b)*3/4 {
		return b[:nl+1]
	}
	return b
}

// TailPart returns b, the end of a longer text, without an incomplete character at its
// start and, if it is short, without the incomplete first line.
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

// WholeRunes returns b without an incomplete UTF-8 sequence at its end. Invalid bytes
// are kept.
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

// CutLine returns the line that replaces n bytes cut after head, preceded by a newline
// if head does not end in one. how, if not empty, says how to get the bytes.
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

// CountLines returns the number of lines in text, including an incomplete last line.
func CountLines(text []byte) int {
	n := bytes.Count(text, []byte{'\n'})
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// Cut returns the longest prefix of s of at most n bytes that ends with a complete
// character.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
