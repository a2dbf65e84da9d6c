// Package hostname normalizes the name or address of a host, so that a rule and
// the host that a program connects to can be compared.
//
//	host, err := hostname.Parse("Example.COM.") // "example.com"
package hostname

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// An Error is a fault in a host name, address or pattern.
type Error struct {
	Host string
	Why  string
}

func (e *Error) Error() string { return fmt.Sprintf("host %q: %s", e.Host, e.Why) }

// Parse returns the normal form of a host name or address: lower case, punycode,
// no final dot, no brackets; an IPv4-mapped IPv6 address becomes the IPv4
// address. The error is a *[Error].
//
// Names that programs interpret differently are errors: those with control
// bytes, user names or zones, and addresses in unusual notations such as 127.1
// or 0x7f000001.
func Parse(raw string) (string, error) {
	fault := func(why string) (string, error) { return "", &Error{raw, why} }
	if raw == "" {
		return fault("it is empty")
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] == 0x7f {
			return fault("it contains a control byte or a space")
		}
	}
	if at := strings.IndexAny(raw, "/\\@?#%*\"<>^`{|}"); at >= 0 {
		return fault(fmt.Sprintf("it contains %q", raw[at]))
	}
	if inside, ok := strings.CutPrefix(raw, "["); ok {
		addr, err := netip.ParseAddr(strings.TrimSuffix(inside, "]"))
		if err != nil || !addr.Is6() || !strings.HasSuffix(raw, "]") {
			return fault("only an IPv6 address stands in brackets")
		}
		return addr.Unmap().String(), nil
	}
	if addr, err := netip.ParseAddr(raw); err == nil {
		return addr.Unmap().String(), nil
	}
	name, err := asciiName(raw)
	if err != nil {
		return fault("it is no name: " + err.Error())
	}
	name = strings.TrimSuffix(name, ".")
	// Check again: full-width digits, for example, are ASCII digits now.
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.Unmap().String(), nil
	}
	if why := nameFault(name); why != "" {
		return fault(why)
	}
	return name, nil
}

// lookupNames maps a name as browsers do before they look it up.
var lookupNames = idna.New(
	idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false), idna.Transitional(false))

// asciiName returns raw in lower case and punycode.
func asciiName(raw string) (string, error) {
	ascii := !strings.ContainsFunc(raw, func(r rune) bool { return r >= 0x80 })
	if lower := strings.ToLower(raw); ascii && !strings.Contains(lower, "xn--") {
		return lower, nil
	}
	if !utf8.ValidString(raw) {
		return "", errors.New("it is not UTF-8")
	}
	name, err := lookupNames.ToASCII(raw)
	if err != nil {
		return "", err
	}
	// The result must map to itself.
	if again, err := lookupNames.ToASCII(name); err != nil || again != name {
		return "", errors.New("it has more than one form")
	}
	return name, nil
}

// nameFault returns why the lower-case name is not a valid host name, or "".
func nameFault(name string) string {
	if len(name) > 253 {
		return "it is longer than 253 characters"
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		switch {
		case label == "":
			return "a part between its dots is empty"
		case len(label) > 63:
			return "a part between its dots is longer than 63 characters"
		case strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "":
			return "a name has letters, digits, - and _ only"
		}
	}
	// The C library takes such a name for an address in one of many notations.
	last := labels[len(labels)-1]
	hex, isHex := strings.CutPrefix(last, "0x")
	if strings.Trim(last, "0123456789") == "" || isHex && strings.Trim(hex, "0123456789abcdef") == "" {
		return "it is neither a name nor an address in the usual notation"
	}
	return ""
}

// ParseWithPort returns the host and port of "host:port", the host as [Parse]
// does. If there is no port it returns fallback, or an error if that is 0.
// The error is a *[Error].
func ParseWithPort(raw string, fallback uint16) (host string, port uint16, err error) {
	name, digits := raw, ""
	bracketed := strings.HasPrefix(raw, "[")
	hasPort := !strings.HasSuffix(raw, "]") && (bracketed || strings.Count(raw, ":") == 1)
	if i := strings.LastIndexByte(raw, ':'); i >= 0 && hasPort {
		name, digits = raw[:i], raw[i+1:]
		if digits == "" {
			return "", 0, &Error{raw, "its port is empty"}
		}
	}
	if port = fallback; digits != "" {
		if port, err = ParsePort(digits); err != nil {
			return "", 0, &Error{raw, err.Error()}
		}
	}
	if port == 0 {
		return "", 0, &Error{raw, "it has no port"}
	}
	host, err = Parse(name)
	return host, port, err
}

// ParsePort returns a port number from 1 to 65535.
func ParsePort(digits string) (uint16, error) {
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || digits[0] == '+' {
		return 0, fmt.Errorf("%q is no port", digits)
	}
	return uint16(n), nil
}
