package netproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"toolgate/policy"
)

// Environ returns the variables by which a command's programs find the proxy.
// Command is a name for the command that no other has, by which [Uses] tells
// its hosts from those of others; "" gives none.
//
// All of them name HTTP: some programs end at a SOCKS address that they have no
// library for. Loopback is not proxied, it is the command's own, unless hosts
// lists it.
func Environ(command string, hosts policy.Hosts) []string {
	at := policy.ProxyAddress
	if command != "" {
		at = url.UserPassword(command, "x").String() + "@" + at
	}
	var env []string
	for _, name := range []string{
		"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "FTP_PROXY", "ftp_proxy",
		"WS_PROXY", "ws_proxy", "WSS_PROXY", "wss_proxy",
		"npm_config_proxy", "npm_config_https_proxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY", "PIP_PROXY", "CARGO_HTTP_PROXY", "BUNDLE_HTTP_PROXY", "BUNDLE_HTTPS_PROXY",
	} {
		env = append(env, name+"=http://"+at)
	}
	direct := strings.Join(noProxy(hosts), ",")
	return append(env,
		"RSYNC_PROXY="+at,
		"NO_PROXY="+direct, "no_proxy="+direct, "npm_config_noproxy="+direct,
		"NODE_USE_ENV_PROXY=1", "ELECTRON_GET_USE_PROXY=true",
	)
}

// noProxy returns what is reached without the proxy: the command's own servers.
func noProxy(hosts policy.Hosts) []string {
	return slices.DeleteFunc([]string{"localhost", "127.0.0.1", "::1"}, func(host string) bool {
		return slices.ContainsFunc(hosts.Allow, func(pattern string) bool {
			return pattern == host || strings.HasPrefix(pattern, host+":") || strings.HasPrefix(pattern, "["+host+"]")
		})
	})
}

// Uses asks the proxy, from inside the sandbox, which hosts command reached or
// was refused since a time.
func Uses(ctx context.Context, command string, since time.Time) ([]policy.HostUse, error) {
	address := fmt.Sprintf("http://%s%s?since=%d", policy.ProxyAddress, usesPath, since.UnixNano())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth(command, "x")
	req.Header.Set("Proxy-Authorization", req.Header.Get("Authorization"))
	res, err := proxyTransport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("asking the proxy about its hosts: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking the proxy about its hosts: %s", res.Status)
	}
	var uses []policy.HostUse
	err = json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&uses)
	return uses, err
}

// proxyTransport reaches the proxy itself, whatever the environment says.
var proxyTransport = &http.Transport{MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second}
