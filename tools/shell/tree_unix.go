//go:build unix && !linux

package shell

import "golang.org/x/sys/unix"

func adopt() {}

func (f *processTracker) reap() {}

func (m *member) identify() {}

// members returns the process group of p while it has a member. Processes that
// left the group are not found.
func (f *processTracker) members(p *process) []member {
	if unix.Kill(-p.pid(), 0) != nil {
		return nil
	}
	return []member{{pid: -p.pid()}}
}
