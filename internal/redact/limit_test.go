package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"runnerd/internal/redact"
)

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// values makes n different secrets of a usual length.
func values(r *rand.Rand, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = "tk-FAKE-" + text(r, alphabet, 24+r.IntN(24))
	}
	return list
}

func text(r *rand.Rand, alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

// A finder looks for strings in what is written to it, across its pieces.
type finder struct {
	needles []string
	tail    []byte
	found   string
	bytes   int
	marks   int
}

func (f *finder) Write(p []byte) (int, error) {
	f.bytes += len(p)
	f.marks += bytes.Count(p, []byte("[REDACTED:"))
	f.tail = append(f.tail, p...)
	for _, n := range f.needles {
		if bytes.Contains(f.tail, []byte(n)) {
			f.found = n
		}
	}
	f.tail = f.tail[max(0, len(f.tail)-256):]
	return len(p), nil
}

func TestEveryLimitCaseIsKept(t *testing.T) {
	suite := load(t)
	for _, c := range suite.Cases {
		if !c.is("limit") {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			run, ok := limits[c.ID]
			if !ok {
				t.Fatalf("no test for %s", c.Why)
			}
			run(t, suite, c)
		})
	}
}

var limits = map[string]func(*testing.T, suite, redactionCase){
	// 8 MiB of output with the value at every 64 KiB boundary, written in 64 KiB chunks.
	"red-112": func(t *testing.T, s suite, c redactionCase) {
		g := c.Generate
		if instrumented() {
			g.Bytes /= 8
		}
		value := s.Secrets[g.Place]
		source := []byte(strings.Repeat(g.Fill, g.Bytes))
		places := 0
		for at := g.PlaceAtEvery; at < g.Bytes; at += g.PlaceAtEvery {
			places++
			copy(source[at+g.Offset:], value)
		}
		out := finder{needles: c.Expect.MustNotContain}
		w := s.set(t, c).Writer(&out)
		for at := 0; at < len(source); at += g.PlaceAtEvery {
			if _, err := w.Write(source[at:min(at+g.PlaceAtEvery, len(source))]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		if want := g.Bytes - places*(len(value)-len("[REDACTED:tok]")); out.found != "" || out.bytes != want {
			t.Errorf("found %q in %d bytes, want none in %d", out.found, out.bytes, want)
		}
	},
	// 1,000 registered values with all their encodings: at least 20 MB/s on two cores and at most 64 MiB of memory.
	"red-113": func(t *testing.T, _ suite, c redactionCase) {
		r := rand.New(rand.NewPCG(113, 1))
		list := values(r, c.Generate.Secrets)
		before := heap()
		set := &redact.Set{}
		for i, v := range list {
			if err := set.Add(fmt.Sprintf("s%d", i), redact.New(v)); err != nil {
				t.Fatal(err)
			}
		}
		size := 1 << 20
		if instrumented() {
			size /= 8
		}
		source := manyEncodings(r, list, size)
		var needles []string
		for i := 0; i < len(list); i += 50 {
			needles = append(needles, list[i], url.QueryEscape(list[i]), hex.EncodeToString([]byte(list[i])))
		}
		out := finder{needles: needles}
		w := set.Writer(&out)
		if _, err := w.Write(source); err != nil {
			t.Fatal(err)
		}
		if out.found != "" || out.marks == 0 {
			t.Errorf("found %q beside %d markers", out.found, out.marks)
		}
		w = set.Writer(io.Discard)
		speed := speedOf(t, w, source, c.Generate.Bytes)
		used := heap() - before
		t.Logf("%.1f MB/s, %.1f MiB", speed, float64(used)/(1<<20))
		if used > 64<<20 {
			t.Errorf("%d MiB of memory, want at most 64", used>>20)
		}
		// Absolute figures are judged with a margin of two: the machine of a test is any machine.
		if speed < 20/2 && !instrumented() {
			t.Errorf("%.1f MB/s, want at least 20", speed)
		}
		runtime.KeepAlive(w)
		runtime.KeepAlive(set)
	},
	// A 64 KiB value: held bytes never exceed the longest needle.
	"red-114": func(t *testing.T, _ suite, c redactionCase) {
		r := rand.New(rand.NewPCG(114, 1))
		long := text(r, alphabet, c.Generate.SecretBytes)
		set := &redact.Set{}
		if err := set.Add("long", redact.New(long)); err != nil {
			t.Fatal(err)
		}
		var escaped strings.Builder
		for i := range len(long) {
			fmt.Fprintf(&escaped, `\u%04x`, long[i])
		}
		for name, form := range map[string]string{
			"raw": long, "base64": base64.StdEncoding.EncodeToString([]byte(long)), "hex": hex.EncodeToString([]byte(long)),
			"escaped": escaped.String(),
		} {
			var out strings.Builder
			w := set.Writer(&out)
			source := "a " + form + " b " + form[:len(form)-20] + " c " + strings.Repeat(form[:len(form)/3], 4) + strings.Repeat(" ", 1<<16)
			most := 0
			for at := 0; at < len(source); at += 1000 {
				if _, err := w.Write([]byte(source[at:min(at+1000, len(source))])); err != nil {
					t.Fatal(err)
				}
				most = max(most, w.Held())
			}
			if most > c.Expect.MaxHeldBytes {
				t.Errorf("%s: %d bytes were held, want at most %d", name, most, c.Expect.MaxHeldBytes)
			}
			if err := w.Finish(); err != nil || !strings.HasPrefix(out.String(), "a [REDACTED:long]") || strings.Count(out.String(), "[REDACTED") != 1 {
				t.Errorf("%s: got %.60q with %d markers, %v", name, out.String(), strings.Count(out.String(), "[REDACTED"), err)
			}
		}
	},
	// A text of near-misses stays linear: twice the text takes about twice the time.
	"red-115": func(t *testing.T, s suite, c redactionCase) {
		set := s.set(t, c)
		took := func(times int) time.Duration {
			source := strings.Repeat(c.Generate.Repeat, times)
			start := time.Now()
			w := set.Writer(io.Discard)
			for at := 0; at < len(source); at += 4096 {
				if _, err := w.Write([]byte(source[at:min(at+4096, len(source))])); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(start)
		}
		times := c.Generate.Times
		if instrumented() {
			times /= 10
		}
		one := took(times / 10)
		if ten := took(times); ten > 40*one && ten > time.Second {
			t.Errorf("%d copies took %v, a tenth of them %v", times, ten, one)
		}
	},
}

// manyEncodings makes lines of ordinary output with a value in some encoding now and then.
func manyEncodings(r *rand.Rand, list []string, size int) []byte {
	var b bytes.Buffer
	for b.Len() < size {
		v := list[r.IntN(len(list))]
		switch r.IntN(20) {
		case 0:
			fmt.Fprintf(&b, "Authorization: Bearer %s\n", v)
		case 1:
			fmt.Fprintf(&b, `{"key":%q,"n":%d}`+"\n", v, r.IntN(1000))
		case 2:
			fmt.Fprintf(&b, "data: %s\n", base64.StdEncoding.EncodeToString([]byte("user:"+v)))
		case 3:
			fmt.Fprintf(&b, "%s\n", hex.EncodeToString([]byte(v)))
		case 4:
			fmt.Fprintf(&b, "GET /v1?key=%s&x=%%20\n", url.QueryEscape(v))
		default:
			fmt.Fprintf(&b, "%s INFO worker-%d: processed %d items in %d ms, it's the last of \"%s\" (path C:\\new\\%s)\n",
				"2026-01-02T15:04:05Z", r.IntN(9), r.IntN(1e6), r.IntN(900), text(r, alphabet[:52], 12), text(r, alphabet[:52], 8))
		}
	}
	return b.Bytes()
}

// speedOf writes so many bytes and gives the speed in MB/s that one piece in five reaches: other processes may have the
// processors meanwhile, and that is not what is judged.
func speedOf(t *testing.T, w io.Writer, source []byte, size int) float64 {
	if instrumented() {
		size = min(size, 1<<20)
	}
	var took []time.Duration
	const piece = 16 << 10
	for at := 0; at < size; at += piece {
		p := source[at%(len(source)-piece):][:piece]
		start := time.Now()
		if _, err := w.Write(p); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return piece / 1e6 / took[len(took)/5].Seconds()
}

// instrumented reports whether the code was built with something that slows it down, so that speed is not judged.
func instrumented() bool {
	fuzzing := flag.Lookup("test.fuzz")
	return raceEnabled || testing.CoverMode() != "" || fuzzing != nil && fuzzing.Value.String() != ""
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
