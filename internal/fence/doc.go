// Package fence makes text that nobody vouches for safe to show to a model. It builds the block of wire section 13, and it
// is the only way from runner output, tool results and other foreign text into a model message (design, section 7):
//
//	<UNTRUSTED tool="search" id="k7m2q9x4c8v5b3n6w1z0">
//	k7m2q9x4c8v5b3n6w1z0| first line, with a &lt;tag&gt; in it
//	k7m2q9x4c8v5b3n6w1z0| second line
//	</UNTRUSTED>
//
// It promises F1 to F8 and F12 of the project's fencing cases (testdata/fencing.json), which the tests hold it to:
//
//   - One opening tag at the start and one closing tag at the end, whatever the content is: there is no raw < or > between
//     them, nor a character that NFKC turns into one. Content that looks fenced is fenced again.
//   - Each line of content begins with a mark of 100 random bits that is drawn after the content is complete, differs for
//     each block and does not occur in the content. A line without it is never content, not even after a reader has decoded
//     entities, percent or backslash escapes.
//   - No control character but tab, no invisible, private-use or unassigned character: each is shown as an escape.
//   - [Read] gives back the exact content. Content that is not valid UTF-8 is marked lossy, content over the cap is cut at
//     the edge of a code point, and how much is missing is said by the host outside the tags.
//
// Decisions:
//
//   - < > & become entities, because the protocol suggests it and models know them. All else is written as &U+HEX; or, for
//     the two characters that start other people's escapes, as &\; and &%; which no decoder reads: so there is no way, by
//     any of the usual decoders in any order, to make a line break out of content. A percent sign stays as it is where
//     nothing could be decoded, since prose is full of them.
//   - Unassigned code points are escaped too: what a later Unicode makes of them is not known here.
//   - The mark has letters and digits of one case only and 20 of them: it stands on every line, and models pay per token.
package fence
