// Package api serves what clients and the phone page speak: the protocol's routes (wire sections 1 to 9 and 11), ours under
// wire.Prefix, and, mounted beside them, the runners' channel and the page. It promises:
//
//   - routes.go lists every route; the multiplexer, the OpenAPI document and the tests that walk the routes read that list.
//   - A credential is judged before anything else is looked at, a scope before the store is asked. Whoever is not
//     authenticated gets the same 401 for what exists and for what does not, unknown paths included.
//   - What belongs to another subject is answered like what does not exist, byte for byte.
//   - Protocol routes take bearers only. The session's cookie opens two routes, bearer and sign-out, and a request for
//     them from another site is refused.
//   - Every error is the one flat envelope; no token is in a log, an error or a URL.
//   - A refused request has changed nothing. A run and the answer kept for its Idempotency-Key are one transaction.
//   - A stream shows a run's log without gap or repeat from whatever cursor, ends after the terminal event, and within a
//     minute of the moment at which its credential would no longer be accepted.
//
// # Decisions
//
// An unknown run is 404 not_found, and so is one of another subject, on every route (wire 3.3 leaves 404 or 403).
//
// The key space of Idempotency-Key is narrower than the protocol's: it holds the subject too, since an answer replayed to
// another person of the tenant would name a run that this person must not know of.
//
// In messages mode, and where debug shows them, chunks are frames of their own shape (wire 6.3) with the id of the event
// that they were made from. The event itself, output.chunk, is not shown beside them: two frames with one id could not be
// resumed between.
//
// In-flight repeats need no answer of their own: the store's one writer, or its serialization, makes the second wait for the
// first, and then finds the answer.
package api
