//go:build !linux

package metrics

// systemGauges returns nothing: it is implemented on Linux only.
func systemGauges() []gauge { return nil }
