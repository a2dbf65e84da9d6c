package limits

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Delegated returns the group of this process if it can hold sandboxes to limits, or an
// error that says why not. The first call moves this process into a child group, because
// a group that limits its children has no processes itself (cgroups(7), "no internal
// processes"), and removes what a killed process left there. Call it before any process is
// started.
var Delegated = sync.OnceValues(func() (d Delegation, err error) {
	_, path, ok := strings.Cut("\n"+readText("/proc/self/cgroup"), "\n0::")
	for line := range strings.Lines(readText("/proc/self/mounts")) {
		if f := strings.Fields(line); ok && f[2] == "cgroup2" {
			d.Dir = filepath.Join(f[1], strings.TrimSpace(path))
		}
	}
	has := strings.Fields(readText(d.Dir + "/cgroup.controllers"))
	lacks := func(c string) bool { return !slices.Contains(has, c) }
	d.Controllers = slices.DeleteFunc([]string{"pids", "memory"}, lacks)
	switch {
	case len(d.Controllers) == 0:
		return d, errors.New("toolgate has no control group, version 2, for processes or memory")
	case readText(d.Dir+"/cgroup.type") == "":
		return d, errors.New("toolgate is in the root control group")
	case strings.Count(readText(d.Dir+"/cgroup.procs"), "\n") != 1:
		return d, errors.New("toolgate is not alone in its control group")
	}
	leaf := d.Dir + "/toolgate"
	os.Mkdir(leaf, 0o755) // or it is there
	if err = setGroup(leaf, "cgroup.procs", "0"); err == nil {
		err = setGroup(d.Dir, "cgroup.subtree_control", "+"+strings.Join(d.Controllers, " +"))
	}
	if err != nil {
		setGroup(d.Dir, "cgroup.procs", "0")
		os.Remove(leaf)
		return d, fmt.Errorf("toolgate's control group is not delegated to it: %w", err)
	}
	left, _ := filepath.Glob(d.Dir + "/toolgate-*")
	for _, dir := range left {
		removeGroup(dir)
	}
	return d, nil
})

func readText(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

// setGroup writes a file of a group.
func setGroup(dir, file, text string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(text), 0)
}

var groups atomic.Int64 // that were made

// NewGroup returns a group with the limits of l, or nil and an error if there is none. The
// caller calls End.
//
// In a worker's group, only the commands have the limit of processes: a Go program that
// cannot start a thread crashes. They are in a "threaded" part of the group, because only
// that can have some of the threads of a process.
func (l Limits) NewGroup(worker bool) (g *Group, err error) {
	d, err := Delegated()
	if err != nil {
		return nil, err
	}
	g = &Group{limits: l.WithDefaults(), worker: worker}
	dir := fmt.Sprintf("%s/toolgate-%d", d.Dir, groups.Add(1))
	err = os.Mkdir(dir, 0o755)
	set := func(dir, file, text string) { err = cmp.Or(err, setGroup(dir, file, text)) }
	names := [...]string{os.DevNull, pids: os.DevNull, memory: os.DevNull}
	if most := g.limits.Processes; most > 0 && slices.Contains(d.Controllers, "pids") {
		limited := dir
		if worker {
			limited = filepath.Join(dir, commandsGroup)
			err = cmp.Or(err, os.Mkdir(limited, 0o755))
			set(limited, "cgroup.type", "threaded")
			set(dir, "cgroup.subtree_control", "+pids")
			names[0] = limited + "/cgroup.threads"
		}
		set(limited, "pids.max", fmt.Sprint(most))
		names[pids] = limited + "/pids.events"
	}
	if most := g.limits.Memory; most > 0 && slices.Contains(d.Controllers, "memory") {
		setGroup(dir, "memory.swap.max", "0") // there only with swap
		set(dir, "memory.max", fmt.Sprint(most))
		names[memory] = dir + "/memory.events"
	}
	open := func(name string, flag int) *os.File {
		f, e := os.OpenFile(name, flag, 0)
		err = cmp.Or(err, e)
		return f
	}
	g.Dir = open(dir, os.O_RDONLY)
	g.Files = [3]*os.File{open(names[0], os.O_WRONLY), open(names[pids], os.O_RDONLY), open(names[memory], os.O_RDONLY)}
	if err != nil {
		removeGroup(dir)
		return nil, err
	}
	return g, nil
}
