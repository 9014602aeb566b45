package natsbus

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"runnerd/gateway/store"
)

const (
	bells = "runnerd.bell." // before a topic
	look  = "runnerd.look"  // everybody looks again
)

// longest is how much of a topic is readable in its subject: the server takes lines of 4 KiB.
const longest = 512

// subject gives each topic a subject of its own, of one token: what means something to NATS, or is not ASCII, is escaped.
func subject(t store.Topic) string {
	if t == "" {
		return bells + "#"
	}
	if len(t) > longest {
		sum := sha256.Sum256([]byte(t))
		return bells + "#" + hex.EncodeToString(sum[:])
	}
	var b strings.Builder
	b.WriteString(bells)
	for i := range len(t) {
		c := t[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("/_-@:", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('=')
			b.WriteString(hex.EncodeToString([]byte{c}))
		}
	}
	return b.String()
}
