package redact

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// Mask is what a Secret prints as.
const Mask = "[redacted]"

// A Secret is a credential. However it is printed, it gives a mask; Reveal is the only way out, so a search for Reveal
// lists every place where a credential leaves the process. The zero Secret is no credential at all.
type Secret struct{ p *string } // a pointer: fmt prints unexported fields raw, past String

// New makes a Secret of a credential's value.
func New(value string) Secret { return Secret{&value} }

// Reveal gives the credential itself, or "" of the zero Secret.
func (s Secret) Reveal() string {
	if s.p == nil {
		return ""
	}
	return *s.p
}

// IsZero reports whether there is no credential: the zero Secret, or one of an empty value.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// Equal reports whether both hold the same value, in a time that does not tell where they differ.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String gives the mask.
func (Secret) String() string { return Mask }

// GoString gives the mask.
func (Secret) GoString() string { return Mask }

// Format writes the mask for every verb; without it %d and %p would print the address of the value.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Mask) }

// LogValue gives the mask.
func (Secret) LogValue() slog.Value { return slog.StringValue(Mask) }

// MarshalText gives the mask, and so do JSON and everything else that builds on it.
func (Secret) MarshalText() ([]byte, error) { return []byte(Mask), nil }
