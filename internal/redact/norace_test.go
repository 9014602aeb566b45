//go:build !race

package redact_test

// raceEnabled says that the race detector slows everything down, so speed is not judged.
const raceEnabled = false
