// Package httpapi is how handlers read requests and write replies, for the gateway's API, the runners' channel and the
// socket that the commands use.
//
// It promises:
//
//   - Every error reply is the one flat, closed envelope of the protocol (wire section 4), with its header fields:
//     WWW-Authenticate on 401, Retry-After where the problem says so. What no one gave a status is a bare 500 with a
//     correlation id; the detail is in the log under the same id, and nowhere else.
//   - A handler replies or returns an error. Once a reply has begun, an error is logged and the connection ends, so that
//     half an answer never looks like a whole one.
//   - Decode accepts one JSON document that the type describes in full: within the size and depth limits, valid UTF-8, no
//     member twice, none that the type lacks (names compare exactly), no lone surrogate, no number that a float64 cannot
//     hold, null only where the type has a pointer, nothing after the document, T.Validate passes. A refusal names the
//     field. What Decode accepts, encoding/json reads the same way everywhere else.
//
// # Decisions
//
// encoding/json decodes after a check of our own, because alone it matches names without regard to case, keeps the last
// of two equal members, and turns a lone surrogate into U+FFFD: three ways for two programs to read one body differently.
// encoding/json/v2 refuses all three but is an experiment in Go 1.26, and names fewer fields in its errors.
package httpapi
