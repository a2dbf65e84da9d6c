package shell

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"toolgate/internal/lazyregexp"
	"toolgate/policy"
	"toolgate/tools"
)

// The output of a command is only a hint for a refusal, never proof: it suggests
// which path to check, and the system says whether owner and mode would have
// allowed the access.

// refusals are the texts of errors that a sandbox causes, in lower case, as in the C
// library, Go, Node and Python.
var refusals = []struct {
	words string
	errno syscall.Errno
}{
	{"read-only file system", syscall.EROFS},
	{"permission denied", syscall.EACCES},
	{"operation not permitted", syscall.EPERM},
}

// noNetwork matches the errors of programs that have no network.
var noNetwork = lazyregexp.New(`(?i)network is unreachable|could not resolve (host|proxy)` +
	`|temporary failure in name resolution|name or service not known|no address associated with hostname` +
	`|network is down|enotfound|eai_again|failed to lookup address`)

// denied returns what the sandbox refused to p, which has ended and printed text: the
// cause of its failure, and the refused hosts, even if it did not fail.
func (h *host) denied(p *process, text string) (denied *tools.Denial, hosts []tools.Denial) {
	if !h.confined {
		return nil, nil
	}
	seen := p.refused()
	hosts = p.unreportedHosts(seen)
	switch {
	case p.code == 0 || p.stopped.Load():
		return nil, hosts
	case len(seen) > 0:
		return &seen[len(seen)-1], hosts // the last one is the likely cause
	}
	if denied = denial(text, p.cmd.Dir); denied == nil {
		// With such an environment, the command can reach hosts only through the proxy.
		proxied := strings.HasSuffix(variable(p.cmd.Env, "HTTPS_PROXY"), "@"+policy.ProxyAddress)
		denied = denialOfNetwork(text, proxied, seen != nil)
	}
	return denied, nil
}

// unreportedHosts returns the hosts in denials that no answer has reported, and marks
// them as reported.
func (p *process) unreportedHosts(denials []tools.Denial) []tools.Denial {
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	var fresh []tools.Denial
	for _, d := range denials {
		isHost := d.Op == "network" && d.Path != ""
		if !isHost || p.reported[d] {
			continue
		}
		fresh = append(fresh, d)
		p.reported[d] = true
	}
	return fresh
}

// hostLines returns a line for each refused host, except for the one in denied.
func hostLines(hosts []tools.Denial, denied *tools.Denial) string {
	const most = 5
	var b strings.Builder
	for i, d := range slices.Backward(hosts) {
		if denied != nil && d == *denied {
			continue
		}
		if len(hosts)-i > most {
			fmt.Fprintf(&b, "And %d hosts more.\n", i+1)
			break
		}
		fmt.Fprintf(&b, "While it ran, the sandbox refused the host %s: %s\n", d.Path, d.Why)
	}
	return b.String()
}

// denialOfNetwork returns a denial if output shows that a command had no network.
// proxied means that it had access through the proxy, and known that the proxy saw
// it and refused nothing.
func denialOfNetwork(output string, proxied, known bool) *tools.Denial {
	switch {
	case known || !noNetwork.MatchString(output) || networkReachable():
		return nil
	case proxied:
		return &tools.Denial{Op: "network", Why: "there is only the proxy that HTTPS_PROXY names, " +
			"to the hosts that are allowed, and this program did not use it"}
	}
	return &tools.Denial{Op: "network", Why: "the sandbox has no network"}
}

// deniedLine returns a line for the model about what the sandbox refused and what to
// do, or "".
func (o Options) deniedLine(d *tools.Denial) string {
	if d == nil {
		return ""
	}
	what := d.Op
	if d.Path != "" {
		what += " " + d.Path
	}
	switch {
	case d.Final:
		return fmt.Sprintf("The sandbox refused this: %s: %s.\n", what, d.Why)
	case o.withholds(policy.RequireEscalated):
		return fmt.Sprintf("The sandbox refused this: %s: %s. Nothing runs outside the sandbox here; "+
			"go on without it.\n", what, d.Why)
	}
	return fmt.Sprintf("The sandbox refused this: %s: %s. If it is needed, run the command again with "+
		"sandbox_permissions \"require_escalated\" and a justification; the user is asked.\n", what, d.Why)
}

// denial returns what the sandbox refused to a failed command that ran in dir and
// printed output, or nil if the sandbox was not the cause.
func denial(output, dir string) *tools.Denial {
	for line := range strings.Lines(output) {
		lower := strings.ToLower(line)
		for _, r := range refusals {
			if !strings.Contains(lower, r.words) {
				continue
			}
			for _, path := range pathsIn(line, r.words) {
				if d := refused(path, dir, r.errno); d != nil {
					return d
				}
			}
		}
	}
	return nil
}

// refused returns a denial if owner and mode would have allowed writing or reading
// path.
func refused(path, dir string, errno syscall.Errno) *tools.Denial {
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(dir, path)
	}
	if errno == syscall.EROFS && !readOnlyMount(full) {
		return nil
	}
	for _, op := range []string{"write", "read"} {
		err := tools.AsDenial(&fs.PathError{Op: "open", Path: full, Err: errno}, op, path)
		if d, ok := errors.AsType[*tools.Denial](err); ok && refusedHere(full, op) {
			return d
		}
	}
	return nil
}

// refusedHere reports whether op on path is also refused to this process, which has
// the same confinement. It changes nothing.
func refusedHere(path, op string) bool {
	if op == "read" {
		f, err := os.Open(path)
		if err == nil {
			f.Close()
		}
		return errors.Is(err, fs.ErrPermission)
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return !canCreate(filepath.Dir(path))
	}
	if err != nil || !info.Mode().IsRegular() {
		return err == nil && !canCreate(filepath.Dir(path))
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return true
	}
	f.Close()
	return false
}

// quoted matches text in quotation marks.
var quoted = lazyregexp.New("'([^']+)'|\"([^\"]+)\"|‘([^’]+)’|`([^`']+)['`]")

// pathsIn returns the possible paths in an error message: quoted text, or else the
// text before words, as in "program: path: words" and "open path: words".
func pathsIn(line, words string) []string {
	var paths []string
	for _, m := range quoted.FindAllStringSubmatch(line, -1) {
		paths = append(paths, m[1]+m[2]+m[3]+m[4])
	}
	at := strings.Index(strings.ToLower(line), words)
	if len(paths) > 0 || at < 0 || at > len(line) {
		return paths
	}
	before := strings.TrimRight(line[:at], ": ")
	if i := strings.LastIndex(before, ": "); i >= 0 {
		before = before[i+2:]
	}
	fields := strings.Fields(before)
	if len(fields) == 0 {
		return nil
	}
	return []string{fields[len(fields)-1], before}
}

// networkReachable reports whether there is a route to the network. It sends nothing:
// connecting a datagram socket only looks up the route. The address is reserved for
// documentation.
func networkReachable() bool {
	conn, err := net.Dial("udp", "192.0.2.1:9")
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
