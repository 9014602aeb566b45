// Package page is the phone page: plain HTML, CSS and ES modules, embedded in the binary, so that no build step stands
// between `go run` and a working page. It promises that the page holds no credential in a URL, a cookie that scripts can
// read, or local storage; that whatever a runner returned is shown as text and never as markup; and that it comes back by
// itself after the phone slept (UD-85).
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var static embed.FS

// policy lets the page load its own files and talk to its own host, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"manifest-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

type file struct {
	plain, zipped []byte
	etag, kind    string
}

// Handler serves the page's files under their names and the page itself under each of its own paths (/, /sign-in, /pair).
func Handler() (http.Handler, error) {
	files, err := load()
	if err != nil {
		return nil, fmt.Errorf("load the page: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
		switch name {
		case "", "sign-in", "pair":
			name = "index.html"
		}
		f, ok := files[name]
		if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.NotFound(w, r)
			return
		}
		f.serve(w, r)
	}), nil
}

func (f file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache") // revalidated by the tag: an update shows at once
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", f.etag)
	h.Set("Content-Type", f.kind)
	body := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // the reader went away: nobody is left to tell
	}
}

// load reads and compresses every file once.
func load() (map[string]file, error) {
	files := map[string]file{}
	err := fs.WalkDir(static, "static", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := static.ReadFile(p)
		if err != nil {
			return err
		}
		var zipped bytes.Buffer
		z, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := z.Write(b); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		sum := sha256.Sum256(b)
		files[strings.TrimPrefix(p, "static/")] = file{
			plain: b, zipped: zipped.Bytes(), kind: kind(p),
			etag: `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
		}
		return nil
	})
	return files, err
}

// kind does not ask the operating system's table, which differs from machine to machine.
func kind(name string) string {
	return map[string]string{
		".html":        "text/html; charset=utf-8",
		".css":         "text/css; charset=utf-8",
		".mjs":         "text/javascript; charset=utf-8",
		".svg":         "image/svg+xml",
		".webmanifest": "application/manifest+json",
	}[path.Ext(name)]
}
