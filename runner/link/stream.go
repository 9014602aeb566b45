package link

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"runnerd/internal/redact"
	"runnerd/internal/sse"
	"runnerd/internal/wire"
)

// maxEvent is the largest event that is read. It is larger than a frame may be, so that a frame which is a little too large
// can be refused by name.
const maxEvent = wire.MaxFrame + 256<<10

// Stream opens the stream of dispatches after the cursor. The events must be ranged over, which closes the stream. Length, when
// not 0, asks for a stream of that length: something on the way holds longer ones back.
//
// An answer without headers in time is taken for buffered too: the gateway sends them at once.
func (c *Client) Stream(ctx context.Context, epoch, cursor int64, length time.Duration) (iter.Seq2[sse.Event, error], error) {
	query := url.Values{}
	if epoch > 0 {
		query.Set("epoch", strconv.FormatInt(epoch, 10))
	}
	firstByte := wire.FirstByte
	if length > 0 {
		query.Set("maxMs", strconv.FormatInt(length.Milliseconds(), 10))
		firstByte += length
	}
	u := c.base.JoinPath("dispatches")
	u.RawQuery = query.Encode()
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(firstByte, func() { cancel(sse.ErrBuffered) })
	res, err := c.authorized(ctx, func(bearer redact.Secret) (*http.Response, error) {
		return c.send(ctx, http.MethodGet, u, nil, bearer, strconv.FormatInt(cursor, 10))
	})
	late.Stop()
	if err == nil && res.StatusCode != http.StatusOK {
		err = refusal(res)
	}
	if err == nil {
		if err = sse.CheckResponse(res); err != nil {
			res.Body.Close()
		}
	}
	if err != nil {
		err = fmt.Errorf("open stream: %w", caused(ctx, err))
		cancel(nil)
		return nil, err
	}
	events := sse.Read(ctx, res.Body, sse.Options{
		Silent: wire.StreamDead, FirstByte: firstByte, MaxEvent: maxEvent, Numbered: true,
	})
	return func(yield func(sse.Event, error) bool) {
		defer cancel(nil)
		events(yield)
	}, nil
}
