//go:build !linux

package limits

import "errors"

// Rlimits returns nil.
func (Limits) Rlimits() map[int]uint64 { return nil }

func listed(int) int64 { return 0 }

func measure(int, int64) usage { return usage{} }

func proportional(int) int64 { return 0 }

func anonymous(int) int64 { return 0 }

func written(int) int64 { return 0 }

func totalMemory() int64 { return 0 }

func statDisk(string) (diskState, error) { return diskState{}, errors.ErrUnsupported }

func number([]byte, string) (int64, bool) { return 0, false }

// Delegated returns an error: there are no control groups.
func Delegated() (Delegation, error) { return Delegation{}, errors.ErrUnsupported }

// NewGroup returns an error.
func (Limits) NewGroup(bool) (*Group, error) { return nil, errors.ErrUnsupported }
