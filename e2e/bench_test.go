package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runnerd/e2e/yardstick"
	"runnerd/gateway"
	"runnerd/gateway/admin"
	"runnerd/gateway/bus/membus"
	"runnerd/gateway/store/sqlite"
	"runnerd/internal/egress"
	"runnerd/internal/redact"
	"runnerd/internal/wire"
	"runnerd/keyring"
	"runnerd/runner"
	"runnerd/runner/provider/catalog"
)

// BenchmarkStep is P1 and P2: a run with one echo step through the whole product over in-process HTTP (client, gateway with
// SQLite at full sync, channel with start permit, the real runner with its journal), from the POST to the end of the run's
// stream, beside L0 and L1 of the same run.
//
//	go test ./e2e -run '^$' -bench Step -benchtime 1000x
func BenchmarkStep(b *testing.B) {
	for _, c := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("c=%d", c), func(b *testing.B) {
			limits, p := yardstick.New(b), newProduct(b, max(c, 4))
			p.step(b) // the first one warms caches
			var l0, l1, mine []time.Duration
			var wall [3]time.Duration
			const chunk = 128 // yardstick and product alternate, since a neighbour's load comes and goes
			b.ResetTimer()
			for left := b.N; left > 0; left -= chunk {
				n := min(left, chunk)
				wall[0] += yardstick.Measure(&l0, c, n, func() { limits.Step(b, false) })
				wall[1] += yardstick.Measure(&l1, c, n, func() { limits.Step(b, true) })
				wall[2] += yardstick.Measure(&mine, c, n, func() { p.step(b) })
			}
			b.StopTimer()
			b.ReportMetric(yardstick.P50(mine)/1e6, "p50_ms")
			b.ReportMetric(yardstick.P50(mine)/yardstick.P50(l0), "x_L0")
			b.ReportMetric(yardstick.P50(mine)/yardstick.P50(l1), "x_L1")
			b.ReportMetric(float64(b.N)/wall[2].Seconds(), "steps/s")
			b.ReportMetric(wall[0].Seconds()/wall[2].Seconds(), "of_L0_rate")
		})
	}
}

// A product is a gateway and a runner in this process, and a client of theirs.
type product struct {
	url, key string
	http     *http.Client
}

func newProduct(b *testing.B, steps int) *product {
	ctx, cancel := context.WithCancel(context.Background())
	log := slog.New(slog.DiscardHandler)
	bus := membus.New()
	store, err := sqlite.Open(ctx, filepath.Join(b.TempDir(), "gateway.db"), sqlite.Options{Ring: bus.Ring})
	must(b, err)
	srv := httptest.NewUnstartedServer(nil)
	url := "http://" + srv.Listener.Addr().String()
	g, err := gateway.New(ctx, gateway.Config{Store: store, Bus: bus, Log: log, PublicURL: url})
	must(b, err)
	socket, err := net.Listen("tcp", "127.0.0.1:0") // nobody administers this one
	must(b, err)
	ended := make(chan error, 2)
	go func() { ended <- g.Run(ctx, srv.Listener, socket) }()
	me, err := g.Admin.AddUser(ctx, admin.UserRef{User: "me"})
	must(b, err)
	key, err := g.Admin.CreateKey(ctx, admin.NewKey{User: "me"})
	must(b, err)

	dir, vault := filepath.Join(b.TempDir(), "runner"), runner.NewVault(keyring.NewMemory(), &redact.Set{})
	way := egress.Configured(egress.Options{HTTP1: true})
	got, err := runner.Pair(ctx, runner.PairConfig{Gateway: url, Dir: dir, Name: "bench", Version: "0", Store: "memory", Credentials: vault, Client: way},
		func(code wire.PairingReply) {
			_, err := g.Admin.ApproveRunner(ctx, admin.Approval{User: me.User, Code: code.UserCode})
			must(b, err)
		})
	must(b, err)
	cat, err := catalog.Open(catalog.Config{
		File: filepath.Join(dir, "providers.json"), Client: way, Ollama: "-", Log: log,
		Key: func(context.Context, string) (redact.Secret, error) { return redact.Secret{}, nil },
	})
	must(b, err)
	r, err := runner.New(runner.Config{Dir: dir, Credentials: vault, Client: way, Providers: runner.Catalog(cat), MaxSteps: steps, Version: "0", Log: log})
	must(b, err)
	go func() { ended <- r.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				b.Error(err)
			}
		}
		must(b, store.Close())
	})
	p := &product{url, key.Key, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}}}
	c := client{b, url, key.Key}
	eventually(b, 10*time.Second, "the runner is online", func() bool {
		_, body := c.do("GET", "/v1/host/runnerd/runners", nil)
		return strings.Contains(string(body), `"dispatchable":true`) && strings.Contains(string(body), got.RunnerID)
	})
	return p
}

// step starts a run and reads its stream to the end.
func (p *product) step(b *testing.B) {
	body := `{"workflowId":"chat","inputs":{"prompt":"` + strings.Repeat("x", 512) + `"},"configurable":{"ai.provider":"echo","model":"echo"}}`
	created := p.do(b, "POST", "/v1/runs", body)
	_, id, _ := strings.Cut(created, `"runId":"`)
	id, _, _ = strings.Cut(id, `"`)
	if events := p.do(b, "GET", "/v1/runs/"+id+"/events", ""); !strings.Contains(events, "run.completed") {
		b.Errorf("run %s: %s", id, events)
	}
}

func (p *product) do(b *testing.B, method, path, body string) string {
	req, err := http.NewRequestWithContext(context.Background(), method, p.url+path, strings.NewReader(body))
	must(b, err)
	req.Header.Set("Authorization", "Bearer "+p.key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := p.http.Do(req)
	must(b, err)
	defer func() { _ = res.Body.Close() }()
	out, err := io.ReadAll(res.Body)
	must(b, err)
	return string(out)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
		t.FailNow()
	}
}
