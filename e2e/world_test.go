package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runnerd/e2e/vendor"
)

// A world is a gateway and what belongs to it, as separate processes.
type world struct {
	t      testing.TB
	dir    string
	url    string
	listen string
	proc   *proc
	env    []string
}

// serve starts `gateway serve`. restart starts it again on the same address and data.
func serve(t testing.TB, more ...string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), listen: "127.0.0.1:0", env: env(t.TempDir(), more...)}
	w.restart()
	return w
}

func (w *world) restart(more ...string) {
	w.t.Helper()
	w.proc = start(w.t, append(append([]string{}, w.env...), more...), "gateway", "serve", "--json", "--listen", w.listen, "--data", filepath.Join(w.dir, "gateway"))
	var r struct{ URL string }
	w.proc.line(&r)
	if w.url == "" { // a restart keeps the address, which others read
		w.url, w.listen = r.URL, strings.TrimPrefix(r.URL, "http://")
	}
}

// A person has a subject and a key.
type person struct {
	client
	w       *world
	name    string
	subject string
	link    string
}

func (w *world) admin(into any, args ...string) {
	w.t.Helper()
	call(w.t, w.env, "", into, "gateway", append(args, "--json", "--data", filepath.Join(w.dir, "gateway"))...)
}

func (w *world) person(name string) *person {
	w.t.Helper()
	var u struct{ User, Subject, SignInLink string }
	w.admin(&u, "user", "add", name)
	var k struct{ Key string }
	w.admin(&k, "key", "create", "--user", name)
	return &person{client{w.t, w.url, k.Key}, w, name, u.Subject, u.SignInLink}
}

// A laptop is one installation of runnerd.
type laptop struct {
	t    testing.TB
	kind string // of credential store
	dir  string
	home string
	env  []string
	id   string
	proc *proc
}

// newLaptop makes the folder of an installation whose credentials are in an encrypted file.
func newLaptop(t testing.TB, more ...string) *laptop {
	t.Helper()
	home := t.TempDir()
	pass := filepath.Join(home, "passphrase")
	if err := os.WriteFile(pass, []byte("correct horse battery staple\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &laptop{t: t, kind: "file", dir: filepath.Join(home, "runner"), home: home}
	l.env = env(home, append([]string{"RUNNERD_PASSPHRASE_FILE=" + pass}, more...)...)
	return l
}

// pair pairs it with a person by device code, at the address given or the gateway's own.
func (l *laptop) pair(p *person, at string) {
	l.t.Helper()
	if at == "" {
		at = p.w.url
	}
	pairing := start(l.t, l.env, "runnerd", "pair", at, "--json", "--data", l.dir, "--credential-store", l.kind)
	var code struct{ UserCode, VerificationURI, VerificationURIComplete string }
	pairing.line(&code)
	if code.UserCode == "" || !strings.Contains(code.VerificationURIComplete, code.UserCode) {
		l.t.Fatalf("pair printed %+v", code)
	}
	p.w.admin(nil, "runner", "approve", code.UserCode, "--user", p.name)
	var got struct{ RunnerID, Subject string }
	pairing.line(&got)
	if got.Subject != p.subject || got.RunnerID == "" {
		l.t.Fatalf("paired as %+v, want subject %s", got, p.subject)
	}
	l.id = got.RunnerID
	if code := pairing.wait(10 * time.Second); code != 0 {
		l.t.Fatalf("pair ended with %d", code)
	}
}

// run starts the daemon.
func (l *laptop) run(more ...string) {
	l.t.Helper()
	l.proc = start(l.t, append(append([]string{}, l.env...), more...), "runnerd", "run", "--data", l.dir)
}

// with configures a provider.
func (l *laptop) with(args ...string) {
	l.t.Helper()
	call(l.t, l.env, "", nil, "runnerd", append(append([]string{"provider", "enable"}, args...), "--data", l.dir)...)
}

// api serves the provider "fake" from the stand-in, with a key.
func (l *laptop) api(v *vendor.Server, key string) {
	l.t.Helper()
	call(l.t, l.env, key+"\n", nil, "runnerd", "credential", "set", "fake", "--data", l.dir, "--credential-store", l.kind)
	l.with("fake", "--backend", "openai-compatible", "--base-url", v.URL+"/v1", "--model", "fake-small", "--credential-store", l.kind)
}

// online waits until the person's page shows the runner so.
func (p *person) presence(id, want string, within time.Duration) {
	p.t.Helper()
	eventually(p.t, within, "runner "+id+" is "+want, func() bool {
		var list struct {
			Runners []struct{ ID, Presence string }
		}
		p.get("/v1/host/runnerd/runners", &list)
		for _, r := range list.Runners {
			if r.ID == id {
				return r.Presence == want
			}
		}
		return false
	})
}
