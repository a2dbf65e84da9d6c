//go:build !linux

package limits

import "errors"

// Rlimits returns nil.
func (Limits) Rlimits() map[int]uint64 { return nil }

func measure(int) usage { return usage{} }

func proportional(int) int64 { return 0 }

func written(int) int64 { return 0 }

func totalMemory() int64 { return 0 }

func statDisk(string) (diskState, error) { return diskState{}, errors.ErrUnsupported }
