package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"runnerd/gateway/store"
)

// A node is a step of a plan, as PostgreSQL describes it.
type node struct {
	Kind   string `json:"Node Type"`
	Table  string `json:"Relation Name"`
	Index  string `json:"Index Name"`
	Cond   string `json:"Index Cond"`
	Filter string
	Plans  []node
}

// Every statement of this package, as PostgreSQL means to run it, must find its rows by an index: what a dispatch costs must
// not grow with the runs, runners and events that there are. That is looked at on tables which are empty and of which nothing
// is known, where the planner may take any index for any other, and on full ones.
func TestNoStatementScansATable(t *testing.T) {
	t.Parallel()
	all, d := gateways(t, 1)
	s := all[0]
	for _, state := range []string{"empty", "full"} {
		if state == "full" {
			fill(t, s)
			d.exec(t, "ANALYZE")
		}
		ctx := context.Background()
		c, err := s.connect(ctx) // plans are kept with a connection
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		keys := uniqueKeys(t, c.pg)
		texts := statements(t)
		if len(texts) < 75 {
			t.Errorf("found %d statements only", len(texts))
		}
		for i, text := range texts {
			plan, err := explain(ctx, c.pg, fmt.Sprint("plan", i), text)
			if err != nil {
				t.Errorf("%s\n\t%v", text, err)
				continue
			}
			for _, n := range plan {
				if why := scans(n, keys); why != "" {
					t.Errorf("%s tables: %s\n\t%+v: %s", state, text, n, why)
				}
			}
		}
	}
}

// ends are indexes that a statement may enter without a condition, because it takes only what comes first or last.
var ends = []string{"step_queued", "step_held", "person_pkey", "revocation_pkey"}

// scans says why a node of a plan may walk more than it gives, or nothing.
func scans(n node, keys map[string][]string) string {
	switch {
	case n.Kind == "Seq Scan":
		return "it walks the table"
	case n.Index == "":
		return ""
	case n.Cond == "" && !slices.Contains(ends, n.Index):
		return "it walks the index"
	case n.Filter == "" || n.Index == "step_hand" || n.Index == "step_past": // the states of a runner's steps
		return ""
	case n.Index == "step_pkey" || n.Index == "timer_pkey", keys[n.Index] != nil:
		for _, column := range keys[n.Index] {
			if !regexp.MustCompile(`\b` + column + ` = `).MatchString(n.Cond) {
				return "it filters what the index gives for a part of its key"
			}
		}
		return ""
	case n.Index == "runner_subject" && strings.Contains(n.Cond, "subject ="), n.Index == "run_newest" && strings.Contains(n.Cond, "subject ="):
		return "" // the tenant of a subject
	}
	return "it filters what the index gives"
}

func explain(ctx context.Context, c *pgx.Conn, name, text string) ([]node, error) {
	if _, err := c.Exec(ctx, "PREPARE "+name+" AS "+text); err != nil {
		return nil, err
	}
	highest := 0
	for _, m := range regexp.MustCompile(`\$(\d+)`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, err
		}
		highest = max(highest, n)
	}
	execute := "EXPLAIN (FORMAT JSON) EXECUTE " + name
	if highest > 0 {
		execute += "(" + strings.TrimSuffix(strings.Repeat("NULL, ", highest), ", ") + ")"
	}
	var doc []byte
	if err := c.QueryRow(ctx, execute, pgx.QueryExecModeSimpleProtocol).Scan(&doc); err != nil {
		return nil, err
	}
	var tops []struct{ Plan node }
	if err := json.Unmarshal(doc, &tops); err != nil {
		return nil, err
	}
	var all []node
	var walk func(node)
	walk = func(n node) {
		for _, inner := range n.Plans {
			walk(inner)
		}
		n.Plans = nil
		all = append(all, n)
	}
	walk(tops[0].Plan)
	return all, nil
}

// uniqueKeys are the columns of each unique index.
func uniqueKeys(t *testing.T, c *pgx.Conn) map[string][]string {
	rows, err := c.Query(context.Background(), `SELECT i.indexrelid::regclass::text, array_agg(a.attname::text)
		FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
		WHERE indisunique AND i.indrelid::regclass::text !~ '^pg_' GROUP BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string][]string{}
	var index string
	var columns []string
	if _, err := pgx.ForEachRow(rows, []any{&index, &columns}, func() error { keys[index] = slices.Clone(columns); return nil }); err != nil {
		t.Fatal(err)
	}
	return keys
}

// fill gives the tables some thousand rows, of which few are alive.
func fill(t *testing.T, s *Store) {
	for who := range 20 {
		subject := store.Subject(fmt.Sprintf("acme/p%d", who))
		runner := store.RunnerID(fmt.Sprint("k", who))
		write(t, s, func(tx store.Tx) (err error) {
			err = errors.Join(tx.CreateUser(store.User{Tenant: "acme", Principal: subject.Principal(), Subject: subject}),
				tx.CreateRunner(store.Runner{ID: runner, Subject: subject}))
			for i := range 100 {
				id := store.RunID(fmt.Sprintf("r%d-%d", who, i))
				st := aStep(subject, id, "n:1:1")
				st.State, st.Runner, st.Seq = store.StepDone, runner, int64(i)
				if i == 0 {
					st.State = store.StepAccepted
				}
				err = errors.Join(err, tx.CreateRun(store.Run{ID: id, Tenant: "acme", Subject: subject, Created: time.UnixMicro(int64(i))}), tx.CreateStep(st),
					tx.Append("acme", id, "running", time.Time{}, []store.Event{{Seq: 0}, {Seq: 1}}),
					tx.AppendAudit(store.AuditEntry{Subject: subject}),
					tx.PutTimer(store.Timer{Tenant: "acme", Run: id, ID: "t", Due: time.UnixMicro(int64(who))}),
					tx.PutAsk(store.AskRecord{ID: fmt.Sprint(i), Tenant: "acme", Subject: subject, Runner: runner, Run: id, Step: "n:1:1"}),
					tx.PutLate(store.Late{Tenant: "acme", Run: id, Runner: runner, Seq: int64(i)}),
					tx.PutIdempotent(store.Idempotent{Tenant: "acme", Operation: "o", Key: string(id)}))
			}
			return err
		})
	}
}

// statements are the constant texts in the code of this package that begin like a query, outside declarations of
// constants: those are parts.
func statements(t *testing.T) []string {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	parts := map[string]ast.Expr{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
				for i := range v.Names {
					parts[v.Names[i].Name] = v.Values[i]
				}
			}
			return true
		})
	}

	query := regexp.MustCompile(`^\s*(SELECT|WITH|INSERT|UPDATE|DELETE)\s`)
	var all []string
	for _, f := range parsed {
		for _, decl := range f.Decls {
			ast.Inspect(decl, func(n ast.Node) bool {
				if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST && ast.Node(d) == decl {
					return false // at the top: a part. Within a function it is whole.
				}
				text, ok := constant(n, parts)
				if ok && query.MatchString(text) {
					all = append(all, text)
				}
				return !ok
			})
		}
	}
	return all
}

// constant is the value of an expression made of literals, constants and plus signs.
func constant(n ast.Node, parts map[string]ast.Expr) (string, bool) {
	switch e := n.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		if part, ok := parts[e.Name]; ok {
			return constant(part, parts)
		}
	case *ast.BinaryExpr:
		x, okX := constant(e.X, parts)
		y, okY := constant(e.Y, parts)
		return x + y, okX && okY && e.Op == token.ADD
	}
	return "", false
}
