package identity

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestATypoInARandomCredentialIsToldWithoutALookUp(t *testing.T) {
	token := mint(prefixKey)
	if !minted(prefixKey, token) {
		t.Fatalf("%d characters: not of our form", len(token))
	}
	if minted(prefixSession, token) || minted(prefixKey, token+"A") || minted(prefixKey, "") {
		t.Error("another class or length passes")
	}
	for i := len(prefixKey); i < len(token); i++ {
		for _, c := range []byte{'x', 'y', '!', ' '} {
			if typo := token[:i] + string(c) + token[i+1:]; typo != token && minted(prefixKey, typo) {
				t.Errorf("a typo at %d passes", i)
			}
		}
	}
}

func TestRandomTextIsEven(t *testing.T) {
	counts := map[rune]int{}
	for _, r := range randomText(20_000, codeLetters) {
		counts[r]++
	}
	if len(counts) != len(codeLetters) {
		t.Fatalf("%d letters occur, want %d", len(counts), len(codeLetters))
	}
	for r, n := range counts { // 1000 each; six standard deviations
		if n < 800 || n > 1200 {
			t.Errorf("%c occurs %d times in 20,000", r, n)
		}
	}
}

func TestASealedTokenOpensInItsOwnClassOnly(t *testing.T) {
	root := bytes.Repeat([]byte{7}, 32)
	bearer, err := newSealer(root, prefixBearer)
	if err != nil {
		t.Fatal(err)
	}
	refresh, err := newSealer(root, prefixRefresh)
	if err != nil {
		t.Fatal(err)
	}
	token := bearer.stamp("rnr_1", 42)
	if got, ok := bearer.read(token); !ok || got != (stamp{"rnr_1", 42}) {
		t.Errorf("read back %v, %v", got, ok)
	}
	if token != bearer.stamp("rnr_1", 42) {
		t.Error("the same stamp gives another token")
	}
	relabelled := prefixRefresh + strings.TrimPrefix(token, prefixBearer)
	if _, ok := refresh.read(relabelled); ok {
		t.Error("a bearer passes for a refresh token under another prefix")
	}
	for i := range len(token) {
		for _, c := range []byte{'A', '_', '\n'} {
			if other := token[:i] + string(c) + token[i+1:]; other != token {
				if _, ok := bearer.read(other); ok {
					t.Errorf("changed at %d it passes", i)
				}
			}
		}
	}
	for _, other := range []string{"", prefixBearer, token + "\n", token + "=", token + "AA", " " + token} {
		if _, ok := bearer.read(other); ok {
			t.Errorf("%q passes", other)
		}
	}
}

func TestCurrentEndsOnTheSecond(t *testing.T) {
	issued := time.Unix(1_800_000_000, 0)
	for name, row := range map[string]struct {
		after time.Duration
		want  bool
	}{
		"just issued":               {0, true},
		"a moment before the end":   {time.Hour - time.Nanosecond, true},
		"at the end":                {time.Hour, false},
		"a replica's clock is late": {-time.Minute, true},
		"our clock went back a day": {-24 * time.Hour, false},
	} {
		if got := current(issued.Unix(), time.Hour, issued.Add(row.after)); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

func FuzzSealedTokens(f *testing.F) {
	s, err := newSealer(bytes.Repeat([]byte{1}, 32), prefixRefresh)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.stamp("rnr_1", 1))
	f.Add(s.seal([]byte{1}))
	f.Add(s.seal(nil))
	f.Add("owf_AAAA")
	f.Fuzz(func(t *testing.T, token string) {
		if st, ok := s.read(token); ok && s.stamp(st.who, st.number) != token {
			t.Errorf("%q is a second spelling of %v", token, st)
		}
	})
}

func FuzzUserCodes(f *testing.F) {
	f.Add("bcdf-ghjk")
	f.Add(" BCDF GHJK ")
	f.Add("ABCD-EFGH")
	f.Add("BCDFGHJKL")
	f.Fuzz(func(t *testing.T, typed string) {
		code, ok := ReadUserCode(typed)
		if !ok {
			return
		}
		if again, ok := ReadUserCode(ShowUserCode(code)); !ok || again != code {
			t.Errorf("%q was read as %q, which shown reads as %q", typed, code, again)
		}
	})
}

func TestUserCodesAreReadAsPeopleTypeThem(t *testing.T) {
	for typed, want := range map[string]string{
		"BCDF-GHJK": "BCDFGHJK", "bcdfghjk": "BCDFGHJK", " bcdf ghjk ": "BCDFGHJK", "BCDF–GHJK": "BCDFGHJK",
		"BCDF-GHJ": "", "BCDF-GHJKL": "", "ACDF-GHJK": "", "": "", "BCDF_GHJK": "",
	} {
		if got, ok := ReadUserCode(typed); ok != (want != "") || ok && got != want {
			t.Errorf("%q reads as %q, %v", typed, got, ok)
		}
	}
}
