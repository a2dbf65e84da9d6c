//go:build !windows

package fileowner

// For the tests.
var (
	IsPrivate = isPrivate
	HasOnly   = hasOnly
)
