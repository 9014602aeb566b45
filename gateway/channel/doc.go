// Package channel serves the routes that runners speak (design, section 4; internal/wire has the map and the messages). It
// promises:
//
//   - Every route but pairing and tokens asks for a runner's bearer first, and acts for the runner and the subject of that
//     bearer, whatever a body says.
//   - Bodies are closed and bounded; a refusal names the member. A results request is always answered 200 with one verdict
//     per frame, as long as each frame says whose it is.
//   - A stream sends the frames of offers above its cursor, in order, each as it was first sent; it lives as long as its
//     runner's family of tokens and no newer stream of the runner, and a keep-alive leaves every wire.Keepalive.
//   - An idle stream costs two goroutines, a few KiB, and nothing that ticks.
//   - A plain RFC 0122 runner (one that only registers, reads its stream and posts results) is served with the same routes.
//
// # Decisions
//
// The package decides nothing about steps: that is package dispatch. It turns requests into its calls and its errors into
// replies.
//
// A results request is refused as a whole (400) only if it is not JSON, or if a frame does not say which step it is about:
// then there is nothing that a verdict could name. Nothing of it is carried out.
//
// While Run runs, a stream's connection is taken over from net/http once its reply can begin. net/http keeps two buffers, the
// request and a deep stack for as long as a handler runs, three quarters of what an idle stream takes; what a taken
// connection needs instead is one small file. HTTP/2 and a server without Run keep to the ordinary way, with the same code
// behind it.
//
// A control event's reason tells "report now" (the answer holds a stop, or the owner's reply to a question) from the end
// of the stream. Permits never wait for one: they are in the answer to the report that carried the accept.
package channel
