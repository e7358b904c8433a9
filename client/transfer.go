package client

import (
	"context"
	"encoding/base64"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"time"
)

// NewChecksum returns the hash that objects are verified with: CRC32C.
func NewChecksum() hash.Hash32 { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) }

// FormatChecksum formats a checksum as the API and the object store do: base64 of the
// big-endian bytes.
func FormatChecksum(h hash.Hash32) string { return base64.StdEncoding.EncodeToString(h.Sum(nil)) }

// Checksum reads r to its end and returns its checksum and size.
func Checksum(r io.Reader) (checksum string, size int64, err error) {
	h := NewChecksum()
	size, err = io.Copy(h, r)
	return FormatChecksum(h), size, err
}

// stallTimeout is how long a transfer may make no progress. Its total time has no
// limit: videos may be large and connections slow.
const stallTimeout = 60 * time.Second

var errStalled = errors.New("the transfer made no progress for a minute")

// guardStall returns a context that ends if nothing is read through the readers of
// watch for stallTimeout.
func guardStall(ctx context.Context) (guarded context.Context, watch func(io.Reader) io.Reader, stop func()) {
	guarded, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	watch = func(r io.Reader) io.Reader { return stallReader{r, timer} }
	return guarded, watch, func() { timer.Stop(); cancel(nil) }
}

type stallReader struct {
	io.Reader
	timer *time.Timer
}

func (r stallReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.timer.Reset(stallTimeout)
	return n, err
}
