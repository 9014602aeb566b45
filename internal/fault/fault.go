//go:build !faultpoint

// Package fault names the moments at which a test may kill the process: the ids of the crash matrix (R02 to R13 of the
// runner, G01 to G19 of the gateway). It promises that a program built without the tag faultpoint cannot be killed this
// way: Point is then empty and inlined, and no environment variable is read.
//
// With the tag, the variables RUNNERD_FAULT_POINT and GATEWAY_FAULT_POINT name a point, optionally followed by "@n" for the
// n-th time that it is passed; the process then ends itself as by SIGKILL: nothing deferred runs, nothing is flushed.
package fault

// Enabled says whether this program was built for crash tests.
const Enabled = false

// Point is a moment at which a crash test may end the process.
func Point(string) {}
