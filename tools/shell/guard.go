package shell

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"toolgate/internal/limits"
)

// A guard ends commands that exceed the limits. It watches while there are any.
type guard struct {
	host *host

	mu       sync.Mutex
	commands []*process // that have processes, perhaps after their own end
	running  bool
}

// stopForLimit kills everything that p started.
func (h *host) stopForLimit(p *process, why *limits.Excess) {
	p.over.CompareAndSwap(nil, why)
	p.stopped.Store(true)
	if p.killing.CompareAndSwap(false, true) {
		h.ending.Go(func() { // ends when nothing is left, or after five seconds
			tracker.kill(p)
			p.killing.Store(false)
		})
	}
}

// kill kills all processes of p. It returns when none is left, or after five seconds.
func (f *processTracker) kill(p *process) {
	if !p.hasEnded() || isFree(p.pid()) {
		kill(member{pid: -p.pid()}) // its process group at once, before it can start more
	}
	f.signalUntilGone(p, kill, true, 5*time.Second, nil)
}

// kernelLimits are the limits that the kernel enforces, with the errors that programs
// print when they meet them, in lower case.
var kernelLimits = []struct{ words, key string }{
	{"initialize inotify", "inotify"},
	{"inotify instance", "inotify"},
	{"inotify watch", "inotify"},
	{"number of file watchers reached", "inotify"}, // Node
	{"too many open files", "open_files"},
	{"fork: resource temporarily unavailable", "processes"},
	{"fork: retry: resource temporarily unavailable", "processes"},
	{"file too large", "file_size"},
	{"file size limit exceeded", "file_size"},
}

// fileSizeExit is the exit code of a command that SIGXFSZ ended.
const fileSizeExit = 128 + 25

// limitLine returns a line for the model that names the limit that p met, or "". text
// is its output.
func limitLine(p *process, text string) string {
	if over := p.over.Load(); over != nil {
		return fmt.Sprintf("The command was ended: %v.\n", over)
	}
	if p.code == 0 || p.stopped.Load() {
		return ""
	}
	text = strings.ToLower(text)
	key := ""
	for _, k := range kernelLimits {
		if key == "" && strings.Contains(text, k.words) {
			key = k.key
		}
	}
	if p.code == fileSizeExit {
		key = "file_size"
	}
	l := p.host.limits()
	value := map[string]int64{"open_files": l.OpenFiles, "processes": l.Processes, "file_size": l.FileSize}[key]
	switch {
	case key == "inotify" && p.host.confined:
		return "It may have met a limit: at level full, a sandbox has half of the user's inotify instances " +
			"and watches.\n"
	case value > 0:
		return fmt.Sprintf("It may have met a limit: %s is %d; the user can raise it in [limits] "+
			"of toolgate's config.\n", key, value)
	}
	return ""
}
