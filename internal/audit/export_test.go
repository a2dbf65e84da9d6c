package audit

// Encode returns the line for an event.
var Encode = encode

// OpenLimited is [Open] with other limits.
func OpenLimited(dir string, maxFileSize int64, maxRotated int) (*Log, error) {
	l, err := Open(dir)
	if err == nil {
		l.maxFileSize, l.maxRotated = maxFileSize, maxRotated
	}
	return l, err
}
