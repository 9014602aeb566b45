package egress

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// misbehave answers as the case's server does.
func (u *upstream) misbehave(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	switch {
	case u.Stall == "headers":
		<-r.Context().Done()
	case u.Drip != "":
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "x")
			_ = control.Flush()
			select {
			case <-time.After(5 * time.Second): // the bubble's clock
			case <-r.Context().Done():
			}
		}
	case u.BodyBytes > 0:
		_, _ = io.CopyN(w, zeros{}, u.BodyBytes)
	case u.GzipExpandsTo > 0:
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.CopyN(z, zeros{}, min(u.GzipExpandsTo, 2*guardedBody)) // the client is gone by then
		_ = z.Close()
	case u.Chunked != "":
		_, _ = io.Copy(w, zeros{})
	case u.HeaderBytes > 0:
		w.Header().Set("X-Big", strings.Repeat("x", u.HeaderBytes))
	case u.Informational > 0:
		for range u.Informational {
			if r.Context().Err() != nil {
				return
			}
			w.WriteHeader(http.StatusEarlyHints)
		}
	case u.TrailerBytes > 0:
		_, _ = io.WriteString(w, "body")
		_ = control.Flush()
		w.Header().Set(http.TrailerPrefix+"X-Big", strings.Repeat("x", u.TrailerBytes))
	case u.Truncate:
		conn, _, err := control.Hijack()
		if err == nil {
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
			conn.Close()
		}
	default:
		_, _ = io.WriteString(w, "ok")
	}
}
