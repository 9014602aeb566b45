// Package local is how the tray and the commands reach a runner that runs: a socket in its data folder that only its owner
// can open. It promises:
//
//   - Nobody but the owner gets an answer: the socket is 0600 in a folder that is 0700, and a caller of another user is
//     turned away by its identity (faults H11). No network port is opened, so no web page can reach it (faults H10).
//   - A call ends within 5 seconds, also when the runner hangs (UD-05).
//   - What Status says is what the runner saw last, not what it intends: the last report that was answered, and when.
//
// # Decisions
//
// HTTP over the socket, because both ends, their limits and their errors exist already. One route a command: status by GET,
// all else by POST.
//
// On Windows the socket is one too (AF_UNIX, from Windows 10 1803 on). It has no identity of the caller there: the access
// list of the user's profile, which the data folder inherits, keeps others out. A named pipe would need a listener of our
// own for the same guarantee.
package local
