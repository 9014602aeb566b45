package identity

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"time"

	"runnerd/gateway/store"
)

// The classes of credential, by prefix.
const (
	prefixSignIn  = "owl_"
	prefixSession = "ows_"
	prefixPage    = "owb_"
	prefixKey     = "owk_"
	prefixDevice  = "owd_"
	prefixBearer  = "owr_"
	prefixRefresh = "owf_"
)

const (
	base62      = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	randomChars = 43 // 256 bits
	checkChars  = 6  // a CRC32
	maxToken    = 512
)

// mint makes a random credential with a checksum, so that a typo, or a scanner's false hit, is told without a look-up.
func mint(prefix string) string {
	s := prefix + randomText(randomChars, base62)
	return s + checksum(s)
}

// minted reports whether token has the form that mint(prefix) gives.
func minted(prefix, token string) bool {
	if len(token) != len(prefix)+randomChars+checkChars || !strings.HasPrefix(token, prefix) {
		return false
	}
	body := token[:len(token)-checkChars]
	return strings.Trim(body[len(prefix):], base62) == "" && checksum(body) == token[len(body):]
}

func checksum(s string) string {
	sum := crc32.ChecksumIEEE([]byte(s))
	var b [checkChars]byte
	for i := range b {
		b[checkChars-1-i] = base62[sum%62]
		sum /= 62
	}
	return string(b[:])
}

// randomText gives n characters of the alphabet, each as likely as the other.
func randomText(n int, alphabet string) string {
	text := make([]byte, 0, n)
	var b [64]byte
	for fair := 256 - 256%len(alphabet); ; {
		rand.Read(b[:]) // never fails: it ends the process instead
		for _, c := range b {
			if int(c) >= fair {
				continue
			}
			if text = append(text, alphabet[int(c)%len(alphabet)]); len(text) == n {
				return string(text)
			}
		}
	}
}

// hashOf is what the store keeps of a random credential. It has 256 random bits, so a slow hash would add nothing.
func hashOf(token string) store.Hash { return sha256.Sum256([]byte(token)) }

// A sealer vouches for the tokens of one class.
type sealer struct {
	prefix string
	key    []byte
}

func newSealer(root []byte, prefix string) (sealer, error) {
	key, err := hkdf.Key(sha256.New, root, nil, "gateway token "+prefix, sha256.Size)
	return sealer{prefix, key}, err
}

func (s sealer) mac(body []byte) []byte {
	m := hmac.New(sha256.New, s.key)
	m.Write(body)
	return m.Sum(nil)
}

func (s sealer) seal(body []byte) string {
	return s.prefix + base64.RawURLEncoding.EncodeToString(append(s.mac(body), body...))
}

// open gives the body of a token that seal made. There is one spelling of each token.
func (s sealer) open(token string) ([]byte, bool) {
	text, ok := strings.CutPrefix(token, s.prefix)
	if !ok || len(token) > maxToken || strings.ContainsAny(text, "\r\n") { // the decoder skips line breaks
		return nil, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < sha256.Size {
		return nil, false
	}
	body := raw[sha256.Size:]
	return body, hmac.Equal(raw[:sha256.Size], s.mac(body))
}

var errBody = errors.New("token body is of unknown form")

// A stamp is the body of every sealed token: whom it is for, and a number (seconds since 1970, or a generation).
type stamp struct {
	who    string
	number int64
}

func (s stamp) encode() []byte {
	return append(binary.BigEndian.AppendUint64([]byte{1}, uint64(s.number)), s.who...)
}

func decodeStamp(b []byte) (stamp, error) {
	if len(b) < 10 || b[0] != 1 {
		return stamp{}, errBody
	}
	return stamp{string(b[9:]), int64(binary.BigEndian.Uint64(b[1:9]))}, nil
}

func (s sealer) stamp(who string, number int64) string { return s.seal(stamp{who, number}.encode()) }

func (s sealer) read(token string) (stamp, bool) {
	body, ok := s.open(token)
	if !ok {
		return stamp{}, false
	}
	st, err := decodeStamp(body)
	return st, err == nil
}

// current says whether something issued at unix second t and good for life is good now. A time to come is not: our clock
// went back, and the holder is better off renewing than keeping a token that outlives its life; skew is for replicas.
func current(t int64, life time.Duration, now time.Time) bool {
	const skew = 2 * time.Minute
	age := now.Sub(time.Unix(t, 0))
	return age >= -skew && age < life
}
