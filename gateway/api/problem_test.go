package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

func TestDomainErrorsGetTheirStatus(t *testing.T) {
	for name, row := range map[string]struct {
		err    error
		status int
		code   string
		retry  time.Duration
	}{
		"missing row":     {fmt.Errorf("read: %w", store.ErrNotFound), 404, "not_found", 0},
		"lost race":       {store.ErrConflict, 409, "conflict", 0},
		"no space":        {store.ErrFull, 507, "insufficient_storage", 0},
		"busy":            {store.ErrBusy, 503, "unavailable", time.Second},
		"closed":          {store.ErrClosed, 503, "unavailable", time.Second},
		"deadline":        {context.DeadlineExceeded, 503, "unavailable", time.Second},
		"no credential":   {identity.ErrUnauthenticated, 401, "unauthenticated", 0},
		"old credential":  {identity.ErrExpired, 401, "key_expired", 0},
		"dead credential": {identity.ErrRevoked, 401, "key_revoked", 0},
		"limit":           {fmt.Errorf("x: %w", &identity.LimitError{RetryAfter: 3 * time.Second, Scope: "key"}), 429, "rate_limited", 3 * time.Second},
		"bad fields":      {errors.Join(&wire.FieldError{Field: "a", Reason: "is bad"}, fmt.Errorf("x: %w", &wire.FieldError{Field: "b", Reason: "too"})), 400, "validation_error", 0},
	} {
		p := problem(row.err)
		if p == nil || p.Status != row.status || p.Code != row.code || p.RetryAfter != row.retry {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p := problem(errors.New("anything else")); p != nil {
		t.Errorf("what nobody knows has a problem: %+v", p)
	}
	p := problem(errors.Join(&wire.FieldError{Field: "a", Reason: "is bad"}, &wire.FieldError{Field: "b", Reason: "is too"}))
	if d := cmp.Diff(map[string]any{"field": "a", "fields": []string{"a", "b"}}, p.Details); d != "" || p.Message != "a is bad; b is too" {
		t.Errorf("%q %s", p.Message, d)
	}
}
