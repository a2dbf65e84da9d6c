package policy

// A Denial says that the sandbox, and not a file's own permissions, refused
// something.
type Denial struct {
	Op   string `json:"op"`             // "write", "read", "network"
	Path string `json:"path,omitempty"` // what was refused, as the caller named it
	Why  string `json:"why,omitempty"`  // such as "it is outside the writable roots"

	// Final is set when it was the user who refused it, by a rule, a list or an
	// answer: a run outside the sandbox is not asked for.
	Final bool `json:"final,omitempty"`
}

func (d *Denial) Error() string {
	s := "denied by the sandbox: " + d.Op
	if d.Path != "" {
		s += " " + d.Path
	}
	if d.Why != "" {
		s += ": " + d.Why
	}
	return s
}

// DeniedKey is the _meta key under which a worker tells the gate of a
// [Denial]. The gate takes it out again.
const DeniedKey = "toolgate/denied"

// SessionKey is the _meta key under which a worker tells the gate the id of a
// session that a call left running, so that later calls for it go to the same
// worker. The gate takes it out again.
const SessionKey = "toolgate/session"
