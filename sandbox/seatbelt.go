package sandbox

import (
	"fmt"
	"regexp"
	"strings"

	"toolgate/policy"
)

// seatbeltHead allows what every program on macOS needs to start: the rest is
// denied unless a later rule allows it.
const seatbeltHead = `(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow user-preference-read)
(allow ipc-posix-sem)
(allow pseudo-tty)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.bsd.dirhelper")
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.logd"))
(allow file-read*)
(allow file-ioctl (regex #"^/dev/(tty.*|ptmx|null)$"))
(allow file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (regex #"^/dev/(fd/[0-9]+|ttys[0-9]+|ptmx)$"))
`

// Seatbelt returns the text of a profile for macOS's sandbox-exec that says
// what p says. Paths must have no symlinks: on macOS /tmp is one.
//
// Names of ReadOnlySubpaths are refused at any depth below a root, also when
// they do not exist. A folder that holds one can still be moved away. Nothing
// in this package runs it: it is for sandbox-exec -f.
func Seatbelt(p policy.Profile) (string, error) {
	p, err := normalize(p)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(seatbeltHead)
	for _, root := range p.WritableRoots {
		fmt.Fprintf(&b, "(allow file-write* (subpath %s))\n", seatbeltString(root))
	}
	// The last rule that matches decides.
	for _, root := range p.WritableRoots {
		for _, sub := range p.ReadOnlySubpaths {
			fmt.Fprintf(&b, "(deny file-write* (regex #%s))\n", seatbeltRegexp(root, sub))
		}
	}
	for _, path := range p.Hidden {
		fmt.Fprintf(&b, "(deny file-read* file-write* (subpath %s))\n", seatbeltString(path))
	}
	if p.Network == policy.NetworkHosts {
		fmt.Fprintf(&b, "(allow network-outbound (remote ip \"localhost:%d\"))\n(allow system-socket)\n", policy.ProxyPort)
	}
	if p.Network == policy.NetworkAll {
		// The internet only: a unix socket is a file to write, and the
		// user's daemons are behind it.
		b.WriteString("(allow network-outbound (remote ip))\n(allow network-inbound (local ip))\n(allow network-bind (local ip))\n(allow system-socket)\n")
		b.WriteString("(allow mach-lookup (global-name \"com.apple.trustd.agent\") (global-name \"com.apple.SecurityServer\"))\n")
		b.WriteString("(allow network-outbound (literal \"/private/var/run/mDNSResponder\"))\n")
	}
	return b.String(), nil
}

// seatbeltString returns s as a string of the profile language.
func seatbeltString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// seatbeltRegexp returns the regular expression, between quotes, for the
// protected name sub in any folder below root, and for what is below it. Case
// does not count to macOS's file systems, so each letter stands for both.
func seatbeltRegexp(root, sub string) string {
	var b strings.Builder
	b.WriteString("^" + regexp.QuoteMeta(root) + "/(.*/)?")
	for _, c := range sub {
		switch {
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			fmt.Fprintf(&b, "[%c%c]", c|0x20, c&^0x20)
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	b.WriteString("(/.*)?$")
	return `"` + strings.ReplaceAll(b.String(), `"`, `\"`) + `"`
}
