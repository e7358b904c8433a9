package schedule

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models/schedules"
	"github.com/uptrace/bun"
)

const maxKey = 255

// key returns the idempotency key of an input and the digest of the rest, or nothing without a key.
func (in Input) key() (key string, digest []byte, err error) {
	if in.IdempotencyKey == nil {
		return "", nil, nil
	}
	if key = *in.IdempotencyKey; !text.Valid(key, 1, maxKey) {
		return "", nil, apierror.Invalid("idempotencyKey", "The idempotency key must have 1 to %d printable characters.", maxKey)
	}
	in.IdempotencyKey = nil
	plain, err := json.Marshal(in)
	if err != nil {
		return "", nil, fmt.Errorf("encode the request: %w", err)
	}
	sum := sha256.Sum256(plain)
	return key, sum[:], nil
}

// repeated returns the schedule that was made with the key of another, or nil. It returns
// IDEMPOTENCY_CONFLICT if the requests differ.
func repeated(ctx context.Context, tx bun.Tx, s *schedules.Schedule) (*schedules.Schedule, error) {
	if s.IdempotencyKey == "" {
		return nil, nil
	}
	known, err := schedules.GetScheduleByKey(ctx, tx, s.AccountID, s.IdempotencyKey)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look up the key: %w", err)
	case !bytes.Equal(known.RequestDigest, s.RequestDigest):
		return nil, apierror.New(apierror.CodeIdempotencyConflict,
			"A schedule was made with this idempotency key and another request: send the same request, or another key.").In("idempotencyKey")
	}
	return known, nil
}

// nameAfter names a schedule after what it submits and when, such as "testcard every weekday at 09:00", with
// the time at which it was made if that is taken.
func nameAfter(ctx context.Context, tx bun.Tx, s *schedules.Schedule) error {
	times, err := Times(s)
	if err != nil {
		return err
	}
	when := text.Clip(times.Words(), 40)
	of := cmp.Or(s.Workflow, s.Model)
	for _, more := range []string{"", " (" + text.Moment(s.CreatedAt.UTC(), s.CreatedAt) + ")", " (" +
		text.MomentToSecond(s.CreatedAt.UTC(), s.CreatedAt) + ")", " (" + string(s.ID)[len(s.ID)-12:] + ")"} {
		s.Name = text.Clip(of, 98-len(when)-len(more)) + " " + when + more
		if _, err := schedules.GetScheduleByName(ctx, tx, s.AccountID, s.Name); errors.Is(err, sql.ErrNoRows) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
