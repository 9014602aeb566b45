package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/schema/schematest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares a JSON document, indented, with testdata/name.
func golden(t *testing.T, name, body string) {
	t.Helper()
	var got bytes.Buffer
	if err := json.Indent(&got, []byte(body), "", "  "); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), got.String()); d != "" {
		t.Errorf("%s (-want +got; -update rewrites it): %s", path, d)
	}
}

func TestDiscoveryIsHonestAndCached(t *testing.T) {
	w := newWorld(t)
	a := w.send("GET", "/.well-known/openwop", "", "")
	schematest.Document(t, "capabilities", a.body)
	golden(t, "discovery.json", a.body)
	etag := a.header.Get("ETag")
	if a.header.Get("Cache-Control") != "public, max-age=300" || !strings.HasPrefix(etag, `"`) || a.header.Get("Capabilities-Etag") == "" {
		t.Errorf("headers %v", a.header)
	}
	for _, tag := range []string{etag, "W/" + etag, `"x", ` + etag, "*"} {
		if a := w.send("GET", "/.well-known/openwop", "", "", "If-None-Match", tag); a.status != 304 || a.body != "" || a.header.Get("ETag") != etag {
			t.Errorf("If-None-Match %s: %d %q", tag, a.status, a.body)
		}
	}
	if a := w.send("GET", "/.well-known/openwop", "", "", "If-None-Match", `"x"`); a.status != 200 {
		t.Errorf("another tag: %d", a.status)
	}
	if a := w.send("HEAD", "/.well-known/openwop", "", ""); a.status != 200 || a.body != "" {
		t.Errorf("HEAD: %d %q", a.status, a.body)
	}
	bare := newWorld(t, func(c *Config) { c.Dispatch, c.Channel = nil, nil }).send("GET", "/.well-known/openwop", "", "")
	schematest.Document(t, "capabilities", bare.body)
	if strings.Contains(bare.body, "selfHostedRunner") {
		t.Errorf("runners are offered where none are served: %s", bare.body)
	}
}

func TestOpenAPIDescribesEveryRoute(t *testing.T) {
	w := newWorld(t)
	a := w.send("GET", "/v1/openapi.json", "", "")
	golden(t, "openapi.json", a.body)
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]json.RawMessage
		}
	}
	a.into(200, &doc)
	for _, rt := range append(routes(), channelRoutes()...) {
		if doc.Paths[rt.path][strings.ToLower(rt.method)] == nil {
			t.Errorf("%s %s is not described", rt.method, rt.path)
		}
	}
	for ref := range strings.SplitSeq(a.body, `"$ref":"#/components/schemas/`) {
		name, _, _ := strings.Cut(ref, `"`)
		if !strings.HasPrefix(ref, "{") && doc.Components.Schemas[name] == nil {
			t.Errorf("schema %s is not there", name)
		}
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") || len(a.body) > 64<<10 {
		t.Errorf("openapi %s, %d bytes", doc.OpenAPI, len(a.body))
	}
}
