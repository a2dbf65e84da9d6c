package schema

import (
	"cmp"
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

// PublicName returns the name under which a tool is published: prefix and raw name if
// no other tool can get that name, else a name that ends in a hash of server and raw
// name. It is at most budget bytes long; 0 means [DefaultNameBudget].
//
// The name depends on the arguments alone, so it stays the same whatever other tools
// and servers there are. Names of two servers differ provided that their prefixes do
// not overlap, which the config ensures.
func PublicName(server, prefix string, budget int, raw string) string {
	name := prefix + raw
	ambiguous := endsInHash(name) || prefix == policy.ToolPrefix(server) && !dividesOnce(server)
	if ambiguous || !policy.IsPlainTool(raw) || len(name) > cmp.Or(budget, DefaultNameBudget) {
		return HashedName(server, prefix, budget, raw)
	}
	return name
}

// HashedName returns the name of a tool with a hash, see [PublicName].
func HashedName(server, prefix string, budget int, raw string) string {
	name := prefix + policy.PlainName(raw)
	room := cmp.Or(budget, DefaultNameBudget) - hashLength - 1
	return name[:min(len(name), room)] + "_" + NameHash(server, raw)
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

// NameHash returns the hash that Codex uses: SHA-1 over server, namespace, connector,
// callable name and raw name, cut to 12 hex digits.
func NameHash(server, raw string) string {
	sum := sha1.Sum([]byte(server + "\x00" + server + "\x00\x00" + raw + "\x00" + raw))
	return hex.EncodeToString(sum[:])[:hashLength]
}
