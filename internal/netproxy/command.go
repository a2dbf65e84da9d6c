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

// Environ returns the environment variables that point a command's programs to the
// proxy. If command is not "", it identifies the command in calls of [Uses]; it must
// be unique.
//
// All variables contain an HTTP proxy: some programs fail on a SOCKS address if they
// lack a library for it. The command's own loopback is not proxied unless hosts lists it.
func Environ(command string, hosts policy.Hosts) []string {
	at := policy.ProxyAddress
	if command != "" {
		at = url.UserPassword(command, "x").String() + "@" + at
	}
	var env []string
	for _, name := range []string{
		"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "FTP_PROXY", "ftp_proxy",
		"WS_PROXY", "ws_proxy", "WSS_PROXY", "wss_proxy",
		"npm_config_proxy", "npm_config_https_proxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY",
		"PIP_PROXY", "CARGO_HTTP_PROXY", "BUNDLE_HTTP_PROXY", "BUNDLE_HTTPS_PROXY",
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

// noProxy returns the hosts that are reached without the proxy: the loopback names
// that hosts does not list.
func noProxy(hosts policy.Hosts) []string {
	return slices.DeleteFunc([]string{"localhost", "127.0.0.1", "::1"}, func(host string) bool {
		return slices.ContainsFunc(hosts.Allow, func(pattern string) bool {
			return pattern == host || strings.HasPrefix(pattern, host+":") || strings.HasPrefix(pattern, "["+host+"]")
		})
	})
}

// Uses asks the proxy, from inside the sandbox, which hosts the command reached or was
// denied since the given time.
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
		return nil, fmt.Errorf("requesting the hosts used from the proxy: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("requesting the hosts used from the proxy: %s", res.Status)
	}
	var uses []policy.HostUse
	err = json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&uses)
	return uses, err
}

// proxyTransport connects to the proxy itself, ignoring the environment.
var proxyTransport = &http.Transport{MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second}
