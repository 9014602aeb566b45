// Package redact keeps credentials out of everything that is written, sent or stored: results, progress, error texts, logs,
// bundles (design, section 7; wire section 14.1). It has three means:
//
//   - [Secret] is how a credential travels inside a program: however it is printed, it gives a mask.
//   - [Set] knows the secrets that a program holds and masks them in texts, streams and documents as [REDACTED:ref], and what
//     has the form of somebody's token, which it need not know, as [REDACTED:pattern].
//   - [Attr] is for every logger, [HasTokenShape] for the gateway's border.
//
// It promises, for every text and every way in which it comes in pieces:
//
//   - The result is the same. All decisions are made byte by byte; pieces only tell when something can be shown.
//   - No registered value is in it: not as it is, nor behind up to three encodings, in any order: base64 (both alphabets, any
//     alignment, wrapped), hexadecimal (together, apart, with 0x), percent signs, the escapes of JSON, JavaScript, C, Go,
//     Python and XML, quotes of shells and of CSV, UTF-16; nor with line breaks, colours, backspaces and other characters
//     that are not seen in between. The long lines of a value and the strings of one that is JSON count as values.
//   - What cannot be part of a value is left as it is, byte for byte, and shown at once: held back is what may be the start of
//     a value or of a token, a few characters in ordinary text, and never more than the longest value can take. Time plays
//     no part, so a source that stalls within a value shows nothing of it.
//   - Work grows with the length of the text alone, and memory with the length of the values.
//
// What no masker can promise: a value that is reversed, enciphered, compressed, spelled or translated. A process that must
// not show a secret must not get it.
//
// # How a text is read
//
//	            +-> inside control sequences: the side node
//	bytes ------+
//	            +-> root node --- raw and free of escapes ---> automaton of all needles, and shapes of tokens
//	                 |  |                                              |
//	                 |  +-- hex, two ways -----> node, one level down  +--> spans --> text with markers
//	                 +----- base64, four ways -> node, one level down
//
// Each decoder is a small machine that takes and gives symbols: a byte and the part of the source that it was made from. So
// a match, however deep, is a span of the source. See node for how most of the work is avoided.
//
// # Decisions
//
//   - Text is decoded and compared with plain values, instead of being compared with a list of encoded values: that sees
//     encodings within encodings, and the automaton stays small. What was weighed: lists of encodings grow with every
//     combination, and still miss a percent sign more or less.
//   - White space, plus signs, quotes and backslashes are passed over on both sides, because wrapping, forms and quoting put
//     them in and take them out. A value of eight letters is then also found with a space in it: too much masked rather than
//     too little.
//   - An end has two forms. [Writer.Finish] says that the text is complete; [Writer.Close] that it may have been cut off, so
//     that eight bytes of a value's start are masked too.
//   - Spans that overlap become one, named for what begins first; a known value goes before a shape.
//   - The matcher is our own: the libraries for it work on whole texts and give no answer to what has to be held back.
package redact
