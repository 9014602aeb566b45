//go:build !unix && !windows

package journal

import "errors"

func checkFolder(string) error { return errors.ErrUnsupported }

func lockFolder(string) (func() error, error) { return nil, errors.ErrUnsupported }

func syncFolder(string) error { return errors.ErrUnsupported }
