//go:build unix

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A command is one line of a block, with lines that go on joined.
type command struct {
	line int
	text string
}

// commands are the lines of a document that a reader would type.
func (d document) commands(t *testing.T) (all []command) {
	t.Helper()
	for _, b := range d.blocks() {
		switch b.language {
		case "sh":
		case "", "ini", "nginx":
			continue
		default:
			t.Errorf("%s:%d: blocks of %q are not known here", d.path, b.first, b.language)
			continue
		}
		joined := ""
		for i, line := range b.lines {
			if rest, more := strings.CutSuffix(line, `\`); more {
				joined += rest
				continue
			}
			if text := strings.TrimSpace(joined + line); text != "" && !strings.HasPrefix(text, "#") {
				all = append(all, command{b.first + i, text})
			}
			joined = ""
		}
	}
	return all
}

// Every command of the documents works as it stands, in order, on a machine where nothing was set up but what the document
// takes for granted: a gateway somewhere, ada who may sign in, and a paired laptop where it speaks of one. A command that is
// not known here fails, so that none goes untried.
func TestEveryCommandWorksAsItStands(t *testing.T) {
	for _, d := range documents(t) {
		if all := d.commands(t); len(all) > 0 && (d.path == "README.md" || strings.HasPrefix(d.path, "docs/")) {
			t.Run(strings.ReplaceAll(d.path, "/", "_"), func(t *testing.T) {
				t.Parallel()
				play(newWorld(t), all)
			})
		}
	}
}

func play(w *world, all []command) {
	w.t.Helper()
	first := func(pattern string) int {
		i := slices.IndexFunc(all, func(c command) bool { return regexp.MustCompile(pattern).MatchString(c.text) })
		if i < 0 {
			return len(all)
		}
		return i
	}
	serves, adds := first(`^gateway serve `), first(`^gateway user add ada`)
	pairs, uses := first(`^runnerd pair `), first(`^runnerd (run|status|pause|resume|drain|logout)|gateway runner revoke|/v1/runs`)
	if serves == len(all) && first(`^(gateway|runnerd|curl|export) `) < len(all) {
		w.start("exec gateway serve --listen "+strings.TrimPrefix(w.url, "http://"), w.work)
		w.until("a gateway", nil, w.answers)
		if adds == len(all) {
			w.run("gateway user add ada", "")
		}
	}
	if uses < pairs {
		w.settle(w.pair("exec runnerd pair " + w.url))
	}
	if uses < pairs && first(`^runnerd run`) == len(all) && first(`^runnerd (pause|status)|/v1/runs`) < len(all) {
		w.connect("runnerd run")
	}
	var pairing *job
	for i, c := range all {
		if w.t.Failed() {
			return
		}
		text := w.fill(c.text)
		switch head, _, _ := strings.Cut(text, " "); {
		case text == "go run ./cmd/gateway dev":
			w.dev(text)
		case regexp.MustCompile(`^(make bench |go test .*-bench)`).MatchString(text):
			checkBenchmark(w.t, text)
		case head == "make":
			isTarget(w.t, text)
		case strings.HasPrefix(text, "gateway serve "):
			w.start("exec "+text, w.work)
			w.until("a gateway", nil, w.answers)
			if adds == len(all) {
				w.run("gateway user add ada", "")
			}
		case strings.HasPrefix(text, "runnerd run"):
			w.connect(text)
		case strings.HasPrefix(text, "runnerd pair "):
			pairing = w.pair("exec " + text)
			if first(`^gateway runner approve `) < i || first(`^gateway runner approve `) == len(all) {
				w.settle(pairing)
			}
		case strings.HasPrefix(text, "gateway runner approve "):
			w.run(text, "")
			w.over(pairing)
		case strings.HasPrefix(text, "export "):
			w.export(text)
		case strings.HasPrefix(text, "runnerd credential set "):
			w.run(text, "a-key-for-the-documents\n")
		case head == "gateway", head == "runnerd", head == "curl", strings.HasPrefix(text, "go install ./cmd/"), strings.HasPrefix(text, "umask "):
			w.run(text, "")
		default:
			w.t.Fatalf("line %d: this command is not known here: %s", c.line, text)
		}
	}
}

// runnerID finds the runner that was paired last.
var runnerID = regexp.MustCompile(`(?m)^(rnr_\S+)`)

// fill puts this world's things where the document has examples.
func (w *world) fill(text string) string {
	w.t.Helper()
	text = strings.NewReplacer(
		"https://gateway.example.org", w.url, "127.0.0.1:8480", strings.TrimPrefix(w.url, "http://"),
		"/var/lib/runnerd-gateway", filepath.Join(w.home, ".local/share/runnerd-gateway"),
	).Replace(text)
	text = strings.Replace(text, " CODE", " "+w.code, 1)
	if strings.HasSuffix(text, " ID") {
		m := runnerID.FindStringSubmatch(w.run("gateway runner list", ""))
		if m == nil {
			w.t.Fatalf("%s: no runner is paired", text)
		}
		text = strings.TrimSuffix(text, "ID") + m[1]
	}
	if left := regexp.MustCompile(` (CODE|ID|NAME|FILE|URL|DIR|KEY)( |$)`).FindString(text); left != "" {
		w.t.Fatalf("%s: nothing is known to fill%s with", text, left)
	}
	return text
}

// connect runs the daemon until it is online.
func (w *world) connect(text string) {
	w.t.Helper()
	j := w.start("exec "+text, w.work)
	w.until("an online runner", j, func() bool { return strings.Contains(j.text(), `"msg":"connected"`) })
}

// export keeps a variable for the commands that follow; what it is made of is run once.
func (w *world) export(text string) {
	w.t.Helper()
	name, _, ok := strings.Cut(strings.TrimPrefix(text, "export "), "=")
	if !ok {
		w.t.Fatalf("%s: sets nothing", text)
	}
	value := w.run(text+`; printf %s "$`+name+`"`, "")
	if value == "" {
		w.t.Fatalf("%s: is empty", text)
	}
	w.env = append(w.env, name+"="+value)
}

// dev starts everything from the source, on a free port, and ends it with Ctrl-C.
func (w *world) dev(text string) {
	w.t.Helper()
	before := w.env
	w.env = append(slices.Clip(w.env), "GATEWAY_LISTEN=127.0.0.1:0")
	j := w.start("exec "+text, root)
	w.env = before
	w.until("a sign-in link", j, func() bool { return strings.Contains(j.text(), "Stop: Ctrl-C") })
	if !regexp.MustCompile(`(?m)^  http://127\.0\.0\.1:\d+/sign-in#\S+$`).MatchString(j.text()) {
		w.t.Errorf("%s printed no link: %s", text, j.text())
	}
	if err := syscall.Kill(-j.cmd.Process.Pid, syscall.SIGINT); err != nil {
		w.t.Fatal(err)
	}
	w.wait(j) // go itself ends with 1 after Ctrl-C, and says how the program ended if that was not well
	if strings.Contains(j.text(), "exit status") {
		w.t.Errorf("%s did not end well: %s", text, j.text())
	}
}

func isTarget(t *testing.T, text string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	target := strings.Fields(text + " help")[1]
	if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(b) {
		t.Errorf("%s: the Makefile has no %s", text, target)
	}
}

// What a text says in passing about the programs is true too: the command is there, and so are its flags.
func TestCommandsAndFlagsInTextAreThere(t *testing.T) {
	w := newWorld(t)
	helps := map[string]string{}
	help := func(path string) string {
		if _, ok := helps[path]; !ok {
			helps[path] = w.run(path+" --help", "")
		}
		return helps[path]
	}
	flag := regexp.MustCompile(`(--[a-z-]+)`)
	for _, d := range documents(t) {
		for i, line := range d.prose() {
			for _, span := range spans(line) {
				words := strings.Fields(span)
				if len(words) < 2 || words[0] != "gateway" && words[0] != "runnerd" {
					continue
				}
				path := words[0]
				for _, word := range words[1:] {
					if !regexp.MustCompile(`(?m)^  ` + strings.TrimPrefix(path+" "+word, words[0]+" ") + `( |$)`).MatchString(help(words[0])) {
						break
					}
					path += " " + word
				}
				if path == words[0] {
					t.Errorf("%s:%d: there is no `%s`", d.path, i+1, span)
					continue
				}
				for _, f := range flag.FindAllString(span, -1) {
					if !strings.Contains(help(path), f) {
						t.Errorf("%s:%d: `%s` has no flag %s", d.path, i+1, path, f)
					}
				}
			}
		}
	}
}
