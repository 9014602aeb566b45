// Package identity knows who is calling: people and their browsers, the API keys of clients, and runners with their pairing
// and tokens. It promises that no credential is kept, only its hash, or nothing at all where a MAC vouches for it; that a
// credential of one class is worth nothing where another is asked for; that every comparison of secrets takes the same time
// whatever they hold; that a revoked runner is refused within five seconds by every gateway and at once by the one that
// revoked it; and that pairing, revocation and reuse stand in the subject's audit log, written in the same transaction.
// There is no HTTP in it.
//
// The credentials, by prefix, so that a reader, a scanner and this package tell them apart without a look-up:
//
//	owl_  sign-in link   1 h, taken once    random + CRC32, hash stored
//	ows_  browser cookie 30 days, sliding   random + CRC32, hash stored
//	owb_  page bearer    15 min             MAC, nothing stored
//	owk_  API key        until revoked      random + CRC32, hash stored
//	owd_  device code    10 min             random + CRC32, hash stored
//	owr_  runner bearer  1 h                MAC over runner and issue time
//	owf_  runner refresh 90 days idle       MAC over runner and generation
//
// A pairing (RFC 8628) and the family of tokens that comes of it:
//
//	Pair ──▶ pending ──Approve──▶ approved ──first use of the bearer──▶ used     asked again: invalid_grant
//	            │  └──Deny──▶ denied                                             asked again: access_denied
//	            └──10 min, also when approved──▶ expired                         asked again: expired_token
//
//	refresh g presented, with G the highest ever presented:
//	   g > G   G becomes g, answer g+1      (G+1 is the ordinary case; more is a gateway restored from a backup)
//	   g = G   the same answer once more    (the first answer was lost)
//	   g < G   reuse: the family is revoked
//
// # Decisions
//
// Runner tokens are vouched for by a MAC instead of being stored, so that renewing one is a single small write and checking
// one is none. The key is random, made in the transaction of the first start and kept in the store, because every gateway
// that shares the store must judge alike, and a backup that is restored must know the tokens it gave out. Each class of
// token has a key of its own, derived by HKDF, so that a MAC made for one class never fits another.
//
// A repeated answer is made, not kept: generation and runner give the same refresh token again, and the time of the first
// presentation the same bearer. Only when that bearer has less than half its life left is it dated anew: a laptop that lost
// the answer and slept must not be given a bearer that is nearly dead.
//
// "First use of the bearer" is one conditional write when the runner first authenticates, not a row read on every request.
//
// Guessing is bounded per person and for the whole gateway, in memory: with n gateways the bound is n times as wide, which
// against 20^8 codes of ten minutes' life still leaves a guesser nothing.
package identity
