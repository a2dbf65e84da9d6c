package limits

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Delegation is the control group of this process, which it may divide.
type Delegation struct {
	Dir         string
	Controllers []string // "pids", "memory": those that it has
}

// Delegated returns the group of this process if the kernel can hold sandboxes in it to
// limits, and else an error that says why not. The first call moves this process into a
// child group, because a group that limits its children has no processes itself
// ("no internal processes", cgroups(7)), and removes what a killed process left there.
// Call it before any process is started.
var Delegated = sync.OnceValues(func() (Delegation, error) {
	d := Delegation{}
	dir, err := ownGroup()
	if err != nil {
		return d, err
	}
	if _, err := os.Stat(dir + "/cgroup.type"); err != nil {
		return d, errors.New("toolgate is in the root group")
	}
	has := strings.Fields(readText(dir + "/cgroup.controllers"))
	for _, c := range []string{"pids", "memory"} {
		if slices.Contains(has, c) {
			d.Controllers = append(d.Controllers, c)
		}
	}
	if len(d.Controllers) == 0 {
		return d, errors.New("toolgate's group has neither pids nor memory")
	}
	if _, _, errno := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0); errno == unix.ENOSYS {
		return d, errors.New("processes cannot be started in another group here")
	}
	if len(strings.Fields(readText(dir+"/cgroup.procs"))) != 1 {
		return d, errors.New("toolgate is not alone in its group")
	}
	leaf := dir + "/toolgate"
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return d, fmt.Errorf("toolgate's group is not delegated to it: %w", err)
	}
	err = setGroup(leaf, "cgroup.procs", "0")
	if err == nil {
		err = setGroup(dir, "cgroup.subtree_control", "+"+strings.Join(d.Controllers, " +"))
	}
	if err != nil {
		setGroup(dir, "cgroup.procs", "0")
		os.Remove(leaf)
		return d, fmt.Errorf("toolgate's group is not delegated to it: %w", err)
	}
	left, _ := filepath.Glob(dir + "/toolgate-*")
	for _, path := range left {
		removeGroup(path)
	}
	d.Dir = dir
	return d, nil
})

// ownGroup returns the folder of the group that this process is in.
func ownGroup() (string, error) {
	_, path, ok := strings.Cut("\n"+readText("/proc/self/cgroup"), "\n0::")
	path, _, _ = strings.Cut(path, "\n")
	for line := range strings.Lines(readText("/proc/self/mountinfo")) {
		// id parent device root folder … - type …, see proc_pid_mountinfo(5)
		f := strings.Fields(line)
		i := slices.Index(f, "-")
		if !ok || i < 5 || len(f) <= i+1 || f[i+1] != "cgroup2" {
			continue
		}
		if rel, err := filepath.Rel(f[3], path); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(f[4], rel), nil
		}
	}
	return "", errors.New("there are no control groups, version 2")
}

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
// If it is a worker's, the limit of processes is that of a part of it, for its commands
// alone: a Go program that cannot start a thread crashes. A thread that writes "0" to
// cgroup.threads moves itself there, with all that it starts from then on.
func (l Limits) NewGroup(worker bool) (g *Group, err error) {
	d, err := Delegated()
	if err != nil {
		return nil, err
	}
	l = l.WithDefaults()
	dir := fmt.Sprintf("%s/toolgate-%d", d.Dir, groups.Add(1))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			removeGroup(dir)
		}
	}()
	threads, pids, memory := os.DevNull, os.DevNull, os.DevNull
	if slices.Contains(d.Controllers, "pids") && l.Processes > 0 {
		commands := dir
		if worker {
			commands = filepath.Join(dir, commandsGroup)
			threads = commands + "/cgroup.threads"
			err = errors.Join(os.Mkdir(commands, 0o755), setGroup(commands, "cgroup.type", "threaded"),
				setGroup(dir, "cgroup.subtree_control", "+pids"))
		}
		err = errors.Join(err, setGroup(commands, "pids.max", fmt.Sprint(l.Processes)))
		pids = commands + "/pids.events"
	}
	if slices.Contains(d.Controllers, "memory") && l.Memory > 0 {
		setGroup(dir, "memory.swap.max", "0") // there only with swap
		err = errors.Join(err, setGroup(dir, "memory.max", fmt.Sprint(l.Memory)))
		memory = dir + "/memory.events"
	}
	if err != nil {
		return nil, err
	}
	var files [4]*os.File
	for i, open := range []struct {
		path string
		flag int
	}{{threads, os.O_WRONLY}, {pids, os.O_RDONLY}, {memory, os.O_RDONLY}, {dir, os.O_RDONLY}} {
		if files[i], err = os.OpenFile(open.path, open.flag, 0); err != nil {
			return nil, err
		}
	}
	g = GroupFrom(l, [3]*os.File(files[:]))
	g.Dir = files[3]
	return g, nil
}
