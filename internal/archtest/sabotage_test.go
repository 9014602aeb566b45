package archtest

import (
	"strings"
	"testing"
)

// Each row is a file that breaks one rule, or comes close and breaks none.
func TestRulesFindWhatTheyForbid(t *testing.T) {
	for name, tt := range map[string]struct {
		rule rule
		path string
		text string
		want string // in the finding; "" for none
	}{
		"runner sees gateway":          {strayImports, "runner/a.go", `package p; import _ "runnerd/gateway/store"`, "runner may not see gateway"},
		"gateway sees runner":          {strayImports, "gateway/api/a.go", `package p; import _ "runnerd/runner"`, "gateway may not see runner"},
		"gateway sees keyring":         {strayImports, "gateway/api/a.go", `package p; import _ "runnerd/keyring"`, "gateway may not see keyring"},
		"internal sees runner":         {strayImports, "internal/wire/a.go", `package p; import _ "runnerd/runner/step"`, "internal may not see runner"},
		"a test sees across":           {strayImports, "runner/a_test.go", `package p; import _ "runnerd/gateway"`, "runner may not see gateway"},
		"unknown folder":               {strayImports, "extra/a.go", `package p; import _ "runnerd/internal/wire"`, "extra may not see internal"},
		"cmd sees all":                 {strayImports, "cmd/gateway/a.go", `package p; import (_ "runnerd/runner"; _ "runnerd/gateway"; _ "runnerd/gateway/store/sqlite")`, ""},
		"store names a twin":           {strayImports, "gateway/store/a.go", `package p; import _ "runnerd/gateway/store/sqlite"`, "names the twins"},
		"a test names a twin":          {strayImports, "gateway/run/a_test.go", `package p; import _ "runnerd/gateway/store/sqlite"`, ""},
		"program holds a suite":        {strayImports, "gateway/a.go", `package p; import _ "runnerd/gateway/store/storetest"`, "it is for tests"},
		"program holds a test library": {strayImports, "gateway/a.go", `package p; import _ "github.com/google/go-cmp/cmp"`, "which is for tests"},
		"a suite holds a test library": {strayImports, "gateway/store/storetest/a.go", `package p; import _ "pgregory.net/rapid"`, ""},
		"library of another":           {strayImports, "gateway/a.go", `package p; import _ "github.com/zalando/go-keyring"`, "belongs to keyring"},
		"subpackage of another's":      {strayImports, "runner/a.go", `package p; import _ "github.com/jackc/pgx/v5/pgxpool"`, "belongs to gateway/store/postgres"},
		"library of its owner":         {strayImports, "keyring/a.go", `package p; import _ "filippo.io/age"`, ""},

		"init":                 {inits, "a/a.go", `package p; func init() {}`, "init"},
		"method named init":    {inits, "a/a.go", `package p; type t int; func (t) init() {}`, ""},
		"exit":                 {exits, "a/a.go", `package p; import "os"; func f() { os.Exit(1) }`, "outside of main"},
		"exit beside main":     {exits, "cmd/x/a.go", `package main; import "os"; func f() { os.Exit(1) }`, "outside of main"},
		"exit renamed":         {exits, "a/a.go", `package p; import sys "os"; var f = func() { sys.Exit(1) }`, "outside of main"},
		"fatal":                {exits, "a/a.go", `package p; import "log"; func f() { log.Fatal() }`, "outside of main"},
		"exit in main":         {exits, "cmd/x/main.go", `package main; import "os"; func main() { os.Exit(1) }`, ""},
		"another's Exit":       {exits, "a/a.go", `package p; func f(os interface{ Exit(int) }) { os.Exit(1) }`, ""},
		"slog.Info":            {defaultLoggers, "a/a.go", `package p; import "log/slog"; func f() { slog.Info("x") }`, "default logger"},
		"slog.Default":         {defaultLoggers, "a/a.go", `package p; import "log/slog"; var l = slog.Default()`, "default logger"},
		"log.Println":          {defaultLoggers, "a/a.go", `package p; import "log"; func f() { log.Println("x") }`, "default logger"},
		"a logger's Info":      {defaultLoggers, "a/a.go", `package p; import "log/slog"; func f(log *slog.Logger) { log.Info("x", slog.Int("a", 1)) }`, ""},
		"sleep":                {sleeps, "a/a_test.go", `package p; import "time"; func f() { time.Sleep(1) }`, "real clock"},
		"sleep after a loop":   {sleeps, "a/a_test.go", `package p; import "time"; func f() { for range 2 { }; time.Sleep(1) }`, "real clock"},
		"sleep that polls":     {sleeps, "a/a_test.go", `package p; import "time"; func f(ok func() bool) { for !ok() { time.Sleep(1) } }`, ""},
		"sleep in a bubble":    {sleeps, "a/a_test.go", `package p; import ("time"; "testing/synctest"); func f() { synctest.Wait(); time.Sleep(1) }`, ""},
		"default client":       {otherWaysOut, "a/a.go", `package p; import "net/http"; var c = http.DefaultClient`, "past internal/egress"},
		"http.Get":             {otherWaysOut, "a/a.go", `package p; import "net/http"; func f() { http.Get("x") }`, "past internal/egress"},
		"client literal":       {otherWaysOut, "a/a.go", `package p; import "net/http"; var c = &http.Client{}`, "a client of its own"},
		"new client":           {otherWaysOut, "a/a.go", `package p; import "net/http"; var c = new(http.Client)`, "a client of its own"},
		"transport":            {otherWaysOut, "a/a.go", `package p; import "net/http"; var c http.RoundTripper = &http.Transport{}`, "past internal/egress"},
		"dial":                 {otherWaysOut, "a/a.go", `package p; import "net"; func f() { net.Dial("tcp", "x") }`, "past internal/egress"},
		"dialer":               {otherWaysOut, "a/a.go", `package p; import "net"; func f() { new(net.Dialer) }`, "past internal/egress"},
		"look-up":              {otherWaysOut, "a/a.go", `package p; import "net"; func f() { net.LookupHost("x") }`, "past internal/egress"},
		"tls dial":             {otherWaysOut, "a/a.go", `package p; import "crypto/tls"; func f() { tls.Dial("tcp", "x", nil) }`, "past internal/egress"},
		"a client passed in":   {otherWaysOut, "a/a.go", `package p; import "net/http"; func f(c *http.Client) { c.Get("x") }`, ""},
		"egress itself":        {otherWaysOut, "internal/egress/a.go", `package p; import "net/http"; var c = &http.Client{}`, ""},
		"a test's client":      {otherWaysOut, "a/a_test.go", `package p; import "net/http"; var c = http.DefaultClient`, ""},
		"message made":         {unfencedMessages, "gateway/run/a.go", `package p; import "runnerd/internal/wire"; var m = wire.Message{}`, "model message"},
		"message's text made":  {unfencedMessages, "gateway/engine/tool.go", `package p; import "runnerd/internal/wire"; var m = wire.Text("x")`, "model message"},
		"inputs made":          {unfencedMessages, "runner/step/a.go", `package p; import w "runnerd/internal/wire"; var m = &w.ModelInputs{}`, "model message"},
		"message where it may": {unfencedMessages, "gateway/engine/model.go", `package p; import "runnerd/internal/wire"; var m = wire.Message{}`, ""},
		"engine's clock":       {impurities, "gateway/engine/a.go", `package p; import "time"; var t = time.Now()`, "reads the clock"},
		"engine's goroutine":   {impurities, "gateway/engine/a.go", `package p; func f() { go f() }`, "goroutine"},
		"engine's file":        {impurities, "gateway/engine/a.go", `package p; import "os"; func f() { os.Open("x") }`, "uses os"},
		"engine's duration":    {impurities, "gateway/engine/a.go", `package p; import "time"; const d = time.Second`, ""},

		"long file":            {tooLong, "a/a.go", "package p\n" + strings.Repeat("\n", 500), "lines"},
		"file of 500 lines":    {tooLong, "a/a.go", "package p\n" + strings.Repeat("\n", 498) + "type t int\n", ""},
		"no comment":           {undocumented, "a/a.go", `package p; func F() {}; type T int; const C = 1`, "F has no comment"},
		"comment of a group":   {undocumented, "a/a.go", "package p\n// A and B.\nfunc A() {}\nfunc B() {}\n\n// The Cs.\nconst (\n C1 = 1\n C2 = 2\n)\n", ""},
		"kept context":         {keptContexts, "a/a.go", `package p; import "context"; type t struct { ctx context.Context }`, "keeps a context"},
		"left over":            {leftovers, "a/a.go", "package p\n// TO" + "DO: more\n", "says"},
		"unseen skip":          {skips, "a/a_test.go", `package p; import "testing"; func F(t *testing.T) { t.Skip("no browser") }`, "skips"},
		"skip that sees CI":    {skips, "a/a_test.go", `package p; import ("testing"; "os"); func F(t *testing.T) { if os.Getenv("CI") == "" { t.Skip("x") } }`, ""},
		"skip on other system": {skips, "a/a_test.go", `package p; import ("testing"; "runtime"); func F(t *testing.T) { if runtime.GOOS != "linux" { t.Skip("x") } }`, ""},
		"rapid's skip":         {skips, "a/a_test.go", `package p; import "pgregory.net/rapid"; func F(t *rapid.T) { t.Skip("x") }`, ""},

		"assigned":               {oneFile, "a/a.go", `package p; var table = []int{1}; func f() { table = nil }`, "table is changed"},
		"element assigned":       {oneFile, "a/a.go", `package p; var table = map[int]int{}; func f() { table[1] = 2 }`, "table is changed"},
		"element deleted":        {oneFile, "a/a.go", `package p; var table = map[int]int{}; func f() { delete(table, 1) }`, "table is changed"},
		"counted":                {oneFile, "a/a.go", `package p; var n = 1; func f() { n++ }`, "n is changed"},
		"address taken":          {oneFile, "a/a.go", `package p; var n = 1; func f() *int { return &n }`, "n is changed"},
		"exported table":         {oneFile, "a/a.go", `package p; var Table = []int{1}`, "exported"},
		"lock":                   {oneFile, "a/a.go", `package p; import "sync"; var mu sync.Mutex`, "has no value"},
		"pool":                   {oneFile, "a/a.go", `package p; import "sync"; var pool = sync.Pool{}`, "made to change"},
		"pointer":                {oneFile, "a/a.go", `package p; type t struct{}; var one = &t{}`, "made to change"},
		"channel":                {oneFile, "a/a.go", `package p; var c = make(chan int)`, "made to change"},
		"no value":               {oneFile, "a/a.go", `package p; var later func()`, "has no value"},
		"errors, tables, embeds": {oneFile, "a/a.go", "package p\nimport (\"errors\"; \"embed\"; \"regexp\"; \"sync\")\nvar ErrX = errors.New(\"x\")\nvar table = []int{1}\nvar re = regexp.MustCompile(`x`)\nvar once = sync.OnceValue(func() int { return 1 })\n//go:embed x\nvar files embed.FS\nvar _ error = ErrX\n", ""},
		"local of the same name": {oneFile, "a/a.go", `package p; var n = 1; func f() { n := 2; n++; _ = n }`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := parse(tt.path, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			found := tt.rule(file)
			switch {
			case tt.want == "" && len(found) > 0:
				t.Errorf("found %v", found)
			case tt.want != "" && (len(found) == 0 || !strings.Contains(string(found[0]), tt.want)):
				t.Errorf("found %v, want %q", found, tt.want)
			}
		})
	}
}

func oneFile(s source) []finding { return changingVars([]source{s}) }

func TestMachinePathsAreFound(t *testing.T) {
	text := "a\nsee /ho" + "me/someone/x\nb\n"
	if got := machinePaths(text, []string{"/ho" + "me/someone"}); len(got) != 1 {
		t.Errorf("found %q", got)
	}
	if got := machinePaths(text, []string{"/else"}); len(got) != 0 {
		t.Errorf("found %q", got)
	}
}
