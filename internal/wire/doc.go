// Package wire is what gateway and runner say to each other: frames, reports, pairing, limits and error codes, with the
// codec that both sides use. It promises that what Decode accepts, Encode can write, and that what is written reads back
// the same; that every closed object of the protocol is closed here (an extra member is an error that names it); and that
// both programs read the same numbers from limits.go.
//
// The protocol's own objects are Registration, Dispatch and Result (RFC 0122, wire sections 14.3 to 14.5). All others are
// this project's extension under Prefix (design, section 4), which a plain RFC 0122 peer does without:
//
//	runner                                     gateway
//	  | PUT    runner      Registration  ------> | {epoch}
//	  | GET    dispatches?epoch=         ------> | event: dispatch, id: seq
//	  | POST   reports     Report        ------> | ReportReply (permits, stops, answers)
//	  | POST   results     Result | [..] ------> | Verdicts
//	  | DELETE runner                    ------> | revoked
//
// Decisions: payloads between the edges stay json.RawMessage, because reading and writing them again would cost more than
// the rest of the trip; a frame is built once, stored, and sent byte for byte.
package wire
