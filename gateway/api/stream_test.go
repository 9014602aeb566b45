package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/schema/schematest"
)

// spoken is a run whose runner said "he", "llo" and ended: the same log for every test of modes.
func (w *world) spoken() string {
	w.t.Helper()
	l := w.laptop(alice)
	id := w.create(alice, `{"workflowId":"chat","inputs":{"prompt":"x"}}`)
	ref := l.take()
	l.progress(ref, 1, "he")
	l.progress(ref, 2, "llo")
	l.finish(ref, "hello")
	return id
}

// log gives a run's log as "sequence type" each.
func (w *world) logOf(id string) []string {
	w.t.Helper()
	var all []string
	for _, doc := range w.events(alice, id).Events {
		var e struct {
			Sequence int64
			Type     string
		}
		if err := json.Unmarshal(doc, &e); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, fmt.Sprint(e.Sequence, " ", e.Type))
	}
	return all
}

func only(log []string, kinds ...string) []string {
	return slices.DeleteFunc(slices.Clone(log), func(s string) bool {
		_, kind, _ := strings.Cut(s, " ")
		return !slices.Contains(kinds, kind)
	})
}

func TestModesShowWhatTheProtocolLists(t *testing.T) { // wire 6.3
	w := newWorld(t)
	id := w.spoken()
	log := w.logOf(id)
	chunks := slices.Clone(log)
	for i := range chunks {
		chunks[i] = strings.Replace(chunks[i], "output.chunk", typeMessageChunk, 1)
	}
	updates := []string{"run.started", "node.completed", "run.completed"}
	for query, want := range map[string][]string{
		"":                             only(log, updates...),
		"?streamMode=updates":          only(log, updates...),
		"?streamMode=messages":         only(chunks, typeMessageChunk),
		"?streamMode=debug":            chunks,
		"?streamMode=updates,messages": only(chunks, append(updates, typeMessageChunk)...),
		"?streamMode=messages,updates": only(chunks, append(updates, typeMessageChunk)...),
		"?streamMode=debug,messages":   chunks,
	} {
		if d := cmp.Diff(want, w.watch(w.keys[alice], "/v1/runs/"+id+"/events"+query).rest()); d != "" {
			t.Errorf("%q (-want +got): %s", query, d)
		}
	}
	if n := len(only(chunks, typeMessageChunk)); n < 3 {
		t.Errorf("%d chunks in %v", n, log)
	}
}

func TestChunkFramesHaveTheShapeOfTheProtocol(t *testing.T) {
	w := newWorld(t)
	l := w.laptop(alice)
	id := w.create(alice, `{"workflowId":"chat","inputs":{"prompt":"x"}}`)
	v := w.watch(w.keys[alice], "/v1/runs/"+id+"/events?streamMode=messages")
	ref := l.take()
	l.progress(ref, 1, "he")
	ev := v.next() // well before the step ends
	if d := cmp.Diff(`{"nodeId":"chat","runId":"`+id+`","chunk":"he","isLast":false}`, string(ev.Data)); d != "" || ev.Type != typeMessageChunk {
		t.Errorf("%s %s", ev.Type, d)
	}
	l.finish(ref, "hello")
	ev = v.next()
	var last struct {
		Chunk  string
		IsLast bool
		Meta   map[string]any
	}
	if err := json.Unmarshal(ev.Data, &last); err != nil || last.Chunk != "llo" || !last.IsLast || last.Meta["finishReason"] != "stop" {
		t.Errorf("last %s, %v", ev.Data, err)
	}
	if rest := v.rest(); rest != nil {
		t.Errorf("after the last: %v", rest)
	}
}

func TestStreamFollowsARunThatGoesOn(t *testing.T) {
	w := newWorld(t)
	w.define(alice.Tenant(), "slow", delayed(60_000))
	id := w.create(alice, `{"workflowId":"slow"}`)
	v := w.watch(w.keys[alice], "/v1/runs/"+id+"/events")
	for name, want := range map[string]string{"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no", "Content-Encoding": ""} {
		if got := v.res.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if ev := v.next(); ev.ID != "0" || ev.Type != "run.started" {
		t.Errorf("first %s %s", ev.ID, ev.Type)
	} else {
		schematest.Event(t, ev.Data)
	}
	w.as(alice, "POST", "/v1/runs/"+id+"/cancel", "").into(200, new(cancelReply))
	if ev := v.next(); ev.Type != "run.cancelled" {
		t.Errorf("then %s", ev.Type)
	}
	if rest := v.rest(); rest != nil {
		t.Errorf("after the end: %v", rest)
	}
}

func TestStreamResumesWithoutGapOrRepeat(t *testing.T) {
	w := newWorld(t)
	id := w.spoken()
	all := w.watch(w.keys[alice], "/v1/runs/"+id+"/events?streamMode=debug").rest()
	for i := range all {
		got := w.watch(w.keys[alice], "/v1/runs/"+id+"/events?streamMode=debug", "Last-Event-ID", fmt.Sprint(i)).rest()
		if d := cmp.Diff(all[i+1:], got, cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); d != "" {
			t.Errorf("after %d: %s", i, d)
		}
	}
	if got := w.watch(w.keys[alice], "/v1/runs/"+id+"/events", "Last-Event-ID", "999999").rest(); got != nil {
		t.Errorf("past the end: %v", got)
	}
}

func TestStreamIsTheSameAsThePoll(t *testing.T) {
	w := newWorld(t)
	id := w.spoken()
	docs := w.events(alice, id).Events
	v := w.watch(w.keys[alice], "/v1/runs/"+id+"/events?streamMode=debug")
	for _, doc := range docs {
		if ev := v.next(); ev.Type != typeMessageChunk && string(ev.Data) != string(doc) {
			t.Errorf("stream %s\npoll %s", ev.Data, doc)
		}
	}
}

func TestStreamParametersAreRefusedBeforeItBegins(t *testing.T) {
	w := newWorld(t)
	id := w.spoken()
	path := "/v1/runs/" + id + "/events"
	for _, bad := range []string{"values", "everything", "updates,values", "", "updates,", "UPDATES", " updates", "updates&streamMode=debug"} {
		details := w.as(alice, "GET", path+"?streamMode="+strings.ReplaceAll(bad, " ", "%20"), "", "Accept", "text/event-stream").refused(400, "unsupported_stream_mode")
		if d := cmp.Diff([]any{"updates", "messages", "debug"}, details["supported"]); d != "" {
			t.Errorf("%q: %s", bad, d)
		}
	}
	for _, bad := range []string{"-1", "5001", "x", "1.5"} {
		w.as(alice, "GET", path+"?bufferMs="+bad, "").refused(400, "validation_error")
	}
	for _, bad := range []string{"-1", "x", "1 2", "99999999999999999999"} {
		w.as(alice, "GET", path, "", "Last-Event-ID", bad).refused(400, "validation_error")
	}
	w.as(alice, "GET", "/v1/runs/unknown/events", "", "Accept", "text/event-stream").refused(404, "not_found")
	for _, bad := range []string{"lastSequence=x", "lastSequence=-2", "timeout=0", "timeout=61", "timeout=x"} {
		w.as(alice, "GET", path+"/poll?"+bad, "").refused(400, "validation_error")
	}
}

func TestBatchesHoldAWindowAndEndWithTheRun(t *testing.T) {
	w := newWorld(t)
	id := w.spoken()
	began := time.Now()
	v := w.watch(w.keys[alice], "/v1/runs/"+id+"/events?streamMode=debug&bufferMs=5000")
	ev := v.next()
	var docs []json.RawMessage
	if err := json.Unmarshal(ev.Data, &docs); err != nil {
		t.Fatal(err)
	}
	log := w.logOf(id)
	if ev.Type != "batch" || ev.ID != fmt.Sprint(len(log)-1) || len(docs) != len(log) {
		t.Errorf("%s %s with %d documents of %d", ev.ID, ev.Type, len(docs), len(log))
	}
	if rest := v.rest(); rest != nil || time.Since(began) > 4*time.Second {
		t.Errorf("then %v, after %v", rest, time.Since(began))
	}
	w.define(alice.Tenant(), "slow", delayed(60_000))
	id = w.create(alice, `{"workflowId":"slow"}`)
	v = w.watch(w.keys[alice], "/v1/runs/"+id+"/events?bufferMs=50")
	if ev := v.next(); ev.Type != "batch" || ev.ID != "0" {
		t.Errorf("while the run goes on: %s %s", ev.ID, ev.Type)
	}
}

func TestPollWaitsForWhatIsNew(t *testing.T) {
	w := newWorld(t)
	w.define(alice.Tenant(), "slow", delayed(60_000))
	id := w.create(alice, `{"workflowId":"slow"}`)
	path := "/v1/runs/" + id + "/events/poll"
	seen := len(w.events(alice, id).Events)
	var got pollReply
	began := time.Now()
	w.as(alice, "GET", fmt.Sprint(path, "?timeout=1&lastSequence=", seen-1), "").into(200, &got)
	if len(got.Events) != 0 || got.IsComplete || time.Since(began) < time.Second {
		t.Errorf("%+v after %v", got, time.Since(began))
	}
	answered := make(chan answer, 1)
	go func() { answered <- w.as(alice, "GET", fmt.Sprint(path, "?timeout=60&lastSequence=", seen-1), "") }()
	w.as(alice, "POST", "/v1/runs/"+id+"/cancel", "").into(200, new(cancelReply))
	(<-answered).into(200, &got)
	if len(got.Events) == 0 || !got.IsComplete {
		t.Errorf("after the cancel: %+v", got)
	}
	w.as(alice, "GET", path+"?lastSequence=1000", "").into(200, &got)
	if len(got.Events) != 0 || !got.IsComplete {
		t.Errorf("past the end: %+v", got)
	}
}

func TestStreamEndsWithItsCredential(t *testing.T) {
	w := newWorld(t)
	w.api.recheck = 20 * time.Millisecond
	w.define(alice.Tenant(), "slow", delayed(60_000))
	id := w.create(alice, `{"workflowId":"slow"}`)
	key, token, err := w.id.CreateKey(t.Context(), alice, "", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	v, other := w.watch(token, "/v1/runs/"+id+"/events"), w.watch(w.keys[alice], "/v1/runs/"+id+"/events")
	v.next()
	other.next()
	if err := w.id.RevokeKey(t.Context(), alice.Tenant(), key.ID); err != nil {
		t.Fatal(err)
	}
	if rest := v.rest(); rest != nil {
		t.Errorf("after the revocation: %v", rest)
	}
	w.as(alice, "POST", "/v1/runs/"+id+"/cancel", "").into(200, new(cancelReply))
	if d := cmp.Diff([]string{fmt.Sprint(len(w.logOf(id))-1, " run.cancelled")}, other.rest()); d != "" {
		t.Errorf("the stream of a good key: %s", d)
	}
}

func FuzzStreamModes(f *testing.F) {
	for _, s := range []string{"updates", "messages,debug", "values", "", ",", "updates,updates"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := parseModes([]string{s})
		if err != nil {
			return
		}
		var names []string
		for i, name := range modeNames() {
			if m&(1<<i) != 0 {
				names = append(names, name)
			}
		}
		if again, err := parseModes([]string{strings.Join(names, ",")}); err != nil || again != m {
			t.Errorf("%q is %b, which written reads as %b, %v", s, m, again, err)
		}
	})
}
