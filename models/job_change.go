package models

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"
)

// JobChange is one change of a job's status. Seq is that of the event that tells
// of it; COMPLETING has no event, and the job's newest.
type JobChange struct {
	JobID     JobID     `bun:"job_id"`
	Seq       int       `bun:"seq"`
	Status    JobStatus `bun:"status"`
	AttemptNo int       `bun:"attempt_no"` // of COMPLETING
	At        time.Time `bun:"at"`
}

// ListJobChanges returns the changes of status that were written after a moment,
// and every job that is COMPLETING now; those of one job in their order.
func ListJobChanges(ctx context.Context, db bun.IDB, after time.Time) ([]JobChange, error) {
	var found []JobChange
	err := db.NewRaw(`
		SELECT job_id, seq, 0 AS attempt_no, created_at AS at, CASE type
			WHEN 'LEASED' THEN 'ASSIGNED' WHEN 'STARTED' THEN 'RUNNING'
			WHEN 'REQUEUED' THEN 'QUEUED' WHEN 'RETRY_SCHEDULED' THEN 'SCHEDULED' ELSE type END AS status
		FROM job_events
		WHERE created_at > ?0 AND type IN ('QUEUED', 'SCHEDULED', 'BLOCKED', 'LEASED', 'STARTED', 'REQUEUED',
			'RETRY_SCHEDULED', 'COMPLETED', 'FAILED', 'CANCELLED')
			AND NOT (type = 'QUEUED' AND jsonb_exists(payload, 'from')) -- it only moved to another lane
		UNION ALL
		SELECT id, event_seq, attempt_no, clock_timestamp(), status FROM jobs WHERE status = 'COMPLETING'
		ORDER BY job_id, seq, attempt_no`, after).Scan(ctx, &found)
	return found, err
}

// Matches tells whether a filter's list has a job, but for Dead, which needs
// more than the job's row.
func (f JobFilter) Matches(j *Job) bool {
	return (f.AccountID == "" || f.AccountID == j.AccountID) &&
		among(f.Status, j.Status) && among(f.Tier, j.Tier) && among(f.FailureClass, j.FailureClass) &&
		(f.Type == "" || f.Type == j.Type) && (f.Model == "" || f.Model == j.Model) && (f.UserID == "" || f.UserID == j.UserID) &&
		(f.CreatedAfter.IsZero() || j.CreatedAt.After(f.CreatedAfter)) &&
		(f.CreatedBefore.IsZero() || j.CreatedAt.Before(f.CreatedBefore))
}

func among[T comparable](wanted []T, value T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, value)
}
