//go:build !linux

package applypatch

import "errors"

func renameNoReplace(string, string) error { return errors.ErrUnsupported }
func exchange(string, string) error        { return errors.ErrUnsupported }
