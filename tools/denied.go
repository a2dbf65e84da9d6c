package tools

// AsDenial returns err, turned into one that wraps a [*Denial] of op and path
// when it was the sandbox, and not the file's own permissions, that refused.
// It returns nil for nil and any other error as it is.
//
// Op is "write" or "read"; path is what was refused, as the caller of the tool
// named it. The file looked at is the one that err itself names (a
// [*fs.PathError] or [*os.LinkError]), else path; a relative one counts from
// the working folder. The result still wraps err.
//
// A read-only mount is taken for the sandbox: the two cannot be told apart
// from inside. Where this system has no way to tell, err is returned as it is.
func AsDenial(err error, op, path string) error {
	why := refusedBySandbox(err, op, path)
	if why == "" {
		return err
	}
	return &refusal{&Denial{Op: op, Path: path, Why: why}, err}
}

// A refusal is a Denial that still knows the error it was recognised by.
type refusal struct {
	denial *Denial
	cause  error
}

func (r *refusal) Error() string   { return r.denial.Error() }
func (r *refusal) Unwrap() []error { return []error{r.denial, r.cause} }
