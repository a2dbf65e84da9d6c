package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"toolgate/aggregator"
)

// meetServers starts the servers of these names once and says what they offer,
// or why they do not run. What they offer is kept: some clients ask for the
// tools only when they start, and wait for no server then.
func (p *program) meetServers(ctx context.Context, names []string) {
	fmt.Fprintf(p.stderr, "toolgate: starting %s once, to learn what there is; --start=false leaves that out\n", strings.Join(names, ", "))
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
		fmt.Fprintf(p.stderr, "toolgate: %s\n", meeting(st))
	}
}

// meeting says how it went with one server.
func meeting(st aggregator.Status) string {
	if st.State != aggregator.Ready {
		return fmt.Sprintf("%s does not run: %s; it stays in the config, and `toolgate doctor` tries it again", st.Name, cmp.Or(st.Error, string(st.State)))
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
