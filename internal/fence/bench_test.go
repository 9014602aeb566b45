package fence_test

import (
	"strings"
	"testing"

	"runnerd/internal/fence"
)

func BenchmarkBlock(b *testing.B) {
	for name, content := range map[string]string{
		"prose": strings.Repeat("The quick brown fox jumps over the lazy dog, and nobody minds at all.\n", 960)[:64<<10],
		"code":  strings.Repeat("\tif a < b && c > d { fmt.Printf(\"%d\\n\", x) }\n", 1500)[:64<<10],
		"CJK":   strings.Repeat("日本語のテキスト。", 2500)[:27*2427],
	} {
		b.Run(name, func(b *testing.B) {
			f := fence.Fencer{Cap: -1}
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			for b.Loop() {
				f.Block(fence.Tool("search"), content)
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	f := fence.Fencer{Cap: -1}
	block := f.Block(fence.Tool("search"), strings.Repeat("if a < b && c > d { return }\n", 2300)).Text
	b.SetBytes(int64(len(block)))
	for b.Loop() {
		if _, err := fence.Read(block); err != nil {
			b.Fatal(err)
		}
	}
}
