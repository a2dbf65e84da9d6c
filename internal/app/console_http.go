package app

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"toolgate/internal/console"
)

// apps returns the gates of the callers that are connected.
func (hs *tenants) apps() []*App {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	var list []*App
	for _, h := range hs.open {
		if h.started() {
			list = append(list, h.app)
		}
	}
	slices.SortFunc(list, func(a, b *App) int { return strings.Compare(a.caller, b.caller) })
	return list
}

// openConsole mounts the console of all callers at /console. A link from `toolgate console`, which
// takes access to the state folder, opens it. A caller's token does not, because no caller may
// answer for another.
func (h *httpServer) openConsole(s *Settings, outputs *console.Outputs) {
	about := console.About{Workspace: "all callers over HTTP"}
	o := console.Options{About: about, Outputs: outputs, Hosts: s.Config.HTTP.Hosts}
	h.console = s.consoleOf(h.tenants.apps, o)
	h.mux.Handle("/console/", h.console)
	h.mux.Handle("GET /console", http.RedirectHandler("/console/", http.StatusSeeOther))
}

// announceConsole announces the console to `toolgate console`.
func (h *httpServer) announceConsole(s *Settings, scheme string, at net.Addr) (remove func()) {
	url := scheme + "://" + at.String()
	if addr, err := netip.ParseAddrPort(at.String()); err == nil && addr.Addr().IsUnspecified() {
		url = fmt.Sprintf("%s://127.0.0.1:%d", scheme, addr.Port())
		if addr.Addr().Is6() {
			url = fmt.Sprintf("%s://[::1]:%d", scheme, addr.Port())
		}
	}
	remove, err := h.console.Announce(s.ConsolesDir(), url)
	if err != nil {
		s.Log.Warn("`toolgate console` does not find this console", "err", err)
		return func() {}
	}
	return remove
}
