package channel

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// reply serves one request over a taken connection and gives what net/http's client makes of it.
func reply(t *testing.T, write func(*taken), whole bool) (*http.Response, string, error) {
	t.Helper()
	near, far := net.Pipe()
	go func() {
		conn := &taken{conn: near, header: http.Header{}}
		write(conn)
		conn.end(whole)
	}()
	res, err := http.ReadResponse(bufio.NewReader(far), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, string(b), err
}

func TestATakenConnectionSpeaksHTTP(t *testing.T) {
	long := strings.Repeat("x", 3*chunkMost)
	res, body, err := reply(t, func(c *taken) {
		c.Header().Set("Content-Type", "text/event-stream")
		c.WriteHeader(http.StatusOK)
		c.WriteHeader(http.StatusTeapot) // too late
		for _, s := range []string{"a", "bc\r\n", long, ""} {
			if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
				t.Errorf("wrote %d of %d: %v", n, len(s), err)
			}
		}
		if err := c.FlushError(); err != nil || c.out.Cap() > keptRoom {
			t.Errorf("flush: %v; it keeps %d bytes", err, c.out.Cap())
		}
		if err := c.FlushError(); err != nil { // nothing, and no empty chunk, which would be the end
			t.Error(err)
		}
		c.Write([]byte("z"))
	}, true)
	if err != nil || res.StatusCode != 200 || !res.Close || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Date") == "" {
		t.Errorf("%v %v %v", res.StatusCode, res.Header, err)
	}
	if body != "abc\r\n"+long+"z" {
		t.Errorf("body of %d bytes", len(body))
	}
}

func TestACutReplyIsNotWhole(t *testing.T) {
	_, body, err := reply(t, func(c *taken) {
		c.Write([]byte("half"))
		c.FlushError()
	}, false)
	if body != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", body, err)
	}
}

func TestAReaderThatTakesNothingIsGivenUp(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	conn := &taken{conn: near, header: http.Header{}}
	if err := conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	conn.Write([]byte("x"))
	if err := conn.FlushError(); err == nil {
		t.Error("a write to nobody went well")
	}
	if _, err := conn.Write([]byte("y")); err == nil {
		t.Error("after a failure it goes on")
	}
	conn.end(true)
}
