package operate

import (
	"context"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// MaxDiscards is how many dead letters one call of DiscardAll settles.
const MaxDiscards = 10_000

// DiscardAll settles the open dead letters with a cause without another run, the oldest first, at
// most limit (1 to MaxDiscards). It returns how many. It returns FORBIDDEN for callers other than
// operators.
func (d *DeadLetters) DiscardAll(ctx context.Context, p jobs.Principal, fingerprint, note string, limit int) (int, error) {
	if err := p.RequireOperator(); err != nil {
		return 0, err
	}
	switch {
	case !text.Valid(note, 0, maxNoteRunes):
		return 0, apierror.Invalid("note", "note may have %d printable characters.", maxNoteRunes)
	case !text.Valid(fingerprint, 1, submit.MaxUserIDBytes):
		return 0, apierror.Invalid("fingerprint", "fingerprint must be the fingerprint of a dead letter.")
	case limit < 1 || limit > MaxDiscards:
		return 0, apierror.Invalid("limit", "limit must be from 1 to %d; it is %d.", MaxDiscards, limit)
	}
	discarded := 0
	err := jobs.InTx(ctx, d.DB, func(ctx context.Context, tx bun.Tx) error {
		// A redrive or a retry locks the job first, too. The letters are read again under the lock.
		seen, err := models.LockDeadLetters(ctx, tx, fingerprint, limit)
		if err != nil {
			return err
		}
		if discarded, err = models.DiscardDeadLetters(ctx, tx, seen, string(p.KeyID), note); err != nil || discarded == 0 {
			return err
		}
		return p.Audit(ctx, tx, "discardDeadLetters", fingerprint, jobs.Payload{"discarded": discarded})
	})
	return discarded, apierror.Wrap(err, "discard the dead letters %s", fingerprint)
}
