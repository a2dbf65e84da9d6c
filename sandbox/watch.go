package sandbox

// A Denial is something that the sandbox, and not the file's own permissions,
// refused to a command.
type Denial struct {
	Op   string // "write", "network"
	Path string // what was to be written; "" for the network
	Why  string
}
