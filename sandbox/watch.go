package sandbox

// A Denial is an operation that the sandbox, and not the file's own permissions,
// refused to a command.
type Denial struct {
	Op   string // "write", "network"
	Path string // the path to be written; "" for the network
	Why  string
}
