package fence_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/fence"
)

// wrap is the block of an encoder that is not ours: escape is what it does to a line of content.
func wrap(mark, tool, content string, escape func(string) string) string {
	var b strings.Builder
	b.WriteString(`<UNTRUSTED tool="` + tool + `" id="` + mark + `">`)
	for line := range strings.SplitSeq(content, "\n") {
		b.WriteString("\n" + mark + "| " + escape(line))
	}
	b.WriteString("\n</UNTRUSTED>")
	return b.String()
}

func randomMark() string { return strings.ToLower(rand.Text()[:20]) }

func markOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:20])
}

func as(s string) string { return s }

// good is the package's block under a given mark: sabotage of the mark alone.
func good(mark, tool, content string) string {
	block := (&fence.Fencer{Cap: maxCap}).Block(fence.Tool(tool), content).Text
	c, err := fence.Read(block)
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(block, c.Mark, mark)
}

var anyCase = regexp.MustCompile(`(?i)</untrusted>`)

// saboteurs has the changes that testdata/fencing.json lists, and more: each is caught by a property of some case.
var saboteurs = map[string]encoder{
	"interpolate without encoding": func(_, tool, content string, _ int) string {
		return wrap(randomMark(), tool, content, as)
	},
	"escape only the exact closing token, case-sensitive": func(_, tool, content string, _ int) string {
		return wrap(randomMark(), tool, strings.ReplaceAll(content, "</UNTRUSTED>", "&lt;/UNTRUSTED>"), as)
	},
	"escape the closing token case-insensitively but only ASCII": func(_, tool, content string, _ int) string {
		return wrap(randomMark(), tool, anyCase.ReplaceAllString(content, "&lt;/UNTRUSTED&gt;"), as)
	},
	"strip tokens by deletion (a deleted inner token can form a new one)": func(_, tool, content string, _ int) string {
		return wrap(randomMark(), tool, anyCase.ReplaceAllString(content, ""), as)
	},
	"skip wrapping when the content starts with the opening token": func(via, tool, content string, capBytes int) string {
		if strings.HasPrefix(content, "<UNTRUSTED") {
			return content
		}
		return ours(via, tool, content, capBytes)
	},
	"constant mark": func(_, tool, content string, _ int) string {
		return good("k7m2q6x4c5v5b3n6w2z7", tool, content)
	},
	"mark derived from the content or from runId": func(_, tool, content string, _ int) string {
		return good(markOf(content), tool, content)
	},
	"fence only the success path": func(via, tool, content string, capBytes int) string {
		if via == "error" || via == "stderr" {
			return content
		}
		return ours(via, tool, content, capBytes)
	},
	"fence before truncation": func(via, tool, content string, capBytes int) string {
		block := ours(via, tool, content, maxCap*4)
		return block[:min(len(block), capBytes)]
	},
	// Not in the list of the cases, and as easy to do.
	"a short mark": func(_, tool, content string, _ int) string { return good("k7m2q6x4", tool, content) },
	"entities only, so that decoding a backslash makes a line": func(_, tool, content string, _ int) string {
		return wrap(randomMark(), tool, content, strings.NewReplacer("<", "&lt;", ">", "&gt;", "&", "&amp;").Replace)
	},
	"mark the first line only": func(via, tool, content string, capBytes int) string {
		block := ours(via, tool, content, capBytes)
		c, err := fence.Read(block)
		if err != nil {
			return block
		}
		return strings.ReplaceAll(block, "\n"+c.Mark+"| ", "\n") // the tag is left alone
	},
	"raw attribute": func(_, tool, content string, _ int) string {
		f := fence.Fencer{Cap: maxCap}
		return strings.Replace(f.Block(fence.Tool("TOOL"), content).Text, "TOOL", tool, 1)
	},
	"cut without saying so": func(via, tool, content string, capBytes int) string {
		f := fence.Fencer{Cap: capBytes}
		return f.Block(fence.Tool(tool), content).Text
	},
	"cut inside a code point": func(via, tool, content string, capBytes int) string {
		if len(content) > capBytes/3 {
			content = content[:capBytes/3-(capBytes/3)%3+1]
		}
		return ours(via, tool, content, capBytes)
	},
	"drop what is invisible": func(via, tool, content string, capBytes int) string {
		return ours(via, tool, strings.Map(func(r rune) rune {
			if r == '\u200b' || r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' {
				return -1
			}
			return r
		}, content), capBytes)
	},
}

func TestEverySabotagedEncoderIsCaught(t *testing.T) {
	cases := load(t).Cases
	for name, encode := range saboteurs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range cases {
				if err := violated(encode, c, c.content(t)); err != nil {
					t.Logf("caught by %s: %v", c.ID, err)
					return
				}
			}
			t.Error("no case tells it from the real encoder")
		})
	}
}

func TestEverySabotageOfTheListIsTried(t *testing.T) {
	var missing []string
	for _, name := range load(t).Sabotage {
		if saboteurs[name] == nil {
			missing = append(missing, name)
		}
	}
	if diff := cmp.Diff([]string(nil), missing); diff != "" {
		t.Errorf("sabotage without a saboteur (-want +got):\n%s", diff)
	}
}
