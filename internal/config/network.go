package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"toolgate/policy"
)

// Network is [permissions.NAME.network], with Codex's keys. The zero value means no network.
type Network struct {
	Enabled     bool              `toml:"enabled"`
	Domains     map[string]string `toml:"domains"`      // host pattern → "allow" or "deny"; nil: every host
	UnixSockets map[string]string `toml:"unix_sockets"` // path → "none" or "deny"; never reachable
	Mode        string            `toml:"mode"`         // "full"

	// Codex's; ignored.
	ProxyURL           string `toml:"proxy_url" use:"none"`
	SocksURL           string `toml:"socks_url" use:"none"`
	EnableSocks5       *bool  `toml:"enable_socks5" use:"none"`
	EnableSocks5UDP    bool   `toml:"enable_socks5_udp" use:"none"`
	AllowUpstreamProxy bool   `toml:"allow_upstream_proxy" use:"none"`
	AllowLocalBinding  bool   `toml:"allow_local_binding" use:"none"`
}

// A NetworkError is an error in the network settings of a table.
type NetworkError struct {
	Key  string
	Msg  string
	Hint string
}

func (e *NetworkError) Error() string { return e.Key + ": " + e.Msg }

// Parse returns what the table allows. Errors are *[NetworkError]. A restriction that cannot be enforced is an error.
func (n Network) Parse() (policy.Network, policy.Hosts, error) {
	fault := func(key, msg, hint string) (policy.Network, policy.Hosts, error) {
		return policy.NetworkNone, policy.Hosts{}, &NetworkError{key, msg, hint}
	}
	for _, path := range slices.Sorted(maps.Keys(n.UnixSockets)) {
		if word := n.UnixSockets[path]; word != "none" && word != "deny" {
			msg := path + " cannot be allowed: no command reaches a unix socket here"
			return fault("unix_sockets", msg, "leave it out")
		}
	}
	switch n.Mode {
	case "", "full":
	case "limited":
		return fault("mode", "limited is not supported: traffic in a tunnel is not inspected",
			"leave it out, and list only hosts that may receive data under domains")
	default:
		return fault("mode", fmt.Sprintf("unknown mode %q", n.Mode), "the only mode is full")
	}
	var allow, deny []string
	for _, host := range slices.Sorted(maps.Keys(n.Domains)) {
		switch word := n.Domains[host]; word {
		case "allow":
			allow = append(allow, host)
		case "deny":
			deny = append(deny, host)
		default:
			return fault("domains", fmt.Sprintf("%s is %q", host, word), "it is one of: allow, deny")
		}
	}
	return parseHosts("domains", "domains", n.Enabled, n.Domains != nil, allow, deny)
}

// WithoutEffect returns the keys that are set but ignored.
func (n Network) WithoutEffect() []string { return slices.Sorted(slices.Values(keysFor(n, "none"))) }

// Network returns what [sandbox_workspace_write] allows. Errors are *[NetworkError].
func (w WorkspaceWrite) Network() (policy.Network, policy.Hosts, error) {
	return networkOf(w.NetworkAccess, w.AllowedDomains, w.DeniedDomains)
}

// Reach returns what the server's process may reach. Errors are *[NetworkError].
func (s MCPServer) Reach() (policy.Network, policy.Hosts, error) {
	return networkOf(s.Network, s.AllowedDomains, s.DeniedDomains)
}

// checkHosts returns what is wrong with the server's hosts, or "".
func (s MCPServer) checkHosts() (msg, hint string) {
	_, _, err := s.Reach()
	if e, ok := errors.AsType[*NetworkError](err); ok {
		return e.Error(), e.Hint
	}
	if word, _ := s.Confinement(); s.AllowedDomains != nil && word == "none" {
		return "allowed_domains cannot be enforced without a sandbox", `remove sandbox = "none"`
	}
	return "", ""
}

func networkOf(enabled bool, allow, deny []string) (policy.Network, policy.Hosts, error) {
	if allow == nil && deny != nil {
		const hint = `to allow every other host, set allowed_domains = ["*"]`
		return policy.NetworkNone, policy.Hosts{}, &NetworkError{"denied_domains", "requires allowed_domains", hint}
	}
	return parseHosts("allowed_domains", "denied_domains", enabled, allow != nil, allow, deny)
}

// parseHosts returns what the lists under two keys allow. An empty list allows no host.
func parseHosts(
	allowKey, denyKey string, enabled, listed bool, allow, deny []string,
) (policy.Network, policy.Hosts, error) {
	if _, err := policy.NewHosts(nil, deny); err != nil {
		return policy.NetworkNone, policy.Hosts{}, hostError(denyKey, err)
	}
	if slices.Contains(deny, "*") {
		fault := &NetworkError{denyKey, `"*" denies every host`, "leave the network off instead"}
		return policy.NetworkNone, policy.Hosts{}, fault
	}
	hosts, err := policy.NewHosts(allow, deny)
	switch {
	case err != nil:
		return policy.NetworkNone, policy.Hosts{}, hostError(allowKey, err)
	case !enabled:
		return policy.NetworkNone, policy.Hosts{}, nil
	case !listed:
		return policy.NetworkAll, policy.Hosts{}, nil
	}
	return policy.NetworkHosts, hosts, nil
}

func hostError(key string, err error) error {
	return &NetworkError{key, err.Error(), `a host is a name or an address, as in "example.com", ` +
		`"*.example.com" (subdomains), "**.example.com" (both) or "example.com:8443"`}
}
