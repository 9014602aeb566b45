package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"runnerd/gateway/admin"
	"runnerd/internal/clitest"
	"runnerd/internal/redact"
	"runnerd/internal/wire"
	"runnerd/keyring"
)

func TestMain(m *testing.M) { clitest.Main(m, map[string]func(){"runnerd": main}) }

// A script has a gateway of its own at $GATEWAY, where ada may sign in, and an empty encrypted credential store in r, which
// opens quickly. It has commands of its own: approve CODE, as ada; revoke ID; leave and come, for the gateway; and chat
// PROMPT, which starts a run of ada's and waits for its answer.
func TestCommandLine(t *testing.T) {
	clitest.Run(t, prepare, map[string]clitest.Command{
		"approve": func(ts *testscript.TestScript, neg bool, args []string) {
			_, err := hostOf(ts).gateway.Admin.ApproveRunner(t.Context(), admin.Approval{User: "ada", Code: one(ts, neg, args)})
			ts.Check(err)
		},
		"revoke": func(ts *testscript.TestScript, neg bool, args []string) {
			_, err := hostOf(ts).gateway.Admin.RevokeRunner(t.Context(), admin.IDRef{ID: one(ts, neg, args)})
			ts.Check(err)
		},
		"leave": func(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(hostOf(ts).leave()) },
		"come":  func(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(hostOf(ts).come()) },
		"chat":  func(ts *testscript.TestScript, neg bool, args []string) { hostOf(ts).chat(ts, one(ts, neg, args)) },
	})
}

func one(ts *testscript.TestScript, neg bool, args []string) string {
	if neg || len(args) != 1 {
		ts.Fatalf("takes one argument")
	}
	return args[0]
}

const words = "correct horse battery staple"

func prepare(e *testscript.Env) error {
	file := filepath.Join(e.WorkDir, "passphrase")
	e.Setenv("RUNNERD_PASSPHRASE_FILE", file)
	if err := os.WriteFile(file, []byte(words+"\n"), 0o600); err != nil {
		return err
	}
	_, err := keyring.OpenFile(e.T().(testing.TB).Context(), keyring.FileConfig{
		Folder: filepath.Join(e.WorkDir, "r", "credentials"), Passphrase: redact.New(words), WorkFactor: 8,
	})
	if err != nil {
		return err
	}
	h, err := newHost(e)
	if err != nil {
		return err
	}
	e.Values[hostKey{}] = h
	e.Setenv("GATEWAY", h.url)
	return nil
}

// Every command has a help text, which says what it is for, and completion knows it.
func TestEveryCommandExplainsItself(t *testing.T) {
	call := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		w := &world{getenv: func(string) string { return "" }, stdin: strings.NewReader(""), stderr: &errs}
		if code := run(t.Context(), args, w, &out); code != 0 || errs.Len() > 0 {
			t.Errorf("runnerd %s: %d %s", strings.Join(args, " "), code, errs.String())
		}
		return out.String()
	}
	_, list, _ := strings.Cut(call("--help"), "Commands:\n")
	completion, commands := call("completion", "bash"), 0
	for _, m := range regexp.MustCompile(`(?m)^  (\S+(?: \S+)*)  +(\S.*)$`).FindAllStringSubmatch(list, -1) {
		commands++
		if help := call(append(strings.Fields(m[1]), "--help")...); !strings.Contains(help, m[2]) || !strings.Contains(help, "--json") {
			t.Errorf("runnerd %s --help: %s", m[1], help)
		}
		if !strings.Contains(completion, "'"+m[1]+"')") {
			t.Errorf("completion does not know %s", m[1])
		}
	}
	if commands < 16 {
		t.Errorf("help lists %d commands: %s", commands, list)
	}
}

// chat runs the built-in workflow and compares its answer with the prompt, which is what echo gives.
func (h *host) chat(ts *testscript.TestScript, prompt string) {
	ask := func(method, path string, in, out any) {
		var body bytes.Buffer
		if in != nil {
			ts.Check(json.NewEncoder(&body).Encode(in))
		}
		req, err := http.NewRequest(method, h.url+path, &body)
		ts.Check(err)
		req.Header.Set("Authorization", "Bearer "+h.key)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		ts.Check(err)
		defer res.Body.Close()
		ts.Check(json.NewDecoder(res.Body).Decode(out))
	}
	var created struct{ RunID string }
	ask(http.MethodPost, "/v1/runs", map[string]any{"workflowId": "chat", "inputs": map[string]any{"prompt": prompt}}, &created)
	for last := -1; ; {
		var page struct {
			Events []struct {
				Type     string
				Sequence int
				Payload  struct{ Outputs struct{ Text string } }
			}
			IsComplete bool
		}
		ask(http.MethodGet, "/v1/runs/"+created.RunID+"/events/poll?timeout=20&lastSequence="+number(last), nil, &page)
		for _, e := range page.Events {
			last = e.Sequence
			if e.Type == "node.completed" && e.Payload.Outputs.Text == prompt {
				return
			}
			if strings.HasPrefix(e.Type, "run.") && e.Type != "run.started" && e.Type != "run.created" {
				ts.Fatalf("run %s: %s", created.RunID, e.Type)
			}
		}
		if len(page.Events) == 0 {
			var steps, runners any
			ask(http.MethodGet, wire.Prefix+"/runs/"+created.RunID+"/steps", nil, &steps)
			ask(http.MethodGet, wire.Prefix+"/runners", nil, &runners)
			ts.Fatalf("run %s: nothing happened after %d: %v of %v", created.RunID, last, steps, runners)
		}
	}
}
