// Package redact keeps credentials out of everything that is written, sent or stored.
package redact
