//go:build unix && !linux && !darwin && !freebsd

package local

import "errors"

func peerUser(int) (int, error) { return 0, errors.ErrUnsupported }
