//go:build !linux

package runner

func systemClock() Clock { return newElapsed() }
