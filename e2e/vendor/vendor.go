// Package vendor is a stand-in for the model vendors' APIs at the network's edge, for tests: the Anthropic messages API, the
// OpenAI responses and chat completions APIs and the model lists, on loopback, streamed as the real ones stream. What it does
// is asked for in the prompt, so that a test drives it through everything that lies between:
//
//	say WORDS          answers with the words after it, to the end of the line
//	slow N             waits N milliseconds before each word
//	fail STATUS        answers with that status and the vendor's error body
//	hang               begins the answer and then sends nothing more
//	cut                begins the answer and then drops the connection
//	leak               puts the key it was given into the answer, as a broken proxy might
//
// Several may stand in one prompt, a line each. It counts turns by prompt: a turn is what a vendor would charge for.
package vendor

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Request is what arrived at an API.
type Request struct {
	Path   string
	Key    string // as sent, bearer or x-api-key
	Prompt string // the last user message
	Body   json.RawMessage
}

// A Server is the running stand-in.
type Server struct {
	URL  string
	http *httptest.Server

	mu       sync.Mutex
	requests []Request
	gone     chan struct{}
}

// New starts a server on loopback.
func New() *Server {
	s := &Server{gone: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", s.messages)
	mux.HandleFunc("POST /v1/responses", s.responses)
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"fake-large","object":"model"},{"id":"fake-small","object":"model"}],"models":[]}`)
	})
	s.http = httptest.NewServer(mux)
	s.URL = s.http.URL
	return s
}

// Close ends every answer that still hangs.
func (s *Server) Close() {
	close(s.gone)
	s.http.CloseClientConnections()
	s.http.Close()
}

// Requests returns what has arrived at the model routes so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Turns counts the turns whose prompt holds the words.
func (s *Server) Turns(words string) int {
	n := 0
	for _, r := range s.Requests() {
		if strings.Contains(r.Prompt, words) {
			n++
		}
	}
	return n
}

// script is what a prompt asks for.
type script struct {
	words     []string
	pause     time.Duration
	fail      int
	hang, cut bool
}

var line = regexp.MustCompile(`(?m)^(?:.*?[>:] )?(say|slow|fail|hang|cut|leak)\b ?(.*)$`)

func (s *Server) take(r *http.Request, prompt string, body []byte) script {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if k := r.Header.Get("X-Api-Key"); k != "" {
		key = k
	}
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.URL.Path, key, prompt, body})
	s.mu.Unlock()
	var sc script
	for _, m := range line.FindAllStringSubmatch(prompt, -1) {
		n, _ := strconv.Atoi(strings.TrimSpace(m[2]))
		switch m[1] {
		case "say":
			sc.words = append(sc.words, strings.SplitAfter(strings.TrimSpace(m[2]), " ")...)
		case "slow":
			sc.pause = time.Duration(n) * time.Millisecond
		case "fail":
			sc.fail = n
		case "hang":
			sc.hang = true
		case "cut":
			sc.cut = true
		case "leak":
			sc.words = append(sc.words, "your key is ", key)
		}
	}
	if len(sc.words) == 0 {
		sc.words = []string{"nothing ", "was ", "asked"}
	}
	return sc
}

// stream writes the words, each by word, at the pace of the script. It reports whether the answer was given whole.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, sc script, word func(string)) bool {
	for i, text := range sc.words {
		if i == 1 && sc.hang {
			select {
			case <-r.Context().Done():
			case <-s.gone:
			}
			return false
		}
		if i == 1 && sc.cut {
			panic(http.ErrAbortHandler)
		}
		if sc.pause > 0 {
			select {
			case <-r.Context().Done():
				return false
			case <-s.gone:
				return false
			case <-time.After(sc.pause):
			}
		}
		word(text)
		w.(http.Flusher).Flush()
	}
	return true
}

// sse writes one event.
func sse(w io.Writer, event string, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	if event != "" {
		_, _ = fmt.Fprintf(w, "event: %s\n", event)
	}
	_, _ = fmt.Fprintf(w, "data: %s\n\n", b)
}

type object = map[string]any

// text reads a message's content, a string or an array of parts, leaving out what a client adds by itself.
func text(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(content, &parts) // another shape has no text
	for _, p := range parts {
		if !strings.HasPrefix(p.Text, "<system-reminder>") && !strings.HasPrefix(p.Text, "<environment_context>") {
			s += p.Text + "\n"
		}
	}
	return s
}
