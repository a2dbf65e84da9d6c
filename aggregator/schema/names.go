package schema

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"

	"toolgate/policy"
)

// DefaultNameBudget is the longest published name in bytes. Clients add a prefix of
// their own, and some drop tools whose name is then longer than 60.
const DefaultNameBudget = 40

// hashLength is the length of the hash in a name, in hex digits.
const hashLength = 12

// PublicNames returns the [PublicName] of each raw name.
func PublicNames(server, prefix string, budget int, raw []string) map[string]string {
	names := map[string]string{}
	for _, r := range raw {
		names[r] = PublicName(server, prefix, budget, r)
	}
	return names
}

// PublicName returns the name under which a tool is published: prefix and raw name if
// no other tool can get that name, else a name that ends in a hash of server and raw
// name. It is at most budget bytes long; 0 means [DefaultNameBudget].
//
// The name depends on the arguments alone, so it stays the same whatever other tools
// and servers there are. Names of two servers differ provided that their prefixes do
// not overlap, which the config ensures.
func PublicName(server, prefix string, budget int, raw string) string {
	if budget == 0 {
		budget = DefaultNameBudget
	}
	name := prefix + raw
	ambiguous := endsInHash(name) || prefix == DefaultPrefix(server) && !dividesOnce(server)
	if ambiguous || !policy.IsPlainTool(raw) || len(name) > budget {
		return HashedName(server, prefix, budget, raw)
	}
	return name
}

// HashedName returns the name of a tool with a hash, see [PublicName].
func HashedName(server, prefix string, budget int, raw string) string {
	if budget == 0 {
		budget = DefaultNameBudget
	}
	name := prefix + policy.PlainName(raw)
	return name[:min(len(name), budget-hashLength-1)] + "_" + NameHash(server, raw)
}

// dividesOnce reports whether mcp__SERVER__TOOL can be split into server and tool in one
// way only.
func dividesOnce(server string) bool {
	s := policy.PlainName(server)
	return !strings.Contains(s, "__") && !strings.HasSuffix(s, "_")
}

// endsInHash reports whether name looks like the result of HashedName.
func endsInHash(name string) bool {
	i := len(name) - hashLength - 1
	return i >= 0 && name[i] == '_' && strings.Trim(name[i+1:], "0123456789abcdef") == ""
}

// DefaultPrefix returns the prefix of a server's tool names if the config sets none.
func DefaultPrefix(server string) string { return policy.ToolPrefix(server) }

// NameHash returns the hash that Codex uses: SHA-1 over server, namespace, connector,
// callable name and raw name, cut to 12 hex digits.
func NameHash(server, raw string) string {
	sum := sha1.Sum([]byte(server + "\x00" + server + "\x00\x00" + raw + "\x00" + raw))
	return hex.EncodeToString(sum[:])[:hashLength]
}
