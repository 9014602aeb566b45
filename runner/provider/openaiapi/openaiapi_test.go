package openaiapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/e2e/vendor"
	"runnerd/internal/redact"
	"runnerd/internal/wire"
	"runnerd/runner/provider"
	"runnerd/runner/provider/failure"
	"runnerd/runner/provider/openaiapi"
)

func backend(t *testing.T, url, key string) openaiapi.Backend {
	t.Helper()
	table, err := failure.Load()
	if err != nil {
		t.Fatal(err)
	}
	return openaiapi.Backend{
		BaseURL: url, Client: &http.Client{}, Failures: table, Local: true,
		Key: func(context.Context) (redact.Secret, error) { return redact.New(key), nil },
	}
}

func step(prompt string) provider.Step {
	return provider.Step{Model: "fake-small", Inputs: wire.ModelInputs{
		System: "Be brief.", Messages: []wire.Message{{Role: "user", Content: wire.Text(prompt)}},
	}}
}

// canned answers every completion with the given events.
func canned(t *testing.T, events ...string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			_, _ = io.WriteString(w, "data: "+e+"\n\n")
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestAnAnswerIsStreamed(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	var deltas []string
	out := backend(t, api.URL+"/v1", "key-1").Run(t.Context(), step("say hello big world"), func(d string) { deltas = append(deltas, d) })
	want := wire.Output{
		Text: "hello big world", FinishReason: "stop", Model: "fake-small", Backend: "openai-compatible",
		AuthClass: wire.AuthAPIKey, Usage: &wire.Usage{InputTokens: 11, OutputTokens: 3},
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"hello ", "big ", "world"}, deltas); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	var body struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.Unmarshal(api.Requests()[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	if len(body.Messages) != 2 || body.Messages[0].Role != "system" || body.Messages[0].Content != "Be brief." {
		t.Errorf("messages %+v", body.Messages)
	}
}

func TestToolCallsInPiecesAreJoined(t *testing.T) {
	url := canned(t,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"fs.read","arguments":"{\"pa"}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"th\":\"a\"}"}},{"index":1,"id":"c2","function":{"name":"fs.list"}}]}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, `[DONE]`)
	out := backend(t, url, "").Run(t.Context(), step("x"), func(string) {})
	want := []wire.ToolCall{
		{ID: "c1", Name: "fs.read", Arguments: json.RawMessage(`{"path":"a"}`)},
		{ID: "c2", Name: "fs.list", Arguments: json.RawMessage(`{}`)},
	}
	if diff := cmp.Diff(want, out.ToolCalls); diff != "" || out.Error != nil {
		t.Errorf("%v (-want +got):\n%s", out.Error, diff)
	}
}

func TestEachFailureHasItsCode(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	ok := `{"choices":[{"delta":{"content":"a"}}]}`
	for name, c := range map[string]struct {
		url, prompt string
		want        wire.Code
	}{
		"unauthorized":               {api.URL + "/v1", "fail 401", wire.CodeAuthRequired},
		"rate limit":                 {api.URL + "/v1", "fail 429", wire.CodeRateLimited},
		"billing":                    {api.URL + "/v1", "fail 402", wire.CodeBillingRequired},
		"overloaded":                 {api.URL + "/v1", "fail 529", wire.CodeProviderError},
		"cut in the middle":          {api.URL + "/v1", "say a b\ncut", wire.CodeProviderError},
		"nobody there":               {"http://" + closedPort(t), "x", wire.CodeEndpointDown},
		"no finish reason":           {canned(t, ok, "[DONE]"), "x", wire.CodeProviderError},
		"an event that is no JSON":   {canned(t, "<html>"), "x", wire.CodeProviderError},
		"an error in the stream":     {canned(t, ok, `{"error":{"message":"Rate limit reached"}}`), "x", wire.CodeRateLimited},
		"arguments that are no JSON": {canned(t, `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"x","arguments":"{"}}]},"finish_reason":"tool_calls"}]}`, "[DONE]"), "x", wire.CodeProviderError},
	} {
		t.Run(name, func(t *testing.T) {
			out := backend(t, c.url, "k").Run(t.Context(), step(c.prompt), func(string) {})
			if out.Error == nil || out.Error.Code != c.want {
				t.Errorf("%+v, want %s", out.Error, c.want)
			}
		})
	}
}

func TestRetryAfterIsKept(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	out := backend(t, api.URL+"/v1", "k").Run(t.Context(), step("fail 429"), func(string) {})
	if out.Error == nil || out.Error.RetryAfterMs != 7000 || !out.Error.Retriable {
		t.Errorf("%+v", out.Error)
	}
}

func TestUD104_ColdAndStalledAreToldApart(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	b := backend(t, api.URL+"/v1", "k")
	b.Cold, b.Quiet = 200*time.Millisecond, 200*time.Millisecond
	if out := b.Run(t.Context(), step("say a b\nslow 60000"), func(string) {}); out.Error == nil || out.Error.Code != wire.CodeEndpointCold {
		t.Errorf("%+v, want endpoint_cold", out.Error)
	}
	if out := b.Run(t.Context(), step("say a b\nhang"), func(string) {}); out.Error == nil || out.Error.Code != wire.CodeEndpointStalled || out.Text != "a " {
		t.Errorf("%+v, want endpoint_stalled", out)
	}
}

func TestUD100_CancelAndTimeoutEndTheRequest(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	for cause, code := range map[error]wire.Code{provider.ErrCancelled: wire.CodeCancelled, provider.ErrTimeout: wire.CodeStepTimeout} {
		ctx, cancel := context.WithCancelCause(t.Context())
		out := backend(t, api.URL+"/v1", "k").Run(ctx, step("say a b\nhang"), func(string) { cancel(cause) })
		if out.Error == nil || out.Error.Code != code {
			t.Errorf("%+v, want %s", out.Error, code)
		}
	}
}

func TestUD102_AnEventOfAMebibyteIsRead(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	out := backend(t, canned(t, `{"choices":[{"delta":{"content":"`+long+`"},"finish_reason":"stop"}]}`, "[DONE]"), "").Run(t.Context(), step("x"), func(string) {})
	if out.Error != nil || out.Text != long {
		t.Errorf("%v, %d bytes", out.Error, len(out.Text))
	}
}

func TestUD56_AProbeSaysWhatIsThere(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	html := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }))
	t.Cleanup(html.Close)
	if s := backend(t, api.URL+"/v1", "").Probe(t.Context()); !s.Ready || cmp.Diff([]string{"fake-large", "fake-small"}, s.Models) != "" || s.AuthClass != wire.AuthLocal {
		t.Errorf("%+v", s)
	}
	if s := backend(t, "http://"+closedPort(t), "").Probe(t.Context()); s.Ready || s.State != provider.Unreachable {
		t.Errorf("%+v", s)
	}
	if s := backend(t, html.URL, "").Probe(t.Context()); s.Ready || s.State != provider.Broken {
		t.Errorf("%+v", s)
	}
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
