package applypatch

import (
	"encoding/json"
	"slices"
	"strings"

	"toolgate/internal/lazyregexp"
)

func withoutMark(s source) (source, bool) {
	text, ok := strings.CutPrefix(s.text(), byteOrderMark)
	s.lines = strings.Split(text, "\n")
	return s, ok
}

// fromJSON decodes a JSON string, the arguments of a call, or a command with its
// arguments. Line breaks in it need not be escaped.
func fromJSON(s source) (source, bool) {
	text := strings.TrimSpace(s.text())
	holds := func(line string) bool { return strings.HasPrefix(line, "{") && strings.Contains(line, "Begin Patch") }
	if i := slices.IndexFunc(s.lines, holds); i > 0 && !slices.ContainsFunc(s.lines[i+1:], holds) {
		text = s.lines[i] // with tags or text around it
	}
	if text == "" || !strings.ContainsRune(`{["`, rune(text[0])) {
		return s, false
	}
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		escaped := strings.NewReplacer("\r", `\r`, "\n", `\n`, "\t", `\t`).Replace(text)
		if json.Unmarshal([]byte(escaped), &value) != nil {
			return s, false
		}
	}
	for {
		arguments, ok := value.(map[string]any)
		if !ok {
			patch := patchIn(value)
			return newSource(patch), patch != ""
		}
		for _, key := range []string{"workdir", "cwd", "dir", "path", "file_path"} {
			if _, ok := arguments[key]; ok {
				return s, false // it may say where the patch applies
			}
		}
		value = nil
		for _, key := range []string{"arguments", "cmd", "command", "patch", "input"} { // the last one counts
			if inner, ok := arguments[key]; ok {
				value = inner
			}
		}
	}
}

// patchIn returns the patch or script that a decoded value is, or "". It may be the last
// word of a command.
func patchIn(value any) string {
	words, ok := value.([]any)
	if !ok {
		text, _ := value.(string)
		return text
	}
	if len(words) == 0 {
		return ""
	}
	program, _ := words[0].(string)
	if len(words) == 1 || len(words) == 2 && program == "apply_patch" || len(words) == 3 && shells[program] {
		text, _ := words[len(words)-1].(string)
		return text
	}
	return ""
}

var shells = map[string]bool{"bash": true, "sh": true, "zsh": true, "/bin/bash": true, "/bin/sh": true}

// fromEscapes reads a text of a single line that is escaped as in JSON.
func fromEscapes(s source) (source, bool) {
	text := strings.TrimSpace(s.text())
	if strings.Contains(text, "\n") || !strings.Contains(text, `\n`) || strings.ContainsAny(text[:1], "{[") {
		return s, false
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			b.WriteString(text[i : i+2])
			i++
		case text[i] == '"':
			b.WriteString(`\"`)
		default:
			b.WriteByte(text[i])
		}
	}
	escaped := strings.ReplaceAll(strings.ReplaceAll(b.String(), "\t", `\t`), `\'`, "'")
	var decoded string
	if json.Unmarshal([]byte(`"`+escaped+`"`), &decoded) != nil {
		return s, false
	}
	return newSource(strings.Trim(decoded, `"`)), true
}

// margin returns the white space that all of lines begin with, blank ones aside.
func margin(lines []string) string {
	margin, seen := "", false
	for _, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if !seen {
			margin, seen = indent, true
		}
		for !strings.HasPrefix(line, margin) {
			margin = margin[:len(margin)-1]
		}
	}
	return margin
}

var (
	color  = lazyregexp.New("\x1b\\[[0-9;]*m")
	quoted = lazyregexp.New(`(?m)^> ?`)
)

func withoutColors(s source) (source, bool) {
	text := s.text()
	plain := color.ReplaceAllString(text, "")
	s.lines = strings.Split(plain, "\n")
	return s, plain != text
}

// withoutQuoteMarks drops the '>' before all lines.
func withoutQuoteMarks(s source) (source, bool) {
	lines, _ := trimBlank(s.lines, 0)
	if slices.ContainsFunc(lines, func(line string) bool { return !strings.HasPrefix(line, ">") }) {
		return s, false
	}
	return s.edit(func(_ int, line string) string { return quoted.ReplaceAllString(line, "") })
}

func dedentAll(s source) (source, bool) {
	m := margin(s.lines)
	if lines, _ := trimBlank(s.lines, 0); m == "" && len(lines) > 2 && lines[0] == beginMarker {
		// The markers may stand out, around a single file.
		inner := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
			return line == beginMarker || line == endMarker
		})
		m = margin(inner)
		if slices.ContainsFunc(inner[1:], func(line string) bool { return strings.HasPrefix(line, m+"***") }) {
			return s, false
		}
	}
	return s.edit(func(_ int, line string) string { return strings.TrimPrefix(line, m) })
}

var (
	fence   = lazyregexp.New("^(```+|~~~+)[ \t]*[\\w+.-]*\\s*$")
	heredoc = lazyregexp.New(`^(?:cd\s+(?:'([^']+)'|"([^"$\x60\\]+)"|([^\s'"$\x60\\;&|<>()*?~]+))\s*(&&|;)\s*)?` +
		`(?:(apply_patch|applypatch|cat|patch -p1|` +
		`git apply(?: -| -v| --verbose| -p1| --recount| --whitespace=\w+)*)\s*)?` +
		`<<-?\s*(?:'([\w-]+)'|"([\w-]+)"|([\w-]+))(\s*\|\s*(?:apply_patch|applypatch|git apply))?\s*$`)
	shellCall = lazyregexp.New(
		`^(?:\$ )?(?:(?:bash|sh|zsh) -l?c|(?:cd\s+\S+\s*&&\s*)?(?:apply_patch|applypatch))\s+(['"])`)
)

// fromShell reads a script that is one heredoc for apply_patch, git apply or patch, with
// an optional cd before it, or apply_patch with a quoted patch.
func fromShell(s source) (source, bool) {
	text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s.text()), "$ "))
	if m := shellCall.FindStringSubmatch(text); m != nil && strings.HasSuffix(text, m[1]) {
		head := text[:len(m[0])-1]
		inner, ok := unquoteShell(text[len(m[0]):len(text)-1], m[1])
		if !ok {
			return s, false
		}
		inside := newSource(strings.TrimPrefix(inner, "\n"))
		if strings.Contains(head, "-c") || strings.Contains(head, "-lc") {
			return fromShell(inside)
		}
		if dir, ok := strings.CutPrefix(head, "cd "); ok {
			inside.dir, _, _ = strings.Cut(dir, "&&")
			inside.dir = strings.TrimSpace(inside.dir)
			if strings.ContainsAny(inside.dir, "'\"$`\\~*?;|") {
				return s, false
			}
		}
		return inside, true
	}
	h, ok := parseHeredoc(text)
	if !ok || h.open && h.dir == "" { // without a folder, the line above is enough of text to leave out
		return s, false
	}
	return source{lines: h.body, first: s.first + 1, dir: h.dir}, true
}

// A script is a shell script that is a single heredoc.
type script struct {
	dir     string // of a cd before it
	program string // that reads it
	quoted  bool   // the shell expands nothing in it
	piped   bool   // on to another program
	checked bool   // it runs only if cd succeeds
	open    bool   // it lacks its last line
	body    []string
}

func parseHeredoc(text string) (h script, ok bool) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	m := heredoc.FindStringSubmatch(lines[0])
	if m == nil {
		return h, false
	}
	tag := m[6] + m[7] + m[8]
	end := slices.IndexFunc(lines, func(line string) bool { return strings.TrimRight(line, "\r") == tag })
	if end < 0 {
		end = len(lines)
	} else if end < len(lines)-1 {
		return h, false
	}
	h = script{dir: m[1] + m[2] + m[3], program: m[5], body: lines[1:end]}
	h.checked, h.quoted, h.piped, h.open = m[4] != ";", m[8] == "", m[9] != "", end == len(lines)
	return h, true
}

// unquoteShell returns the text of a shell word in the given quotes. Quotes in it that
// are not escaped stay, if none is escaped.
func unquoteShell(word, quote string) (text string, ok bool) {
	escaped, special := `'\''`, "'"
	if quote == `"` {
		escaped, special = `\"`, "\"$`"
	}
	rest := strings.ReplaceAll(word, escaped, "")
	if quote == `"` {
		rest = strings.NewReplacer(`\\`, "", `\$`, "", "\\`", "").Replace(rest)
	}
	bare := strings.ContainsAny(rest, special)
	switch {
	case bare && strings.Contains(word, escaped):
		return "", false // some are escaped, some are not
	case bare:
		return word, true
	case quote == "'":
		return strings.ReplaceAll(word, escaped, "'"), true
	}
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`").Replace(word), true
}

// beginsPatch reports whether a patch or a part of one begins at the first of lines.
func beginsPatch(lines []string) bool {
	return spelled(lines[0]) != "" || startsDiff(lines) || searchLine.MatchString(lines[0])
}

// fromFence drops what is outside of Markdown fences, if a fence opens before the patch.
// A fenced block without a patch in it is a part of the text around.
func fromFence(s source) (source, bool) {
	start := slices.IndexFunc(s.lines, func(line string) bool { return fence.MatchString(line) })
	if start < 0 {
		return s, false
	}
	for i := range s.lines[:start] {
		if beginsPatch(s.lines[i:]) {
			return s, false
		}
	}
	keep := make([]bool, len(s.lines))
	for i := start; i < len(s.lines); i++ {
		m := fence.FindStringSubmatch(s.lines[i])
		if m == nil {
			continue
		}
		end := closing(s.lines, i+1, m[1])
		block := s.lines[i+1 : end]
		text := slices.IndexFunc(block, func(line string) bool { return strings.TrimSpace(line) != "" })
		if text >= 0 && (beginsPatch(block[text:]) || strings.Contains(block[text], "Begin Patch") ||
			heredoc.MatchString(block[text]) || strings.HasPrefix(block[text], "@@") || hasBlock(block)) {
			for j := i + 1; j < end; j++ {
				keep[j] = true
			}
		}
		i = end
	}
	if !slices.Contains(keep, true) {
		return s, false
	}
	namesBlock := func(i int) bool {
		next := strings.Join(s.lines[i+1:min(i+2, len(s.lines))], "")
		return searchPath(s.lines[i]) != "" && fence.MatchString(next) && hasBlock(s.lines[i:])
	}
	return s.edit(func(i int, line string) string {
		if keep[i] || namesBlock(i) {
			return line
		}
		return ""
	})
}

// closing returns the index of the line that closes a fence, or else the number of lines.
// A new file in the patch may have fences of its own, so the patch must have its end.
func closing(lines []string, start int, fence string) int {
	begun := false
	for i := start; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], " \t\r")
		switch spelled(line) {
		case beginMarker:
			begun = slices.ContainsFunc(lines[i:], func(line string) bool { return spelled(line) == endMarker })
		case endMarker:
			begun = false
		}
		if line == fence && !begun {
			return i
		}
	}
	return len(lines)
}
