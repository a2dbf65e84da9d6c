//go:build !linux

package shell

import (
	"errors"
	"os"
)

func (Limits) apply(int) {}

func memoryFile() (*os.File, error) { return nil, errors.ErrUnsupported }

func readOnlyMount(string) bool { return false }

func canCreate(string) bool { return true }
