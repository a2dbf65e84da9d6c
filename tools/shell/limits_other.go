//go:build !linux

package shell

func (Limits) apply(int) {}
