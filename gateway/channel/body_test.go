package channel_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

func TestRequestsWithoutAGoodBearerAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, route := range []string{"PUT /runner", "GET /dispatches", "POST /reports", "POST /results", "DELETE /runner"} {
		method, path, _ := strings.Cut(route, " ")
		for name, auth := range map[string]string{"none": "", "unknown": "Bearer bearer-of-nobody", "another scheme": "Basic eDp5", "a provider's key": "Bearer sk-ant-123"} {
			req, err := http.NewRequestWithContext(t.Context(), method, w.srv.URL+wire.Prefix+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			if auth != "" {
				req.Header.Set("Authorization", auth)
			}
			res, err := w.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s with %s: %d %v", route, name, res.StatusCode, res.Header)
			}
		}
	}
}

func TestBadRecordsNameTheField(t *testing.T) {
	w := newWorld(t)
	r := w.runner(w.subject("acme", "ann"))
	good := fmt.Sprintf(`"runnerId":%q,"subject":%q`, r.id, r.subject)
	for body, want := range map[string]string{
		`{` + good + `}`: "200",
		`{` + good + `,"capabilities":{},"token":"x"}`:          "400 validation_error token",
		`{` + good + `,"capabilities":{"keys":[]}}`:             "400 validation_error capabilities.keys",
		`{` + good + `,"capabilities":{"providers":["a","a"]}}`: "400 validation_error capabilities.providers",
		`{` + good + `,"capabilities":{"models":[""]}}`:         "400 validation_error capabilities.models[0]",
		`{"subject":"acme/ann","capabilities":{}}`:              "400 validation_error runnerId",
		`{` + good + `,"capabilities":{},"Subject":"acme/bob"}`: "400 validation_error Subject",
		`{` + good + `,"capabilities":{},"subject":"acme/ann"}`: "400 validation_error subject",
		`[]`: "400 validation_error body",
		`{` + good + `,"capabilities":` + strings.Repeat("[", 999): "400 validation_error body",
	} {
		got := "200"
		if status, _ := r.call("PUT", "/runner", []byte(body)); status != 200 {
			got = r.refused("PUT", "/runner", []byte(body))
		}
		if got != want {
			t.Errorf("%.80s: %s, want %s", body, got, want)
		}
	}
}

func TestBadReportsNameTheField(t *testing.T) {
	w := newWorld(t)
	r, _ := w.online(w.subject("acme", "ann"))
	for want, edit := range map[string]func(*wire.Report){
		"400 validation_error state":     func(rep *wire.Report) { rep.State = "asleep" },
		"400 validation_error journalId": func(rep *wire.Report) { rep.JournalID = "" },
		"400 validation_error capacity":  func(rep *wire.Report) { rep.Capacity.Free = 9999 },
		"400 validation_error epoch":     func(rep *wire.Report) { rep.Epoch = 0 },
	} {
		rep := r.next()
		edit(&rep)
		if got := r.refused("POST", "/reports", rep); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := r.refused("POST", "/reports", []byte(`{"epoch":1,"n":9,"bearer":"x"}`)); got != "400 validation_error bearer" {
		t.Error(got)
	}
}

func TestStreamsAreRefusedForBadQueries(t *testing.T) {
	w := newWorld(t)
	r := w.runner(w.subject("acme", "ann"))
	if got := r.refused("GET", "/dispatches", nil); got != "409 not_registered" {
		t.Error(got)
	}
	if got := r.refused("POST", "/reports", wire.Report{Epoch: 1, N: 1, JournalID: "j", State: wire.StateReady}); got != "409 not_registered" {
		t.Error(got)
	}
	r.register()
	for query, want := range map[string]string{
		"epoch=x": "400 validation_error epoch", "epoch=7": "409 superseded", "maxMs=0": "400 validation_error maxMs", "epoch=1&epoch=1": "400 validation_error epoch",
	} {
		if got := r.refused("GET", "/dispatches?"+query, nil); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// An array of results has a verdict for each, in order, and a bad frame harms no other.
func TestEachFrameHasItsVerdict(t *testing.T) {
	w := newWorld(t)
	w.quiet = true
	r, st := w.online(w.subject("acme", "ann"))
	var frames [4]wire.Dispatch
	var rows [4]store.Run
	for i := range frames {
		rows[i] = w.ask(r.subject, "")
		frames[i] = st.frame()
		r.accept(frames[i])
	}
	text := func(res wire.Result, extra string) json.RawMessage {
		return fmt.Appendf(nil, `{"runId":%q,"stepId":%q,"seq":%d,"output":%s%s}`, res.RunID, res.StepID, res.Seq, res.Output, extra)
	}
	secret := canary + "0123456789"
	body := []json.RawMessage{
		text(output(frames[0], "good"), ""),
		text(output(frames[1], "extra"), `,"token":"`+secret+`"`),
		text(output(frames[2], "my key is "+secret), ""),
		text(wire.Result{RunID: frames[3].RunID, StepID: frames[3].StepID, Seq: frames[3].Seq, Output: []byte(`"not an object"`)}, ""),
		text(wire.Result{RunID: "run_unknown", StepID: "x", Seq: 1, Output: []byte(`{}`)}, `,"token":"`+secret+`"`),
	}
	got := must[wire.Verdicts](r, "POST", "/results", body)
	var words []string
	for _, v := range got.Verdicts {
		words = append(words, strings.TrimSpace(v.Verdict+" "+v.Code))
	}
	want := []string{"accepted", "refused validation_error", "refused policy_denied", "refused validation_error", "refused validation_error"}
	if d := cmp.Diff(want, words); d != "" {
		t.Error(d)
	}
	for i, want := range []string{"completed", "validation_error", "policy_denied", "validation_error"} {
		if code, _ := w.failure(rows[i]); code != want {
			t.Errorf("run %d: %s, want %s", i, code, want)
		}
	}
	assertNowhere(t, w, secret)
}

// assertNowhere looks for a text in everything that the store has of the tenant.
func assertNowhere(t *testing.T, w *world, secret string) {
	t.Helper()
	w.view(func(rd store.Reader) error {
		for s := range w.users {
			for row := range rd.Runs(s.Tenant(), s, w.clock.now().Add(1<<40), 1000) {
				for ev := range rd.Events(row.Tenant, row.ID, -1, 1000) {
					if strings.Contains(string(ev.Doc), secret) {
						t.Errorf("event %s", ev.Doc)
					}
				}
				for step := range rd.StepsOfRun(row.Tenant, row.ID) {
					if b := fmt.Sprintf("%+v %s %s", step, step.Output, step.Inputs); strings.Contains(b, secret) {
						t.Errorf("step %s", b)
					}
				}
				for l := range rd.LateResults(row.Tenant, row.ID) {
					if strings.Contains(string(l.Output), secret) {
						t.Errorf("late result %s", l.Output)
					}
				}
			}
			for e := range rd.Audit(s, 0, 1000) {
				if strings.Contains(fmt.Sprintf("%+v", e), secret) {
					t.Errorf("audit entry %+v", e)
				}
			}
		}
		return nil
	})
}

func TestResultsThatNobodyCanNameAreRefusedWhole(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	r.accept(d)
	good, _ := json.Marshal(output(d, "good"))
	many := "[" + strings.Repeat(string(good)+",", wire.MaxResults) + string(good) + "]"
	for body, want := range map[string]string{
		`[]`:                                   "400 validation_error body",
		many:                                   "400 validation_error body",
		`[` + string(good) + `,{"output":{}}]`: "400 validation_error [1].runId",
		`[` + string(good) + `,7]`:             "400 validation_error [1].document",
		`"x"`:                                  "400 validation_error document",
		`{"runId":"r"}`:                        "400 validation_error stepId",
		`{"output":{"text":"` + strings.Repeat("x", 2<<20) + `"}}`: "413 payload_too_large",
	} {
		if got := r.refused("POST", "/results", []byte(body)); got != want {
			t.Errorf("%.60s: %s, want %s", body, got, want)
		}
	}
	if s := w.step(row); s.State != store.StepAccepted {
		t.Errorf("step is %s", s.State)
	}
}

// UD-91: a result past the limit ends its step at once, with a code that says so.
func TestAResultPastTheLimitEndsItsStep_UD91(t *testing.T) {
	w := newWorld(t)
	w.quiet = true
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	r.accept(d)
	if got := r.post(output(d, strings.Repeat("x", wire.MaxResult))); got != "refused result_too_large" {
		t.Errorf("verdict %s", got)
	}
	if code, _ := w.failure(row); code != "result_too_large" {
		t.Errorf("failed as %s", code)
	}
}

func TestAFrameTooLargeFailsItsStepAtOnce(t *testing.T) {
	w := newWorld(t)
	w.quiet = true
	r, st := w.online(w.subject("acme", "ann"))
	for name, tt := range map[string]struct{ prompt, want string }{
		"too large":                    {strings.Repeat("x", wire.MaxFrame-600), "frame_too_large"},
		"what looks like a credential": {"use " + canary + "1", "policy_denied"},
	} {
		q := request(r.subject, "chat")
		q.Inputs, _ = json.Marshal(map[string]string{"prompt": tt.prompt})
		q.Configurable = []byte(`{"ai.provider":"echo"}`)
		row := w.create(q)
		if code, _ := w.failure(row); code != tt.want {
			t.Errorf("%s: failed as %s, want %s", name, code, tt.want)
		}
		for _, s := range w.steps(row) {
			if s.State != store.StepFailed || strings.Contains(string(s.Inputs), canary) {
				t.Errorf("%s: step is %s with inputs %.40s", name, s.State, s.Inputs)
			}
		}
	}
	st.silent()
}

func TestPairingAndTokensAnswerAsRFC8628(t *testing.T) {
	w := newWorld(t)
	r := w.runner(w.subject("acme", "ann"))
	if got := r.refused("POST", "/pairings", wire.PairingRequest{Name: "laptop", Platform: "linux", Version: "1"}); got != "429 rate_limited" {
		t.Error(got)
	}
	if got := r.refused("POST", "/pairings", wire.PairingRequest{Platform: "linux", Version: "1"}); got != "400 validation_error name" {
		t.Error(got)
	}
	for _, code := range []string{wire.TokenPending, wire.TokenSlowDown, wire.TokenExpired, wire.TokenDenied, wire.TokenInvalid} {
		if got := r.refused("POST", "/tokens", wire.TokenRequest{DeviceCode: code}); got != "400 "+code {
			t.Errorf("%s: %s", code, got)
		}
	}
	if got := r.refused("POST", "/tokens", wire.TokenRequest{}); got != "400 validation_error device_code" {
		t.Error(got)
	}
}
