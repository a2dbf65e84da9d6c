package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"toolgate/internal/gate"
	"toolgate/internal/netproxy"
	"toolgate/policy"
	"toolgate/sandbox"
	"toolgate/tools"
	"toolgate/tools/shell"
)

// An EgressSession is the proxy of one process in a network namespace of its own, with the calls that the process runs.
type EgressSession struct {
	proxy *netproxy.Proxy
	gate  *gate.Gate

	mu    sync.Mutex
	calls []*activeCall // under way, the newest last
}

// An activeCall is a call in progress.
type activeCall struct {
	ctx  context.Context
	call gate.Call
	no   map[policy.HostTarget]error // hosts that a person refused it
}

// OpenEgress serves the proxy of a started process; nil if the process has none. Gate asks the
// user about hosts; if it is nil, nobody is asked. The caller closes the session.
func (s *Settings) OpenEgress(cmd *sandbox.Cmd, f policy.Profile, gate *gate.Gate, log *slog.Logger) *EgressSession {
	l := cmd.Listener()
	if l == nil {
		return nil
	}
	w := &EgressSession{gate: gate}
	w.proxy = netproxy.New(netproxy.Options{Hosts: f.Hosts, Rules: s.Rules.Rules, Ask: w.ask, Log: log})
	go w.proxy.Serve(l) // ends with the process, and with close
	return w
}

// Close stops the proxy.
func (w *EgressSession) Close() { w.proxy.Close() }

// Refused returns the hosts that were refused to the process.
func (w *EgressSession) Refused() []tools.Denial { return refusedHosts(w.proxy.Uses(time.Time{})) }

// enter is the Enter of an [aggregator.Process].
func (w *EgressSession) enter(ctx context.Context, c gate.Call) (leave func() []policy.HostUse) {
	p := &activeCall{ctx: ctx, call: c, no: map[policy.HostTarget]error{}}
	began := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, p)
	return func() []policy.HostUse {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calls = slices.DeleteFunc(w.calls, func(q *activeCall) bool { return q == p })
		uses := w.proxy.Uses(began)
		return uses[max(0, len(uses)-maxHosts):]
	}
}

// maxHosts bounds the hosts in the record of a call; the last ones are kept.
const maxHosts = 100

// ask asks about a host through the newest active call that is not read-only, since a read-only call reaches no host.
func (w *EgressSession) ask(ctx context.Context, t policy.HostTarget, d policy.HostDecision) (string, error) {
	var p *activeCall // the newest that is not read-only
	var refused error
	running := 0
	w.mu.Lock()
	for _, c := range w.calls {
		if !c.call.Action.ReadOnly {
			p, refused = c, c.no[t]
			running++
		}
	}
	w.mu.Unlock()
	if running > 1 {
		d.Reason += fmt.Sprintf(" (it may be any of %d commands that run now)", running)
	}
	if p == nil || w.gate == nil {
		return "", errors.New("no call in progress through which the user could be asked")
	}
	if refused != nil {
		return "", refused // a program that tries again does not trouble the user again
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	answer, err := w.gate.AskHost(ctx, p.call, t, d)
	if err != nil {
		w.mu.Lock()
		p.no[t] = err
		w.mu.Unlock()
	}
	return answer, err
}

// proxied starts commands with the variables by which programs find the proxy. Afterwards it asks
// the proxy what it refused to the command.
func proxied(start shell.StartFunc, hosts policy.Hosts, log *slog.Logger) shell.StartFunc {
	return func(cmd *exec.Cmd) (func() []tools.Denial, error) {
		name, began := rand.Text(), time.Now()
		cmd.Env = append(slices.Clip(cmd.Env), netproxy.Environ(name, hosts)...)
		refused, err := start(cmd)
		return func() []tools.Denial {
			var list []tools.Denial
			if refused != nil {
				list = refused()
			}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			uses, err := netproxy.Uses(ctx, name, began)
			if err != nil {
				log.Warn("what was refused to a command is not known", "err", err)
			}
			if len(uses) > 0 && list == nil {
				list = []tools.Denial{}
			}
			return append(list, refusedHosts(uses)...)
		}, err
	}
}

// refusedHosts returns the denials in uses.
func refusedHosts(uses []policy.HostUse) []tools.Denial {
	var list []tools.Denial
	for _, u := range uses {
		if !u.Refused {
			continue
		}
		why := u.Reason
		if u.Hint != "" {
			why += "; " + u.Hint
		}
		list = append(list, tools.Denial{Op: "network", Path: u.HostTarget.String(), Why: why, Final: u.Rule != ""})
	}
	return list
}

// NetworkWords describes what a profile can reach.
func NetworkWords(f policy.Profile) string {
	if f.Network != policy.NetworkHosts {
		return f.Network.String()
	}
	words := "only " + strings.Join(f.Hosts.Allow, ", ")
	if len(f.Hosts.Allow) == 0 {
		words = "only what rules allow"
	}
	if len(f.Hosts.Deny) > 0 {
		words += "; not " + strings.Join(f.Hosts.Deny, ", ")
	}
	return words
}
