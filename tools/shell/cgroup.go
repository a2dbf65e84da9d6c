package shell

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A cgroup contains a command and all processes that it starts, which cannot leave
// it. A nil cgroup is none.
type cgroup struct{ folder string }

// newCgroup creates a group for the command with the given id. It returns nil if the
// limits name no parent cgroup.
func newCgroup(l Limits, id string) (*cgroup, error) {
	if l.Cgroup == "" {
		return nil, nil
	}
	g := &cgroup{filepath.Join(l.Cgroup, "command-"+id)}
	if err := os.Mkdir(g.folder, 0o755); err != nil {
		return nil, fmt.Errorf("no cgroup for the command: %w", err)
	}
	err := errors.Join(
		g.limit("memory.max", l.Memory),
		g.limit("memory.oom.group", min(l.Memory, 1)),
		g.limit("pids.max", l.Tasks),
	)
	if err != nil {
		g.remove()
		return nil, fmt.Errorf("limiting the command: %w", err)
	}
	return g, nil
}

func (g *cgroup) limit(file string, value int64) error {
	if value <= 0 {
		return nil
	}
	return g.write(file, strconv.FormatInt(value, 10))
}

func (g *cgroup) write(file, text string) error {
	return os.WriteFile(filepath.Join(g.folder, file), []byte(text), 0)
}

func (g *cgroup) add(pid int) error {
	if g == nil {
		return nil
	}
	return g.write("cgroup.procs", strconv.Itoa(pid))
}

func (g *cgroup) pids() []int {
	if g == nil {
		return nil
	}
	list, _ := os.ReadFile(filepath.Join(g.folder, "cgroup.procs"))
	return slices.DeleteFunc(numbers(list), func(pid int) bool { return pid <= 0 })
}

// numbers returns the numbers in a file of the system.
func numbers(list []byte) []int {
	var all []int
	for field := range strings.FieldsSeq(string(list)) {
		if n, err := strconv.Atoi(field); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// kill kills all processes in the group atomically.
func (g *cgroup) kill() {
	if g != nil {
		_ = g.write("cgroup.kill", "1")
	}
}

// remove removes the group, which must be empty.
func (g *cgroup) remove() {
	if g != nil {
		_ = os.Remove(g.folder)
	}
}
