// Package egress is every outgoing request of both programs. It gives two ways out, and internal/archtest sees to it that
// there is no third:
//
//   - Configured, for addresses that the owner or IT wrote down: the gateway, a local model, a vendor's API. Any address
//     is fine; nothing is taken from the environment; redirects are answers, not instructions.
//   - Guarded, for every URL that comes from content. It promises that no connection is opened to an address of the
//     protocol's blocked ranges (wire section 15.3), whatever the URL's spelling, its DNS answers, or redirects.
//   - Socket, for commands that reach a program on this machine.
//
// How Guarded keeps its promise:
//
//	URL ── CheckURL: scheme, user-info, host syntax, names that mean "inside", port
//	 └─▶ one look-up of the absolute name; every answer must pass the address table
//	      └─▶ dial a checked literal; Control judges the address once more before the handshake
//	           └─▶ redirect: from the top, at most 5, no downgrade, nothing carried to another origin
//
// The cases are testdata/ssrf-urls.json. Those of its class "header", and the pair of events around each call, belong to
// safeFetch, which builds on Guarded.
//
// # Decisions
//
// The address table is that of code.dny.dev/ssrf, generated from the IANA registries, and what it does not know: the Azure
// host agent, NAT64 prefixes that the operator names, and this machine's own public addresses. It judges in
// net.Dialer.Control, so it sees the address that is really dialled. We look names up ourselves, because a dialer that
// resolves would skip a blocked answer and try the next, and one bad answer is enough to distrust a name.
package egress
