// Package archtest guards the house style's few hard rules, as tests over every Go file of the module, for whatever system
// it is meant:
//
//   - who may import what, and which package owns which outside library (imports_test.go)
//   - no init, no package variable that changes, no process-wide logger, no exit but main's, no sleep outside a synctest
//     bubble, no way out to the network but internal/egress, and none from a step's output into a model message but the
//     engine's, which fences it (calls_test.go, vars_test.go)
//   - the engine is pure (calls_test.go)
//   - every package says what it promises, every exported name has a comment, no file is past 500 lines (docs_test.go)
//   - no tracked text names a path of the machine it was written on (tracked_test.go)
//
// Each rule is a function from source to findings, so sabotage_test.go can show that it finds what it forbids. They read
// syntax, not types: quick, and enough for code that does not try to hide.
package archtest
