package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/syntax"

	"toolgate/internal/hostname"
	"toolgate/policy/rules"
)

// ProxyAddress is the address of the proxy in the network namespace of commands
// with [NetworkHosts].
const ProxyAddress = "127.0.0.1:3128"

// ProxyPort is the port of [ProxyAddress].
const ProxyPort = 3128

// Hosts are the hosts that a profile with [NetworkHosts] may reach. The zero value
// has none. Use [NewHosts] to make one.
//
// A pattern is a name or address. "*.example.com" matches all names below
// example.com, "**.example.com" also example.com itself, and "*" every host.
// "example.com:443" matches only that port.
type Hosts struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"` // wins over Allow
}

// NewHosts returns Hosts with the patterns normalized and sorted. The error is a
// *[hostname.Error].
func NewHosts(allow, deny []string) (Hosts, error) {
	var h Hosts
	var err error
	if h.Allow, err = parsePatterns(allow); err != nil {
		return Hosts{}, err
	}
	if h.Deny, err = parsePatterns(deny); err != nil {
		return Hosts{}, err
	}
	return h, nil
}

func parsePatterns(list []string) ([]string, error) {
	var out []string
	for _, raw := range list {
		p, err := parsePattern(raw)
		if err != nil {
			return nil, err
		}
		out = append(out, p.String())
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// A hostPattern is one entry of a list.
type hostPattern struct {
	host  string // "" is every host
	below bool   // what is below host
	self  bool   // host itself
	port  uint16 // 0 is every port
}

func parsePattern(raw string) (hostPattern, error) {
	p := hostPattern{self: true}
	rest, deep := strings.CutPrefix(raw, "**.")
	name, wild := strings.CutPrefix(rest, "*.")
	switch {
	case deep:
		p.below, name = true, rest
	case wild:
		p.below, p.self = true, false
	}
	if port, ok := strings.CutPrefix(raw, "*:"); ok || raw == "*" {
		var err error
		if ok {
			p.port, err = hostname.ParsePort(port)
		}
		if err != nil {
			return p, &hostname.Error{Host: raw, Why: err.Error()}
		}
		p.below = true
		return p, nil
	}
	if strings.Contains(name, "*") {
		why := `a * stands only at the beginning, as in "*.example.com" or "**.example.com", or alone`
		return p, &hostname.Error{Host: raw, Why: why}
	}
	if strings.Contains(name, "://") {
		return p, &hostname.Error{Host: raw, Why: "give the host alone, without a scheme"}
	}
	// An address of IPv6 has colons of its own.
	if host, err := hostname.Parse(name); err == nil {
		p.host = host
	} else if p.host, p.port, err = hostname.ParseWithPort(name, 0); err != nil {
		_, nameErr := hostname.Parse(strings.TrimRight(name, ":0123456789"))
		if nameErr != nil || !strings.Contains(name, ":") {
			_, err = hostname.Parse(name)
		}
		return p, &hostname.Error{Host: raw, Why: err.(*hostname.Error).Why}
	}
	if _, err := netip.ParseAddr(p.host); err == nil && p.below {
		return p, &hostname.Error{Host: raw, Why: "nothing is below an address"}
	}
	return p, nil
}

func (p hostPattern) String() string {
	s := p.host
	if strings.Contains(s, ":") {
		s = "[" + s + "]"
	}
	switch {
	case s == "":
		s = "*"
	case p.below && p.self:
		s = "**." + s
	case p.below:
		s = "*." + s
	}
	if p.port != 0 {
		s += ":" + strconv.Itoa(int(p.port))
	}
	return s
}

// matches reports whether p matches host and port. Host is in the form of
// [hostname.Parse].
func (p hostPattern) matches(host string, port uint16) bool {
	switch {
	case p.port != 0 && p.port != port:
		return false
	case p.host == "":
		return true
	case p.self && host == p.host:
		return true
	}
	return p.below && strings.HasSuffix(host, "."+p.host)
}

// match returns the first pattern of list that matches host and port, or "". An
// invalid pattern matches in a list that denies, and only there.
func match(list []string, host string, port uint16, denies bool) string {
	for _, raw := range list {
		p, err := parsePattern(raw)
		if err != nil && denies || err == nil && p.matches(host, port) {
			return raw
		}
	}
	return ""
}

// Protocols of a [HostTarget], in the words of network_rule.
const (
	ProtocolHTTP  = "http"
	ProtocolHTTPS = "https" // a tunnel through CONNECT
	ProtocolSOCKS = "socks5_tcp"
)

// A HostTarget is a host that a command wants to connect to.
type HostTarget struct {
	Host     string `json:"host"` // in the form of [hostname.Parse]
	Port     uint16 `json:"port"`
	Protocol string `json:"protocol"`
}

func (t HostTarget) String() string {
	host := t.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if t.Protocol == ProtocolHTTP && t.Port == 80 || t.Protocol == ProtocolHTTPS && t.Port == 443 {
		return host
	}
	return host + ":" + strconv.Itoa(int(t.Port))
}

// protocols returns the protocols that the connection may carry, judging by the
// port. A restriction of any of them applies to the target, so that a command
// cannot evade it by another protocol.
func (t HostTarget) protocols() []string {
	all := []string{t.Protocol}
	if t.Protocol != ProtocolHTTP && t.Port != 443 {
		all = append(all, ProtocolHTTP)
	}
	if t.Protocol == ProtocolSOCKS && t.Port != 80 {
		all = append(all, ProtocolHTTPS)
	}
	return all
}

// A HostDecision says whether a host may be reached, and why. The zero value denies
// it.
type HostDecision struct {
	Verdict Verdict
	Reason  string // in plain words, for the person and the model
	Hint    string // what would allow it, if it is denied
	Rule    string // the pattern, or the rule with its position, that decided
}

// Decide decides whether t may be reached: by h.Deny, then by the rules, the
// strictest first, then by h.Allow. The addresses that a name resolves to are
// decided by [Hosts.DecideAddress].
func (h Hosts) Decide(rs *rules.Rules, t HostTarget) HostDecision {
	if p := match(h.Deny, t.Host, t.Port, true); p != "" {
		why := fmt.Sprintf("it is on the list of denied hosts (%s)", p)
		return HostDecision{Reason: why, Rule: p, Hint: "go on without it"}
	}
	var prompt *rules.Match
	for _, protocol := range t.protocols() {
		m := rs.Network(t.Host, protocol)
		switch m.Decision {
		case rules.Forbidden:
			by := m.Strictest()
			return HostDecision{Reason: "a rule forbids it" + ofRule(by), Rule: by.String(), Hint: "go on without it"}
		case rules.Prompt:
			prompt = m.Strictest()
		}
	}
	if prompt != nil {
		return HostDecision{Verdict: Ask, Reason: "a rule asks first" + ofRule(prompt), Rule: prompt.String()}
	}
	if m := rs.Network(t.Host, t.Protocol); m.Decision == rules.Allow {
		return HostDecision{Verdict: Allow, Reason: "a rule allows it", Rule: m.Strictest().String()}
	}
	if p := match(h.Allow, t.Host, t.Port, false); p != "" {
		return HostDecision{Verdict: Allow, Reason: "it is on the list of allowed hosts", Rule: p}
	}
	return HostDecision{
		Reason: "it is not on the list of allowed hosts",
		Hint:   "the user can allow it with the rule " + NetworkRuleLine(t),
	}
}

func ofRule(m *rules.Match) string {
	if m.Justification == "" {
		return ""
	}
	return " (" + m.Justification + ")"
}

// NetworkRuleLine returns the line of a rule file that allows t.
func NetworkRuleLine(t HostTarget) string {
	host, protocol := syntax.Quote(t.Host, false), syntax.Quote(t.Protocol, false)
	return fmt.Sprintf("network_rule(host=%s, protocol=%s, decision=\"allow\")", host, protocol)
}

// DecideAddress decides whether t, which may be reached, may be reached at addr.
// Because a name can be made to resolve to anything, an address that is not public
// is denied unless that very address is listed, or localhost for the loopback
// addresses. Own is set if addr is an address of this machine.
func (h Hosts) DecideAddress(rs *rules.Rules, t HostTarget, addr netip.Addr, own bool) HostDecision {
	literal := addr.Unmap().WithZone("").String()
	at := t
	at.Host = literal
	if d := h.Decide(rs, at); d.Verdict == Deny && d.Rule != "" {
		d.Reason = fmt.Sprintf("it leads to %s, and %s", literal, d.Reason)
		return d
	}
	why := notPublic(addr)
	if why == "" && own {
		why = "an address of this machine"
	}
	localhost := addr.Unmap().IsLoopback() && t.Host == "localhost"
	if why == "" || h.listed(rs, at, t.Host == literal) || localhost && h.listed(rs, t, true) {
		return HostDecision{Verdict: Allow}
	}
	reason := fmt.Sprintf("it leads to %s, %s", literal, why)
	if t.Host == literal {
		reason = "it is " + why
	}
	hint := fmt.Sprintf("only an entry for the address itself, %q, allows that", literal)
	return HostDecision{Reason: reason, Hint: hint}
}

// listed reports whether the host of t itself is on the list, has a rule that allows
// it, or one that prompts if answered is set. Wildcards do not count.
func (h Hosts) listed(rs *rules.Rules, t HostTarget, answered bool) bool {
	exact := slices.ContainsFunc(h.Allow, func(raw string) bool {
		p, err := parsePattern(raw)
		return err == nil && p.host == t.Host && p.self && !p.below && p.matches(t.Host, t.Port)
	})
	ruling := rs.Network(t.Host, t.Protocol).Decision
	return exact || ruling == rules.Allow || ruling == rules.Prompt && answered
}

// nonPublic are the ranges of addresses that are not public. The first that contains
// an address applies.
var nonPublic = []struct{ what, prefixes string }{
	{"an address of this machine", "0.0.0.0/8 ::/128"},
	{"a loopback address", "127.0.0.0/8 ::1/128"},
	{"a private address", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10"},
	{"an address behind a provider's NAT", "100.64.0.0/10"},
	{"a link-local address, where clouds keep credentials", "169.254.0.0/16"},
	{"an address of the cloud's host, where Azure keeps credentials", "168.63.129.16/32"},
	{"a link-local address", "fe80::/10"},
	{"a multicast address", "224.0.0.0/4 ff00::/8"},
	{"a reserved address", "192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 " +
		"240.0.0.0/4 100::/64 100:0:0:1::/64 2001:2::/48 2001:10::/28 2001:db8::/32 3fff::/20 5f00::/16"},
	// These contain or are translated to an IPv4 address.
	{"an IPv4 address in disguise", "::/96 ::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b:1::/48 2001::/32 2002::/16"},
}

// nat64 addresses hold an IPv4 address in their last four bytes.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// notPublic returns what kind of address addr is, or "" if it is public.
func notPublic(addr netip.Addr) string {
	if !addr.IsValid() || addr.Zone() != "" {
		return "no address of the internet"
	}
	addr = addr.Unmap()
	if nat64.Contains(addr) {
		// Networks without IPv4 reach every IPv4 address through these.
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	for _, kind := range nonPublic {
		for prefix := range strings.FieldsSeq(kind.prefixes) {
			if netip.MustParsePrefix(prefix).Contains(addr) {
				return kind.what
			}
		}
	}
	return ""
}

// A HostUse is a host that a command connected to or tried to connect to.
type HostUse struct {
	HostTarget
	Refused bool   `json:"refused,omitempty"`
	Failed  string `json:"failed,omitempty"` // why it could not be reached
	Reason  string `json:"reason,omitempty"` // why it was denied
	Hint    string `json:"hint,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Asked   string `json:"asked,omitempty"` // the answer, "" if nobody was asked
	Count   int    `json:"count"`
}
