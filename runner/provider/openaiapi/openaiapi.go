// Package openaiapi serves a provider with any endpoint that speaks the OpenAI chat completions API: Ollama, LM Studio,
// llama.cpp, vLLM, or a vendor. The address is one that the owner wrote down; the key, if any, comes from the credential
// store. Connect, first byte and silence have a deadline and a code each (UD-104).
package openaiapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"runnerd/internal/fault"
	"runnerd/internal/redact"
	"runnerd/internal/sse"
	"runnerd/internal/wire"
	"runnerd/runner/provider"
	"runnerd/runner/provider/failure"
)

// Name is the backend's name.
const Name = "openai-compatible"

// How long an endpoint may take until the first event of an answer (a cold model is loaded from disk), and between two.
const (
	Cold  = 3 * time.Minute
	Quiet = time.Minute
)

const maxEvent = 4 << 20 // UD-102

// Backend is one endpoint.
type Backend struct {
	BaseURL  string // up to and including /v1
	Client   *http.Client
	Failures *failure.Table
	Key      func(context.Context) (redact.Secret, error)
	Models   []string // configured; empty: those that the endpoint lists
	Local    bool     // on this machine or network, without a key

	Cold, Quiet time.Duration // zero: the defaults above
}

var _ provider.Backend = Backend{}

// Run streams one completion.
func (b Backend) Run(ctx context.Context, step provider.Step, progress func(string)) wire.Output {
	out := wire.Output{Model: step.Model, Backend: Name, AuthClass: b.class()}
	body, err := json.Marshal(request(step))
	if err != nil {
		out.Error = &wire.StepError{Code: wire.CodeInvalidInput, Message: err.Error()}
		return out
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cold := time.AfterFunc(either(b.Cold, Cold), func() { stop(errCold) })
	defer cold.Stop()
	res, e := b.do(ctx, http.MethodPost, "/chat/completions", body, &out)
	fault.Point("R07")
	if e != nil {
		out.Error = e
		return out
	}
	defer func() { _ = res.Body.Close() }() // read to its end, or given up
	if res.StatusCode != http.StatusOK {
		out.Error = b.refusal(res)
		return out
	}
	out.Error = b.read(ctx, res, cold, &out, progress)
	return out
}

// errCold is a cause of our own.
var errCold = errors.New("no answer has begun")

func (b Backend) read(ctx context.Context, res *http.Response, cold *time.Timer, out *wire.Output, progress func(string)) *wire.StepError {
	calls := map[int]*wire.ToolCall{}
	order := []int{}
	for ev, err := range sse.Read(ctx, res.Body, sse.Options{Silent: either(b.Quiet, Quiet), FirstByte: either(b.Cold, Cold), MaxEvent: maxEvent}) {
		if err != nil {
			return b.broken(ctx, err)
		}
		cold.Stop()
		if string(ev.Data) == "[DONE]" {
			break
		}
		var c chunk
		if err := json.Unmarshal(ev.Data, &c); err != nil {
			return &wire.StepError{Code: wire.CodeProviderError, Message: "the endpoint sent an event that is not JSON"}
		}
		if len(c.Error) > 0 && string(c.Error) != "null" {
			return b.Failures.Classify(Name, message(ev.Data))
		}
		if c.Model != "" {
			out.Model = c.Model
		}
		if c.Usage != nil {
			out.Usage = &wire.Usage{InputTokens: c.Usage.In, OutputTokens: c.Usage.Out}
		}
		for _, choice := range c.Choices {
			if choice.Delta.Content != "" {
				out.Text += choice.Delta.Content
				progress(choice.Delta.Content)
			}
			for _, t := range choice.Delta.ToolCalls {
				call, ok := calls[t.Index]
				if !ok {
					call = &wire.ToolCall{}
					calls[t.Index] = call
					order = append(order, t.Index)
				}
				if t.ID != "" {
					call.ID = t.ID
				}
				call.Name += t.Function.Name
				call.Arguments = append(call.Arguments, t.Function.Arguments...)
			}
			if choice.Finish != "" {
				out.FinishReason = choice.Finish
			}
		}
	}
	if ctx.Err() != nil {
		return b.broken(ctx, ctx.Err())
	}
	if out.FinishReason == "" {
		return &wire.StepError{Code: wire.CodeProviderError, Message: "the endpoint ended the answer without saying why", Retriable: true}
	}
	for _, i := range order {
		call := calls[i]
		if len(call.Arguments) == 0 {
			call.Arguments = json.RawMessage("{}")
		}
		if !json.Valid(call.Arguments) {
			return &wire.StepError{Code: wire.CodeProviderError, Message: fmt.Sprintf("the model's arguments for %s are not JSON", call.Name)}
		}
		out.ToolCalls = append(out.ToolCalls, *call)
	}
	return nil
}

func (b Backend) do(ctx context.Context, method, path string, body []byte, out *wire.Output) (*http.Response, *wire.StepError) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(b.BaseURL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, &wire.StepError{Code: wire.CodeEndpointDown, Message: err.Error()}
	}
	key, err := b.Key(ctx)
	if err != nil {
		return nil, &wire.StepError{Code: wire.CodeCredentialLocked, Message: "the stored key cannot be read: " + err.Error(), Retriable: true}
	}
	if !key.IsZero() {
		out.AuthClass = wire.AuthAPIKey
		req.Header.Set("Authorization", "Bearer "+key.Reveal())
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := b.Client.Do(req)
	if err != nil {
		return nil, b.broken(ctx, err)
	}
	return res, nil
}

// broken tells why a request or a stream ended early.
func (b Backend) broken(ctx context.Context, err error) *wire.StepError {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errCold), errors.Is(err, sse.ErrBuffered):
		return &wire.StepError{Code: wire.CodeEndpointCold, Message: fmt.Sprintf("no answer began within %v: the model may still be loading", either(b.Cold, Cold)), Retriable: true}
	case errors.Is(err, sse.ErrSilent):
		return &wire.StepError{Code: wire.CodeEndpointStalled, Message: fmt.Sprintf("the endpoint sent nothing for %v in the middle of the answer", either(b.Quiet, Quiet))}
	case cause != nil:
		return provider.Ended(ctx).Error
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &wire.StepError{Code: wire.CodeProviderError, Message: "the endpoint dropped the connection in the middle of the answer", Retriable: true}
	}
	return &wire.StepError{Code: wire.CodeEndpointDown, Message: err.Error(), Retriable: true}
}

// refusal reads the body of an answer that is not 200.
func (b Backend) refusal(res *http.Response) *wire.StepError {
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		body = nil // the status alone says enough
	}
	e := b.Failures.Classify(Name, strconv.Itoa(res.StatusCode)+" "+message(body))
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfterMs = int64(s) * 1000
	}
	return e
}

func message(body []byte) string {
	var doc struct {
		Error struct{ Type, Message string }
	}
	if json.Unmarshal(body, &doc) == nil && doc.Error.Message != "" {
		return strings.TrimSpace(doc.Error.Type + " " + doc.Error.Message)
	}
	return string(body[:min(len(body), 2000)])
}

func (b Backend) class() string {
	if b.Local {
		return wire.AuthLocal
	}
	return wire.AuthNone
}

func either(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}
