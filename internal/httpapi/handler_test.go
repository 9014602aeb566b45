package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/sse"
)

var errConflict = errors.New("conflict")

func domain(err error) *Problem {
	if errors.Is(err, errConflict) {
		return &Problem{Status: 409, Code: "run_already_active", Message: "a run is active", RetryAfter: 1500 * time.Millisecond}
	}
	return nil
}

func TestErrorsBecomeTheEnvelope(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		want   answer
		header http.Header
	}{
		"a Problem":          {NotFound("run"), answer{404, envelope{CodeNotFound, "no such run", nil}}, nil},
		"a wrapped Problem":  {errors.Join(io.EOF, Invalid("timeout", "is bad")), invalidAnswer("timeout is bad", "timeout"), nil},
		"a domain error":     {errConflict, answer{409, envelope{"run_already_active", "a run is active", nil}}, http.Header{"Retry-After": {"2"}}},
		"unauthenticated":    {Unauthenticated(), answer{401, envelope{CodeUnauthenticated, "a valid bearer credential is required", nil}}, http.Header{"Www-Authenticate": {"Bearer"}}},
		"with header fields": {&Problem{Status: 401, Code: "key_expired", Message: "expired", Header: http.Header{"Www-Authenticate": {`Bearer error="invalid_token"`}}}, answer{401, envelope{"key_expired", "expired", nil}}, http.Header{"Www-Authenticate": {`Bearer error="invalid_token"`}}},
		"an empty Problem":   {&Problem{}, answer{500, envelope{CodeInternal, "Internal Server Error", nil}}, nil},
		"a bad cursor":       {sse.ErrLastEventID, invalidAnswer("Last-Event-ID must be a decimal number", "Last-Event-ID"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			h := Wrap(testLog(t), domain, func(w http.ResponseWriter, r *http.Request) error {
				w.Header().Set("Cache-Control", "public, max-age=300") // meant for the answer that did not come about
				return tt.err
			})
			h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/runs/x", nil))
			got := answer{Status: w.Code}
			if err := Unmarshal(w.Body.Bytes(), &got.Body); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
			want := http.Header{"Content-Type": {"application/json"}, "X-Content-Type-Options": {"nosniff"}, "Cache-Control": {"no-store"}}
			maps.Copy(want, tt.header)
			if d := cmp.Diff(want, w.Result().Header); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestUnknownErrorsAreABare500AndTheLogHasTheDetail(t *testing.T) {
	for name, h := range map[string]Handler{
		"error":             func(http.ResponseWriter, *http.Request) error { return errors.New("disk /var/secret is full") },
		"panic":             func(http.ResponseWriter, *http.Request) error { panic("disk /var/secret is full") },
		"unencodable reply": func(w http.ResponseWriter, _ *http.Request) error { return Encode(w, 200, func() {}) },
	} {
		t.Run(name, func(t *testing.T) {
			var logged bytes.Buffer
			w := httptest.NewRecorder()
			mux := http.NewServeMux()
			mux.Handle("GET /v1/interrupts/{token}", Wrap(slog.New(slog.NewTextHandler(&logged, nil)), domain, h))
			mux.ServeHTTP(w, httptest.NewRequest("GET", "/v1/interrupts/s3cr3t", nil))
			var got envelope
			if err := Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			id, _ := got.Details["correlationId"].(string)
			if w.Code != 500 || got.Error != CodeInternal || id == "" || strings.Contains(w.Body.String(), "secret") {
				t.Errorf("answered %d %s", w.Code, w.Body)
			}
			if !strings.Contains(logged.String(), id) || name != "unencodable reply" && !strings.Contains(logged.String(), "/var/secret") {
				t.Errorf("logged %s", &logged)
			}
			if strings.Contains(logged.String(), "s3cr3t") {
				t.Errorf("logged the path: %s", &logged)
			}
		})
	}
}

func TestAnErrorAfterTheReplyBeganEndsTheConnection(t *testing.T) {
	for name, tt := range map[string]struct {
		begin func(http.ResponseWriter)
		err   error
		clean bool
	}{
		"after bytes":         {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "{") }, errors.New("store is gone"), false},
		"after a flush":       {func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, errConflict, false},
		"after a status":      {func(w http.ResponseWriter) { w.WriteHeader(201) }, NotFound("run"), false},
		"a stream that ended": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, ":") }, sse.ErrEnded, true},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(Wrap(testLog(t), domain, func(w http.ResponseWriter, r *http.Request) error {
				tt.begin(w)
				return tt.err
			}))
			defer srv.Close()
			res, err := http.Get(srv.URL)
			if err == nil {
				defer res.Body.Close()
				_, err = io.ReadAll(res.Body)
			}
			if (err == nil) != tt.clean {
				t.Errorf("reading the reply: %v", err)
			}
		})
	}
}

func TestAStreamEndsCleanlyWhenTheServerStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	srv := httptest.NewServer(Wrap(testLog(t), domain, func(w http.ResponseWriter, r *http.Request) error {
		out, err := sse.Open(w, r)
		stop()
		for ; err == nil; err = out.Wait(r.Context(), ctx.Done()) {
		}
		return err
	}))
	defer srv.Close()
	res, err := http.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); err != nil {
		t.Error(err)
	}
}

func TestRequestThatWasCutOffIsAnswered503(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	got, _ := do(t, func(_ http.ResponseWriter, r *http.Request) error { return r.Context().Err() }, r)
	if got.Status != 503 || got.Body.Error != CodeUnavailable {
		t.Errorf("got %+v", got)
	}
}

func TestRoutesAnswersUnknownOnesWithTheEnvelope(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/runs/{id}", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) })
	for name, tt := range map[string]struct {
		method, path string
		status       int
		code, allow  string
	}{
		"known":        {"GET", "/v1/runs/a", 204, "", ""},
		"other path":   {"GET", "/runs", 404, CodeNotFound, ""},
		"other method": {"DELETE", "/v1/runs/a", 405, CodeMethodNotAllowed, "GET, HEAD"},
		"unclean path": {"GET", "/v1//runs/a", 307, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			Routes(mux).ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
			var got envelope
			if w.Code >= 400 {
				if err := Unmarshal(w.Body.Bytes(), &got); err != nil {
					t.Errorf("%s: %v", w.Body, err)
				}
			}
			if w.Code != tt.status || got.Error != tt.code || w.Header().Get("Allow") != tt.allow {
				t.Errorf("got %d %+v, Allow %q", w.Code, got, w.Header().Get("Allow"))
			}
		})
	}
}

func TestBearer(t *testing.T) {
	for name, tt := range map[string]struct {
		fields []string
		want   string
	}{
		"none":         {nil, ""},
		"one":          {[]string{"Bearer abc"}, "abc"},
		"lower case":   {[]string{"bearer abc"}, "abc"},
		"other scheme": {[]string{"Basic abc"}, ""},
		"no token":     {[]string{"Bearer "}, ""},
		"no scheme":    {[]string{"abc"}, ""},
		"two fields":   {[]string{"Bearer abc", "Bearer abc"}, ""},
		"two in one":   {[]string{"Bearer abc, Bearer def"}, ""},
		"two words":    {[]string{"Bearer abc def"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/?access_token=query", nil)
			r.Header["Authorization"] = tt.fields
			if got := Bearer(r); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestQueryInt(t *testing.T) {
	for query, want := range map[string]int64{"": 30, "t=1": 1, "t=60": 60, "t=0": -1, "t=61": -1, "t=x": -1, "t=": -1, "t=1&t=2": -1, "t=1.0": -1} {
		got, err := QueryInt(httptest.NewRequest("GET", "/?"+query, nil), "t", 30, 1, 60)
		if want < 0 && err == nil || want >= 0 && (got != want || err != nil) {
			t.Errorf("%q: got %d, %v", query, got, err)
		}
	}
}
