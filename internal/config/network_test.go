package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/config"
	"toolgate/policy"
)

func loadText(t *testing.T, text string) (config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return config.Load(file)
}

func TestNetworkOfWorkspaceWrite(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		network    policy.Network
		hosts      policy.Hosts
	}{
		{"nothing said", "", policy.NetworkNone, policy.Hosts{}},
		{"on", "network_access = true", policy.NetworkAll, policy.Hosts{}},
		{"a list", "network_access = true\nallowed_domains = [\"Example.com.\", \"*.example.org\"]\ndenied_domains = [\"x.example.org\"]", policy.NetworkHosts, policy.Hosts{Allow: []string{"*.example.org", "example.com"}, Deny: []string{"x.example.org"}}},
		{"an empty list", "network_access = true\nallowed_domains = []", policy.NetworkHosts, policy.Hosts{}},
		{"a list, and off", "network_access = false\nallowed_domains = [\"example.com\"]", policy.NetworkNone, policy.Hosts{}},
		{"a list alone", "allowed_domains = [\"example.com\"]", policy.NetworkNone, policy.Hosts{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := loadText(t, "[sandbox_workspace_write]\n"+tt.text)
			require.NoError(t, err)
			network, hosts, err := c.WorkspaceWrite.Network()
			require.NoError(t, err)
			require.Equal(t, tt.network, network)
			require.Equal(t, tt.hosts, hosts)
		})
	}
	for _, tt := range []struct {
		text string
		line int
		msg  string
	}{
		{"network_access = true\nallowed_domains = [\"https://example.com\"]", 3, "allowed_domains: host \"https://example.com\": give the host alone"},
		{"network_access = true\nallowed_domains = [\"a.*.com\"]", 3, "a * stands only at the beginning"},
		{"network_access = true\nallowed_domains = [\"*\"]\ndenied_domains = [\"a b\"]", 4, "denied_domains: host \"a b\""},
		{"denied_domains = [\"example.com\"]", 2, "requires allowed_domains"},
		{"allowed_domains = [\"*\"]\ndenied_domains = [\"*\"]", 3, `"*" denies every host`},
	} {
		_, err := loadText(t, "[sandbox_workspace_write]\n"+tt.text)
		bad, ok := errors.AsType[*config.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, tt.line, bad.Line)
		require.Contains(t, bad.Msg, tt.msg)
		require.NotEmpty(t, bad.Hint)
	}
}

func TestNetworkOfPermissions(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		network    policy.Network
		hosts      policy.Hosts
		err        string
	}{
		{"nothing", "", policy.NetworkNone, policy.Hosts{}, ""},
		{"on", "enabled = true", policy.NetworkAll, policy.Hosts{}, ""},
		{"domains", "enabled = true\nmode = \"full\"\nenable_socks5 = true\n[permissions.p.network.domains]\n\"**.example.com\" = \"allow\"\n\"x.example.com\" = \"deny\"", policy.NetworkHosts, policy.Hosts{Allow: []string{"**.example.com"}, Deny: []string{"x.example.com"}}, ""},
		{"no domains", "enabled = true\n[permissions.p.network.domains]", policy.NetworkHosts, policy.Hosts{}, ""},
		{"domains, and off", "enabled = false\n[permissions.p.network.domains]\n\"example.com\" = \"allow\"", policy.NetworkNone, policy.Hosts{}, ""},
		{"sockets that are denied", "enabled = true\n[permissions.p.network.unix_sockets]\n\"/run/docker.sock\" = \"deny\"", policy.NetworkAll, policy.Hosts{}, ""},
		{"sockets", "enabled = true\n[permissions.p.network.unix_sockets]\n\"/run/docker.sock\" = \"allow\"", 0, policy.Hosts{}, "no command reaches a unix socket"},
		{"limited", "enabled = true\nmode = \"limited\"", 0, policy.Hosts{}, "limited is not supported"},
		{"another mode", "enabled = true\nmode = \"x\"", 0, policy.Hosts{}, "unknown mode"},
		{"another word", "enabled = true\n[permissions.p.network.domains]\n\"example.com\" = \"perhaps\"", 0, policy.Hosts{}, "example.com is \"perhaps\""},
		{"no host", "enabled = true\n[permissions.p.network.domains]\n\"a b\" = \"allow\"", 0, policy.Hosts{}, "a control byte or a space"},
		{"another key", "enabled = true\nlimited = true", 0, policy.Hosts{}, "unknown key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := loadText(t, "[permissions.p.network]\n"+tt.text)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			r, err := c.Permissions.Resolve("p")
			require.NoError(t, err)
			network, hosts, err := r.Network.Parse()
			require.NoError(t, err)
			require.Equal(t, tt.network, network)
			require.Equal(t, tt.hosts, hosts)
		})
	}
	n := config.Network{ProxyURL: "http://x", AllowLocalBinding: true}
	require.Equal(t, []string{"allow_local_binding", "proxy_url"}, n.WithoutEffect())
}

func TestNetworkOfAServer(t *testing.T) {
	c, err := loadText(t, "[mcp_servers.s]\ncommand = \"x\"\nnetwork = true\nallowed_domains = [\"api.example.com\"]")
	require.NoError(t, err)
	network, hosts, err := c.MCPServers["s"].Reach()
	require.NoError(t, err)
	require.Equal(t, policy.NetworkHosts, network)
	require.Equal(t, []string{"api.example.com"}, hosts.Allow)
	for _, bad := range []string{
		"command = \"x\"\nnetwork = true\nallowed_domains = [\"a b\"]",
		"command = \"x\"\nnetwork = true\ndenied_domains = [\"a\"]",
		"command = \"x\"\nnetwork = true\nsandbox = \"none\"\nallowed_domains = [\"a\"]",
		"url = \"https://example.com\"\nallowed_domains = [\"a\"]",
	} {
		_, err := loadText(t, "[mcp_servers.s]\n"+bad)
		require.Error(t, err, bad)
	}
	// An empty list survives an edit: without it every host would be allowed.
	text, err := config.AddServers(nil, map[string]config.MCPServer{"s": {Command: "x", Network: true, AllowedDomains: []string{}}})
	require.NoError(t, err)
	require.Contains(t, string(text), "allowed_domains = []")
}
