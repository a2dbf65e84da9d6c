package schema

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"

	"toolgate/policy"
)

// DefaultNameBudget is how long a published name may be. Clients put a prefix
// of their own before it, and some drop what is then longer than 60.
const DefaultNameBudget = 40

// hashLength is what of a digest tells two names apart, in hex digits.
const hashLength = 12

// PublicNames returns the names under which the raw names of one server's
// tools are published, see [PublicName].
func PublicNames(server, prefix string, budget int, raw []string) map[string]string {
	names := map[string]string{}
	for _, r := range raw {
		names[r] = PublicName(server, prefix, budget, r)
	}
	return names
}

// PublicName returns the name under which a tool is published: prefix and raw
// name as they are, where no other tool can have that name; else they end in a
// hash of server and raw name. It depends on nothing else, so a name leads to
// the same tool whatever other tools and servers there are. That of two servers
// differ takes prefixes that do not overlap, which the config ensures.
func PublicName(server, prefix string, budget int, raw string) string {
	if budget == 0 {
		budget = DefaultNameBudget
	}
	name := prefix + raw
	if !policy.IsPlainTool(raw) || len(name) > budget || endsInHash(name) || prefix == DefaultPrefix(server) && !dividesOnce(server) {
		return HashedName(server, prefix, budget, raw)
	}
	return name
}

func HashedName(server, prefix string, budget int, raw string) string {
	if budget == 0 {
		budget = DefaultNameBudget
	}
	name := prefix + policy.PlainName(raw)
	return name[:min(len(name), budget-hashLength-1)] + "_" + NameHash(server, raw)
}

// dividesOnce reports whether it can be told where the server ends in
// mcp__SERVER__TOOL.
func dividesOnce(server string) bool {
	s := policy.PlainName(server)
	return !strings.Contains(s, "__") && !strings.HasSuffix(s, "_")
}

// endsInHash reports whether name looks like one that ends in a hash.
func endsInHash(name string) bool {
	i := len(name) - hashLength - 1
	return i >= 0 && name[i] == '_' && strings.Trim(name[i+1:], "0123456789abcdef") == ""
}

// DefaultPrefix is what a server's tools' names begin with.
func DefaultPrefix(server string) string { return policy.ToolPrefix(server) }

// NameHash is Codex's digest: SHA-1 over server, namespace, connector,
// callable name and raw name.
func NameHash(server, raw string) string {
	sum := sha1.Sum([]byte(server + "\x00" + server + "\x00\x00" + raw + "\x00" + raw))
	return hex.EncodeToString(sum[:])[:hashLength]
}
