package shell

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// keyCodes maps names of keys, and other names that models use for them, to what a
// terminal sends, except for ctrl-LETTER and alt-KEY.
var keyCodes = map[string]string{
	"enter": "\r", "return": "\r", "tab": "\t", "escape": "\x1b", "esc": "\x1b", "space": " ",
	"backspace": "\x7f", "bs": "\x7f",
	"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D",
	"home": "\x1b[H", "end": "\x1b[F", "insert": "\x1b[2~", "delete": "\x1b[3~", "del": "\x1b[3~",
	"page-up": "\x1b[5~", "pageup": "\x1b[5~", "page-down": "\x1b[6~", "pagedown": "\x1b[6~", "shift-tab": "\x1b[Z",
	"f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~", "f6": "\x1b[17~",
	"f7": "\x1b[18~", "f8": "\x1b[19~", "f9": "\x1b[20~",
	"f10": "\x1b[21~", "f11": "\x1b[23~", "f12": "\x1b[24~",
	"ctrl-space": "\x00", "ctrl-[": "\x1b", "ctrl-\\": "\x1c", "ctrl-]": "\x1d", "ctrl-^": "\x1e", "ctrl-_": "\x1f",
}

// interrupt is what ctrl-c sends.
const interrupt = "\x03"

// keyText returns what a terminal sends for the named keys. application means that
// the terminal is in application mode, which changes the cursor keys.
func keyText(names []string, application bool) (string, error) {
	var s strings.Builder
	for _, name := range names {
		code, ok := keyCode(strings.TrimSpace(name))
		if !ok {
			return "", fmt.Errorf("unknown key %q; keys are enter, tab, escape, space, backspace, delete, "+
				"up, down, left, right, home, end, page-up, page-down, insert, f1 to f12, ctrl-LETTER, alt-KEY "+
				"and single characters; give other text in chars", name)
		}
		letter, ok := strings.CutPrefix(code, "\x1b[")
		if ok && application && len(letter) == 1 && strings.Contains("ABCDHF", letter) {
			code = "\x1bO" + letter
		}
		s.WriteString(code)
	}
	return s.String(), nil
}

func keyCode(name string) (string, bool) {
	if utf8.RuneCountInString(name) == 1 {
		return name, true
	}
	lower := strings.ToLower(name)
	if code, ok := keyCodes[lower]; ok {
		return code, true
	}
	if letter, ok := strings.CutPrefix(lower, "ctrl-"); ok && len(letter) == 1 && letter[0] >= 'a' && letter[0] <= 'z' {
		return string(letter[0] - 'a' + 1), true
	}
	if strings.HasPrefix(lower, "alt-") {
		code, ok := keyCode(name[len("alt-"):])
		return "\x1b" + code, ok
	}
	return "", false
}

// A keyMode tracks the mode of the cursor keys from the output of a program.
type keyMode struct {
	application atomic.Bool
	last        []byte // the end of the output, which may have an incomplete sequence
}

// update processes output. It must be called from one goroutine.
func (m *keyMode) update(p []byte) {
	const on, off = "\x1b[?1h", "\x1b[?1l"
	b := append(m.last, p...)
	if begun, ended := bytes.LastIndex(b, []byte(on)), bytes.LastIndex(b, []byte(off)); begun != ended {
		m.application.Store(begun > ended)
	}
	m.last = append(m.last[:0], b[max(0, len(b)-len(on)+1):]...)
}
