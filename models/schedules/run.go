package schedules

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// OpenRun is a slot that is PENDING, or whose job or workflow has not ended.
type OpenRun struct {
	At time.Time `bun:"slot"`
	// JobID and WorkflowID are empty while the slot is PENDING. Wait is the time until a PENDING
	// slot is next due; it is negative if that has passed, and 0 for other slots.
	JobID      models.JobID      `bun:"job_id"`
	WorkflowID models.WorkflowID `bun:"workflow_id"`
	Wait       time.Duration     `bun:"wait"`
}

// Pending reports whether the slot is PENDING.
func (r OpenRun) Pending() bool { return r.JobID == "" && r.WorkflowID == "" }

// EndOfTime is after all slots.
var EndOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// ListOpenRuns returns which of the newest slots of a schedule before another are open, the oldest
// first. Slots of backfills do not count.
func ListOpenRuns(ctx context.Context, db bun.IDB, id models.ScheduleID, before time.Time, limit int) (open []OpenRun, err error) {
	err = db.NewRaw(`
		SELECT s.slot, s.job_id, s.workflow_id, coalesce(1e9 * extract(epoch FROM s.due_at - clock_timestamp()), 0)::bigint AS wait FROM (
			SELECT * FROM schedule_slots WHERE schedule_id = ? AND slot < ? AND state IN ('PENDING', 'FIRED') AND cause <> 'BACKFILL'
			ORDER BY slot DESC LIMIT ?) s
		LEFT JOIN jobs j ON j.id = s.job_id
		LEFT JOIN workflows w ON w.id = s.workflow_id
		WHERE s.state = 'PENDING' OR j.status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED') OR w.status = 'RUNNING' ORDER BY s.slot`, id, before,
		limit).Scan(ctx, &open)
	return open, err
}

// ListOpenBackfills returns the slots of backfills of a schedule whose job or workflow has not ended,
// among the limit that ended last, the newest first.
func ListOpenBackfills(ctx context.Context, db bun.IDB, id models.ScheduleID, limit int) (open []OpenRun, err error) {
	err = db.NewRaw(`
		SELECT s.slot, s.job_id, s.workflow_id FROM (
			SELECT * FROM schedule_slots WHERE schedule_id = ? AND cause = 'BACKFILL' AND ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT ?) s
		LEFT JOIN jobs j ON j.id = s.job_id
		LEFT JOIN workflows w ON w.id = s.workflow_id
		WHERE s.state = 'FIRED' AND (j.status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED') OR w.status = 'RUNNING') ORDER BY s.ended_at DESC`, id,
		limit).Scan(ctx, &open)
	return open, err
}

// CountEarlierBackfills counts the slots of backfills of a schedule that wait and are before another.
func CountEarlierBackfills(ctx context.Context, db bun.IDB, id models.ScheduleID, before time.Time) (int, error) {
	n, err := db.NewSelect().Model((*Slot)(nil)).Where("sl.schedule_id = ? AND sl.cause = 'BACKFILL' AND sl.ended_at IS NULL AND sl.slot < ?", id, before).Count(ctx)
	return int(n), err
}
