package sqlite

import (
	"encoding/json"
	"fmt"
	"time"

	"runnerd/gateway/store"
)

// micros is how a time is stored: UTC microseconds, and 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// blob is how a document is stored: an empty one is NULL, whether it was nil or not.
func blob[B ~[]byte](b B) any {
	if len(b) == 0 {
		return nil
	}
	return []byte(b)
}

// orNull is an empty string as NULL, for columns that an index leaves out.
func orNull[S ~string](s S) any {
	if s == "" {
		return nil
	}
	return string(s)
}

// The types below read columns back.
type (
	asTime     struct{ to *time.Time }
	asDuration struct{ to *time.Duration }
	asHash     struct{ to *store.Hash }
	asStrings  struct{ to *[]string }
	asText     struct{ to *string } // NULL is empty
)

func (c asTime) Scan(src any) error {
	n, ok := src.(int64)
	if !ok {
		return fmt.Errorf("time is a %T", src)
	}
	*c.to = time.Time{}
	if n != 0 {
		*c.to = time.UnixMicro(n).UTC()
	}
	return nil
}

func (c asDuration) Scan(src any) error {
	n, ok := src.(int64)
	if !ok {
		return fmt.Errorf("duration is a %T", src)
	}
	*c.to = time.Duration(n) * time.Microsecond
	return nil
}

func (c asHash) Scan(src any) error {
	b, ok := src.([]byte)
	if !ok || len(b) != len(c.to) {
		return fmt.Errorf("hash is a %T of %d bytes", src, len(b))
	}
	copy(c.to[:], b)
	return nil
}

func (c asStrings) Scan(src any) error {
	s, ok := src.(string)
	if !ok {
		return fmt.Errorf("list is a %T", src)
	}
	*c.to = nil
	if err := json.Unmarshal([]byte(s), c.to); err != nil {
		return err
	}
	if len(*c.to) == 0 {
		*c.to = nil
	}
	return nil
}

func (c asText) Scan(src any) error {
	switch s := src.(type) {
	case nil:
		*c.to = ""
	case string:
		*c.to = s
	default:
		return fmt.Errorf("text is a %T", src)
	}
	return nil
}
