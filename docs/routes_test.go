//go:build unix

package docs

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs/api.md lists what the gateway serves, no more and no less, each with its scope.
func TestRoutesAreThoseOfTheGateway(t *testing.T) {
	w := newWorld(t)
	w.start("exec gateway serve --listen "+strings.TrimPrefix(w.url, "http://"), w.work)
	w.until("a gateway", nil, w.answers)
	res, err := http.Get(w.url + "/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var doc struct {
		Paths map[string]map[string]struct {
			Security []map[string][]string
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	scopes := map[string]string{}
	for path, methods := range doc.Paths {
		for method, operation := range methods {
			route := strings.ToUpper(method) + " " + path
			want = append(want, route)
			scopes[route] = "none, open"
			if len(operation.Security) > 0 {
				scopes[route] = "any"
				if all := operation.Security[0]["bearer"]; len(all) > 0 {
					scopes[route] = "`" + strings.Join(all, " ") + "`"
				}
			}
		}
	}
	route, row := regexp.MustCompile(`^(GET|POST|PUT|DELETE) (/\S+)$`), regexp.MustCompile("^\\| `([^`]+)` \\| ([^|]+) \\| [^|]+ \\|$")
	for _, line := range read(t, "docs/api.md").prose() {
		for _, span := range spans(line) {
			if route.MatchString(span) {
				got = append(got, span)
			}
		}
		if m := row.FindStringSubmatch(line); m != nil && scopes[m[1]] != "" && scopes[m[1]] != m[2] {
			t.Errorf("%s needs %s, not %s", m[1], scopes[m[1]], m[2])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("routes (-served +documented):\n%s", diff)
	}
}
