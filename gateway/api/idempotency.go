package api

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
)

const (
	headerKey    = "Idempotency-Key"
	headerReplay = "openwop-Idempotent-Replay"
	longestKey   = 255
)

// once carries out a change and answers with what do returns. With an Idempotency-Key it is carried out once: change and
// answer are one transaction, and the same request again gets the same answer (wire section 9). Only answers that end well
// are kept; all that this host refuses is a 400, 401, 403, 429 or 5xx, which the protocol says not to keep, or depends on
// what may exist the next time.
func (s *Server) once(w http.ResponseWriter, r *http.Request, c identity.Caller, operation string, in any, status int, do func(store.Tx) (any, error)) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	digest, err := digestOf(in)
	if err != nil {
		return err
	}
	operation += " " + string(c.Subject)
	var kept store.Idempotent
	var replayed bool
	err = s.Store.Update(r.Context(), func(tx store.Tx) error {
		replayed = false
		if key != "" {
			kept, err = tx.Idempotent(c.Tenant, operation, key)
			if err == nil {
				replayed = true
				return sameRequest(kept, digest)
			}
			if !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		out, err := do(tx)
		if err != nil {
			return err
		}
		body, err := json.Marshal(out)
		if err != nil {
			return err
		}
		kept = store.Idempotent{Tenant: c.Tenant, Operation: operation, Key: key, Digest: digest, Status: status, Body: body,
			At: s.Now().UTC().Truncate(time.Microsecond)}
		if key == "" {
			return nil
		}
		return tx.PutIdempotent(kept)
	})
	if err != nil {
		return err
	}
	if replayed {
		w.Header().Set(headerReplay, "true")
	}
	return httpapi.Encode(w, kept.Status, json.RawMessage(kept.Body))
}

func sameRequest(kept store.Idempotent, digest store.Hash) error {
	if kept.Digest != digest {
		return &httpapi.Problem{Status: http.StatusConflict, Code: codeMismatch, Message: "the " + headerKey + " was used for another request"}
	}
	return nil
}

// idempotencyKey reads the request's key; empty when it has none.
func idempotencyKey(r *http.Request) (string, error) {
	keys := r.Header.Values(headerKey)
	if len(keys) == 0 {
		return "", nil
	}
	key := keys[0]
	visible := !strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' })
	if len(keys) > 1 || key == "" || len(key) > longestKey || !visible {
		return "", httpapi.Invalid(headerKey, "must have 1 to 255 visible ASCII characters")
	}
	return key, nil
}

// digestOf is the hash of a body that was decoded, so that neither the order of members nor white space counts. Numbers stay
// as they were written.
func digestOf(in any) (store.Hash, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return store.Hash{}, err
	}
	v := jsontext.Value(body)
	if err := v.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return store.Hash{}, fmt.Errorf("bring the body into order: %w", err)
	}
	return sha256.Sum256(v), nil
}
