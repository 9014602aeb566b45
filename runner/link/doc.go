// Package link speaks to one gateway for the runner: pairing, tokens, registration, reports, results and the stream of
// dispatches (design, section 4). It knows nothing of steps. It promises:
//
//   - Nothing is believed that a gateway did not say: a redirect is not followed, and an answer of another content type or
//     shape is an error, whatever its status (faults N15 to N17).
//   - A token is stored before it is used. While the store is locked the runner renews with what it has stored, which is good
//     for as long as its successor was not presented.
//   - A 401 renews once. When the renewed bearer, or the refresh token, is refused too, the error is ErrUnpaired: asking
//     again is useless until somebody pairs anew.
//   - Every request has a deadline, and a stream that gives no byte is ended: by silence, or because something on the way
//     buffers it.
//   - Bearers and refresh tokens are in no error.
//
// Tokens:
//
//	            Bearer                  POST tokens                  stored               401, or nearly expired
//	(stored) ──────────▶ load ─none─▶ present refresh g ──▶ g+1, bearer ──▶ bearer in use ────────┐
//	                                        ▲  │ invalid_grant                │ not stored: keep g    │
//	                                        │  └─▶ ErrUnpaired                └──▶ bearer in use      │
//	                                        └─────────────────────────────────────────────────────────┘
package link
