package step

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"runnerd/internal/wire"
)

// encode writes an output as it goes into a frame.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// fit writes an output in at most room bytes. Where it is longer, its texts are cut in the middle, longest first, and it says
// by how much (UD-91, UD-92). What cannot be cut, tool calls and results, is never bent: then the step failed.
func fit(out wire.Output, room int) (json.RawMessage, error) {
	b, err := encode(out)
	if err != nil {
		return nil, fmt.Errorf("write output: %w", err)
	}
	was := len(b)
	for range 8 { // each round takes what is over from the longest text, or drops the largest image
		if len(b) <= room {
			return b, nil
		}
		if !shorten(&out, len(b)-room) {
			break
		}
		if b, err = encode(out); err != nil {
			return nil, fmt.Errorf("write output: %w", err)
		}
	}
	if len(b) <= room {
		return b, nil
	}
	failed := wire.Failed(wire.CodeResultTooLarge, "the result has %d bytes, the gateway takes %d", was, room)
	failed.Text = middle(out.Text, max(room/2, 0))
	failed.Model, failed.Backend, failed.AuthClass, failed.Timing, failed.Usage = out.Model, out.Backend, out.AuthClass, out.Timing, out.Usage
	failed.Truncated = &wire.Truncated{Bytes: int64(was)}
	if b, err = encode(failed); err != nil || len(b) > room {
		return encode(wire.Failed(wire.CodeResultTooLarge, "the result has %d bytes", was))
	}
	return b, nil
}

// shorten takes over encoded bytes out of the longest text, and reports whether it could.
func shorten(out *wire.Output, over int) bool {
	longest, size := &out.Text, escaped(out.Text)
	for i := range out.Content {
		if p := &out.Content[i]; escaped(p.Text) > size {
			longest, size = &p.Text, escaped(p.Text)
		}
	}
	if out.Error != nil && escaped(out.Error.Message) > size {
		longest, size = &out.Error.Message, escaped(out.Error.Message)
	}
	cut := 0
	switch image := largestImage(out.Content); {
	case size > 1024:
		before := len(*longest)
		*longest = middle(*longest, max(size-over-128, 512)) // 128: what says how much was cut
		cut = before - len(*longest)
	case out.Error != nil && len(out.Error.Detail) > 0:
		cut, out.Error.Detail = len(out.Error.Detail), nil
	case image >= 0:
		p := &out.Content[image]
		cut = len(p.Data)
		*p = wire.Part{Type: "text", Text: fmt.Sprintf("[image of %d bytes was left out: the result was too large]", len(p.Data)*3/4)}
	}
	if cut <= 0 {
		return false
	}
	if out.Truncated == nil {
		out.Truncated = &wire.Truncated{}
	}
	out.Truncated.Bytes += int64(cut)
	return true
}

func largestImage(parts []wire.Part) int {
	at := -1
	for i, p := range parts {
		if len(p.Data) > 0 && (at < 0 || len(p.Data) > len(parts[at].Data)) {
			at = i
		}
	}
	return at
}

// middle leaves keep encoded bytes of a text: two thirds at its head, one at its tail, and between them how much is gone.
func middle(s string, keep int) string {
	if escaped(s) <= keep {
		return s
	}
	head, tail := 0, len(s)
	for left := keep * 2 / 3; head < len(s); {
		r, n := utf8.DecodeRuneInString(s[head:])
		if left -= cost(r); left < 0 {
			break
		}
		head += n
	}
	for left := keep / 3; tail > head; {
		r, n := utf8.DecodeLastRuneInString(s[:tail])
		if left -= cost(r); left < 0 {
			break
		}
		tail -= n
	}
	return fmt.Sprintf("%s\n[... %d bytes were cut here ...]\n%s", s[:head], tail-head, s[tail:])
}

// escaped is how many bytes a text has inside a JSON string.
func escaped(s string) (n int) {
	for _, r := range s {
		n += cost(r)
	}
	return n
}

func cost(r rune) int {
	switch {
	case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t' || r == '\b' || r == '\f':
		return 2
	case r < 0x20 || r == '\u2028' || r == '\u2029':
		return 6
	}
	return utf8.RuneLen(r)
}
