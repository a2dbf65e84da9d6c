package aggregator

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
)

// DefaultNameBudget is how long a published name may be. Clients put a prefix
// of their own before it, and some drop what is then longer than 60.
const DefaultNameBudget = 40

// hashLength is what of a digest tells two names apart, in hex digits.
const hashLength = 12

// publicNames returns the names under which the raw names of one server's
// tools are published: prefix and raw name with all but letters, digits and _
// replaced by _. A name that is too long, or that would stand for two tools,
// ends in a digest of server and raw name; it depends on nothing else, so it
// stays when other servers come and go.
func publicNames(server, prefix string, budget int, raw []string) map[string]string {
	if budget == 0 {
		budget = DefaultNameBudget
	}
	plain := map[string]string{}
	takenBy := map[string]int{}
	for _, r := range raw {
		plain[r] = prefix + plainName(r)
		takenBy[plain[r]]++
	}
	names := map[string]string{}
	for r, name := range plain {
		if takenBy[name] > 1 || len(name) > budget || plainName(r) == "" {
			name = name[:min(len(name), budget-hashLength-1)] + "_" + nameHash(server, r)
		}
		names[r] = name
	}
	return names
}

// defaultPrefix is what a server's tools' names begin with.
func defaultPrefix(server string) string { return "mcp__" + plainName(server) + "__" }

// plainName replaces what some client cannot take in a name.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, s)
}

// nameHash is Codex's digest: SHA-1 over server, namespace, connector,
// callable name and raw name.
func nameHash(server, raw string) string {
	sum := sha1.Sum([]byte(server + "\x00" + server + "\x00\x00" + raw + "\x00" + raw))
	return hex.EncodeToString(sum[:])[:hashLength]
}
