package sandbox

// ProbeBwrap returns whether bubblewrap works here, which Probe finds out only
// where namespaces of one's own do not.
func ProbeBwrap() (path string, s Support) {
	path = findBwrap()
	return path, supported(probeBwrap(path))
}

// ProbeNamespaces is what Probe does, uncached.
var ProbeNamespaces = probeNamespaces
