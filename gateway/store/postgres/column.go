package postgres

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"runnerd/gateway/store"
)

// micros is how a time is stored: UTC microseconds, and 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment is what micros means.
func moment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// blob is how a document is stored: an empty one is NULL, whether it was nil or not.
func blob[B ~[]byte](b B) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// escape begins, with two hexadecimal digits after it, what a text of PostgreSQL cannot hold: NUL, and bytes that are no
// UTF-8. Names come from outside, and a request for one that cannot be is a request for one that is not there.
const escape = '\x1a'

// text is how a string is stored.
func text[S ~string](s S) string {
	if t := string(s); utf8.ValidString(t) && strings.IndexByte(t, 0) < 0 && strings.IndexByte(t, escape) < 0 {
		return t
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(string(s[i:]))
		if r == utf8.RuneError && size == 1 || r == 0 || r == escape {
			fmt.Fprintf(&b, "%c%02x", escape, s[i])
		} else {
			b.WriteString(string(s[i : i+size]))
		}
		i += size
	}
	return b.String()
}

// untext is what text means.
func untext(s string) (string, error) {
	head, rest, found := strings.Cut(s, string(escape))
	if !found {
		return s, nil
	}
	var b strings.Builder
	for b.WriteString(head); found; {
		if len(rest) < 2 {
			return "", fmt.Errorf("text %q has half an escape", s)
		}
		c, err := hex.DecodeString(rest[:2])
		if err != nil {
			return "", fmt.Errorf("text %q: %w", s, err)
		}
		b.Write(c)
		head, rest, found = strings.Cut(rest[2:], string(escape))
		b.WriteString(head)
	}
	return b.String(), nil
}

// The types below read columns back.
type (
	asText[S ~string] struct{ to *S }
	asTime            struct{ to *time.Time }
	asDuration        struct{ to *time.Duration }
	asHash            struct{ to *store.Hash }
	asStrings         struct{ to *[]string }
)

// into saves naming the type.
func into[S ~string](to *S) asText[S] { return asText[S]{to} }

func (c asText[S]) ScanText(v pgtype.Text) error {
	s, err := untext(v.String)
	*c.to = S(s)
	return err
}

func (c asTime) ScanInt64(v pgtype.Int8) error {
	*c.to = moment(v.Int64)
	return nil
}

func (c asDuration) ScanInt64(v pgtype.Int8) error {
	*c.to = time.Duration(v.Int64) * time.Microsecond
	return nil
}

func (c asHash) ScanBytes(b []byte) error {
	if len(b) != len(c.to) {
		return fmt.Errorf("hash of %d bytes", len(b))
	}
	copy(c.to[:], b)
	return nil
}

func (c asStrings) ScanText(v pgtype.Text) error {
	*c.to = nil
	if err := json.Unmarshal([]byte(v.String), c.to); err != nil {
		return err
	}
	if len(*c.to) == 0 {
		*c.to = nil
	}
	return nil
}
