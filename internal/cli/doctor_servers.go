package cli

import (
	"context"
	"fmt"

	"toolgate/aggregator"
	"toolgate/internal/app"
	"toolgate/policy"
)

// A checkedServer is the state of a downstream server.
type checkedServer struct {
	aggregator.Status
	Sandbox string `json:"sandbox,omitempty"` // of its process
}

// diagnoseServers starts every server once and reports its problems.
func diagnoseServers(ctx context.Context, a *app.App, d *diagnosis) {
	for _, key := range a.Config.WithoutEffect() {
		d.problem("the key %s has no effect here; take it out", key)
	}
	for _, st := range a.Downstreams.Check(ctx) {
		c := checkedServer{Status: st}
		server := a.Config.MCPServers[st.Name]
		if server.URL == "" {
			c.Sandbox = listed(st.Name, server).Sandbox
			if a.ServerProfile(st.Name, server).Mode == policy.DangerFullAccess {
				c.Sandbox = "none"
			}
		}
		d.Servers = append(d.Servers, c)
		if st.State != aggregator.Ready && st.Error != "" {
			d.problem("the server %s does not run: %s", st.Name, st.Error)
		}
		for _, f := range st.Faults {
			d.problem("server %s: %s", st.Name, f)
		}
		for _, key := range server.WithoutEffect() {
			d.problem("server %s: the key %s has no effect here; take it out", st.Name, key)
		}
	}
}

func printServers(d diagnosis, out func(string, ...any)) {
	for _, s := range d.Servers {
		words := fmt.Sprintf("%s, %d tools", s.State, s.Tools)
		if s.Server != "" {
			words += ", MCP " + s.Server
		}
		if s.Sandbox != "" {
			words += ", sandbox: " + s.Sandbox
		}
		if s.Level != "" {
			words += " (level " + s.Level + ")"
		}
		out("server %-9s %s", s.Name, words)
	}
}
