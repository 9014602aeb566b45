package fence_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"runnerd/internal/fence"
)

// A suite is testdata/fencing.json.
type suite struct {
	Properties map[string]string `json:"properties"`
	Sabotage   []string          `json:"sabotage"`
	Count      int               `json:"count"`
	Cases      []fencingCase     `json:"cases"`
}

type fencingCase struct {
	ID        string  `json:"id"`
	Class     string  `json:"class"`
	Tool      string  `json:"tool"`
	Via       string  `json:"via"`
	Output    *string `json:"output"`
	OutputB64 *string `json:"outputB64"`
	Generate  *struct {
		Repeat string `json:"repeat"`
		Times  int    `json:"times"`
	} `json:"generate"`
	CapBytes int             `json:"capBytes"`
	Expect   json.RawMessage `json:"expect"`
	MustHold []string        `json:"mustHold"`
	Why      string          `json:"why"`
}

func (c fencingCase) content(t testing.TB) string {
	switch {
	case c.Output != nil:
		return *c.Output
	case c.OutputB64 != nil:
		b, err := base64.StdEncoding.DecodeString(*c.OutputB64)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	case c.Generate != nil:
		return strings.Repeat(c.Generate.Repeat, c.Generate.Times)
	}
	t.Fatalf("%s has no content", c.ID)
	return ""
}

func load(t testing.TB) suite {
	t.Helper()
	data, err := os.ReadFile("testdata/fencing.json")
	if err != nil {
		t.Fatal(err)
	}
	var s suite
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Cases) != s.Count {
		t.Fatalf("%d cases, want %d", len(s.Cases), s.Count)
	}
	return s
}

// An encoder turns what came by some path into the text of a model message. The package's own is one; the others are the
// sabotaged ones, which the properties must tell from it.
type encoder func(via, tool, content string, capBytes int) string

func ours(_, tool, content string, capBytes int) string {
	f := fence.Fencer{Cap: capBytes}
	return f.Message(fence.Tool(tool), content)
}

const maxCap = 4 << 20 // where a case gives no cap

var (
	anyOpen   = regexp.MustCompile(`(?i)<\s*UNTRUSTED\b`)
	anyClose  = regexp.MustCompile(`(?i)<\s*/\s*UNTRUSTED\s*>`)
	goodOpen  = regexp.MustCompile(`^<UNTRUSTED (?:[a-z]+="[^"<>\n]*" )+id="([a-z2-7]+)">\n`)
	cutNotice = regexp.MustCompile(`^\n\(The host cut (\d+) bytes from the end of this content, because it was too long\.\)$`)
)

// violated gives the first thing about a case that breaks one of its properties, or nil.
func violated(encode encoder, c fencingCase, content string) error {
	capBytes := c.CapBytes
	if capBytes == 0 {
		capBytes = maxCap
	}
	message := encode(c.Via, c.Tool, content, capBytes)
	end := strings.LastIndex(message, "</UNTRUSTED>")
	if end < 0 {
		return fmt.Errorf("F1: no closing token")
	}
	v := view{c: c, content: content, capBytes: capBytes, message: message, block: message[:end+len("</UNTRUSTED>")]}
	v.again = encode(c.Via, c.Tool, content, capBytes)
	for _, id := range c.MustHold {
		check, ok := checks[id]
		if !ok {
			return fmt.Errorf("no check for %s", id)
		}
		if err := check(v); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	return nil
}

// A view is one outcome, as the checks see it.
type view struct {
	c              fencingCase
	content        string
	capBytes       int
	message, block string
	again          string // the same content, encoded a second time
}

func (v view) inner() string {
	_, after, _ := strings.Cut(v.block, "\n")
	return strings.TrimSuffix(after, "</UNTRUSTED>")
}

func (v view) mark() string {
	if m := goodOpen.FindStringSubmatch(v.block); m != nil {
		return m[1]
	}
	return ""
}

var checks = map[string]func(view) error{
	"F1": func(v view) error {
		if n := len(anyOpen.FindAllString(v.block, -1)); n != 1 || !strings.HasPrefix(v.block, "<UNTRUSTED ") {
			return fmt.Errorf("%d opening tokens, want one at the start", n)
		}
		if n := len(anyClose.FindAllString(v.block, -1)); n != 1 || !strings.HasSuffix(v.block, "\n</UNTRUSTED>") {
			return fmt.Errorf("%d closing tokens, want one on the last line", n)
		}
		got, err := fence.Read(v.block)
		if err != nil {
			return err
		}
		want := string([]rune(v.content[:len(v.content)-got.Cut]))
		if got.Text != want {
			return fmt.Errorf("reads back as %.80q, want %.80q", got.Text, want)
		}
		return nil
	},
	"F2": func(v view) error {
		for _, r := range v.inner() {
			if strings.ContainsAny(norm.NFKC.String(string(r)), "<>") {
				return fmt.Errorf("raw %q", r)
			}
		}
		if strings.ContainsAny(norm.NFKC.String(v.inner()), "<>") || strings.ContainsAny(norm.NFKD.String(v.inner()), "<>") {
			return fmt.Errorf("normalises to a bracket")
		}
		return nil
	},
	"F3": func(v view) error {
		mark := v.mark()
		if bits := 5 * len(mark); bits < 96 {
			return fmt.Errorf("a mark of %d bits", bits)
		}
		if strings.Contains(v.content, mark) {
			return fmt.Errorf("the mark occurs in the content")
		}
		if strings.Contains(v.again, mark) {
			return fmt.Errorf("two blocks have the same mark")
		}
		for name, decode := range decoders {
			for i, line := range lines(decode(strings.TrimSuffix(v.inner(), "\n"))) {
				if !strings.HasPrefix(line, mark+"| ") {
					return fmt.Errorf("%s: line %d is %.60q", name, i, line)
				}
			}
		}
		return nil
	},
	"F4": func(v view) error {
		for _, r := range v.inner() {
			if r == '\n' || r == '\t' {
				continue
			}
			if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unicode.Variation_Selector) ||
				r >= 0xe0000 && r <= 0xe0fff || r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef {
				return fmt.Errorf("raw U+%04X", r)
			}
		}
		return nil
	},
	"F5": func(v view) error {
		got, err := fence.Read(v.block)
		if err != nil {
			return err
		}
		if got.Lossy == utf8.ValidString(v.content) {
			return fmt.Errorf("lossy is %v", got.Lossy)
		}
		if !got.Lossy && got.Text != v.content {
			return fmt.Errorf("reads back as %.80q", got.Text)
		}
		return nil
	},
	"F6": func(v view) error {
		outer, err := fence.Read(ours("result", "model", v.block, maxCap))
		if err != nil {
			return err
		}
		inner, err := fence.Read(outer.Text)
		if err != nil || inner.Text != v.content {
			return fmt.Errorf("two levels read back as %q, %v", inner.Text, err)
		}
		return nil
	},
	"F7": func(v view) error {
		if v.mark() == "" {
			return fmt.Errorf("opening tag is %.100q", v.block)
		}
		got, err := fence.Read(v.block)
		if err != nil || got.Source.Tool != v.c.Tool {
			return fmt.Errorf("tool is %q, %v, want %q", got.Source.Tool, err, v.c.Tool)
		}
		return nil
	},
	"F8": func(v view) error {
		got, err := fence.Read(v.block)
		if err != nil {
			return err
		}
		if len(v.block) > v.capBytes {
			return fmt.Errorf("%d bytes, the cap is %d", len(v.block), v.capBytes)
		}
		if got.Cut > 0 && len(v.block) < v.capBytes-256 {
			return fmt.Errorf("%d bytes, far below the cap of %d", len(v.block), v.capBytes)
		}
		if !strings.HasPrefix(v.content, got.Text) || !utf8.ValidString(got.Text) || len(got.Text)+got.Cut != len(v.content) {
			return fmt.Errorf("kept %d and cut %d of %d bytes", len(got.Text), got.Cut, len(v.content))
		}
		said := 0
		if m := cutNotice.FindStringSubmatch(v.message[len(v.block):]); m != nil {
			said, _ = strconv.Atoi(m[1])
		}
		if said != got.Cut {
			return fmt.Errorf("the host says %d bytes were cut, want %d", said, got.Cut)
		}
		return nil
	},
	// What comes out is text and nothing else: no decision, no call, no step. That nothing reads it as more is for the
	// tests of approvals, steps and runs to show.
	"F9": func(v view) error {
		got, err := fence.Read(v.block)
		if err != nil || got.Text != v.content {
			return fmt.Errorf("the content is %q, %v", got.Text, err)
		}
		return nil
	},
	// By whatever path it came: the message is a block and nothing but the block.
	"F10": func(v view) error {
		if v.mark() == "" || v.message != v.block {
			return fmt.Errorf("via %s it is %.80q", v.c.Via, v.message)
		}
		return nil
	},
	"F11": func(v view) error {
		for _, r := range fence.Inert(v.content) {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
				return fmt.Errorf("inert text holds U+%04X", r)
			}
		}
		return nil
	},
	"F12": func(view) error {
		if fence.Meet(fence.Trusted, "") != fence.Untrusted || fence.Meet(fence.Trusted, fence.Untrusted) != fence.Untrusted {
			return fmt.Errorf("a value made from this content could be trusted")
		}
		return nil
	},
}

// lines splits where any reader might: at line feeds and at all else that some language calls a line break.
func lines(text string) []string {
	return strings.FieldsFunc(strings.ReplaceAll(text, "\n\n", "\n \n"), func(r rune) bool {
		return strings.ContainsRune("\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029", r)
	})
}

// decoders are what a careless reader might do to a block, once each.
var decoders = map[string]func(string) string{
	"as it is":                     func(s string) string { return s },
	"entities":                     html.UnescapeString,
	"percent":                      percentDecode,
	"backslash":                    backslashDecode,
	"entities, percent, backslash": func(s string) string { return backslashDecode(percentDecode(html.UnescapeString(s))) },
	"backslash, percent, entities": func(s string) string { return html.UnescapeString(percentDecode(backslashDecode(s))) },
	"percent, entities, backslash": func(s string) string { return backslashDecode(html.UnescapeString(percentDecode(s))) },
}

var (
	percentEscape   = regexp.MustCompile(`%(?:u[0-9a-fA-F]{4}|[0-9a-fA-F]{2})`)
	backslashEscape = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.|\n|$)`)
)

func percentDecode(s string) string {
	return percentEscape.ReplaceAllStringFunc(s, func(e string) string {
		n, _ := strconv.ParseUint(strings.TrimLeft(e, "%u"), 16, 32)
		return string(rune(n))
	})
}

func backslashDecode(s string) string {
	return backslashEscape.ReplaceAllStringFunc(s, func(e string) string {
		switch c := e[1:]; {
		case c == "" || c == "\n":
			return ""
		case len(c) > 1 && strings.Contains("uUx", c[:1]):
			n, _ := strconv.ParseUint(c[1:], 16, 32)
			return string(rune(n))
		case c[0] >= '0' && c[0] <= '7':
			n, _ := strconv.ParseUint(c, 8, 32)
			return string(rune(n))
		case c == "n":
			return "\n"
		case c == "r":
			return "\r"
		case c == "v":
			return "\v"
		case c == "f":
			return "\f"
		default:
			return c
		}
	})
}
