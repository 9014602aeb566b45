package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"syscall"

	"runnerd/internal/egress"
)

// ErrNotRunning says that no runner answers at the data folder's socket.
var ErrNotRunning = errors.New("the runner is not running")

// ErrHangs says that a runner is there and does not answer.
var ErrHangs = errors.New("the runner does not answer")

// A Client calls the runner of one data folder.
type Client struct {
	http   *http.Client
	folder string
}

// Dial returns a client for the runner of a data folder. Nothing is opened before the first call.
func Dial(dir string) *Client {
	path := Path(dir)
	return &Client{egress.Socket(path), filepath.Dir(path)}
}

// Status asks how things stand.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	b, err := c.call(ctx, http.MethodGet, "status", nil)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("read status: %w", err)
	}
	return s, nil
}

// Pause makes the runner take no new steps until Resume.
func (c *Client) Pause(ctx context.Context) error { return c.post(ctx, "pause", nil) }

// Resume ends a pause or a drain.
func (c *Client) Resume(ctx context.Context) error { return c.post(ctx, "resume", nil) }

// Drain makes the runner finish what it has and take nothing new, as before an update.
func (c *Client) Drain(ctx context.Context) error { return c.post(ctx, "drain", nil) }

// Reload makes the runner look at its providers anew.
func (c *Client) Reload(ctx context.Context) error { return c.post(ctx, "reload", nil) }

// Logout ends the runner's right to speak and forgets its credentials.
func (c *Client) Logout(ctx context.Context, force bool) error {
	return c.post(ctx, "logout", logoutRequest{force})
}

func (c *Client) post(ctx context.Context, path string, in any) error {
	_, err := c.call(ctx, http.MethodPost, path, in)
	return err
}

func (c *Client) call(parent context.Context, method, path string, in any) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(parent, within, ErrHangs)
	defer cancel()
	if err := checkPrivate(c.folder); err != nil {
		return nil, fmt.Errorf("%s: %w", path, explain(ctx, err))
	}
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://runner/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, explain(ctx, err))
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, explain(ctx, err))
	}
	if res.StatusCode == http.StatusServiceUnavailable { // the timeout of the runner's own side
		return nil, fmt.Errorf("%s: %w", path, ErrHangs)
	}
	if res.StatusCode > 299 {
		var envelope struct{ Message string }
		if json.Unmarshal(b, &envelope) != nil || envelope.Message == "" {
			envelope.Message = res.Status
		}
		return nil, fmt.Errorf("%s: %s", path, envelope.Message)
	}
	return b, nil
}

func explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return ErrNotRunning
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the runner belongs to another user: %w", fs.ErrPermission)
	}
	return err
}
