package link

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"runnerd/internal/redact"
	"runnerd/internal/wire"
)

// answerWithin is how long a request that is no stream may take.
const answerWithin = 20 * time.Second

// longestMessage is how much of a refusal's words is kept: they are logged, and shown in a terminal.
const longestMessage = 300

// maxAnswer is the largest answer that is read. Verdicts and permits are small.
const maxAnswer = 1 << 20

var errSlow = errors.New("the gateway did not answer in time")

// A Client speaks to one gateway as one runner. It may be used from many goroutines.
type Client struct {
	base   *url.URL
	http   *http.Client
	tokens *Tokens
	skew   atomic.Int64
}

// New makes a client. The http.Client must not follow redirects and must not limit how long a body may last, as that of
// egress.Configured.
func New(gateway string, client *http.Client, credentials Credentials) (*Client, error) {
	u, err := checkGateway(gateway)
	if err != nil {
		return nil, err
	}
	h := *client
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &Client{base: u.JoinPath(wire.Prefix), http: &h}
	c.tokens = &Tokens{credentials: credentials, trade: c.trade, busy: make(chan struct{}, 1)}
	return c, nil
}

// checkGateway reads the URL of a gateway. Without TLS a bearer goes nowhere but to this machine.
func checkGateway(gateway string) (*url.URL, error) {
	u, err := url.Parse(gateway)
	switch {
	case err != nil:
		return nil, fmt.Errorf("gateway URL: %w", errors.Unwrap(err))
	case u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("gateway URL must be like https://gateway.example")
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return u, nil
	case u.Scheme == "http":
		return nil, errors.New("gateway URL must begin with https://; http:// is for this machine only")
	}
	return nil, errors.New("gateway URL must begin with https://")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// Tokens are the client's own.
func (c *Client) Tokens() *Tokens { return c.tokens }

// Skew is how far this machine's clock was ahead of the gateway's at its last answer.
func (c *Client) Skew() time.Duration { return time.Duration(c.skew.Load()) }

// Forget drops connections that are open and idle: after a change of network they may be dead and not know it.
func (c *Client) Forget() { c.http.CloseIdleConnections() }

// Register sends the registration record and gives the epoch of this connection.
func (c *Client) Register(ctx context.Context, record wire.Registration) (epoch int64, err error) {
	body, err := json.Marshal(record)
	if err != nil {
		return 0, fmt.Errorf("register: %w", err)
	}
	answer, err := c.exchange(ctx, http.MethodPut, "runner", body)
	if err != nil {
		return 0, fmt.Errorf("register: %w", err)
	}
	registered, err := reply[registered](answer)
	if err != nil {
		return 0, fmt.Errorf("register: %w", err)
	}
	return registered.Epoch, nil
}

// registered is wire.Registered as a validated message. A plain host may give no epoch.
type registered struct{ wire.Registered }

func (r registered) Validate() error {
	if r.Epoch < 0 {
		return &wire.FieldError{Field: "epoch", Reason: "must be 1 or more"}
	}
	return nil
}

// Report sends one report. ErrPlain says that the gateway does not know reports.
func (c *Client) Report(ctx context.Context, report wire.Report) (wire.ReportReply, error) {
	body, err := json.Marshal(report)
	if err != nil {
		return wire.ReportReply{}, fmt.Errorf("report: %w", err)
	}
	answer, err := c.exchange(ctx, http.MethodPost, "reports", body)
	if status, ok := errors.AsType[*StatusError](err); ok {
		switch status.Status {
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
			return wire.ReportReply{}, fmt.Errorf("report: %w", ErrPlain)
		}
	}
	if err != nil {
		return wire.ReportReply{}, fmt.Errorf("report: %w", err)
	}
	r, err := reply[wire.ReportReply](answer)
	if err != nil {
		return r, fmt.Errorf("report: %w", err)
	}
	return r, nil
}

// Results posts result frames and gives one verdict for each, in their order.
func (c *Client) Results(ctx context.Context, frames []wire.Result) ([]wire.Verdict, error) {
	var body []byte
	var err error
	if len(frames) == 1 { // a plain host takes one frame
		body, err = json.Marshal(frames[0])
	} else {
		body, err = json.Marshal(frames)
	}
	if err != nil {
		return nil, fmt.Errorf("post results: %w", err)
	}
	answer, err := c.exchange(ctx, http.MethodPost, "results", body)
	if err != nil {
		return nil, fmt.Errorf("post results: %w", err)
	}
	r, err := reply[wire.Verdicts](answer)
	if err != nil {
		return nil, fmt.Errorf("post results: %w", err)
	}
	if len(r.Verdicts) != len(frames) {
		return nil, fmt.Errorf("post results: %w: %d verdicts for %d frames", ErrNotGateway, len(r.Verdicts), len(frames))
	}
	for i, v := range r.Verdicts {
		if got := (wire.StepRef{RunID: v.RunID, StepID: v.StepID, Seq: v.Seq}); got != frames[i].Ref() {
			return nil, fmt.Errorf("post results: %w: a verdict on %v for the result of %v", ErrNotGateway, got, frames[i].Ref())
		}
	}
	return r.Verdicts, nil
}

// Revoke ends this runner's right to speak, at the gateway.
func (c *Client) Revoke(ctx context.Context) error {
	if _, err := c.exchange(ctx, http.MethodDelete, "runner", nil); err != nil {
		return fmt.Errorf("revoke: %w", err)
	}
	return nil
}

// exchange makes one request with the bearer, and once more with a renewed one after a 401.
func (c *Client) exchange(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errSlow)
	defer cancel()
	res, err := c.authorized(ctx, func(bearer redact.Secret) (*http.Response, error) {
		return c.send(ctx, method, c.base.JoinPath(path), body, bearer, "")
	})
	if err != nil {
		return nil, caused(ctx, err)
	}
	answer, err := read(res)
	return answer, caused(ctx, err)
}

// authorized makes a request as the runner. What it returns was not refused with 401.
func (c *Client) authorized(ctx context.Context, request func(bearer redact.Secret) (*http.Response, error)) (*http.Response, error) {
	bearer, err := c.tokens.Bearer(ctx)
	if err != nil {
		return nil, err
	}
	res, err := request(bearer)
	if err != nil || res.StatusCode != http.StatusUnauthorized {
		return res, err
	}
	if refused := refusal(res); refused.Code == "" {
		return nil, refused // not a gateway's 401: a proxy's or a portal's
	}
	if bearer, err = c.tokens.Renew(ctx, bearer); err != nil {
		return nil, err
	}
	if res, err = request(bearer); err != nil || res.StatusCode != http.StatusUnauthorized {
		return res, err
	}
	if refused := refusal(res); refused.Code == "" {
		return nil, refused
	}
	c.tokens.refuse()
	return nil, fmt.Errorf("%w: a fresh bearer is refused", ErrUnpaired)
}

func (c *Client) send(ctx context.Context, method string, u *url.URL, body []byte, bearer redact.Secret, lastID string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
		r.Header.Set("Accept", "text/event-stream")
	}
	if !bearer.IsZero() {
		r.Header.Set("Authorization", "Bearer "+bearer.Reveal())
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		c.skew.Store(int64(time.Since(at)))
	}
	return res, nil
}

// read gives the JSON of a good answer, and closes it.
func read(res *http.Response) ([]byte, error) {
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, refusal(res)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		return nil, nil
	}
	if !isJSON(res) {
		return nil, fmt.Errorf("%w: its answer is %q", ErrNotGateway, res.Header.Get("Content-Type"))
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxAnswer:
		return nil, fmt.Errorf("%w: its answer is too long", ErrNotGateway)
	}
	return b, nil
}

func reply[T wire.Validator](b []byte) (T, error) {
	v, err := wire.DecodeReply[T](b)
	if err != nil {
		return v, fmt.Errorf("%w: %w", ErrNotGateway, err)
	}
	return v, nil
}

// refusal reads the error that an answer is, and closes it.
func refusal(res *http.Response) *StatusError {
	defer res.Body.Close()
	e := &StatusError{Status: res.StatusCode, RetryAfter: retryAfter(res.Header.Get("Retry-After"))}
	if to, err := res.Location(); err == nil {
		e.Redirect = wire.Printable(to.Host, wire.MaxID)
	}
	if !isJSON(res) {
		return e
	}
	var envelope struct{ Error, Message string }
	if b, err := io.ReadAll(io.LimitReader(res.Body, 64<<10)); err == nil && json.Unmarshal(b, &envelope) == nil {
		e.Code, e.Message = wire.Printable(envelope.Error, wire.MaxID), wire.Printable(envelope.Message, longestMessage)
	}
	return e
}

func isJSON(res *http.Response) bool {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

func retryAfter(s string) time.Duration {
	if seconds, err := strconv.ParseInt(s, 10, 32); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// caused puts the cause in the place of "context canceled".
func caused(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
