package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"runnerd/gateway/identity"
	"runnerd/internal/wire"
)

// capabilities makes the document of wire section 2. What is not served is not in it.
func capabilities(c Config) any {
	caps := limits(c.Caps)
	doc := object{
		"protocolVersion":       "1.1",
		"supportedTransports":   []string{"rest"},
		"implementation":        object{"name": "runnerd-gateway", "version": c.Version, "vendor": "runnerd"},
		"engineVersion":         1,
		"eventLogSchemaVersion": 2,
		"supportedEnvelopes":    []string{},
		"schemaVersions":        object{},
		"limits": object{
			"clarificationRounds": 0, "schemaRounds": 0, "envelopesPerTurn": 0,
			"maxNodeExecutions": caps.NodeExecutions, "maxRunDurationMs": caps.RunDuration.Milliseconds(), "maxRequestBodyBytes": c.MaxBody,
		},
		"runtimeCapabilities": []string{},
	}
	if c.Dispatch != nil && c.Channel != nil {
		doc["selfHostedRunner"] = object{"supported": true, "dispatchKinds": []string{wire.KindModel, wire.KindTool}}
	}
	return doc
}

// A document is sent the same to everybody, and again only when it changed.
type document struct {
	body []byte
	etag string // strong
}

func newDocument(v any) (document, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return document{}, fmt.Errorf("write document: %w", err)
	}
	sum := sha256.Sum256(body)
	return document{append(body, '\n'), `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`}, nil
}

func (d document) serve(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("ETag", d.etag)
	if matches(r.Header.Values("If-None-Match"), d.etag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", "application/json")
	_, err := w.Write(d.body)
	return err
}

// matches compares weakly, as RFC 9110 section 13.1.2 has it for If-None-Match.
func matches(fields []string, etag string) bool {
	for _, field := range fields {
		for tag := range strings.SplitSeq(field, ",") {
			if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
	}
	return false
}

func (s *Server) discover(w http.ResponseWriter, r *http.Request, _ identity.Caller) error {
	w.Header().Set("Capabilities-Etag", strings.Trim(s.discovery.etag, `"`))
	return s.discovery.serve(w, r)
}

func (s *Server) describe(w http.ResponseWriter, r *http.Request, _ identity.Caller) error {
	return s.openapi.serve(w, r)
}
