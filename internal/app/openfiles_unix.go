//go:build linux || darwin

package app

import "syscall"

// maxOpenFiles returns how many files this process may have open.
func maxOpenFiles() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 256
	}
	return int(min(l.Cur, 1<<20))
}
