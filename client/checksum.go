package client

import (
	"encoding/base64"
	"hash"
	"hash/crc32"
	"io"
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
