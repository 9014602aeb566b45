// Package sse writes and reads event streams (text/event-stream): the gateway's streams to phones, API clients and
// runners, and the runner's reading of the gateway and of model servers.
//
// The server's side (Open, Stream) promises:
//
//   - The headers and one comment leave at once, so that a proxy that buffers is noticed by the other end.
//   - Every write has a deadline that is renewed only when bytes move: a reader that stalls is cut off, never buffered.
//   - An idle stream costs no goroutine beyond net/http's own two and no buffer of ours; Wait sends the keep-alives.
//   - Several Sends are flushed together, by the next Wait or Flush.
//
// The client's side (Read) promises:
//
//   - A stream is judged alive by bytes, so comments count: ErrBuffered when nothing at all follows the headers in time,
//     ErrSilent when bytes stop later. Time that the caller spends on an event does not count.
//   - An event over the limit ends the stream with ErrTooLarge, and memory stays flat however long the line is.
//   - How bytes are cut into packets makes no difference, and reading costs time linear in them.
//   - An id with a NUL is refused, and on a numbered stream every id that is not a decimal below 2^63 (ErrBadID). An
//     event's ID is the one that it carried itself, never that of an event before it.
//   - A partial event at the end of a stream is dropped and reported as io.ErrUnexpectedEOF.
//
// # Decisions
//
// The loop, the writer and the reader are ours; github.com/tmaxmax/go-sse is the second opinion in the tests, which read
// what we write with it and compare both readers on the same bytes. It was weighed for both ends and left out of the
// programs, because its reader makes ids stick to later events and ignores an id with a NUL, so neither a missing nor a
// broken id can be refused; counts keep-alive lines towards the size of the next event; and scans a growing event again
// after every packet. Its writer cannot carry empty data or a trailing line feed, and makes three writes a line. What
// remained was shorter than the wrapping.
//
// The format cannot carry a carriage return: in data it becomes a line feed. In a JSON document a raw one can only stand
// between tokens, so the value is the same; documents that must arrive byte for byte are written on one line anyway.
package sse
