package policy

// A Denial is an access that the sandbox denied, as opposed to a file's own
// permissions.
type Denial struct {
	Op   string `json:"op"`             // "write", "read", "network"
	Path string `json:"path,omitempty"` // the path or host, as the caller named it
	Why  string `json:"why,omitempty"`  // such as "it is outside the writable roots"

	// Final is set if the user denied it, by a rule, a list or an answer: nobody
	// is asked to run the call outside the sandbox.
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

// DeniedKey is the _meta key under which a worker reports a [Denial] to the gate,
// which removes it.
const DeniedKey = "toolgate/denied"

// SessionKey is the _meta key under which a worker reports the id of a session that
// a call left running, so that later calls for it go to the same worker. The gate
// removes it.
const SessionKey = "toolgate/session"
