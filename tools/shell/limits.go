package shell

// Limits are the resource limits of a command. In each field, 0 means the default and
// -1 no limit. A limit is never raised above that of the worker itself.
//
// All limits except Memory and Tasks apply per process; Processes counts all processes
// of the user. They are set just after the command has started and apply to all
// processes that it starts from then on. They exist on Linux only.
type Limits struct {
	Processes int64 `json:"processes,omitempty"`  // default 8192, threads counted
	OpenFiles int64 `json:"open_files,omitempty"` // default 16384
	FileSize  int64 `json:"file_size,omitempty"`  // bytes, default 64 GiB
	CoreSize  int64 `json:"core_size,omitempty"`  // bytes of a memory dump, default 0: none

	// Cgroup is the folder of a version 2 cgroup that is delegated to the user and
	// contains no processes itself; "" means none. Each command gets its own group
	// below it, which is killed as a whole.
	Cgroup string `json:"cgroup,omitempty"`

	// Memory and Tasks limit a command and all processes that it started. They need
	// Cgroup and its controllers. By default there is no limit.
	Memory int64 `json:"memory,omitempty"` // bytes
	Tasks  int64 `json:"tasks,omitempty"`  // processes and threads
}

const (
	defaultProcesses = 8192
	defaultOpenFiles = 16384
	defaultFileSize  = 64 << 30
)
