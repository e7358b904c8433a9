package lease

import (
	"context"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

const (
	// MaxLogPartBytes bounds what one call appends to the log of a running attempt.
	MaxLogPartBytes = 16 << 10
	// LiveLogBytes is roughly how much of a running attempt's log is kept.
	LiveLogBytes = 64 << 10
	// logPause is the shortest time between two parts of an attempt's log.
	logPause = 500 * time.Millisecond
)

// AppendLog stores a part of the runtime's output, which readers see while the attempt runs, and
// extends the lease. position is the number of bytes that were sent before. A repeated call with
// the same position replaces its part and removes the parts after it. AppendLog returns
// INVALID_INPUT for a part that is too long or is not text, RATE_LIMITED if parts follow each other
// within 0.5 s, and LEASE_LOST.
func (h *Attempts) AppendLog(ctx context.Context, p jobs.Principal, f Fence, position int64, part string) (*Answer, error) {
	switch {
	case len(part) > MaxLogPartBytes:
		return nil, apierror.Invalid("text", "A part of a log may have %d bytes; this one has %d.", MaxLogPartBytes, len(part))
	case !utf8.ValidString(part) || strings.ContainsRune(part, 0):
		return nil, apierror.Invalid("text", "A part of a log must be UTF-8 text without NUL characters.")
	case position < 0 || position > math.MaxInt64/2:
		return nil, apierror.Invalid("position", "position must be 0 or more.")
	}
	answer, err := h.beat(ctx, p, f, models.LeaseBeat{})
	if err != nil || part == "" {
		return answer, apierror.Wrap(err, "log of attempt %s", f.AttemptID)
	}
	stored, err := models.AppendLog(ctx, h.DB, f.AttemptID, models.LogChunk{Position: position, Text: part}, LiveLogBytes, logPause)
	if err != nil {
		return nil, apierror.Wrap(err, "append to the log of attempt %s", f.AttemptID)
	}
	if !stored {
		return nil, apierror.Later(apierror.CodeRateLimited, logPause, "Parts of a log must be at least %s apart: send the next one later.",
			text.Setting(logPause))
	}
	return answer, nil
}
