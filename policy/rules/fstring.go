package rules

import (
	"slices"
	"strings"

	"toolgate/internal/lazyregexp"
)

var (
	// literals matches comments, and string literals with their prefix. One that is not
	// closed ends with the line, or with the file if it has three quotes.
	literals = lazyregexp.New(`(?s)#[^\n]*|\w*(?:` +
		`"""(?:\\.|[^\\])*?(?:"""|\\?\z)|'''(?:\\.|[^\\])*?(?:'''|\\?\z)|` +
		`"(?:\\.|[^"\\\n])*(?:"|\\\z)?|'(?:\\.|[^'\\\n])*(?:'|\\\z)?)`)

	fstringName = lazyregexp.New(`\{([A-Za-z_][A-Za-z0-9_]*)\}`)
)

// withoutFStrings rewrites f"…{name}…" as "…{name}…".format(name=name), because
// Codex's Starlark has f-strings and the one used here does not. Line numbers
// do not change.
func withoutFStrings(src string) string {
	return literals.ReplaceAllStringFunc(src, func(literal string) string {
		text, ok := strings.CutPrefix(literal, "f")
		if !ok || text[0] != '"' && text[0] != '\'' {
			return literal
		}
		bare := strings.NewReplacer("{{", "", "}}", "").Replace(text)
		var args []string
		for _, m := range fstringName.FindAllStringSubmatch(bare, -1) {
			if arg := m[1] + "=" + m[1]; !slices.Contains(args, arg) {
				args = append(args, arg)
			}
		}
		return text + ".format(" + strings.Join(args, ", ") + ")"
	})
}
