package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const fieldsFile = "docs/field-requirements.md"

// mostFields is the last number that was given.
const mostFields = 104

var (
	fieldRow = regexp.MustCompile(`^\| (UD-\d+) \| ([^|]+) \| ([^|]+) \|$`)
	later    = regexp.MustCompile(`^later: [a-z-]+$`)
)

// The table says of each requirement which tests hold it, or that none does yet and what is missing. What tests say of
// themselves must all be there; a row may name more.
func TestFieldRequirementsAreHeldByTheTestsThatSaySo(t *testing.T) {
	held := map[string][]string{}
	for _, p := range allProofs(t) {
		for _, id := range p.fields {
			held[id] = append(held[id], p.String())
		}
	}
	var ids []string
	for i, line := range read(t, fieldsFile).lines {
		m := fieldRow.FindStringSubmatch(line)
		if m == nil {
			if strings.HasPrefix(line, "| UD") {
				t.Errorf("%s:%d: is no row: %s", fieldsFile, i+1, line)
			}
			continue
		}
		id, by := m[1], spans(m[3])
		ids = append(ids, id)
		if later.MatchString(m[3]) {
			if len(held[id]) > 0 {
				t.Errorf("%s is held already, by %s", id, strings.Join(held[id], ", "))
			}
			continue
		}
		if len(by) == 0 {
			t.Errorf("%s names no test, and does not say what comes later", id)
		}
		for _, p := range held[id] {
			if !slices.Contains(by, p) {
				t.Errorf("%s is held by `%s` too", id, p)
			}
		}
	}
	var want []string
	for n := 1; n <= mostFields; n++ {
		want = append(want, fmt.Sprintf("UD-%02d", n))
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
