//go:build linux

package runner_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnerd/internal/egress"
	"runnerd/runner"
)

// BenchmarkRoundTrip is a step from its offer to its acknowledged result through a real runner: loopback HTTP, permit,
// journal with both syncs; the gateway keeps its books in memory. BenchmarkStep of package journal is the share of the disk.
func BenchmarkRoundTrip(b *testing.B) {
	for _, lanes := range []int{1, 16} {
		b.Run(fmt.Sprint("steps=", lanes), func(b *testing.B) {
			g, stop := benchRunner(b, lanes)
			defer stop()
			next := 0
			open := map[string]bool{}
			b.ReportAllocs()
			for b.Loop() {
				for len(open) < lanes {
					name := "s" + strconv.Itoa(next)
					next++
					open[name] = true
					g.offer(name)
				}
				waitDone(g, open)
			}
			b.ReportMetric(float64(next-len(open))/b.Elapsed().Seconds(), "steps/s")
		})
	}
}

// waitDone waits for the gateway's books to have a result, and takes what is done off the list.
func waitDone(g *gateway, open map[string]bool) {
	for {
		g.mu.Lock()
		wake := g.wake
		n := len(open)
		for name := range open {
			if g.steps[name].state == "done" {
				delete(open, name)
				delete(g.steps, name)
			}
		}
		g.mu.Unlock()
		if len(open) < n {
			return
		}
		<-wake
	}
}

func benchRunner(b *testing.B, lanes int) (*gateway, func()) {
	b.Helper()
	g := newGateway(b)
	server := httptest.NewServer(g)
	dir := filepath.Join(b.TempDir(), "data")
	writeIdentity(b, dir, server.URL)
	r, err := runner.New(runner.Config{
		Dir: dir, Credentials: newStore(), Client: egress.Configured(egress.Options{HTTP1: true}), Providers: &backend{}, MaxSteps: lanes,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	for get(g, func() int { return g.streams }) == 0 {
		time.Sleep(time.Millisecond)
	}
	return g, func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
	}
}

// BenchmarkIdle is what a runner costs that has nothing to do (P7): a real process, connected, observed for ten seconds.
// Targets: at most 20 MB resident, 10 ms of CPU and 30 wake-ups a minute.
func BenchmarkIdle(b *testing.B) {
	program := buildCrashRunner(b)
	for b.Loop() {
		p := newProcess(b, program)
		p.start("")
		p.until("connected", func() bool { return get(p.gateway, func() bool { return p.gateway.streams > 0 }) })
		time.Sleep(2 * time.Second)
		before := statusOf(b, p.cmd.Process.Pid)
		const watch = 10 * time.Second
		time.Sleep(watch)
		after := statusOf(b, p.cmd.Process.Pid)
		b.ReportMetric(after["VmRSS"]/1024, "MB-resident")
		b.ReportMetric(after["RssAnon"]/1024, "MB-private")
		b.ReportMetric((after["cpu"]-before["cpu"])*float64(time.Minute/watch), "cpu-ms/min")
		b.ReportMetric((after["voluntary_ctxt_switches"]-before["voluntary_ctxt_switches"])*float64(time.Minute/watch), "wake-ups/min")
		if err := p.kill(syscall.SIGTERM); err != nil {
			b.Error(err)
		}
	}
}

// statusOf reads what the kernel counts for a process: kB, milliseconds, and context switches of all its threads.
func statusOf(b *testing.B, pid int) map[string]float64 {
	b.Helper()
	m := map[string]float64{}
	add := func(file string, only string) {
		text, err := os.ReadFile(file)
		if err != nil {
			return // a thread that has just ended
		}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			n, err := strconv.ParseFloat(strings.Fields(value + " x")[0], 64)
			if err == nil && (only == "" || name == only) {
				m[name] += n
			}
		}
	}
	add(fmt.Sprintf("/proc/%d/status", pid), "")
	m["voluntary_ctxt_switches"] = 0
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, t := range threads {
		add(fmt.Sprintf("/proc/%d/task/%s/status", pid, t.Name()), "voluntary_ctxt_switches")
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	m["cpu"] = (user + system) * 10 // USER_HZ is 100
	return m
}
