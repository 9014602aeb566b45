package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"runnerd/internal/clitest"
	"runnerd/internal/testdep"
	"runnerd/internal/wire"
)

func TestMain(m *testing.M) { clitest.Main(m, map[string]func(){"gateway": main}) }

// Scripts have commands of their own: knock URL ENV asks for a pairing as a runner would and keeps the user code, get URL KEY
// PATTERN reads a document of the API, and database ENV makes an empty PostgreSQL database and keeps its URL.
func TestCommandLine(t *testing.T) {
	clitest.Run(t, remember, map[string]clitest.Command{"knock": knock, "get": get, "database": database})
}

// server makes the databases of all scripts.
var server testdep.Postgres

type testKey struct{}

func remember(e *testscript.Env) error {
	e.Values[testKey{}] = e.T()
	return nil
}

func database(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: database ENV")
	}
	ts.Setenv(args[0], server.Database(ts.Value(testKey{}).(testing.TB)))
}

func knock(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: knock URL ENV")
	}
	body, err := json.Marshal(wire.PairingRequest{Name: "ada's laptop", Platform: "linux/amd64", Version: "1"})
	ts.Check(err)
	res, err := http.Post(args[0]+wire.Prefix+"/pairings", "application/json", bytes.NewReader(body))
	ts.Check(err)
	defer res.Body.Close()
	var code wire.PairingReply
	ts.Check(json.NewDecoder(res.Body).Decode(&code))
	if res.StatusCode != http.StatusCreated || code.UserCode == "" {
		ts.Fatalf("the gateway answered %s", res.Status)
	}
	ts.Setenv(args[1], code.UserCode)
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: get URL KEY PATTERN")
	}
	req, err := http.NewRequest(http.MethodGet, args[0], nil)
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+args[1])
	res, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer res.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(res.Body)
	ts.Check(err)
	found := res.StatusCode == http.StatusOK && regexp.MustCompile(args[2]).Match(text.Bytes())
	if found == neg {
		ts.Fatalf("%s: %s %s", args[0], res.Status, text.Bytes())
	}
}

// Every command has a help text, which says what it is for, and completion knows it.
func TestEveryCommandExplainsItself(t *testing.T) {
	w := func(errs *bytes.Buffer) *world {
		return &world{getenv: func(string) string { return "" }, stderr: errs}
	}
	call := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, w(&errs), &out); code != 0 || errs.Len() > 0 {
			t.Errorf("gateway %s: %d %s", strings.Join(args, " "), code, errs.String())
		}
		return out.String()
	}
	_, list, _ := strings.Cut(call("--help"), "Commands:\n")
	completion, commands := call("completion", "bash"), 0
	for _, m := range regexp.MustCompile(`(?m)^  (\S+(?: \S+)*)  +(\S.*)$`).FindAllStringSubmatch(list, -1) {
		commands++
		if help := call(append(strings.Fields(m[1]), "--help")...); !strings.Contains(help, m[2]) || !strings.Contains(help, "--json") {
			t.Errorf("gateway %s --help: %s", m[1], help)
		}
		if !strings.Contains(completion, "'"+m[1]+"')") {
			t.Errorf("completion does not know %s", m[1])
		}
	}
	if commands < 16 {
		t.Errorf("help lists %d commands: %s", commands, list)
	}
}
