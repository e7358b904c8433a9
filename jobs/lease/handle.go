package lease

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
)

// MaxHandleBytes bounds the handle of a job.
const MaxHandleBytes = 2000

// StoreHandle stores a text that identifies work outside the worker, such as the id of a job on
// another server. The next lease of the job contains it, so that the next attempt can adopt that
// work instead of starting it again. A newer handle replaces it; an empty one, and the end of the
// job, clear it. StoreHandle returns INVALID_INPUT for a value that is too long or is not text.
func (h *Attempts) StoreHandle(ctx context.Context, p jobs.Principal, f Fence, value string) (*Answer, error) {
	// The messages do not quote the value, which can be a secret.
	switch {
	case len(value) > MaxHandleBytes:
		return nil, apierror.Invalid("value", "A handle may have %d bytes; this one has %d.", MaxHandleBytes, len(value))
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return nil, apierror.Invalid("value", "A handle must be UTF-8 text without NUL characters: encode other bytes, for example in base64.")
	}
	l, err := h.fenced(ctx, &fencedCall{p: p, fence: f, act: func(_ context.Context, l *lockedLease) error {
		l.job.Handle = value
		return nil
	}})
	if err != nil {
		return nil, apierror.Wrap(err, "store the handle of attempt %s", f.AttemptID)
	}
	answer := l.answer()
	return answer, apierror.Wrap(h.delivered(ctx, answer, l.job.CancelDeliveredAt), "store the handle of attempt %s", f.AttemptID)
}
