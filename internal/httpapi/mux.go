package httpapi

import (
	"net/http"
	"strconv"
	"strings"
)

// Routes serves mux and gives what mux itself would answer in plain text, 404 and 405, the envelope.
func Routes(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		asked := &statusOnly{header: w.Header()}
		h.ServeHTTP(asked, r) // sets Allow
		if asked.status == http.StatusMethodNotAllowed {
			p := Problem{Status: asked.status, Code: CodeMethodNotAllowed, Message: r.Method + " is not served here"}
			p.ServeHTTP(w, r)
			return
		}
		NotFound("route").ServeHTTP(w, r)
	})
}

// statusOnly keeps a reply's status and header fields, and drops its text.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }

// Bearer returns the request's bearer token, or "" unless there is exactly one, in the Authorization field and nowhere else.
func Bearer(r *http.Request) string {
	fields := r.Header.Values("Authorization")
	if len(fields) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(fields[0], " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || strings.ContainsAny(token, " ,\t") {
		return ""
	}
	return token
}

// QueryInt returns the integer parameter name, or otherwise if it is absent. Twice, empty, not an integer or outside
// lowest..highest is a Problem.
func QueryInt(r *http.Request, name string, otherwise, lowest, highest int64) (int64, error) {
	values, ok := r.URL.Query()[name]
	if !ok {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || len(values) > 1 || n < lowest || n > highest {
		return 0, Invalid(name, "must be an integer from "+strconv.FormatInt(lowest, 10)+" to "+strconv.FormatInt(highest, 10))
	}
	return n, nil
}
