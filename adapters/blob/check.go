package blob

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"mime"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/reelay/reelay/jobs"
)

// maxKeyBytes is the limit of Google Cloud Storage.
const maxKeyBytes = 1024

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checkUpload(u jobs.Upload) error {
	if err := checkKey(u.Key); err != nil {
		return err
	}
	if u.SizeBytes < 0 {
		return fmt.Errorf("an object of %d bytes cannot be", u.SizeBytes)
	}
	if _, _, err := mime.ParseMediaType(u.ContentType); err != nil {
		return fmt.Errorf("%q is not a content type: %w", u.ContentType, err)
	}
	_, err := decodeChecksum(u.Checksum)
	return err
}

// checkKey refuses every key that a file system, a URL or a proxy could confuse with another
// key.
func checkKey(key string) error {
	if key == "" || len(key) > maxKeyBytes {
		return fmt.Errorf("an object key has 1 to %d bytes, not %d", maxKeyBytes, len(key))
	}
	if !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) || strings.Contains(key, `\`) {
		return errors.New("an object key is UTF-8 without control characters and backslashes")
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || part == "." || part == ".." {
			return errors.New(`an object key has no empty, "." or ".." part between its slashes`)
		}
	}
	return nil
}

// newChecksum returns a hash of the kind that this package compares.
func newChecksum() hash.Hash32 { return crc32.New(castagnoli) }

func encodeChecksum(sum uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

func decodeChecksum(text string) (uint32, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != crc32.Size || strings.ContainsAny(text, "\r\n") { // the decoder skips line breaks
		return 0, fmt.Errorf("%q is not a CRC32C in base64", text)
	}
	return binary.BigEndian.Uint32(raw), nil
}

// disposition returns the Content-Disposition that makes a browser save an object under
// filename.
func disposition(filename string) string {
	if filename == "" {
		return "attachment"
	}
	return mime.FormatMediaType("attachment", map[string]string{"filename": filename})
}
