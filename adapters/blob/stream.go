package blob

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"time"
)

// uploadBody reads an upload. It ends with io.EOF only if the upload is complete and has the
// announced checksum. Every other end is a refusal.
type uploadBody struct {
	from         io.Reader
	stallLimit   time.Duration // for the store
	storeStalled *time.Timer   // runs while the store must act

	size, received int64
	checksum, sum  uint32
	// refused is the refusal with which the body ended, or nil.
	refused error
}

// Read fails with 408 if the sender stalls: the server sets a deadline for each read.
func (b *uploadBody) Read(p []byte) (int, error) {
	b.storeStalled.Stop()
	defer b.storeStalled.Reset(b.stallLimit)
	n, err := b.read(p)
	if err != nil && err != io.EOF {
		b.refused = err
	}
	return n, err
}

// read withholds the last bytes if the checksum is wrong: a store that does not compare checksums must
// not get a whole object.
func (b *uploadBody) read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	b.received += int64(n)
	b.sum = crc32.Update(b.sum, castagnoli, p[:n])
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, refuse(http.StatusRequestTimeout, "The upload stalled after %d of %d bytes. Nothing was stored; send it again.", b.received,
			b.size)
	case err != nil && (err != io.EOF || b.received != b.size):
		return n, refuse(http.StatusBadRequest, "The upload ended after %d of %d bytes. Nothing was stored; send it again.", b.received, b.size)
	case b.received == b.size && b.sum != b.checksum:
		return 0, refuse(http.StatusBadRequest, "The bytes received have CRC32C %s, but this link is for %s. Nothing was stored; send it again.",
			encodeChecksum(b.sum), encodeChecksum(b.checksum))
	}
	return n, err
}

// objectContent is an object for http.ServeContent. It fetches nothing before the first Read
// after a Seek.
type objectContent struct {
	ctx        context.Context
	cancel     func()
	from       backend
	key        string
	size       int64
	stallLimit time.Duration

	offset int64
	reader io.ReadCloser
	err    error // the store's error
}

// Read waits up to stallLimit for the store's next bytes.
func (c *objectContent) Read(p []byte) (int, error) {
	defer time.AfterFunc(c.stallLimit, c.cancel).Stop()
	if c.reader == nil {
		c.reader, c.err = c.from.read(c.ctx, c.key, c.offset, -1)
		if c.err != nil {
			return 0, c.err
		}
	}
	n, err := c.reader.Read(p)
	c.offset += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// Seek sets the position of the next Read.
func (c *objectContent) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.offset
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek to %d", offset)
	}
	if offset != c.offset {
		c.Close()
	}
	c.offset = offset
	return offset, nil
}

// Close ends the running fetch, if there is one.
func (c *objectContent) Close() {
	if c.reader != nil {
		_ = c.reader.Close()
		c.reader = nil
	}
}
