package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	magic      = 0x314a4452 // "RDJ1"
	headerSize = 16         // magic, kind, 3 spare bytes, payload length, CRC32C of these
	tailSize   = 5          // CRC32C of the payload, end mark
	endMark    = 0xa5       // never zero, so that a record whose end is zero was not written to its end
	maxPayload = 8 << 20    // no record is longer; a length above it is damage
)

// A kind says what a record tells. The numbers are on disk: never reuse one.
type kind byte

const (
	kindHeader   kind = 1 // first record of a file: ID, Owner, Version
	kindAccepted kind = 2 // body: the frame
	kindStarted  kind = 3
	kindFinished kind = 4 // body: the output
	kindAcked    kind = 5
	kindDropped  kind = 6
	kindCursor   kind = 7
	kindSettled  kind = 8 // what compaction leaves of an acknowledged step
)

// meta is the first line of a payload; the body follows.
type meta struct {
	Run     string `json:"r,omitempty"`
	Step    string `json:"s,omitempty"`
	Seq     int64  `json:"q,omitempty"`
	Cursor  int64  `json:"c,omitempty"`
	At      int64  `json:"t,omitempty"` // Unix milliseconds; for retention only
	Hash    string `json:"h,omitempty"` // of the frame's work
	Key     string `json:"k,omitempty"` // of run and step, when settled
	Verdict string `json:"v,omitempty"`
	ID      string `json:"id,omitempty"`
	Owner   string `json:"owner,omitempty"`
	Version int    `json:"version,omitempty"`
	Unsure  bool   `json:"unsure,omitempty"` // of a header: the cursor may be too low
}

// A record is one that checked, and where it lies.
type record struct {
	kind kind
	meta meta
	body span // within the file
}

// A span is a range of bytes in the file.
type span struct {
	off, size int64
	crc       uint32 // of the bytes, when they are a body
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode writes one record. It returns the body's place within the result.
func encode(k kind, m meta, body []byte) ([]byte, span, error) {
	line, err := json.Marshal(m)
	if err != nil {
		return nil, span{}, fmt.Errorf("encode record: %w", err)
	}
	size := len(line) + 1 + len(body)
	if size > maxPayload {
		return nil, span{}, fmt.Errorf("encode record: %d bytes are more than a record holds", size)
	}
	b := make([]byte, 0, headerSize+size+tailSize)
	b = binary.LittleEndian.AppendUint32(b, magic)
	b = append(b, byte(k), 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	b = append(append(append(b, line...), '\n'), body...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[headerSize:], castagnoli))
	b = append(b, endMark)
	at := span{off: int64(headerSize + len(line) + 1), size: int64(len(body)), crc: crc32.Checksum(body, castagnoli)}
	return b, at, nil
}

// header reads a record's header; ok is false when it does not check.
func header(b []byte) (k kind, size int64, ok bool) {
	if binary.LittleEndian.Uint32(b) != magic || crc32.Checksum(b[:12], castagnoli) != binary.LittleEndian.Uint32(b[12:]) {
		return 0, 0, false
	}
	size = int64(binary.LittleEndian.Uint32(b[8:]))
	return kind(b[4]), size, size <= maxPayload
}

// decode reads a payload that checked.
func decode(k kind, payload []byte, off int64) (record, error) {
	line, body, found := bytes.Cut(payload, []byte("\n"))
	if !found {
		return record{}, fmt.Errorf("record at %d has no first line", off)
	}
	r := record{kind: k, body: span{off: off + int64(len(line)) + 1, size: int64(len(body)), crc: crc32.Checksum(body, castagnoli)}}
	if err := json.Unmarshal(line, &r.meta); err != nil {
		return record{}, fmt.Errorf("record at %d: %w", off, err)
	}
	return r, nil
}

// readBody reads a body and checks it once more: the disk may have changed since the file was opened.
func readBody(f io.ReaderAt, at span) ([]byte, error) {
	b := make([]byte, at.size)
	if _, err := f.ReadAt(b, at.off); err != nil {
		return nil, fmt.Errorf("read record at %d: %w", at.off, err)
	}
	if crc32.Checksum(b, castagnoli) != at.crc {
		return nil, fmt.Errorf("%w: body at %d", ErrDamaged, at.off)
	}
	return b, nil
}
