package sse

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOpenSendsHeadersAndACommentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			out, err := Open(w, r)
			if err != nil {
				t.Error(err)
				return
			}
			_ = out.Wait(r.Context(), nil)
		})
		res := get(t, client, "")
		defer res.Body.Close()
		got := map[string]string{}
		for _, name := range []string{"Content-Type", "Cache-Control", "X-Accel-Buffering"} {
			got[name] = strings.Join(res.Header.Values(name), "|")
		}
		want := map[string]string{
			"Content-Type":      "text/event-stream",
			"Cache-Control":     "no-cache, no-transform",
			"X-Accel-Buffering": "no",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		first := make([]byte, len(":open\n\n"))
		if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != ":open\n\n" {
			t.Errorf("first bytes %q, %v", first, err)
		}
		synctest.Wait() // until the handler waits
	})
}

func TestWaitSendsAKeepaliveHoweverOftenItIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			out, err := Open(w, r)
			for ; err == nil; err = out.Wait(r.Context(), wake) {
			}
			mustBe(t, err, ErrEnded)
		})
		res := get(t, client, "")
		go func() {
			for range 62 { // a bell every second with nothing behind it, past the server's own timeouts
				time.Sleep(time.Second)
				wake <- struct{}{}
			}
			close(wake)
		}()
		all, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(":open\n\n"+strings.Repeat(":keepalive\n\n", 4), string(all)); d != "" {
			t.Error(d)
		}
	})
}

func TestSendsAreFlushedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		more := make(chan struct{})
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			out, err := Open(w, r)
			err = errors.Join(err, out.Send(7, "dispatch", []byte(`{"a":1}`)), out.SendNoID("control", []byte("{}")))
			<-more
			err = errors.Join(err, out.Flush(), out.Flush())
			if err != nil {
				t.Error(err)
			}
			<-more
		})
		res := get(t, client, "")
		got := make(chan string, 10)
		go func() {
			b := make([]byte, 1024)
			for {
				n, err := res.Body.Read(b)
				if n > 0 {
					got <- string(b[:n])
				}
				if err != nil {
					close(got)
					return
				}
			}
		}()
		synctest.Wait()
		if d := cmp.Diff(":open\n\n", <-got); d != "" {
			t.Error(d)
		}
		if len(got) != 0 {
			t.Error("Send did not wait for Flush")
		}
		more <- struct{}{}
		if d := cmp.Diff("id: 7\nevent: dispatch\ndata: {\"a\":1}\n\nevent: control\ndata: {}\n\n", <-got); d != "" {
			t.Error(d)
		}
		more <- struct{}{}
		if rest, open := <-got; open {
			t.Errorf("then came %q", rest)
		}
	})
}

func TestStalledReaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			out, err := Open(w, r)
			for err == nil {
				err = errors.Join(out.Send(1, "e", make([]byte, 300<<10)), out.Flush())
			}
			ended <- err
		})
		start := time.Now()
		res := get(t, client, "")
		defer res.Body.Close()
		mustBe(t, <-ended, os.ErrDeadlineExceeded)
		if got := time.Since(start); got != writeWithin {
			t.Errorf("cut off after %v, want %v", got, writeWithin)
		}
	})
}

func TestSlowReaderIsNotTakenForAStalledOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			out, err := Open(w, r)
			if err = errors.Join(err, out.Send(1, "e", make([]byte, size))); err != nil {
				t.Error(err)
			}
		})
		res := get(t, client, "")
		var got int
		for b := make([]byte, 16<<10); ; { // some 16 KiB every second: a minute for the whole
			n, err := res.Body.Read(b)
			got += n
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second / 4)
		}
		if got < size {
			t.Errorf("got %d bytes", got)
		}
	})
}

func TestWaitReportsTheCauseOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopping := errors.New("gateway is stopping")
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancelCause(r.Context())
			out, err := Open(w, r)
			if err != nil {
				t.Error(err)
			}
			time.AfterFunc(time.Hour, func() { cancel(stopping) })
			mustBe(t, out.Wait(ctx, nil), stopping)
		})
		res := get(t, client, "")
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Errorf("the stream did not end cleanly: %v", err)
		}
	})
}

func TestLastEventID(t *testing.T) {
	for name, tt := range map[string]struct {
		header []string
		want   int64
		err    error
	}{
		"none":                       {nil, -1, nil},
		"empty":                      {[]string{""}, -1, nil},
		"zero":                       {[]string{"0"}, 0, nil},
		"largest":                    {[]string{"9223372036854775807"}, 1<<63 - 1, nil},
		"too large":                  {[]string{"9223372036854775808"}, 0, ErrLastEventID},
		"negative":                   {[]string{"-1"}, 0, ErrLastEventID},
		"signed":                     {[]string{"+1"}, 0, ErrLastEventID},
		"word":                       {[]string{"abc"}, 0, ErrLastEventID},
		"fraction":                   {[]string{"1.0"}, 0, ErrLastEventID},
		"space":                      {[]string{"1 2"}, 0, ErrLastEventID},
		"NUL":                        {[]string{"1\x00"}, 0, ErrLastEventID},
		"digits of other scripts":    {[]string{"١"}, 0, ErrLastEventID},
		"two":                        {[]string{"1", "2"}, 0, ErrLastEventID},
		"two, as a proxy joins them": {[]string{"1, 2"}, 0, ErrLastEventID},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			for _, v := range tt.header {
				r.Header.Add("Last-Event-ID", v)
			}
			got, err := LastEventID(r)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %d, %v; want %d, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestOpenRefusesBeforeItWrites(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/", nil)
	if _, err := Open(w, r); !errors.Is(err, http.ErrNotSupported) {
		t.Errorf("without deadlines: %v", err)
	}
	r.Header.Set("Last-Event-ID", "x")
	if _, err := Open(w, r); !errors.Is(err, ErrLastEventID) {
		t.Errorf("with a bad cursor: %v", err)
	}
	if w.Body.Len() > 0 || len(w.Result().Header) > 0 {
		t.Errorf("wrote %q %v", w.Body, w.Header())
	}
}

func TestSendRefusesWhatWouldForgeFields(t *testing.T) {
	s := &Stream{}
	for _, event := range []string{"a\nid: 9", "a\rdata: x", "\n"} {
		if err := s.SendNoID(event, nil); err == nil {
			t.Errorf("type %q was accepted", event)
		}
	}
	if err := s.Send(-1, "a", nil); err == nil {
		t.Error("a negative id was accepted")
	}
}
