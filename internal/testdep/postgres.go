package testdep

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A Postgres is a private PostgreSQL server, which starts when a test first asks for a database. Its zero value is ready; a
// test binary has one, in a variable of its tests. It listens on a socket in a folder of its own, and ends with the process
// that started it, however that ends.
type Postgres struct {
	// Durable has commits reach the disk, for benchmarks. Without it a test is quicker, and only a crash of the machine
	// would show.
	Durable bool

	once   sync.Once
	bin    string // folder of its programs
	socket string // folder of its socket
	err    error
	hold   io.Closer // the server stays until this is closed, which the end of this process does
	count  atomic.Int64
}

// URL names a database of the server, after it was started.
func (p *Postgres) URL(t testing.TB, database string) string {
	t.Helper()
	p.once.Do(func() {
		p.bin = postgresPrograms()
		if p.bin != "" {
			p.err = p.start()
		}
	})
	if p.bin == "" {
		Missing(t, "PostgreSQL (Debian package postgresql)")
	}
	if p.err != nil {
		t.Fatalf("start PostgreSQL: %v", p.err)
	}
	return "postgres:///" + database + "?" + url.Values{"host": {p.socket}, "user": {"postgres"}}.Encode()
}

// Database gives the URL of an empty database of the test's own.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	p.URL(t, "")
	name := fmt.Sprintf("test%d", p.count.Add(1))
	run := func(program string, arg ...string) {
		cmd := exec.Command(filepath.Join(p.bin, program), append(arg, "-h", p.socket, "-U", "postgres", name)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
	}
	run("createdb")
	t.Cleanup(func() { run("dropdb", "--force") })
	return p.URL(t, name)
}

// Programs is the folder of the server's programs.
func (p *Postgres) Programs() string { return p.bin }

// postgresPrograms finds the folder that initdb and the rest lie in: that of the newest version there is.
func postgresPrograms() string {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // as Debian installs them, off PATH
	if err == nil && len(found) > 0 {
		newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
		return filepath.Dir(newest)
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return ""
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return ""
	}
	return filepath.Dir(path)
}

func version(initdb string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	if err != nil {
		return 0
	}
	return n
}

// script makes a cluster, serves it until its input ends, and leaves nothing behind.
const script = `
trap : INT TERM
trap 'rm -rf "$2"' EXIT
"$1/initdb" -D "$2/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$2/log" 2>&1 &&
"$1/pg_ctl" -D "$2/data" -l "$2/log" -s -w -o "-k '$2' -c listen_addresses= -c max_connections=200 $3" start >>"$2/log" 2>&1 || { cat "$2/log"; exit 1; }
echo ready
cat >/dev/null
"$1/pg_ctl" -D "$2/data" -s -m immediate stop >/dev/null 2>&1
`

func (p *Postgres) start() error {
	dir, err := os.MkdirTemp("", "pg") // not the test's: its path may be too long for a socket
	if err != nil {
		return err
	}
	settings := "-c fsync=off -c full_page_writes=off -c autovacuum=off"
	if p.Durable {
		settings = ""
	}
	args := []string{"sh", "-c", script, "sh", p.bin, dir, settings}
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root
		who, err := nobody()
		if err != nil {
			return err
		}
		uid, _ := strconv.Atoi(who.Uid) // numbers, on the systems that have a root
		gid, _ := strconv.Atoi(who.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			return err
		}
		args = append([]string{"setpriv", "--reuid", who.Uid, "--regid", who.Gid, "--clear-groups"}, args...)
	}
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Dir = "/" // where anybody may be
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	said, err := bufio.NewReader(stdout).ReadString('\n')
	if said != "ready\n" {
		rest, _ := io.ReadAll(stdout)
		return fmt.Errorf("%w: %s%s", cmd.Wait(), said, rest)
	}
	p.socket, p.hold = dir, stdin
	return err
}

// nobody is a user who is not root.
func nobody() (*user.User, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err == nil && strings.TrimLeft(u.Uid, "0") == "" {
		err = fmt.Errorf("user %s is root", u.Username)
	}
	return u, err
}
