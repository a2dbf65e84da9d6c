package shell

import (
	"fmt"
	"strings"
)

// keyCodes are the keys of a terminal by name, beside ctrl-LETTER and
// alt-KEY.
var keyCodes = map[string]string{
	"enter": "\r", "tab": "\t", "escape": "\x1b", "space": " ", "backspace": "\x7f",
	"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D",
	"home": "\x1b[H", "end": "\x1b[F", "insert": "\x1b[2~", "delete": "\x1b[3~",
	"page-up": "\x1b[5~", "page-down": "\x1b[6~", "shift-tab": "\x1b[Z",
	"f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~", "f6": "\x1b[17~",
	"f7": "\x1b[18~", "f8": "\x1b[19~", "f9": "\x1b[20~", "f10": "\x1b[21~", "f11": "\x1b[23~", "f12": "\x1b[24~",
	"ctrl-space": "\x00", "ctrl-[": "\x1b", "ctrl-\\": "\x1c", "ctrl-]": "\x1d", "ctrl-^": "\x1e", "ctrl-_": "\x1f",
}

// otherNames are what models also call a key.
var otherNames = map[string]string{
	"return": "enter", "esc": "escape", "del": "delete", "pageup": "page-up", "pagedown": "page-down", "bs": "backspace",
}

// interrupt is what ctrl-c sends.
const interrupt = "\x03"

// keyText returns what a terminal sends for the named keys.
func keyText(names []string) (string, error) {
	var s strings.Builder
	for _, name := range names {
		code, ok := keyCode(strings.ToLower(strings.TrimSpace(name)))
		if !ok {
			return "", fmt.Errorf("unknown key %q; keys are enter, tab, escape, space, backspace, delete, up, down, left, right, home, end, "+
				"page-up, page-down, insert, f1 to f12, ctrl-LETTER, alt-KEY; give other text in chars", name)
		}
		s.WriteString(code)
	}
	return s.String(), nil
}

func keyCode(name string) (string, bool) {
	if other, ok := otherNames[name]; ok {
		name = other
	}
	if code, ok := keyCodes[name]; ok {
		return code, true
	}
	if letter, ok := strings.CutPrefix(name, "ctrl-"); ok && len(letter) == 1 && letter[0] >= 'a' && letter[0] <= 'z' {
		return string(letter[0] - 'a' + 1), true
	}
	if key, ok := strings.CutPrefix(name, "alt-"); ok {
		if len(key) == 1 {
			return "\x1b" + key, true
		}
		if code, ok := keyCode(key); ok {
			return "\x1b" + code, true
		}
	}
	return "", false
}
