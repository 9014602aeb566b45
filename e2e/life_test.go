package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnerd/e2e/vendor"
)

func TestDevStartsFromNothingAndFindsItsDataAgain(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	flows := filepath.Join(home, "flows")
	if err := os.Mkdir(flows, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(flows, "two.json"), []byte(`{"id":"two","name":"Two","version":"1.0",
		"nodes":[{"id":"a","typeId":"core.identity","name":"A","position":{"x":0,"y":0},"config":{},"inputs":{"x":{"type":"variable","variableName":"x"}}},
		         {"id":"b","typeId":"core.noop","name":"B","position":{"x":0,"y":0},"config":{},"inputs":{}}],
		"edges":[{"id":"ab","sourceNodeId":"a","targetNodeId":"b"}],
		"triggers":[],"variables":[{"name":"x","type":"number","required":true}],"settings":{},"metadata":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := func() (*proc, client) {
		p := start(t, env(home), "gateway", "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(home, "d"), "--no-open", "--workflows", flows, "--json")
		var r struct{ URL, SignInLink, APIKey, DataDir string }
		p.line(&r)
		if r.DataDir != filepath.Join(home, "d") || !strings.HasPrefix(r.SignInLink, r.URL+"/sign-in#") {
			t.Fatalf("dev printed %+v", r)
		}
		return p, client{t, r.URL, r.APIKey}
	}
	p, c := begin()
	id := c.chat("hello there", nil)
	if s := c.end(id, 20*time.Second); s.Status != "completed" {
		t.Fatalf("%+v", s)
	}
	if got := c.text(id); got != "hello there" {
		t.Errorf("echo said %q", got)
	}
	status, body := c.do("POST", "/v1/runs", object{"workflowId": "two", "inputs": object{"x": 7}})
	var run struct{ RunID string }
	if err := json.Unmarshal(body, &run); status != 201 || err != nil {
		t.Fatalf("%d %s", status, body)
	}
	if s := c.end(run.RunID, 10*time.Second); s.Status != "completed" {
		t.Errorf("%+v", s)
	}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(20 * time.Second); code != 0 {
		t.Errorf("Ctrl-C ended with %d", code)
	}
	_, c = begin()
	if got := c.text(id); got != "hello there" {
		t.Errorf("after the second start the run says %q", got)
	}
	if id := c.chat("again", nil); c.end(id, 20*time.Second).Status != "completed" {
		t.Error("the second start serves no runs")
	}
	var list struct{ Runners []object }
	if c.get("/v1/host/runnerd/runners", &list); len(list.Runners) != 1 {
		t.Errorf("%d runners after two starts, want the same one", len(list.Runners))
	}
}

func TestPairRunAndLogoutAsSeparateProcesses(t *testing.T) {
	t.Parallel()
	v := vendor.New()
	t.Cleanup(v.Close)
	w := serve(t)
	ada := w.person("ada")
	l := newLaptop(t)
	l.pair(ada, "")
	l.api(v, "key-of-ada-000000")
	l.run()
	ada.presence(l.id, "online", 20*time.Second)
	id := ada.chat("say hello from the laptop", object{"ai.provider": "fake"})
	if s := ada.end(id, 20*time.Second); s.Status != "completed" {
		t.Fatalf("%+v", s)
	}
	if got := ada.text(id); got != "hello from the laptop" {
		t.Errorf("text %q", got)
	}
	var status struct{ State, RunnerID string }
	call(t, l.env, "", &status, "runnerd", "status", "--json", "--data", l.dir)
	if status.RunnerID != l.id {
		t.Errorf("status %+v", status)
	}
	if code := l.proc.stop(); code != 0 {
		t.Errorf("runnerd ended with %d", code)
	}
	ada.presence(l.id, "disconnected", 10*time.Second)
	call(t, l.env, "", nil, "runnerd", "logout", "--json", "--data", l.dir)
	l.run()
	if code := l.proc.wait(30 * time.Second); code == 0 {
		t.Error("runnerd runs after logout")
	}
	if v.Turns("say hello") != 1 {
		t.Errorf("%d turns", v.Turns("say hello"))
	}
}

func TestI5_T01_AStepIsNeverOfferedToAnotherPersonsRunner(t *testing.T) {
	t.Parallel()
	v := vendor.New()
	t.Cleanup(v.Close)
	w := serve(t)
	ada, bob := w.person("ada"), w.person("bob")
	la, lb := newLaptop(t), newLaptop(t)
	la.pair(ada, "")
	lb.pair(bob, "")
	la.api(v, "key-of-ada-000000")
	lb.api(v, "key-of-bob-000000")
	la.run()
	lb.run()
	ada.presence(la.id, "online", 20*time.Second)
	bob.presence(lb.id, "online", 20*time.Second)
	la.proc.kill()
	ada.presence(la.id, "disconnected", 10*time.Second)

	id := ada.chat("say for ada only", object{"ai.provider": "fake", "runner.waitMs": 1500})
	named := ada.chat("say for ada only", object{"ai.provider": "fake", "runner.waitMs": 1500, "runner.id": lb.id})
	for _, id := range []string{id, named} {
		s := ada.end(id, 15*time.Second)
		if s.Status != "failed" || s.Error == nil || s.Error.Code != "runner_unavailable" {
			t.Errorf("%+v, want runner_unavailable", s)
		}
		if status, body := bob.do("GET", "/v1/runs/"+id, nil); status != 404 {
			t.Errorf("bob reads ada's run: %d %s", status, body)
		}
	}
	if n := v.Turns("for ada only"); n != 0 {
		t.Errorf("bob's runner asked %d times for ada", n)
	}
	if id := bob.chat("say for bob", object{"ai.provider": "fake"}); bob.end(id, 20*time.Second).Status != "completed" {
		t.Error("bob's own run failed")
	}
}

func TestKillNineInTheMiddleEndsUnknownAndIsNeverRunAgain(t *testing.T) {
	t.Parallel()
	v := vendor.New()
	t.Cleanup(v.Close)
	w := serve(t)
	ada := w.person("ada")
	l := newLaptop(t)
	l.pair(ada, "")
	l.api(v, "key-of-ada-000000")
	l.run()
	ada.presence(l.id, "online", 20*time.Second)
	id := ada.chat("say a b c d e f g h\nslow 1000", object{"ai.provider": "fake"})
	eventually(t, 20*time.Second, "the turn begins", func() bool { return v.Turns("slow 1000") == 1 })
	l.proc.kill()
	l.run()
	s := ada.end(id, 30*time.Second)
	if s.Status != "failed" || s.Error.Code != "runner_unavailable" {
		t.Errorf("%+v", s)
	}
	for _, e := range ada.events(id) {
		if e.Type == "node.failed" && e.Payload.Error.Details["outcome"] != "unknown" {
			t.Errorf("details %v, want outcome unknown", e.Payload.Error.Details)
		}
	}
	if id := ada.chat("say afterwards", object{"ai.provider": "fake"}); ada.end(id, 20*time.Second).Status != "completed" {
		t.Error("the restarted runner serves nothing")
	}
	if n := v.Turns("slow 1000"); n != 1 {
		t.Errorf("%d turns for one step", n)
	}
}

func TestCancelReachesTheRunnerAtOnce(t *testing.T) {
	t.Parallel()
	v := vendor.New()
	t.Cleanup(v.Close)
	w := serve(t)
	ada := w.person("ada")
	l := newLaptop(t)
	l.pair(ada, "")
	l.api(v, "key-of-ada-000000")
	l.run()
	ada.presence(l.id, "online", 20*time.Second)
	id := ada.chat("say a b\nhang", object{"ai.provider": "fake"})
	eventually(t, 20*time.Second, "the turn begins", func() bool { return v.Turns("hang") == 1 })
	if status, body := ada.do("POST", "/v1/runs/"+id+"/cancel", object{}); status != 200 {
		t.Fatalf("cancel: %d %s", status, body)
	}
	if s := ada.run(id); s.Status != "cancelled" {
		t.Errorf("right after the cancel the run is %s", s.Status)
	}
	eventually(t, 5*time.Second, "the runner holds nothing", func() bool {
		var status struct{ Steps []object }
		call(t, l.env, "", &status, "runnerd", "status", "--json", "--data", l.dir)
		return len(status.Steps) == 0
	})
}
