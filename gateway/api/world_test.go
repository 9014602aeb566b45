package api

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnerd/gateway/admin"
	"runnerd/gateway/bus/membus"
	"runnerd/gateway/channel"
	"runnerd/gateway/dispatch"
	"runnerd/gateway/identity"
	"runnerd/gateway/run"
	"runnerd/gateway/store"
	"runnerd/gateway/store/sqlite"
	"runnerd/internal/schema/schematest"
)

const (
	alice store.Subject = "default/alice"
	bob   store.Subject = "default/bob"
	carol store.Subject = "rival/carol"
)

// A world is a whole gateway on a real store, behind a real server. Whatever it logs is kept.
type world struct {
	t     *testing.T
	store store.Store
	bus   *membus.Bus
	id    *identity.Service
	api   *Server
	srv   *httptest.Server
	ahead atomic.Int64 // of the wall clock
	log   buffer
	keys  map[store.Subject]string // with every scope
}

// A buffer may be written by many.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (w *world) now() time.Time       { return time.Now().Add(time.Duration(w.ahead.Load())) }
func (w *world) skip(d time.Duration) { w.ahead.Add(int64(d)) }

func newWorld(t *testing.T, changes ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, bus: membus.New(), keys: map[store.Subject]string{}}
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "gateway.db"), sqlite.Options{Ring: w.bus.Ring, Wall: w.now})
	if err != nil {
		t.Fatal(err)
	}
	w.store = s
	log := slog.New(slog.NewJSONHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if w.id, err = identity.New(t.Context(), s, w.now, log); err != nil {
		t.Fatal(err)
	}
	d := dispatch.New(dispatch.Config{Store: s, Bus: w.bus, Log: log, Now: w.now})
	sweeper := d.Sweeper()
	if err := sweeper.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := Config{
		Store: s, Bus: w.bus, Identity: w.id, Runs: run.New(run.Config{Store: s, Dispatch: d, Log: log, Now: w.now}), Dispatch: d,
		Channel: channel.New(channel.Config{Dispatch: d, Identity: w.id, Bus: w.bus, Log: log,
			Page: func(r *http.Request) string { return "http://" + r.Host + "/pair" }}),
		Page: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "the page") }),
		Log:  log, Now: w.now, Version: "test",
	}
	for _, change := range changes {
		change(&c)
	}
	if w.api, err = New(c); err != nil {
		t.Fatal(err)
	}
	w.srv = httptest.NewServer(w.api.Handler())
	t.Cleanup(func() {
		w.srv.CloseClientConnections()
		w.srv.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, who := range []store.Subject{alice, bob, carol} {
		if _, _, err := w.id.AddUser(t.Context(), who.Tenant(), string(who.Principal())); err != nil {
			t.Fatal(err)
		}
		w.keys[who] = w.key(who)
	}
	return w
}

// key makes an API key; no scopes means all.
func (w *world) key(who store.Subject, scopes ...string) string {
	w.t.Helper()
	_, token, err := w.id.CreateKey(w.t.Context(), who, "", scopes, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// An answer is a whole one.
type answer struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	body   string
}

// send sends a request. headers are name and value in turn.
func (w *world) send(method, path, token, body string, headers ...string) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.srv.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" && !slices.Contains(headers, "Content-Type") {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := w.srv.Client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{w.t, method + " " + path, res.StatusCode, res.Header, string(b)}
}

// as sends a request with a key of every scope.
func (w *world) as(who store.Subject, method, path, body string, headers ...string) answer {
	w.t.Helper()
	return w.send(method, path, w.keys[who], body, headers...)
}

// into reads the body of an answer that must have the status.
func (a answer) into(status int, v any) {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: %d %s; want %d", a.what, a.status, a.body, status)
	}
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		a.t.Fatalf("%s: %v in %s", a.what, err, a.body)
	}
}

// refused checks the envelope of a refusal, and gives its details.
func (a answer) refused(status int, code string) map[string]any {
	a.t.Helper()
	var e struct {
		Error   string
		Message string
		Details map[string]any
	}
	if err := json.Unmarshal([]byte(a.body), &e); err != nil || a.status != status || e.Error != code {
		a.t.Errorf("%s: %d %s; want %d %s", a.what, a.status, a.body, status, code)
		return nil
	}
	schematest.Document(a.t, "error-envelope", a.body)
	if got := a.header.Get("Content-Type"); got != "application/json" {
		a.t.Errorf("%s: Content-Type %s", a.what, got)
	}
	if (a.header.Get("WWW-Authenticate") != "") != (status == http.StatusUnauthorized) {
		a.t.Errorf("%s: WWW-Authenticate %q with status %d", a.what, a.header.Get("WWW-Authenticate"), status)
	}
	return e.Details
}

// define imports a workflow: nodes as JSON, one after the other.
func (w *world) define(t store.Tenant, id string, nodes ...string) {
	w.t.Helper()
	var edges []string
	var names []string
	for _, n := range nodes {
		var head struct{ ID string }
		if err := json.Unmarshal([]byte(n), &head); err != nil {
			w.t.Fatal(err)
		}
		names = append(names, head.ID)
	}
	for i := range names[1:] {
		edges = append(edges, `{"id":"e`+names[i]+`","sourceNodeId":"`+names[i]+`","targetNodeId":"`+names[i+1]+`"}`)
	}
	doc := `{"id":"` + id + `","name":"` + id + `","version":"1","nodes":[` + strings.Join(nodes, ",") + `],"edges":[` + strings.Join(edges, ",") +
		`],"triggers":[{"id":"t","type":"manual","enabled":true}],"variables":[{"name":"payload","type":"object"}],"metadata":{},"settings":{"timeout":0,"maxRetries":0}}`
	ops := admin.Admin{Store: w.store, Identity: w.id, Now: w.now}
	if _, err := ops.ImportWorkflow(w.t.Context(), admin.NewWorkflow{Tenant: string(t), Document: []byte(doc)}); err != nil {
		w.t.Fatal(err)
	}
}

// node is a node without inputs, or with those given.
func node(id, kind string, inputs ...string) string {
	return `{"id":"` + id + `","typeId":"` + kind + `","name":"` + id + `","position":{"x":0,"y":0},"config":{},"inputs":{` + strings.Join(inputs, ",") + `}}`
}

// create makes a run and gives its id.
func (w *world) create(who store.Subject, body string) string {
	w.t.Helper()
	var got createReply
	w.as(who, "POST", "/v1/runs", body).into(http.StatusCreated, &got)
	return got.RunID
}

// events reads a whole log.
func (w *world) events(who store.Subject, id string) pollReply {
	w.t.Helper()
	var got pollReply
	w.as(who, "GET", "/v1/runs/"+id+"/events/poll?timeout=1", "").into(http.StatusOK, &got)
	for _, e := range got.Events {
		schematest.Event(w.t, e)
	}
	return got
}
