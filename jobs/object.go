package jobs

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/reelay/reelay/jobs/apierror"
)

// UploadTTL is how long an upload link is valid.
const UploadTTL = time.Hour

// StoreAway is the error for callers when the object store is unavailable.
func StoreAway(ctx context.Context, err error) *apierror.Error {
	slog.WarnContext(ctx, "the object store cannot be asked", "error", err)
	return apierror.Later(apierror.CodeUnavailable, 5*time.Second, "The object store cannot be asked now.")
}

func mismatch(format string, args ...any) *apierror.Error {
	return &apierror.Error{Code: apierror.CodeChecksumMismatch, Message: fmt.Sprintf(format, args...)}
}

func validChecksum(checksum string) error {
	// The decoder skips line breaks, which the store's own text never has.
	if sum, err := base64.StdEncoding.Strict().DecodeString(checksum); err != nil || len(sum) != 4 || strings.ContainsAny(checksum, "\r\n") {
		return apierror.Invalid("checksum", "checksum must be the CRC32C of the object, big-endian, in base64: eight characters.")
	}
	return nil
}
