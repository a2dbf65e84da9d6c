package limits

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Rlimits returns the limits of l that the kernel enforces for each process, by their
// numbers.
func (l Limits) Rlimits() map[int]uint64 {
	l = l.WithDefaults()
	r := map[int]uint64{}
	for number, limit := range map[int]int64{
		unix.RLIMIT_NOFILE: l.OpenFiles, unix.RLIMIT_FSIZE: l.FileSize, unix.RLIMIT_CORE: l.CoreSize,
	} {
		if limit >= 0 {
			r[number] = uint64(limit)
		}
	}
	if l.Processes > 0 {
		// The kernel counts all processes of the user, but not root's. It stops what
		// grows faster than a Watcher can have it ended.
		r[unix.RLIMIT_NPROC] = uint64(l.Processes) + 8192
	}
	return r
}

// listed returns how many processes descend from pid, 0 if /proc does not tell that by its
// list alone. It does if pid is this process and its parent the first one of a namespace.
// In a fork bomb, counting them one by one takes seconds.
func listed(pid int) (n int64) {
	if pid != os.Getpid() || os.Getppid() != 1 {
		return 0
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if name[0] >= '0' && name[0] <= '9' {
			n++
		}
	}
	return n - 2 // without this process and its parent
}

// measure returns what all descendants of pid use, or some of them if those are more than
// most processes and threads; 0 is no limit. A fork bomb makes it slow, so it reads as few
// files as possible.
func measure(pid int, most int64) usage {
	var u usage
	for next := Children(pid); len(next) > 0 && (most <= 0 || u.tasks <= most); {
		pid, next = next[0], next[1:]
		threads, memory := stat(pid)
		u.pids = append(u.pids, pid)
		u.tasks += threads
		u.memory += memory
		if threads == 1 {
			next = append(next, childrenOf(pid, strconv.Itoa(pid))...)
		} else {
			next = append(next, Children(pid)...)
		}
	}
	return u
}

// stat returns the number of threads of pid, 0 if it is gone, and its memory in bytes,
// including all that it shares.
func stat(pid int) (threads, memory int64) {
	text := read(pid, "stat")
	// pid (name) state …; the name may contain any character. See proc_pid_stat(5).
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const numThreads, rss = 20 - 3, 24 - 3
	if len(fields) <= rss {
		return 0, 0
	}
	threads, _ = strconv.ParseInt(fields[numThreads], 10, 64)
	pages, _ := strconv.ParseInt(fields[rss], 10, 64)
	return threads, pages * int64(os.Getpagesize())
}

// Children returns the children of all threads of pid.
func Children(pid int) []int {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil
	}
	defer dir.Close()
	threads, _ := dir.Readdirnames(-1)
	var children []int
	for _, thread := range threads {
		children = append(children, childrenOf(pid, thread)...)
	}
	return children
}

// childrenOf returns the children of a thread of pid.
func childrenOf(pid int, thread string) []int {
	var children []int
	for field := range strings.FieldsSeq(string(read(pid, "task/"+thread+"/children"))) {
		if n, err := strconv.Atoi(field); err == nil {
			children = append(children, n)
		}
	}
	return children
}

// read returns the content of a file that the kernel has about pid, or nothing if it
// cannot be read.
func read(pid int, name string) []byte {
	content, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
	return content
}

// proportional returns the memory of pid in bytes, with its part of what it shares. It
// takes much longer than stat, whose result it returns if the kernel does not tell.
func proportional(pid int) int64 {
	if n, ok := number(read(pid, "smaps_rollup"), "Pss:"); ok {
		return n << 10
	}
	_, memory := stat(pid)
	return memory
}

// anonymous returns the memory of pid in bytes that belongs to no file. What it shares since a fork
// counts in full.
func anonymous(pid int) int64 {
	n, _ := number(read(pid, "status"), "RssAnon:")
	return n << 10
}

// written returns the bytes that pid has written to disks.
func written(pid int) int64 {
	n, _ := number(read(pid, "io"), "write_bytes:")
	return n
}

// number returns the number after name, which begins a line of a file of the kernel.
func number(text []byte, name string) (n int64, ok bool) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 1 && fields[0] == name {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// totalMemory returns the memory of this machine or, if that is less, of this
// container. It returns 0 if it is unknown.
func totalMemory() int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	total, _ := number(text, "MemTotal:")
	total <<= 10
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, _ := os.ReadFile(file)
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil && n > 0 {
			total = min(total, n)
		}
	}
	return total
}

func statDisk(folder string) (diskState, error) {
	var st unix.Statfs_t
	err := unix.Statfs(folder, &st)
	return diskState{st.Fsid, int64(st.Blocks) * int64(st.Bsize), int64(st.Bavail) * int64(st.Bsize)}, err
}
