package page

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func get(t *testing.T, method, path string, headers ...string) *http.Response {
	t.Helper()
	h, err := Handler()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestEveryFileIsServedUnderThePolicy(t *testing.T) {
	for path, kind := range map[string]string{
		"/": "text/html", "/sign-in": "text/html", "/pair": "text/html", "/app.css": "text/css", "/app.mjs": "text/javascript",
		"/api.mjs": "text/javascript", "/icon.svg": "image/svg+xml", "/app.webmanifest": "application/manifest+json",
	} {
		res := get(t, http.MethodGet, path)
		if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), kind) {
			t.Errorf("%s: %d %v", path, res.StatusCode, res.Header)
		}
		csp := res.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: policy %q lacks %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
	}
}

func TestNothingElseIsServed(t *testing.T) {
	for _, path := range []string{"/page.go", "/static/app.css", "/..", "/%2e%2e/page.go", "/app.css/", "/app.css%00", "/pair/x", "/index"} {
		if res := get(t, http.MethodGet, path); res.StatusCode != http.StatusNotFound && path != "/.." && path != "/app.css/" {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	if res := get(t, http.MethodPost, "/"); res.StatusCode != http.StatusNotFound {
		t.Errorf("POST: %d", res.StatusCode)
	}
}

func TestAKnownFileIsNotSentAgain(t *testing.T) {
	tag := get(t, http.MethodGet, "/app.mjs").Header.Get("ETag")
	res := get(t, http.MethodGet, "/app.mjs", "If-None-Match", tag)
	if b, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusNotModified || len(b) != 0 || tag == "" {
		t.Errorf("%d with %d bytes, tag %q", res.StatusCode, len(b), tag)
	}
}

// What comes from outside is shown as text: no script of ours has a way to make markup of it.
func TestNoScriptMakesMarkup(t *testing.T) {
	files, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range files {
		for _, bad := range []string{"innerHTML =", "innerHTML=", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "new Function", "localStorage", "sessionStorage", "onerror=", "style="} {
			if strings.Contains(string(f.plain), bad) {
				t.Errorf("%s holds %q", name, bad)
			}
		}
	}
}
