package models

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// A delayed job waits only for its time: it is SCHEDULED, or BLOCKED until its run_at. The index
// jobs_due holds these jobs alone, so it repeats this condition word for word.
const delayedSQL = "j.status = 'SCHEDULED' OR j.status = 'BLOCKED' AND j.blocked_by = 0"

// FirstDelayedSQL selects the time of the first delayed job of each lane, or NULL, that meets
// another condition on its run_at.
const FirstDelayedSQL = `
	SELECT (SELECT j.run_at FROM jobs j WHERE (` + delayedSQL + `) AND j.lane = l.lane AND j.run_at %s ORDER BY j.run_at LIMIT 1) AS run_at
	FROM lanes l`

// DuePlace is a delayed job's place among those of its lane.
type DuePlace struct {
	RunAt time.Time
	Order int64
}

// DuePlace returns the job's place among the delayed jobs of its lane.
func (j *Job) DuePlace() DuePlace { return DuePlace{j.RunAt, j.QueueOrder} }

// LockDueJobs locks and returns delayed jobs of a lane whose time has come, the longest overdue
// first and those of one time in the order of their account's queue, without their params and
// metadata. They come after a place. It skips those that other transactions have locked. Call it
// within ReadInOrder, or PostgreSQL may sort all due jobs to find a few.
func LockDueJobs(ctx context.Context, tx bun.Tx, lane Tier, after DuePlace, limit int) (found []*Job, err error) {
	err = tx.NewSelect().Model(&found).ExcludeColumn("params", "metadata").
		Where(delayedSQL).Where("j.lane = ?", lane).Where("j.run_at <= (SELECT clock_timestamp())").
		Where("(j.run_at, j.queue_order) > (?, ?)", after.RunAt, after.Order).
		Order("j.run_at", "j.queue_order").Limit(int64(limit)).For("NO KEY UPDATE SKIP LOCKED").Scan(ctx)
	return found, err
}

// ReadInOrder calls read, whose statements read rows in the order of an index where there is one.
// When many rows have the same time, PostgreSQL expects few of them and would sort.
func ReadInOrder(ctx context.Context, tx bun.Tx, read func() error) error {
	if _, err := tx.ExecContext(ctx, "SET LOCAL enable_sort = off"); err != nil {
		return err
	}
	if err := read(); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "SET LOCAL enable_sort = on") // for the statements that follow
	return err
}
