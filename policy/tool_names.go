package policy

import "strings"

// PlainName returns s with everything but letters, digits and _ replaced by _.
func PlainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, s)
}

// ToolPrefix returns the default prefix of the published names of a server's tools.
func ToolPrefix(server string) string { return "mcp__" + PlainName(server) + "__" }

// IsPlainTool reports whether the tool is published as its server's prefix and its
// own name, with an unambiguous boundary between them.
func IsPlainTool(tool string) bool {
	return tool != "" && PlainName(strings.ReplaceAll(tool, "-", "_")) == strings.ReplaceAll(tool, "-", "_") &&
		!strings.HasPrefix(tool, "_") && !strings.Contains(tool, "__")
}

// PrefixesOverlap reports whether tools published under the two prefixes could have
// the same name, ignoring case.
func PrefixesOverlap(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, ok := strings.CutPrefix(b, a)
	return ok && (rest == "" || IsPlainTool(rest))
}
