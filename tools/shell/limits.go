package shell

// Limits bound what one command may use. In each field 0 is the default and -1
// no limit. A limit is never raised above what the worker itself has.
//
// All but the last two hold for each process, or, for Processes, for all of
// the user's together. They are set a moment after the command has started and
// hold for everything that it starts from then on. Outside Linux there are
// none.
type Limits struct {
	Processes int64 `json:"processes,omitempty"`  // default 8192, threads counted
	OpenFiles int64 `json:"open_files,omitempty"` // default 16384
	FileSize  int64 `json:"file_size,omitempty"`  // bytes, default 64 GiB
	CoreSize  int64 `json:"core_size,omitempty"`  // bytes of a memory dump, default 0: none

	// Cgroup is the folder of a cgroup (version 2) that was delegated to the
	// user and holds no process itself; "" means that there is none. Each
	// command gets a group of its own below it, which is killed as a whole.
	Cgroup string `json:"cgroup,omitempty"`

	// Memory and Tasks bound one command with everything it started, where
	// Cgroup is set and has the controller. By default there is no limit.
	Memory int64 `json:"memory,omitempty"` // bytes
	Tasks  int64 `json:"tasks,omitempty"`  // processes and threads
}

const (
	defaultProcesses = 8192
	defaultOpenFiles = 16384
	defaultFileSize  = 64 << 30
)

// orDefault returns limit, or fallback for 0. It is negative when there is no
// limit.
func orDefault(limit, fallback int64) int64 {
	if limit == 0 {
		return fallback
	}
	return limit
}
