package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// A visitor is told what scan finds, in the order of the file.
type visitor interface {
	record(r record) error
	damage(at span)
}

// scan reads the records of a file that has size bytes. It returns where the next record goes, and whether the bytes from
// there on are the beginning of one that was never synced. It reads a record at a time: a large outbox costs no memory.
func scan(f io.ReaderAt, size int64, v visitor) (end int64, torn bool, err error) {
	last, err := lastNonzero(f, size)
	if err != nil {
		return 0, false, err
	}
	var head [headerSize]byte
	for end <= last { // behind it are only zeros
		if size-end < headerSize {
			return end, true, nil
		}
		if _, err := f.ReadAt(head[:], end); err != nil {
			return end, false, fmt.Errorf("read journal at %d: %w", end, err)
		}
		k, length, ok := header(head[:])
		stop := end + headerSize + length + tailSize
		switch {
		case ok && stop > size:
			return end, true, nil
		case ok:
			b := make([]byte, length+tailSize)
			if _, err := f.ReadAt(b, end+headerSize); err != nil {
				return end, false, fmt.Errorf("read journal at %d: %w", end, err)
			}
			r, err := check(k, b, end+headerSize)
			switch {
			case err == nil:
				if err := v.record(r); err != nil {
					return end, false, err
				}
			case b[len(b)-1] == 0 && last < stop:
				return end, true, nil
			default:
				v.damage(span{off: end, size: stop - end})
			}
		case last < end+headerSize && head != [headerSize]byte{}:
			return end, true, nil
		default:
			stop, err = findHeader(f, end+1, last+1)
			if err != nil {
				return end, false, err
			}
			v.damage(span{off: end, size: stop - end})
		}
		end = stop
	}
	return end, false, nil
}

// check reads a payload with its tail, whose CRC must agree.
func check(k kind, b []byte, off int64) (record, error) {
	payload := b[:len(b)-tailSize]
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(b[len(payload):]) {
		return record{}, fmt.Errorf("%w: record at %d", ErrDamaged, off-headerSize)
	}
	return decode(k, payload, off)
}

const window = 64 << 10

// lastNonzero is the offset of the last byte that is not zero, or -1. It looks from the end, where the zeros are.
func lastNonzero(f io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, min(window, size))
	for to := size; to > 0; {
		b := buf[:min(int64(len(buf)), to)]
		to -= int64(len(b))
		if _, err := f.ReadAt(b, to); err != nil && err != io.EOF {
			return 0, fmt.Errorf("read journal at %d: %w", to, err)
		}
		if n := len(bytes.TrimRight(b, "\x00")); n > 0 {
			return to + int64(n) - 1, nil
		}
	}
	return -1, nil
}

// findHeader is the offset of the next header in [from, to) that checks, or to.
func findHeader(f io.ReaderAt, from, to int64) (int64, error) {
	mark := binary.LittleEndian.AppendUint32(nil, magic)
	buf := make([]byte, min(window, max(to-from, 0)))
	for to-from >= headerSize {
		b := buf[:min(int64(len(buf)), to-from)]
		if _, err := f.ReadAt(b, from); err != nil && err != io.EOF {
			return 0, fmt.Errorf("read journal at %d: %w", from, err)
		}
		for i := 0; i+headerSize <= len(b); i++ {
			j := bytes.Index(b[i:], mark)
			if j < 0 || i+j+headerSize > len(b) {
				break
			}
			i += j
			if _, _, ok := header(b[i:]); ok {
				return from + int64(i), nil
			}
		}
		from += int64(len(b)) - headerSize + 1
	}
	return to, nil
}
