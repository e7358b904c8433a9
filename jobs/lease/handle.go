package lease

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/costs"
)

// MaxHandleBytes bounds the handle of a job.
const MaxHandleBytes = 2000

// StoreHandle stores a text that identifies work outside the worker, such as the id of a job on
// another server. The next lease of the job contains it, so that the next attempt can adopt that
// work instead of starting it again. A newer handle replaces it; an empty one, and the end of the
// job, clear it. What the handle of a hosted provider's worker asks of the provider is kept for the
// fee. StoreHandle returns INVALID_INPUT for a value that is too long or is not text, and for one
// that asks for what no provider bills.
func (h *Attempts) StoreHandle(ctx context.Context, p jobs.Principal, f Fence, value string) (*Answer, error) {
	// The messages do not quote the value, which can be a secret.
	switch {
	case len(value) > MaxHandleBytes:
		return nil, apierror.Invalid("value", "A handle may have %d bytes; this one has %d.", MaxHandleBytes, len(value))
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return nil, apierror.Invalid("value", "A handle must be UTF-8 text without NUL characters: encode other bytes, for example in base64.")
	}
	work, problem := readWork(value)
	if problem != "" {
		return nil, apierror.Invalid("value", "What the handle asks of a provider is wrong: %s.", problem)
	}
	l, err := h.fenced(ctx, &fencedCall{p: p, fence: f, writes: work != nil, act: func(ctx context.Context, l *lockedLease) error {
		l.job.Handle = value
		if work == nil || l.worker.Provider != engine.Provider {
			return nil
		}
		return costs.KeepAsked(ctx, l.change.Tx, &costs.ProviderJob{
			JobID: l.job.ID, Key: work.Key, PoolID: l.worker.PoolID, Asked: work.Asked, Ref: work.Ref, Made: work.Made,
		})
	}})
	if err != nil {
		return nil, apierror.Wrap(err, "store the handle of attempt %s", f.AttemptID)
	}
	answer := l.answer()
	return answer, apierror.Wrap(h.delivered(ctx, answer, l.job.CancelDeliveredAt), "store the handle of attempt %s", f.AttemptID)
}

// paidWork is what a handle says of work at a hosted provider. The agent's package remote writes such handles.
type paidWork struct {
	// Key is Reelay's own id of the submit, a UUID, and Ref the provider's, once it has answered.
	Key, Ref string
	Asked    provider.Asked
	// Made reports that the provider made the video.
	Made bool
}

// maxRefBytes bounds the provider's id of a job, as package provider does.
const maxRefBytes = 1000

// readWork returns what a handle says, or nil if it is of another kind, and what is wrong with it, or "".
func readWork(handle string) (work *paidWork, problem string) {
	var kind struct {
		Asked json.RawMessage `json:"asked"`
	}
	if json.Unmarshal([]byte(handle), &kind) != nil || len(kind.Asked) == 0 || string(kind.Asked) == "null" {
		return nil, ""
	}
	work = &paidWork{}
	switch err := json.Unmarshal([]byte(handle), work); {
	case err != nil:
		return nil, "key and ref must be texts, and asked must have model, seconds, resolution and audio"
	case uuid.Validate(work.Key) != nil || len(work.Key) != 36:
		return nil, "the key must be a UUID"
	case len(work.Ref) > maxRefBytes || strings.ContainsRune(work.Ref, 0):
		return nil, "the provider's id of the job may have 1,000 bytes"
	}
	return work, work.Asked.Check()
}
