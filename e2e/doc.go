// Package e2e tests the programs as people use them: real processes, real vendors' programs, a real browser. Only what is not
// on the machine, a vendor's API, is a stand-in (package vendor).
package e2e
