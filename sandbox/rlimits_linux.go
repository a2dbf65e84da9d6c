package sandbox

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// lowerRlimits sets limits of this process and of what it starts, see [Cmd.Rlimits].
// One that is lower already stays.
func lowerRlimits(limits map[int]uint64) {
	for number, limit := range limits {
		var old unix.Rlimit
		if unix.Getrlimit(number, &old) != nil {
			continue
		}
		limit = min(limit, old.Max)
		unix.Setrlimit(number, &unix.Rlimit{Cur: limit, Max: limit})
	}
}

// limitInotify leaves to this user namespace half of what the user may watch: all of it
// counts for the user, whose editor needs some too. The new /proc must be writable.
func limitInotify() {
	for _, what := range []string{"instances", "watches"} {
		text, _ := os.ReadFile("/proc/sys/fs/inotify/max_user_" + what)
		if n, err := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil {
			os.WriteFile("/proc/sys/user/max_inotify_"+what, []byte(strconv.Itoa(n/2)), 0)
		}
	}
}
