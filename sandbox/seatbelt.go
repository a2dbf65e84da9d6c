package sandbox

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"toolgate/policy"
)

// seatbeltHead allows what every program on macOS needs to start. The rest is
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
(allow file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty")
  (regex #"^/dev/(fd/[0-9]+|ttys[0-9]+|ptmx)$"))
`

// seatbeltNetwork allows the internet and what programs need to use it.
const seatbeltNetwork = `(allow network-outbound (remote ip))
(allow network-inbound (local ip))
(allow network-bind (local ip))
(allow system-socket)
(allow mach-lookup (global-name "com.apple.trustd.agent") (global-name "com.apple.SecurityServer"))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
`

// Seatbelt returns a profile for macOS's sandbox-exec that is equivalent to p.
// Paths must have no symlinks; on macOS /tmp is one.
//
// Names of ReadOnlySubpaths are refused at any depth below a root, even if they do
// not exist. A folder that contains one can still be moved away. Nothing in this
// package uses the profile: pass it to sandbox-exec -f. A profile that restricts
// reading to some paths is refused with an error that wraps [ErrUnsupported].
func Seatbelt(p policy.Profile) (string, error) {
	p, err := normalize(p)
	if err != nil {
		return "", err
	}
	if p.Paths.Restricted {
		return "", fmt.Errorf("%w: what programs on macOS must read to start is not known well enough "+
			"to let them read only some paths", ErrUnsupported)
	}
	var b strings.Builder
	b.WriteString(seatbeltHead)
	// The last matching rule decides: more specific rules come later, and of two
	// rules for one path the stricter one.
	for _, r := range seatbeltRules(p) {
		b.WriteString(r.text)
	}
	for _, glob := range p.Paths.DeniedGlobs {
		fmt.Fprintf(&b, "(deny file-read* file-write* (regex #%s))\n", seatbeltGlob(glob))
	}
	if p.Network == policy.NetworkHosts {
		fmt.Fprintf(&b, "(allow network-outbound (remote ip \"localhost:%d\"))\n", policy.ProxyPort)
		b.WriteString("(allow system-socket)\n")
	}
	if p.Network == policy.NetworkAll {
		// The internet only: a unix socket is a file to write, and the
		// user's daemons are behind it.
		b.WriteString(seatbeltNetwork)
	}
	return b.String(), nil
}

// A seatbeltRule is what the profile says of one path.
type seatbeltRule struct {
	path string
	text string
}

// seatbeltRules returns the rules for single paths, parents first.
func seatbeltRules(p policy.Profile) []seatbeltRule {
	var rules []seatbeltRule
	add := func(format string, paths []string) {
		for _, path := range paths {
			rules = append(rules, seatbeltRule{path, fmt.Sprintf(format, seatbeltString(path))})
		}
	}
	for _, root := range p.WritableRoots {
		text := fmt.Sprintf("(allow file-read* file-write* (subpath %s))\n", seatbeltString(root))
		for _, sub := range p.ReadOnlySubpaths {
			text += fmt.Sprintf("(deny file-write* (regex #%s))\n", seatbeltRegexp(root, sub))
		}
		rules = append(rules, seatbeltRule{root, text})
	}
	add("(allow file-read* (subpath %s))\n", p.Paths.Readable)
	add("(deny file-write* (subpath %s))\n", slices.Concat(p.Paths.ReadOnly, p.ReadOnlyPaths))
	add("(deny file-read* file-write* (subpath %s))\n", slices.Concat(p.Hidden, p.Paths.Denied))
	slices.SortStableFunc(rules, func(a, b seatbeltRule) int {
		return strings.Count(a.path, "/") - strings.Count(b.path, "/")
	})
	return rules
}

// seatbeltGlob returns the quoted regular expression for what the pattern matches
// and everything below it.
func seatbeltGlob(glob string) string {
	var b strings.Builder
	b.WriteString("^")
	parts := strings.Split(strings.TrimPrefix(glob, "/"), "/")
	for i, part := range parts {
		switch {
		case part == "**" && i == len(parts)-1:
			b.WriteString("/.+")
		case part == "**":
			b.WriteString("(/.*)?")
		default:
			b.WriteString("/" + globRegexp(part))
		}
	}
	b.WriteString("(/.*)?$")
	return `"` + strings.ReplaceAll(b.String(), `"`, `\"`) + `"`
}

// globRegexp returns the regular expression for one part of a pattern.
func globRegexp(part string) string {
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		switch c := part[i]; c {
		case '*':
			b.WriteString("[^/]*")
		case '?':
			b.WriteString("[^/]")
		case '[':
			end := i + 1 // of the class: a pattern was checked before
			for ; part[end] != ']'; end++ {
				if part[end] == '\\' {
					end++
				}
			}
			if class := part[i : end+1]; strings.Contains(class, `\`) {
				b.WriteString("[^/]") // matches more than the class, which is safe
			} else {
				b.WriteString(class)
			}
			i = end
		case '\\':
			i++
			b.WriteString(regexp.QuoteMeta(part[i : i+1]))
		default:
			b.WriteString(regexp.QuoteMeta(part[i : i+1]))
		}
	}
	return b.String()
}

// seatbeltString returns s as a string of the profile language.
func seatbeltString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// seatbeltRegexp returns the quoted regular expression for the protected name sub
// in any folder below root, and for what is below it. The file systems of macOS
// ignore case, so each letter matches both cases.
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
