package fence_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"runnerd/internal/fence"
)

// What is fenced holds every property that a case can ask for, and reads back the same, whatever the content, the tool's
// name and the cap are.
func FuzzBlockReadsBackTheSame(f *testing.F) {
	data := load(f)
	for _, c := range data.Cases {
		if c.Generate == nil {
			f.Add(c.Tool, c.content(f), 0)
			f.Add(c.Tool, c.content(f), 220)
		}
	}
	f.Add("t", "%0a \\n &#10; &U+000A; &\\;n &%;0a \r\n \u2028", 0)
	all := []string{"F1", "F2", "F3", "F4", "F6", "F7", "F8", "F11"}
	f.Fuzz(func(t *testing.T, tool, content string, capBytes int) {
		tool = string([]rune(tool))
		if capBytes < 600+6*len(tool) {
			capBytes = maxCap
		}
		c := fencingCase{ID: "fuzz", Tool: tool, Via: "result", CapBytes: capBytes}
		for _, id := range all {
			cut := fence.Fencer{Cap: capBytes}
			if (id == "F6" || id == "F8") && (!utf8.ValidString(content) || cut.Block(fence.Tool(tool), content).Cut > 0) {
				continue
			}
			c.MustHold = append(c.MustHold, id)
		}
		if err := violated(ours, c, content); err != nil {
			t.Error(err)
		}
	})
}

// Whatever Read accepts, Block would have written.
func FuzzReadTakesOnlyWhatBlockWrites(f *testing.F) {
	for _, content := range []string{"", "a\n<b>", "\x1b[31m", "\xff"} {
		f.Add((&fence.Fencer{Rand: zeros{}}).Block(fence.Tool("t"), content).Text)
		f.Add((&fence.Fencer{Rand: zeros{}}).Block(fence.RunEvent("node.failed"), content).Text)
	}
	f.Add((&fence.Fencer{Rand: zeros{}, Cap: 200}).Block(fence.Tool("t"), strings.Repeat("x", 99)).Text)
	f.Fuzz(func(t *testing.T, block string) {
		content, err := fence.Read(block)
		if err != nil {
			return
		}
		again := (&fence.Fencer{Cap: -1}).Block(content.Source, content.Text).Text
		got, err := fence.Read(again)
		if err != nil || got.Text != content.Text || got.Source != content.Source {
			t.Errorf("%q reads as %+v, which is written as %q", block, content, again)
		}
	})
}
