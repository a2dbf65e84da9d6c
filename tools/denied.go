package tools

// AsDenial returns an error that wraps both err and a [*Denial] of op and path if the
// sandbox refused the access, as opposed to the file's own permissions. Otherwise it
// returns nil.
//
// op is "write" or "read"; path is the refused path as in the call. AsDenial checks the
// file in err (a [*fs.PathError] or [*os.LinkError]) or else path, relative to the
// working folder.
//
// A read-only mount counts as the sandbox, because the two cannot be distinguished from
// inside. Only Linux can distinguish denials; elsewhere AsDenial returns nil.
func AsDenial(err error, op, path string) error {
	why := refusedBySandbox(err, op, path)
	if why == "" {
		return nil
	}
	return &refusal{&Denial{Op: op, Path: path, Why: why}, err}
}

// A refusal is a Denial with the error that caused it.
type refusal struct {
	denial *Denial
	cause  error
}

func (r *refusal) Error() string   { return r.denial.Error() }
func (r *refusal) Unwrap() []error { return []error{r.denial, r.cause} }
