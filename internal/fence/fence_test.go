package fence_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/fence"
)

func TestEveryCaseHoldsItsProperties(t *testing.T) {
	for _, c := range load(t).Cases {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			if err := violated(ours, c, c.content(t)); err != nil {
				t.Errorf("%s: %v", c.Why, err)
			}
		})
	}
}

func TestEveryPropertyHasACheck(t *testing.T) {
	for id := range load(t).Properties {
		if checks[id] == nil {
			t.Errorf("no check for %s", id)
		}
	}
}

// a is a source of randomness that draws the mark aaaa..., bb is one that draws it and then bbbb....
func a() *bytes.Reader { return bytes.NewReader(make([]byte, 20)) }
func ab() *bytes.Reader {
	return bytes.NewReader(append(make([]byte, 20), bytes.Repeat([]byte{33}, 20)...))
}

func TestBlockHasTheShapeOfTheCases(t *testing.T) {
	f := fence.Fencer{Rand: a()}
	got := f.Block(fence.Tool("search"), "a <b> & c\n\ttab, C:\\new, 100%, %0A\nbell \a")
	want := fence.Block{Text: `<UNTRUSTED tool="search" id="aaaaaaaaaaaaaaaaaaaa">
aaaaaaaaaaaaaaaaaaaa| a &lt;b&gt; &amp; c
aaaaaaaaaaaaaaaaaaaa| 	tab, C:&\;new, 100%, &%;0A
aaaaaaaaaaaaaaaaaaaa| bell &U+0007;
</UNTRUSTED>`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("block (-want +got):\n%s", diff)
	}
}

func TestSourceBecomesAttributes(t *testing.T) {
	const id = ` id="aaaaaaaaaaaaaaaaaaaa">`
	for name, c := range map[string]struct {
		source fence.Source
		want   string
	}{
		"a tool":           {fence.Tool("search"), `<UNTRUSTED tool="search"` + id},
		"a run event":      {fence.RunEvent("node.completed"), `<UNTRUSTED source="run-event" type="node.completed"` + id},
		"an MCP tool":      {fence.MCPTool("mcp.fs.read"), `<UNTRUSTED source="mcp-tool" tool="mcp.fs.read"` + id},
		"nothing":          {fence.Source{}, `<UNTRUSTED tool=""` + id},
		"markup in a name": {fence.Tool("x\"'\n\t><\xff"), `<UNTRUSTED tool="x&U+0022;&U+0027;&U+000A;&U+0009;&gt;&lt;` + "\ufffd\"" + id},
	} {
		t.Run(name, func(t *testing.T) {
			f := fence.Fencer{Rand: a()}
			got, _, _ := strings.Cut(f.Block(c.source, "x").Text, "\n")
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestMarkThatOccursInTheContentIsDrawnAgain(t *testing.T) {
	f := fence.Fencer{Rand: ab()}
	block := f.Block(fence.Tool("t"), "guess: "+strings.Repeat("a", 20)).Text
	got, err := fence.Read(block)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("b", 20); got.Mark != want {
		t.Errorf("mark = %s, want %s", got.Mark, want)
	}
}

func TestBlockPanicsRatherThanUseABadMark(t *testing.T) {
	for name, f := range map[string]fence.Fencer{
		"no randomness":     {Rand: bytes.NewReader(nil)},
		"the same for ever": {Rand: zeros{}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("a block was built")
				}
			}()
			f.Block(fence.Tool("t"), strings.Repeat("a", 20))
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestCutIsSaidOutsideTheBlock(t *testing.T) {
	f := fence.Fencer{Rand: a(), Cap: 250}
	block := f.Block(fence.Tool("t"), strings.Repeat("é", 500))
	got, err := fence.Read(block.Text)
	if err != nil {
		t.Fatal(err)
	}
	if got.Cut != block.Cut || got.Cut == 0 || len(got.Text)+got.Cut != 1000 || len(block.Text) > 250 {
		t.Errorf("kept %d bytes, cut %d (block says %d), block of %d bytes", len(got.Text), got.Cut, block.Cut, len(block.Text))
	}
	if message := block.String(); !strings.HasPrefix(message, block.Text+"\n(The host cut ") {
		t.Errorf("message is %q", message)
	}
}

func TestCapThatHasNoRoomLeavesAnEmptyBlock(t *testing.T) {
	f := fence.Fencer{Cap: 1}
	block := f.Block(fence.Tool("t"), "content")
	got, err := fence.Read(block.Text)
	if err != nil || got.Text != "" || got.Cut != len("content") {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestZeroFencerCapsAndNegativeCapDoesNot(t *testing.T) {
	content := strings.Repeat("x", fence.DefaultCap)
	if block := (&fence.Fencer{}).Block(fence.Tool("t"), content); block.Cut == 0 || len(block.Text) > fence.DefaultCap {
		t.Errorf("the zero Fencer made a block of %d bytes", len(block.Text))
	}
	if block := (&fence.Fencer{Cap: -1}).Block(fence.Tool("t"), content); block.Cut != 0 {
		t.Errorf("%d bytes were cut without a cap", block.Cut)
	}
}

func TestReadRefusesWhatBlockDoesNotWrite(t *testing.T) {
	f := fence.Fencer{Rand: a()}
	good := f.Block(fence.Tool("t"), "a\n<b>").Text
	replace := func(old, with string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %q in the block", old)
		}
		return strings.Replace(good, old, with, 1)
	}
	for name, block := range map[string]string{
		"nothing":              "",
		"text after the end":   good + "\n",
		"text before":          " " + good,
		"lower-case tag":       replace("</UNTRUSTED>", "</untrusted>"),
		"a line without mark":  replace("\na", "\nx\na"),
		"a short mark":         strings.ReplaceAll(good, strings.Repeat("a", 20), "aaaa"),
		"a raw bracket":        replace("&lt;", "<"),
		"another escape":       replace("&lt;", "&U+003C;"),
		"an unknown escape":    replace("&lt;", "&copy;"),
		"an open escape":       replace("&lt;b&gt;", "&lt"),
		"a surrogate":          replace("&lt;", "&U+D800;"),
		"an unknown attribute": replace(`tool=`, `trust=`),
		"an attribute twice":   replace(`tool="t"`, `tool="t" tool="u"`),
		"cut by nothing":       replace(`tool="t"`, `tool="t" cut="0"`),
		"cut by a word":        replace(`tool="t"`, `tool="t" cut="x"`),
		"lossy without a loss": replace(`tool="t"`, `tool="t" lossy="no"`),
		"no id":                replace(`id=`, `type=`),
		"lossy and whole":      replace(`tool="t"`, `tool="t" lossy="true"`),
		"bad UTF-8":            replace("| a", "| \xf8"),
		"the mark inside":      replace("| a", "| aaaaaaaaaaaaaaaaaaaa"),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := fence.Read(block); !errors.Is(err, fence.ErrNotABlock) {
				t.Errorf("got %+v, %v, want ErrNotABlock", got, err)
			}
		})
	}
}

func TestMeetIsTrustedOnlyIfAllInputsAre(t *testing.T) {
	for name, c := range map[string]struct {
		inputs []string
		want   string
	}{
		"all trusted":         {[]string{fence.Trusted, fence.Trusted}, fence.Trusted},
		"one untrusted":       {[]string{fence.Trusted, fence.Untrusted}, fence.Untrusted},
		"one without marking": {[]string{fence.Trusted, ""}, fence.Untrusted},
		"an unknown word":     {[]string{"Trusted"}, fence.Untrusted},
		"nothing":             {nil, fence.Untrusted},
	} {
		if got := fence.Meet(c.inputs...); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestSystemNoteHoldsNoTag(t *testing.T) {
	if strings.ContainsAny(fence.SystemNote, "<>\n") || !strings.Contains(fence.SystemNote, "data") {
		t.Errorf("note is %q", fence.SystemNote)
	}
}
