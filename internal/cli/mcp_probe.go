package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"toolgate/aggregator"
)

// probeServers starts the servers with these names once and prints what they offer or why they do
// not run. Their catalogs are saved, because some clients list the tools only at their start and
// do not wait.
func (p *program) probeServers(ctx context.Context, names []string) {
	fmt.Fprintf(p.stderr, "toolgate: starting %s once, to learn what there is; --start=false leaves that out\n",
		strings.Join(names, ", "))
	alone := *p
	alone.OnlyServers = names
	if alone.LogLevel == "warn" {
		alone.LogLevel = "error" // what is wrong is said below
	}
	a, err := alone.Open()
	if err != nil {
		fmt.Fprintf(p.stderr, "toolgate: not started: %v\n", err)
		return
	}
	defer a.Close()
	for _, st := range a.Downstreams.Check(ctx) {
		fmt.Fprintf(p.stderr, "toolgate: %s\n", probeResult(st))
	}
}

// probeResult describes the state of one probed server.
func probeResult(st aggregator.Status) string {
	if st.State != aggregator.Ready {
		return fmt.Sprintf("%s does not run: %s; it stays in the config, and `toolgate doctor` tries it again",
			st.Name, cmp.Or(st.Error, string(st.State)))
	}
	tools := fmt.Sprintf("%d tools", st.Tools)
	if st.Tools == 1 {
		tools = "1 tool"
	}
	if len(st.Faults) > 0 {
		tools += "; left out: " + strings.Join(st.Faults, "; ")
	}
	return fmt.Sprintf("%s runs and offers %s", st.Name, tools)
}
