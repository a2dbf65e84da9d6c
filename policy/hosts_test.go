package policy_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/hostname"
	"toolgate/internal/testkit"
	"toolgate/policy"
	"toolgate/policy/rules"
)

func TestParseHost(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"example.com", "example.com"},
		{"Example.COM", "example.com"},
		{"example.com.", "example.com"},
		{"EXAMPLE.com.", "example.com"},
		{"localhost", "localhost"},
		{"r3---sn-abc.example.com", "r3---sn-abc.example.com"},
		{"_dmarc.example.com", "_dmarc.example.com"},
		{"bücher.example", "xn--bcher-kva.example"},
		{"BÜCHER.example", "xn--bcher-kva.example"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"XN--bcher-KVA.example", "xn--bcher-kva.example"},
		{"ｅｘａｍｐｌｅ．ｃｏｍ", "example.com"},
		{"example。com", "example.com"},
		{"127.0.0.1", "127.0.0.1"},
		{"１２７.0.0.1", "127.0.0.1"},
		{"127。0。0。1", "127.0.0.1"},
		{"127.0.0.1.", "127.0.0.1"},
		{"::1", "::1"},
		{"[::1]", "::1"},
		{"[0:0:0:0:0:0:0:1]", "::1"},
		{"2001:DB8::A", "2001:db8::a"},
		{"::ffff:127.0.0.1", "127.0.0.1"},
		{"[::FFFF:7f00:1]", "127.0.0.1"},
	} {
		got, err := hostname.Parse(tt.in)
		require.NoError(t, err, tt.in)
		require.Equal(t, tt.want, got, tt.in)
	}
	for _, in := range []string{
		"", ".", "..", "example..com", ".example.com", "example.com..", " example.com", "example.com ", "exa mple.com",
		"example.com\x00.evil.com", "example.com\x00", "example.com\r\n", "example.com\t", "example.com\x7f", "\x01",
		"user@example.com", "good.com@evil.com", "example.com/path", "example.com\\evil.com", "example.com?x", "example.com#x", "exam%70le.com", "*.example.com", "http://example.com",
		"example.com:80", "::1%eth0", "[::1%25eth0]", "fe80::1%lo", "[127.0.0.1]", "[example.com]", "[::1", "::1]", "[::1]]",
		"127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.0.0.01", "1.2.3", "1.2.3.4.5", "example.0x1", "256.1.1.1",
		"exa$mple.com", "xn--\xff.com", "xn--a-.com.xn--", "\xff\xfe", "a\u200bb\u0000.com",
		strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 130) + "com",
	} {
		_, err := hostname.Parse(in)
		bad, ok := errors.AsType[*hostname.Error](err)
		require.True(t, ok, "%q: %v", in, err)
		require.Equal(t, in, bad.Host)
	}
}

func TestParseHostPort(t *testing.T) {
	for _, tt := range []struct {
		in       string
		fallback uint16
		host     string
		port     uint16
	}{
		{"example.com:443", 0, "example.com", 443},
		{"example.com", 80, "example.com", 80},
		{"[::1]:8080", 0, "::1", 8080},
		{"[::1]", 80, "::1", 80},
		{"::1", 80, "::1", 80},
		{"EXAMPLE.com.:1", 0, "example.com", 1},
	} {
		host, port, err := hostname.ParseWithPort(tt.in, tt.fallback)
		require.NoError(t, err, tt.in)
		require.Equal(t, tt.host, host)
		require.Equal(t, tt.port, port)
	}
	for _, in := range []string{"example.com", "example.com:", "example.com:0", "example.com:65536", "example.com:+80", "example.com: 80", "example.com:80:80", "example.com:http", "a@b:80", "good.com:80@evil.com:80", "[::1]x:80", ":80", "[::1]:"} {
		_, _, err := hostname.ParseWithPort(in, 0)
		require.Error(t, err, in)
	}
}

func hosts(t *testing.T, allow, deny string) policy.Hosts {
	h, err := policy.NewHosts(strings.Fields(allow), strings.Fields(deny))
	require.NoError(t, err)
	return h
}

func TestHostPatterns(t *testing.T) {
	h := hosts(t, "**.Example.COM. *.bücher.example B.example [::1]:80 127.0.0.1 b.example", "")
	require.Equal(t, []string{"**.example.com", "*.xn--bcher-kva.example", "127.0.0.1", "[::1]:80", "b.example"}, h.Allow)
	again, err := policy.NewHosts(h.Allow, nil)
	require.NoError(t, err)
	require.Equal(t, h, again)
	for _, bad := range []string{"", "*.", "**.", "a.*.com", "re*.example.com", "**", "*.*.com", "https://example.com", "example.com/x", "*.127.0.0.1", "example.com:0", "example.com:x", "*:x", "a b", "x\x00"} {
		_, err := policy.NewHosts([]string{bad}, nil)
		e, ok := errors.AsType[*hostname.Error](err)
		require.True(t, ok, "%q: %v", bad, err)
		require.Equal(t, bad, e.Host)
	}
}

func TestHostsDecide(t *testing.T) {
	parsed, err := rules.Parse("u.rules", []byte(`
network_rule(host="ruled.example", protocol="https", decision="allow")
network_rule(host="asked.example", protocol="https", decision="prompt", justification="costs money")
network_rule(host="no.example.com", protocol="https", decision="forbidden", justification="not that one")
network_rule(host="[0::1]", protocol="http", decision="forbidden")
`))
	require.NoError(t, err)
	const some = "example.com *.example.org **.example.net port.example:8443 asked.example ruled2.example ::1"
	for _, tt := range []struct {
		allow, deny, target string
		want                policy.Verdict
		reason              string
	}{
		{"", "", "https example.com:443", policy.Deny, "not on the list"},
		{some, "", "https example.com:443", policy.Allow, ""},
		{some, "", "http example.com:80", policy.Allow, ""},
		{some, "", "socks5_tcp example.com:22", policy.Allow, ""},
		{some, "", "https www.example.com:443", policy.Deny, "not on the list"},
		{some, "", "https notexample.com:443", policy.Deny, "not on the list"},
		{some, "", "https example.com.evil.com:443", policy.Deny, "not on the list"},
		{some, "", "https example.org:443", policy.Deny, "not on the list"},
		{some, "", "https a.example.org:443", policy.Allow, ""},
		{some, "", "https a.b.example.org:443", policy.Allow, ""},
		{some, "", "https evilexample.org:443", policy.Deny, "not on the list"},
		{some, "", "https example.net:443", policy.Allow, ""},
		{some, "", "https a.example.net:443", policy.Allow, ""},
		{some, "", "https port.example:8443", policy.Allow, ""},
		{some, "", "https port.example:443", policy.Deny, "not on the list"},
		{"*", "", "https anything.example:1", policy.Allow, ""},
		{"*:443", "", "https anything.example:443", policy.Allow, ""},
		{"*:443", "", "https anything.example:22", policy.Deny, "not on the list"},
		{some, "example.com", "https example.com:443", policy.Deny, "denied hosts"},
		{"*", "**.example.org", "https a.example.org:443", policy.Deny, "denied hosts"},
		{"*", "**.example.org", "https example.org:443", policy.Deny, "denied hosts"},
		{"*", "*.example.org", "https example.org:443", policy.Allow, ""},
		{"*", "example.org:22", "https example.org:443", policy.Allow, ""},
		{"*", "example.org:22", "socks5_tcp example.org:22", policy.Deny, "denied hosts"},

		{"", "", "https ruled.example:443", policy.Allow, "rule"},
		{"", "", "http ruled.example:80", policy.Deny, "not on the list"}, // a rule has one protocol
		{"", "ruled.example", "https ruled.example:443", policy.Deny, "denied hosts"},
		{some, "", "https asked.example:443", policy.Ask, "costs money"},
		{"*", "", "https no.example.com:443", policy.Deny, "not that one"},
		// The same server by another way.
		{"*", "", "socks5_tcp no.example.com:443", policy.Deny, "not that one"},
		{"*", "", "socks5_tcp no.example.com:8443", policy.Deny, "not that one"},
		{"*", "", "socks5_tcp asked.example:443", policy.Ask, "costs money"},
		{"*", "", "http no.example.com:80", policy.Allow, ""}, // it speaks of https alone
		{some, "", "http ::1:80", policy.Deny, "forbids"},
	} {
		t.Run(tt.allow+" but "+tt.deny+" "+tt.target, func(t *testing.T) {
			protocol, at, _ := strings.Cut(tt.target, " ")
			i := strings.LastIndex(at, ":")
			host, port, err := hostname.ParseWithPort("["+at[:i]+"]"+at[i:], 0)
			if err != nil {
				host, port, err = hostname.ParseWithPort(at, 0)
			}
			require.NoError(t, err)
			d := hosts(t, tt.allow, tt.deny).Decide(parsed, policy.HostTarget{Host: host, Port: port, Protocol: protocol})
			require.Equal(t, tt.want, d.Verdict, d.Reason)
			require.Contains(t, d.Reason, tt.reason)
		})
	}
	var zero policy.Hosts
	require.Equal(t, policy.Deny, zero.Decide(nil, policy.HostTarget{Host: "example.com", Port: 443, Protocol: "https"}).Verdict)
	// What is no pattern allows nothing and denies everything.
	broken := policy.Hosts{Allow: []string{"*", "a*b"}, Deny: []string{"a*b"}}
	require.Equal(t, policy.Deny, broken.Decide(nil, policy.HostTarget{Host: "example.com", Port: 443, Protocol: "https"}).Verdict)
}

func TestHostsDecideAddress(t *testing.T) {
	for _, tt := range []struct {
		allow, host, addr string
		own               bool
		want              string // "" is allowed
	}{
		{"*", "example.com", "93.184.215.14", false, ""},
		{"*", "example.com", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", false, ""},
		{"*", "example.com", "93.184.215.14", true, "this machine"},
		{"*", "example.com", "127.0.0.1", false, "loopback"},
		{"*", "example.com", "127.255.0.9", false, "loopback"},
		{"*", "example.com", "0.0.0.0", false, "this machine"},
		{"*", "example.com", "10.1.2.3", false, "private"},
		{"*", "example.com", "172.31.0.1", false, "private"},
		{"*", "example.com", "172.32.0.1", false, ""},
		{"*", "example.com", "192.168.1.1", false, "private"},
		{"*", "example.com", "100.64.0.1", false, "NAT"},
		{"*", "example.com", "169.254.169.254", false, "credentials"},
		// Where clouds have their metadata: Azure, Alibaba, Oracle, AWS, Google, also in IPv6 ones.
		{"*", "example.com", "168.63.129.16", false, "Azure"},
		{"*", "168.63.129.16", "168.63.129.16", false, "Azure"},
		{"168.63.129.16", "168.63.129.16", "168.63.129.16", false, ""},
		{"*", "example.com", "168.63.129.17", false, ""},
		{"*", "example.com", "::ffff:168.63.129.16", false, "Azure"},
		{"*", "example.com", "64:ff9b::a83f:8110", false, "Azure"},
		{"*", "example.com", "2002:a83f:8110::", false, "disguise"},
		{"*", "example.com", "100.100.100.200", false, "NAT"},
		{"*", "example.com", "192.0.0.192", false, "reserved"},
		{"*", "example.com", "fd00:ec2::254", false, "private"},
		{"*", "example.com", "fd20:ce::254", false, "private"},
		{"*", "example.com", "169.254.170.2", false, "credentials"},
		{"*", "example.com", "::ffff:0:169.254.169.254", false, "disguise"},
		{"*", "example.com", "2001:2::1", false, "reserved"},
		{"*", "example.com", "224.0.0.1", false, "multicast"},
		{"*", "example.com", "255.255.255.255", false, "reserved"},
		{"*", "example.com", "198.18.0.1", false, "reserved"},
		{"*", "example.com", "::", false, "this machine"},
		{"*", "example.com", "::1", false, "loopback"},
		{"*", "example.com", "fe80::1", false, "link-local"},
		{"*", "example.com", "fe80::1%eth0", false, "no address"},
		{"*", "example.com", "fd00::1", false, "private"},
		{"*", "example.com", "ff02::1", false, "multicast"},
		{"*", "example.com", "::ffff:127.0.0.1", false, "loopback"},
		{"*", "example.com", "::ffff:10.0.0.1", false, "private"},
		{"*", "example.com", "::127.0.0.1", false, "disguise"},
		{"*", "example.com", "64:ff9b::7f00:1", false, "loopback"},
		{"*", "example.com", "64:ff9b::a9fe:a9fe", false, "credentials"},
		{"*", "example.com", "64:ff9b::5db8:d70e", false, ""},
		{"*", "example.com", "64:ff9b:1::7f00:1", false, "disguise"},
		{"*", "example.com", "2002:7f00:1::", false, "disguise"},
		{"*", "example.com", "2001:0:7f00:1::", false, "disguise"},
		// An address that is listed, and the name that stands for loopback.
		{"127.0.0.1", "127.0.0.1", "127.0.0.1", false, ""},
		{"127.0.0.1:80", "127.0.0.1", "127.0.0.1", false, "loopback"},
		{"127.0.0.1:443", "127.0.0.1", "127.0.0.1", false, ""},
		{"* 127.0.0.1", "127.0.0.2", "127.0.0.2", false, "loopback"},
		{"* 10.0.0.7", "intra.example", "10.0.0.7", false, ""},
		{"localhost", "localhost", "127.0.0.1", false, ""},
		{"localhost", "localhost", "::1", false, ""},
		{"localhost", "localhost", "10.0.0.1", false, "private"},
		{"*", "localhost", "127.0.0.1", false, "loopback"},
		{"**.localhost", "localhost", "127.0.0.1", false, "loopback"},
		{"* localhost", "rebound.example", "127.0.0.1", false, "loopback"},
	} {
		t.Run(tt.allow+" "+tt.host+" "+tt.addr, func(t *testing.T) {
			at := policy.HostTarget{Host: tt.host, Port: 443, Protocol: policy.ProtocolHTTPS}
			d := hosts(t, tt.allow, "").DecideAddress(nil, at, netip.MustParseAddr(tt.addr), tt.own)
			if tt.want == "" {
				require.Equal(t, policy.Allow, d.Verdict, d.Reason)
				return
			}
			require.Equal(t, policy.Deny, d.Verdict)
			require.Contains(t, d.Reason, tt.want)
		})
	}
	// An address that is denied is denied under every name.
	d := hosts(t, "*", "93.184.215.14").DecideAddress(nil, policy.HostTarget{Host: "example.com", Port: 443, Protocol: "https"}, netip.MustParseAddr("::ffff:93.184.215.14"), false)
	require.Equal(t, policy.Deny, d.Verdict)
	require.Contains(t, d.Reason, "denied hosts")
}

func TestHostsInAProfile(t *testing.T) {
	p := testkit.Policy(policy.OnRequest, policy.WorkspaceWrite)
	p.Network, p.Hosts = policy.NetworkHosts, hosts(t, "example.com", "")
	listed := p.Profile()
	require.Equal(t, policy.NetworkHosts, listed.Network)
	p.Hosts = hosts(t, "example.org", "")
	require.NotEqual(t, listed.Digest(), p.Profile().Digest(), "a worker of one list serves no other")
	p.Mode = policy.ReadOnly
	require.Equal(t, policy.NetworkNone, p.Profile().Network)

	p.Mode = policy.WorkspaceWrite
	within := p.Within(&policy.Limit{Rules: pathRules("/", write), Network: true})
	require.Equal(t, policy.NetworkHosts, within.Network, "the stricter of both")
	require.Equal(t, p.Hosts, within.Hosts)
	within = p.Within(&policy.Limit{Rules: pathRules("/", write)})
	require.Equal(t, policy.NetworkNone, within.Network)
	require.Empty(t, within.Profile().Hosts)

	p.Network = policy.NetworkNone
	require.Empty(t, p.Profile().Hosts)
}

// FuzzParseHost looks for a host with two forms, and for one that passes with
// what programs read in different ways.
func FuzzParseHost(f *testing.F) {
	for _, seed := range []string{
		"example.com", "EXAMPLE.com.", "bücher.example", "xn--bcher-kva.example", "127.0.0.1", "[::1]", "::ffff:127.0.0.1", "１２７.0.0.1", "127.1", "0x7f.1",
		"good.com@evil.com", "a\x00b", "example。com", "[::1]:80", "*.example.com:443", "**.x", "xn--a", "ß.example", "ẞ.example", "fe80::1%eth0", "64:ff9b::1", "\u202e.com", "a.com\u2024evil.com", "℀.com", "xn--",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		host, err := hostname.Parse(raw)
		if err != nil {
			_, ok := errors.AsType[*hostname.Error](err)
			require.True(t, ok)
			return
		}
		again, err := hostname.Parse(host)
		require.NoError(t, err, "%q", host)
		require.Equal(t, host, again)
		require.NotContains(t, host, "%")
		require.Equal(t, strings.ToLower(host), host)
		require.Empty(t, strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.:"), "%q", host)
		addr, isAddr := netip.ParseAddr(host)
		if strings.Contains(host, ":") || strings.Trim(host, "0123456789.") == "" {
			require.NoError(t, isAddr, "%q", host)
			require.Equal(t, addr.Unmap().String(), host)
		}
		list, err := policy.NewHosts([]string{raw}, nil)
		if err != nil {
			return
		}
		d := list.Decide(nil, policy.HostTarget{Host: host, Port: 443, Protocol: policy.ProtocolHTTPS})
		require.Equal(t, policy.Allow, d.Verdict, "%q is listed as %q", raw, list.Allow)
	})
}
