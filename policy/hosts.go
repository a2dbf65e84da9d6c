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

// ProxyAddress is where the commands of a profile with [NetworkHosts] find the
// one way out of their network namespace.
const ProxyAddress = "127.0.0.1:3128"

// ProxyPort is the port of [ProxyAddress].
const ProxyPort = 3128

// Hosts are the hosts that a profile with [NetworkHosts] may reach. The zero
// value reaches none. Make one with [NewHosts].
//
// A pattern is a name or an address, which stands for itself alone; with "*."
// before a name, for what is below that name; with "**.", for the name too;
// and "*" for every host. A port behind it, as in "example.com:443", narrows
// it to that port.
type Hosts struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"` // wins over Allow
}

// NewHosts returns Hosts with the patterns in one form, sorted. The error is a
// *[Error].
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
	if raw == "*" || strings.HasPrefix(raw, "*:") {
		if raw != "*" {
			port, err := hostname.ParsePort(raw[2:])
			if err != nil {
				return p, &hostname.Error{Host: raw, Why: err.Error()}
			}
			p.port = port
		}
		p.below = true
		return p, nil
	}
	if strings.Contains(name, "*") {
		return p, &hostname.Error{Host: raw,
			Why: `a * stands only at the beginning, as in "*.example.com" or "**.example.com", or alone`}
	}
	if strings.Contains(name, "://") {
		return p, &hostname.Error{Host: raw, Why: "give the host alone, without a scheme"}
	}
	// An address of IPv6 has colons of its own.
	if host, err := hostname.Parse(name); err == nil {
		p.host = host
	} else if p.host, p.port, err = hostname.ParseWithPort(name, 0); err != nil {
		if _, perr := hostname.Parse(strings.TrimRight(name, ":0123456789")); perr != nil ||
			!strings.Contains(name, ":") {
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

// matches reports whether p stands for host and port. Host is in the form of
// [Parse].
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

// match returns the first pattern of list that stands for host and port, ""
// for none. A pattern that is none refuses, so in a list that denies it
// matches.
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

// A HostTarget is what a command wants to reach.
type HostTarget struct {
	Host     string `json:"host"` // in the form of [ParseHost]
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

// speaks returns the protocols that the connection may carry, as far as the
// port tells: what restricts one of them restricts the target, or a command
// would take another way to the same server.
func (t HostTarget) speaks() []string {
	all := []string{t.Protocol}
	if t.Protocol != ProtocolHTTP && t.Port != 443 {
		all = append(all, ProtocolHTTP)
	}
	if t.Protocol == ProtocolSOCKS && t.Port != 80 {
		all = append(all, ProtocolHTTPS)
	}
	return all
}

// A HostDecision says whether a host may be reached, and why. The zero value
// refuses.
type HostDecision struct {
	Verdict Verdict
	Reason  string // in plain words, for the person and the model
	Hint    string // what would allow it, when it is refused
	Rule    string // the pattern or the rule, with its place, that decided
}

// Decide says whether t may be reached: what is denied is denied, then rules
// decide, the strictest first, then the list. Addresses that a name leads to
// are another question, see [Hosts.DecideAddress].
func (h Hosts) Decide(rs *rules.Rules, t HostTarget) HostDecision {
	if p := match(h.Deny, t.Host, t.Port, true); p != "" {
		return HostDecision{Reason: fmt.Sprintf("it is on the list of denied hosts (%s)", p), Rule: p,
			Hint: "go on without it"}
	}
	var prompt *rules.Match
	for _, protocol := range t.speaks() {
		m := rs.Network(t.Host, protocol)
		switch m.Decision {
		case rules.Forbidden:
			return HostDecision{Reason: "a rule forbids it" + ofRule(m.Strictest()), Rule: m.Strictest().String(),
				Hint: "go on without it"}
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
	return HostDecision{Reason: "it is not on the list of allowed hosts",
		Hint: "the user can allow it with the rule " + NetworkRuleLine(t)}
}

func ofRule(m *rules.Match) string {
	if m.Justification == "" {
		return ""
	}
	return " (" + m.Justification + ")"
}

// NetworkRuleLine returns the line of a rule file that allows t.
func NetworkRuleLine(t HostTarget) string {
	return fmt.Sprintf("network_rule(host=%s, protocol=%s, decision=\"allow\")", syntax.Quote(t.Host, false),
		syntax.Quote(t.Protocol, false))
}

// DecideAddress says whether t, which may be reached, may be reached at addr.
// What is not a public address is refused, because a name can be made to lead
// anywhere, unless that very address is listed: or the name localhost, for
// the loopback addresses. Own says that addr is one of this machine.
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
	if why == "" || h.listed(rs, at, t.Host == literal) ||
		addr.Unmap().IsLoopback() && t.Host == "localhost" && h.listed(rs, t, true) {
		return HostDecision{Verdict: Allow}
	}
	reason := fmt.Sprintf("it leads to %s, %s", literal, why)
	if t.Host == literal {
		reason = "it is " + why
	}
	return HostDecision{Reason: reason,
		Hint: fmt.Sprintf("only an entry for the address itself, %q, allows that", literal)}
}

// listed reports whether the very host of t is listed or has a rule that
// allows it, or one that asked and was answered; a pattern does not count.
func (h Hosts) listed(rs *rules.Rules, t HostTarget, answered bool) bool {
	exact := slices.ContainsFunc(h.Allow, func(raw string) bool {
		p, err := parsePattern(raw)
		return err == nil && p.host == t.Host && p.self && !p.below && p.matches(t.Host, t.Port)
	})
	ruling := rs.Network(t.Host, t.Protocol).Decision
	return exact || ruling == rules.Allow || ruling == rules.Prompt && answered
}

// nonPublicPrefixes are not public, and what they are.
var nonPublicPrefixes = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an address of this machine"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address"},
	{netip.MustParsePrefix("100.64.0.0/10"), "an address behind a provider's NAT"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address, where clouds keep credentials"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.0.2.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "a reserved address"},
	{netip.MustParsePrefix("198.51.100.0/24"), "a reserved address"},
	{netip.MustParsePrefix("203.0.113.0/24"), "a reserved address"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},

	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("::/128"), "an address of this machine"},
	{netip.MustParsePrefix("fc00::/7"), "a private address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("fec0::/10"), "a private address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
	// These carry, or are turned into, an IPv4 address that is not seen.
	{netip.MustParsePrefix("::/96"), "an IPv4 address in disguise"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "an IPv4 address in disguise"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "an IPv4 address in disguise"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "an IPv4 address in disguise"},
	{netip.MustParsePrefix("2001::/32"), "an IPv4 address in disguise"},
	{netip.MustParsePrefix("2002::/16"), "an IPv4 address in disguise"},
	{netip.MustParsePrefix("100::/64"), "a reserved address"},
	{netip.MustParsePrefix("2001:db8::/32"), "a reserved address"},
	{netip.MustParsePrefix("3fff::/20"), "a reserved address"},
	{netip.MustParsePrefix("5f00::/16"), "a reserved address"},
}

// nat64 holds IPv4 addresses in its last four bytes.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// notPublic says what addr is, "" when it is an address of the internet.
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
	for _, r := range nonPublicPrefixes {
		if r.prefix.Contains(addr) {
			return r.what
		}
	}
	return ""
}

// A HostUse is one host that a command reached, could not reach or was
// refused.
type HostUse struct {
	HostTarget
	Refused bool   `json:"refused,omitempty"`
	Failed  string `json:"failed,omitempty"` // why it could not be reached
	Reason  string `json:"reason,omitempty"` // why it was refused
	Hint    string `json:"hint,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Asked   string `json:"asked,omitempty"` // the answer, "" when nobody was asked
	Count   int    `json:"count"`
}
