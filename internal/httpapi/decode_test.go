package httpapi

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type createRun struct {
	WorkflowID string   `json:"workflowId"`
	Tags       []string `json:"tags,omitempty"`
}

func (c createRun) Validate() error {
	switch c.WorkflowID {
	case "":
		return Invalid("workflowId", "is required")
	case "theirs":
		return Forbidden("runs:create")
	case "odd":
		return errors.New("workflowId is odd")
	}
	return nil
}

type envelope struct {
	Error   string         `json:"error"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

type answer struct {
	Status int
	Body   envelope
}

// do sends one request through Wrap and reads the answer strictly.
func do(t *testing.T, h Handler, r *http.Request) (answer, *http.Response) {
	t.Helper()
	w := httptest.NewRecorder()
	Wrap(testLog(t), nil, h).ServeHTTP(w, r)
	res := w.Result()
	a := answer{Status: res.StatusCode}
	if res.StatusCode >= 400 {
		if err := Unmarshal(w.Body.Bytes(), &a.Body); err != nil {
			t.Errorf("body %q: %v", w.Body, err)
		}
		if got := res.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("Content-Type = %q", got)
		}
	}
	return a, res
}

func testLog(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

func TestDecode(t *testing.T) {
	for name, tt := range map[string]struct {
		body, media, coding string
		opts                []Option
		want                answer
	}{
		"good":                   {`{"workflowId":"w"}`, "application/json", "", nil, answer{Status: 200}},
		"with a charset":         {`{"workflowId":"w"}`, "application/json; charset=UTF-8", "", nil, answer{Status: 200}},
		"unknown member":         {`{"workflowId":"w","x":1}`, "application/json", "", nil, invalidAnswer("x is not a member of this object", "x")},
		"Validate, naming":       {`{}`, "application/json", "", nil, invalidAnswer("workflowId is required", "workflowId")},
		"Validate, plain":        {`{"workflowId":"odd"}`, "application/json", "", nil, answer{400, envelope{CodeValidation, "workflowId is odd", nil}}},
		"Validate, other status": {`{"workflowId":"theirs"}`, "application/json", "", nil, answer{403, envelope{CodeForbidden, "the credential lacks the scope runs:create", map[string]any{"scopeRequired": "runs:create"}}}},
		"null":                   {`null`, "application/json", "", nil, invalidAnswer("body must be an object", "body")},
		"empty":                  {``, "application/json", "", nil, invalidAnswer("body must not be empty", "body")},
		"empty but optional":     {``, "", "", []Option{Optional()}, invalidAnswer("workflowId is required", "workflowId")},
		"other type":             {`{"workflowId":"w"}`, "text/plain", "", nil, answer{415, envelope{CodeMediaType, "Content-Type must be application/json", map[string]any{"field": "Content-Type"}}}},
		"no type":                {`{"workflowId":"w"}`, "", "", nil, answer{415, envelope{CodeMediaType, "Content-Type must be application/json", map[string]any{"field": "Content-Type"}}}},
		"other charset":          {`{"workflowId":"w"}`, "application/json; charset=utf-16", "", nil, answer{415, envelope{CodeMediaType, "Content-Type must be application/json", map[string]any{"field": "Content-Type"}}}},
		"compressed":             {`{"workflowId":"w"}`, "application/json", "gzip", nil, answer{415, envelope{CodeMediaType, "the body must not be compressed", map[string]any{"field": "Content-Encoding"}}}},
		"as large as allowed":    {`{"workflowId":"w"}`, "application/json", "", []Option{MaxBytes(18)}, answer{Status: 200}},
		"larger":                 {`{"workflowId":"w"} `, "application/json", "", []Option{MaxBytes(18)}, answer{413, envelope{CodeTooLarge, "the body is larger than 18 bytes", map[string]any{"maxBytes": 18.0}}}},
	} {
		for _, length := range []string{"known", "unknown"} {
			t.Run(name+", length "+length, func(t *testing.T) {
				r := httptest.NewRequest("POST", "/v1/runs", strings.NewReader(tt.body))
				if length == "unknown" {
					r.ContentLength = -1
				}
				r.Header.Set("Content-Type", tt.media)
				r.Header.Set("Content-Encoding", tt.coding)
				got, _ := do(t, func(w http.ResponseWriter, r *http.Request) error {
					_, err := Decode[createRun](w, r, tt.opts...)
					return err
				}, r)
				if d := cmp.Diff(tt.want, got); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func invalidAnswer(message, field string) answer {
	return answer{400, envelope{CodeValidation, message, map[string]any{"field": field}}}
}

func TestDecodeCallsValidateOfAPointerReceiver(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader(`{}`))
	r.Header.Set("Content-Type", "application/json")
	if _, err := Decode[strictByPointer](httptest.NewRecorder(), r); err == nil {
		t.Error("Validate was not called")
	}
}

type strictByPointer struct{}

func (*strictByPointer) Validate() error { return errors.New("never good") }

func TestTooLargeBodyEndsTheConnection(t *testing.T) {
	srv := httptest.NewServer(Wrap(testLog(t), nil, func(w http.ResponseWriter, r *http.Request) error {
		_, err := Decode[createRun](w, r, MaxBytes(100))
		return err
	}))
	defer srv.Close()
	pr, pw := io.Pipe() // of unknown length
	go func() {
		for {
			if _, err := pw.Write(make([]byte, 1024)); err != nil {
				return
			}
		}
	}()
	defer pr.Close()
	res, err := http.Post(srv.URL, "application/json", pr)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 413 || !res.Close {
		t.Errorf("status %d, close %v; want 413 and true", res.StatusCode, res.Close)
	}
}

func TestTheBodyDeadlineDoesNotOutliveTheBody(t *testing.T) {
	srv := httptest.NewUnstartedServer(Wrap(testLog(t), nil, func(w http.ResponseWriter, r *http.Request) error {
		if _, err := Decode[createRun](w, r); err != nil {
			return err
		}
		select {
		case <-r.Context().Done():
			return errors.New("the request ended while its handler worked")
		case <-time.After(300 * time.Millisecond): // longer than the server's own timeout
			return Encode(w, 200, "done")
		}
	}))
	srv.Config.ReadTimeout = 100 * time.Millisecond
	srv.Start()
	defer srv.Close()
	res, err := http.Post(srv.URL, "application/json", strings.NewReader(`{"workflowId":"w"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestCutBodyIsTheCallersMistake(t *testing.T) {
	srv := httptest.NewServer(Wrap(testLog(t), nil, func(w http.ResponseWriter, r *http.Request) error {
		_, err := Decode[createRun](w, r)
		return err
	}))
	defer srv.Close()
	for want, sent := range map[string]string{
		"body ended early":           "Content-Length: 99\r\n\r\n{",
		"the body could not be read": "Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\r\n\r\n",
	} {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+sent)
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var got envelope
		if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 400 || got.Message != want {
			t.Errorf("%d %+v, want %s", res.StatusCode, got, want)
		}
	}
}
