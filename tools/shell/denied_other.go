//go:build !linux

package shell

func readOnlyMount(string) bool { return false }

func canCreate(string) bool { return true }
