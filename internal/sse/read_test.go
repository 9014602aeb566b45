package sse

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func event(id, typ, data string) Event { return Event{id, typ, []byte(data)} }

func TestReadFollowsTheStandard(t *testing.T) {
	for name, tt := range map[string]struct {
		in   string
		want []Event
		err  error
	}{
		"frame":                        {"id: 3\nevent: dispatch\ndata: {}\n\n", []Event{event("3", "dispatch", "{}")}, nil},
		"CR, CRLF and LF mixed":        {"data: a\r\rdata: b\r\n\r\ndata: c\n\r\ndata: d\n\n", []Event{event("", "", "a"), event("", "", "b"), event("", "", "c"), event("", "", "d")}, nil},
		"byte order mark":              {"\xEF\xBB\xBFdata: a\n\n\xEF\xBB\xBFdata: b\n\n", []Event{event("", "", "a")}, nil},
		"one space only":               {"data:  a\n\ndata:b\n\n", []Event{event("", "", " a"), event("", "", "b")}, nil},
		"several data lines":           {"data: a\ndata:\ndata: b\n\n", []Event{event("", "", "a\n\nb")}, nil},
		"data without a colon":         {"data\n\n", []Event{event("", "", "")}, nil},
		"comments between and within":  {":keepalive\n\n:x\ndata: a\n: id: 9\n\n:y\n", []Event{event("", "", "a")}, nil},
		"an id does not stick":         {"id: 1\ndata: a\n\ndata: b\n\n", []Event{event("1", "", "a"), event("", "", "b")}, nil},
		"no data, no event":            {"id: 1\nevent: x\n\ndata: b\n\n", []Event{event("", "", "b")}, nil},
		"unknown fields":               {"retry: 5\nData: x\nfoo\ndata: a\n\n", []Event{event("", "", "a")}, nil},
		"values that look like fields": {"data: id: 7\ndata: data: x\n\n", []Event{event("", "", "id: 7\ndata: x")}, nil},
		"NUL and U+2028 in data":       {"data: a\x00b\u2028c\n\n", []Event{event("", "", "a\x00b\u2028c")}, nil},
		"cut in a line":                {"data: a\n\ndata: b", []Event{event("", "", "a")}, io.ErrUnexpectedEOF},
		"cut before the blank line":    {"data: a\n\nid: 2\ndata: b\n", []Event{event("", "", "a")}, io.ErrUnexpectedEOF},
		"cut in a comment":             {"data: a\n\n:keepal", []Event{event("", "", "a")}, nil},
		"id with a NUL":                {"id: 1\x002\ndata: a\n\n", nil, ErrBadID},
		"nothing":                      {"", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 7, 64 << 10} {
				got, err := collect(t, chunked{strings.NewReader(tt.in), size}, Options{})
				mustBe(t, err, tt.err)
				if d := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); d != "" {
					t.Errorf("%d bytes at a time: %s", size, d)
				}
			}
		})
	}
}

func TestNumberedStreamRefusesOtherIDs(t *testing.T) {
	for _, id := range []string{"", "x", "-1", "+1", "1.5", " 1", "1 ", "9223372036854775808", "0x1", "1\x00"} {
		events, err := collect(t, strings.NewReader("id: 4\ndata: a\n\nid: "+id+"\ndata: b\n\n"), Options{Numbered: true})
		mustBe(t, err, ErrBadID)
		if len(events) != 1 {
			t.Errorf("id %q: got %d events, want the one before", id, len(events))
		}
	}
	events, err := collect(t, strings.NewReader("id: 9223372036854775807\ndata: a\n\ndata: control\n\n"), Options{Numbered: true})
	if err != nil || len(events) != 2 {
		t.Fatal(events, err)
	}
	if n, err := events[0].Seq(); n != 1<<63-1 || err != nil {
		t.Errorf("Seq() = %d, %v", n, err)
	}
	_, err = events[1].Seq()
	mustBe(t, err, ErrBadID)
}

// endless gives its pattern for ever, up to a limit that the reader must not reach.
type endless struct {
	pattern string
	left    int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, errors.New("read far beyond the cap")
	}
	n := copy(p, strings.Repeat(e.pattern, len(p)/len(e.pattern)+1))
	e.left -= n
	return n, nil
}

func TestTooLargeEventsAreCutWithFlatMemory(t *testing.T) {
	for name, r := range map[string]io.Reader{
		"one line":              io.MultiReader(strings.NewReader("data: "), &endless{"x", 50 << 20}),
		"line of NULs":          &endless{"\x00", 50 << 20},
		"data lines":            &endless{"data: some words\n", 50 << 20},
		"empty data lines":      &endless{"data\n", 50 << 20},
		"lines of other fields": &endless{"what: ever\n", 50 << 20},
		"ids":                   &endless{"id: 1\n", 50 << 20},
		"comment":               io.MultiReader(strings.NewReader(":"), &endless{"x", 50 << 20}),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := collect(t, r, Options{MaxEvent: 1 << 20})
			runtime.ReadMemStats(&after)
			mustBe(t, err, ErrTooLarge)
			if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
				t.Errorf("allocated %d MiB", got>>20)
			}
		})
	}
}

func TestEventOfTheLargestSizePasses(t *testing.T) {
	data := strings.Repeat("x", 1<<20)
	got, err := collect(t, strings.NewReader("id: 9223372036854775807\nevent: dispatch\ndata: "+data+"\n\n"), Options{})
	if err != nil || len(got) != 1 || len(got[0].Data) != 1<<20 {
		t.Errorf("%d events, %v", len(got), err)
	}
}

func TestKeepalivesForYearsAreNotALargeEvent(t *testing.T) {
	in := strings.NewReader(strings.Repeat(":keepalive\n", 300_000) + "data: a\n\n")
	got, err := collect(t, in, Options{MaxEvent: 1 << 10})
	if err != nil || len(got) != 1 {
		t.Errorf("%d events, %v", len(got), err)
	}
}

// waits is a body that gives its parts with a pause before each, and then is silent until it is closed.
func waits(pause time.Duration, parts ...string) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		for _, p := range parts {
			time.Sleep(pause)
			if _, err := w.Write([]byte(p)); err != nil {
				return
			}
		}
	}()
	return r
}

func TestSilenceIsMeasuredInBytes(t *testing.T) {
	opts := Options{Silent: 40 * time.Second, FirstByte: 20 * time.Second}
	for name, tt := range map[string]struct {
		pause time.Duration
		parts []string
		err   error
		after time.Duration
	}{
		"nothing after the headers":     {0, nil, ErrBuffered, 20 * time.Second},
		"first byte too late":           {21 * time.Second, []string{":open\n\n"}, ErrBuffered, 20 * time.Second},
		"comments keep it alive":        {15 * time.Second, []string{":open\n\n", ":k\n", ":k\n", ":k\n"}, ErrSilent, 100 * time.Second},
		"half a line is a sign of life": {19 * time.Second, []string{"da", "ta", ": a", "b\n\n"}, ErrSilent, 116 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var last error
				for _, err := range Read(t.Context(), waits(tt.pause, tt.parts...), opts) {
					last = err
				}
				mustBe(t, last, tt.err)
				if got := time.Since(start); got != tt.after {
					t.Errorf("ended after %v, want %v", got, tt.after)
				}
				time.Sleep(time.Minute) // the writer that came too late ends
			})
		})
	}
}

func TestABusyCallerIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []Event
		for ev, err := range Read(t.Context(), io.NopCloser(strings.NewReader("data: a\n\ndata: b\n\n")), Options{Silent: time.Second}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ev)
			time.Sleep(time.Hour)
		}
		if len(got) != 2 {
			t.Errorf("got %d events", len(got))
		}
	})
}

func TestReadEndsWithItsContextAndClosesTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		superseded := errors.New("superseded")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(superseded) })
		body, _ := io.Pipe()
		var last error
		for _, err := range Read(ctx, body, Options{}) {
			last = err
		}
		mustBe(t, last, superseded)
		if _, err := body.Read(nil); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the body is open: %v", err)
		}
	})
}

func TestLeavingTheLoopClosesTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan error, 1)
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			out, err := Open(w, r)
			for seq := int64(0); err == nil; seq++ {
				err = errors.Join(out.Send(seq, "e", []byte("x")), out.Flush())
			}
			gone <- err
		})
		for ev, err := range Read(t.Context(), get(t, client, "").Body, Options{Silent: time.Minute}) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.ID == "2" {
				break
			}
		}
		<-gone
	})
}

func TestDataBelongsToTheCaller(t *testing.T) {
	events, err := collect(t, strings.NewReader("data: aaaa\n\ndata: bbbb\n\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(events[0].Data, []byte("aaaa")) {
		t.Errorf("the first event became %q", events[0].Data)
	}
}

func TestCheckResponse(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		media  string
		ok     bool
	}{
		"stream":              {200, "text/event-stream", true},
		"with a charset":      {200, "Text/Event-Stream; charset=utf-8", true},
		"captive portal":      {200, "text/html", false},
		"no type":             {200, "", false},
		"redirect":            {302, "text/event-stream", false},
		"service unavailable": {503, "text/event-stream", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckResponse(&http.Response{StatusCode: tt.status, Header: http.Header{"Content-Type": {tt.media}}})
			if (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrNotStream) {
				t.Errorf("got %v", err)
			}
		})
	}
}
