package sse

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	gosse "github.com/tmaxmax/go-sse"
)

// write is what a Stream writes, without a connection.
func write(id int64, typ string, data []byte) ([]byte, error) {
	var b bytes.Buffer
	head, err := appendType([]byte("id: "+strconv.FormatInt(id, 10)+"\n"), typ)
	if err != nil {
		return nil, err
	}
	err = writeData(&b, head, data)
	return b.Bytes(), err
}

func gosseRead(in []byte) (events []Event, err error) {
	for ev, err := range gosse.Read(bytes.NewReader(in), &gosse.ReadConfig{MaxEventSize: 4 << 20}) {
		if err != nil {
			return events, err
		}
		events = append(events, Event{ev.LastEventID, ev.Type, []byte(ev.Data)})
	}
	return events, nil
}

func FuzzWhatIsWrittenReadsBackTheSame(f *testing.F) {
	f.Add(int64(0), "dispatch", []byte(`{"text":"a\r\n\u2028\u0000"}`), 1)
	f.Add(int64(1<<62), "", []byte("two\nlines\n"), 3)
	f.Add(int64(9), "x", []byte(""), 2)
	f.Add(int64(9), " x", []byte(" \u2028 data: id: \x00"), 5)
	f.Add(int64(9), "x", []byte("a\rb\r\nc\r"), 5)
	f.Fuzz(func(t *testing.T, id int64, typ string, data []byte, size int) {
		if id < 0 || strings.ContainsAny(typ, "\r\n") || len(typ) > 512 {
			return // not a value that Send takes
		}
		b, err := write(id, typ, data)
		if err != nil {
			t.Fatal(err)
		}
		exact := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data)) // doc.go, "Decisions"
		want := []Event{{strconv.FormatInt(id, 10), typ, []byte(exact)}}
		got, err := collect(t, chunked{bytes.NewReader(b), size % 100}, Options{Numbered: true})
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("we read %v %s", err, d)
		}
		got, err = gosseRead(b)
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("go-sse reads %v %s", err, d)
		}
	})
}

func FuzzJSONArrivesByteForByte(f *testing.F) {
	for _, s := range []string{"", "a\r\nb", "\x00", "\u2028\u2029", "data: x\n\nid: 9", `"\`, "\xEF\xBB\xBF"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		doc, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		b, err := write(1, "e", doc)
		if err != nil {
			t.Fatal(err)
		}
		got, err := collect(t, chunked{bytes.NewReader(b), size % 100}, Options{})
		if err != nil || len(got) != 1 || !bytes.Equal(got[0].Data, doc) {
			t.Errorf("%s became %q, %v", doc, got, err)
		}
	})
}

// FuzzReadersAgree gives the same bytes to our reader, cut in two ways, and to go-sse's.
func FuzzReadersAgree(f *testing.F) {
	f.Add([]byte("id: 3\nevent: a\ndata: b\n\n:k\n\ndata: c\r\ndata:  d\r\rdata\n\n"), 1)
	f.Add([]byte("\xEF\xBB\xBFdata: a\n\nid: 1\x00\ndata: b\n\n"), 3)
	f.Add([]byte("data: a\n\ndata: cut"), 4)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		whole, wholeErr := collect(t, bytes.NewReader(in), Options{})
		cut, cutErr := collect(t, chunked{bytes.NewReader(in), size % 50}, Options{})
		if d := cmp.Diff(whole, cut); d != "" || (wholeErr == nil) != (cutErr == nil) {
			t.Errorf("cut differently: %v, %v, %s", wholeErr, cutErr, d)
		}
		if wholeErr != nil && wholeErr.Error() != "read event stream: "+io.ErrUnexpectedEOF.Error() {
			return // we are stricter
		}
		theirs, err := gosseRead(in)
		if err != nil {
			t.Fatalf("go-sse refuses: %v", err)
		}
		// It gives an event without data too, and ids that stick.
		empty := func(e Event) bool { return len(e.Data) == 0 }
		theirs, whole = slices.DeleteFunc(theirs, empty), slices.DeleteFunc(whole, empty)
		if d := cmp.Diff(theirs, whole, cmpopts.IgnoreFields(Event{}, "ID"), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("go-sse reads otherwise (-theirs +ours): %s", d)
		}
	})
}
