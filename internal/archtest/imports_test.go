package archtest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers says what each top folder may import of the module. What is not listed here may import nothing of it.
var layers = map[string][]string{
	"cmd":        {"cmd", "runner", "gateway", "tray", "keyring", "internal"},
	"runner":     {"runner", "internal"},
	"gateway":    {"gateway", "internal"},
	"tray":       {"tray", "internal"},
	"keyring":    {"keyring", "internal"},
	"installers": {"installers", "internal"},
	"internal":   {"internal"},
	"docs":       {"docs", "keyring", "internal"},
	"e2e":        {"e2e", "cmd", "runner", "gateway", "tray", "keyring", "internal"},
}

// twins are named by cmd/gateway alone, and by tests.
var twins = []string{"gateway/store/sqlite", "gateway/store/postgres", "gateway/bus/membus", "gateway/bus/natsbus"}

// owners says which folders may import an outside library. A library that is not listed is free.
var owners = map[string][]string{
	"code.dny.dev/ssrf":                     {"internal/egress"},
	"filippo.io/age":                        {"keyring"},
	"fyne.io/systray":                       {"tray"},
	"github.com/expr-lang/expr":             {"gateway/engine"},
	"github.com/jackc/pgx":                  {"gateway/store/postgres"},
	"github.com/kardianos/service":          {"cmd/runnerd"},
	"github.com/mdp/qrterminal":             {"cmd", "internal/cli"},
	"github.com/microcosm-cc/bluemonday":    {"gateway/page"},
	"github.com/nats-io":                    {"gateway/bus/natsbus"},
	"github.com/pressly/goose":              {"gateway/store/sqlite", "gateway/store/postgres"},
	"github.com/santhosh-tekuri/jsonschema": {"internal/schema"},
	"github.com/tmaxmax/go-sse":             {"internal/sse"},
	"github.com/yuin/goldmark":              {"gateway/page"},
	"github.com/zalando/go-keyring":         {"keyring"},
	"golang.org/x/net/publicsuffix":         {"internal/egress"},
	"modernc.org/sqlite":                    {"gateway/store/sqlite"},
	"rsc.io/qr":                             {"cmd", "internal/cli", "gateway/page"},
}

// testOnly are libraries that no program holds.
var testOnly = []string{
	"github.com/anishathalye/porcupine", "github.com/chromedp", "github.com/google/go-cmp", "github.com/nats-io/nats-server",
	"github.com/rogpeppe/go-internal", "github.com/tmaxmax/go-sse", "github.com/zitadel/oidc", "go.uber.org/goleak",
	"pgregory.net/rapid", "testing",
}

func TestImports(t *testing.T) { apply(t, strayImports) }

func strayImports(s source) (found []finding) {
	for _, imp := range s.Imports {
		p, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			continue
		}
		if to, ok := strings.CutPrefix(p, module+"/"); ok {
			if why := strayInside(s, to); why != "" {
				found = append(found, s.at(imp, "imports %s: %s", to, why))
			}
			continue
		}
		if !s.support() && slices.ContainsFunc(testOnly, func(lib string) bool { return under(p, lib) }) {
			found = append(found, s.at(imp, "imports %s, which is for tests", p))
		}
		for lib, dirs := range owners {
			if under(p, lib) && !s.within(dirs...) && !(s.test && slices.Contains(testOnly, lib)) {
				found = append(found, s.at(imp, "imports %s, which belongs to %s", p, strings.Join(dirs, ", ")))
			}
		}
	}
	return found
}

// strayInside says why a file may not import a package of the module, or "".
func strayInside(s source, to string) string {
	top := func(dir string) string { first, _, _ := strings.Cut(dir, "/"); return first }
	switch {
	case isSupport(to) && !s.support():
		return "it is for tests"
	case s.test && top(to) == "e2e": // its servers serve all tests
		return ""
	case slices.Contains(twins, to) && s.dir != "cmd/gateway" && s.dir != to && !s.support():
		return "only cmd/gateway names the twins"
	case !slices.Contains(layers[top(s.dir)], top(to)):
		return top(s.dir) + " may not see " + top(to)
	}
	return ""
}

func under(p, lib string) bool { return p == lib || strings.HasPrefix(p, lib+"/") }
