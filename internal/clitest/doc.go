// Package clitest runs scripts of a program's command line: real processes, in a folder of the script's own, with an empty
// home. It promises that a script which passes has looked at exact exit codes, and that the programs wrote nothing outside of
// the script's folder: home and temporary folder must be empty at the end.
//
// Scripts are text archives of github.com/rogpeppe/go-internal/testscript, in testdata/script. Besides its commands they have:
//
//	exits CODE PROGRAM ARG...    run a program that must end with this code; stdout and stderr are as after exec
//	start NAME PROGRAM ARG...    run it in the background; what it prints is in NAME.out and NAME.err, not in stdout, which
//	                             is lost
//	await FILE PATTERN           wait until a file has a match
//	until PATTERN PROGRAM ARG... run a program again and again until its stdout has a match
//	interrupt NAME CODE          send Ctrl-C and see that it ends with this code
//	terminate NAME CODE          likewise with TERM
//	ends NAME CODE               wait for its end
//	json FILE MEMBER=ENV...      take members of the last line, a JSON object; a.0.b goes into objects and arrays
//	jsonlines FILE...            every line is a JSON object, and there is one at least
//	empty FOLDER...              there is nothing in it
//
// FILE may be stdout or stderr. The environment is what the script and its test make it, and nothing of the developer's but
// PATH.
package clitest
