package channel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// A taken connection was taken over from net/http once its request had been read. It is a reply for package sse to write:
// HTTP/1.1, in chunks, one a flush. While nothing is being written it holds no buffer.
type taken struct {
	conn   net.Conn
	header http.Header
	out    bytes.Buffer // what was not flushed; chunkRoom bytes before it are left for the chunk's size
	begun  bool
	failed error
}

const (
	chunkRoom = 10      // a size in hex and a line end
	chunkMost = 1 << 20 // flushed when it gets longer
	keptRoom  = 256     // a buffer that is larger is given back when it is empty
)

var errNotTaken = errors.New("the connection cannot be taken over")

// takeOver takes the connection of a request over, where that is possible: HTTP/2 shares its connections, and HTTP/1.0 has
// no chunks.
func takeOver(w http.ResponseWriter, r *http.Request) (*taken, error) {
	if r.ProtoMajor != 1 || r.ProtoMinor < 1 {
		return nil, errNotTaken
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotTaken, err)
	}
	return &taken{conn: conn, header: http.Header{}}, nil
}

// Header is sent with the first flush.
func (t *taken) Header() http.Header { return t.header }

// WriteHeader begins the reply.
func (t *taken) WriteHeader(status int) {
	if t.begun {
		return
	}
	t.begun = true
	t.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	t.header.Set("Connection", "close")
	t.header.Set("Transfer-Encoding", "chunked")
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	_ = t.header.Write(&head) // to memory
	head.WriteString("\r\n")
	t.header = http.Header{}
	t.send(head.Bytes())
}

// Write keeps p for the next flush.
func (t *taken) Write(p []byte) (int, error) {
	if !t.begun {
		t.WriteHeader(http.StatusOK)
	}
	if len(p) == 0 {
		return 0, t.failed // an empty chunk would be the last
	}
	if t.out.Len() == 0 {
		t.out.Write(make([]byte, chunkRoom))
	}
	t.out.Write(p)
	if t.out.Len() > chunkMost {
		if err := t.FlushError(); err != nil {
			return 0, err
		}
	}
	return len(p), t.failed
}

// FlushError sends what was written as one chunk. http.ResponseController calls it.
func (t *taken) FlushError() error {
	if t.out.Len() > 0 {
		size := strconv.FormatInt(int64(t.out.Len()-chunkRoom), 16) + "\r\n"
		t.out.WriteString("\r\n")
		b := t.out.Bytes()[chunkRoom-len(size):]
		copy(b, size)
		t.send(b)
		if t.out.Reset(); t.out.Cap() > keptRoom {
			t.out = bytes.Buffer{}
		}
	}
	return t.failed
}

func (t *taken) send(b []byte) {
	if t.failed == nil {
		_, t.failed = t.conn.Write(b)
	}
}

// SetReadDeadline and SetWriteDeadline are for http.ResponseController.
func (t *taken) SetReadDeadline(at time.Time) error { return t.conn.SetReadDeadline(at) }

// SetWriteDeadline bounds the writes to come.
func (t *taken) SetWriteDeadline(at time.Time) error { return t.conn.SetWriteDeadline(at) }

// end closes the connection; a reply that is whole is marked so, for others the missing last chunk tells.
func (t *taken) end(whole bool) {
	if whole && t.begun && t.FlushError() == nil {
		t.send([]byte("0\r\n\r\n"))
	}
	t.conn.Close()
}

// errLeft says that the runner closed its end, or sent something where nothing may come.
var errLeft = errors.New("the runner left")

// watch reads until the other end closes, and cancels.
func (t *taken) watch(cancel context.CancelCauseFunc) {
	var one [1]byte
	_, _ = t.conn.Read(one[:]) // a byte is as good as an error: there is no next request on this connection
	cancel(errLeft)
}
