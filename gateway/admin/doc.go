// Package admin is how a gateway is administered on its own machine: people, keys, runners and workflows, as plain functions
// over the store (Admin), and a thin transport that lets a command line call them in the gateway that serves (Listen, Handler, Client).
// It promises that both ways do the same and fail in the same words; that only the user who runs the gateway, and root,
// reach the socket; that the socket of a gateway that died does not stand in the way of the next; and that a data folder
// with a long path works.
//
//	command line ── is gateway.sock answered? ──yes──▶ Client ══ unix socket, 0600, peer's user checked ══▶ Handler ─▶ Admin
//	                                         └──no───▶ Admin over a store that it opens itself
//
// # Decisions
//
// On Unix the socket is made in a private folder inside the data folder and renamed to its place when it is ready: so at no moment
// can anybody else connect, and one that a dead gateway left is replaced in one step. Whether it is dead is asked by
// connecting, never guessed from the file.
//
// A socket's address holds about 100 bytes, a path more. Where it is too long, the folder is reached through a symbolic link
// of a private temporary folder that lasts as long as the call; the file itself stays in the data folder. Changing the
// working folder instead would be visible to the whole process. On Windows, where links need a privilege, the socket is made
// in a folder of the user's own temporary folder, named for the data folder.
//
// On Windows the file has no mode and the peer cannot be asked: the access list of the data folder, which the user owns, is
// the guard there.
package admin
