package models

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// Wanted is what the rows ask of a worker: the worker's own row, and the row of the job that
// it holds, if any.
type Wanted struct {
	Status            WorkerStatus `bun:"status"`
	DrainReason       string       `bun:"drain_reason"`
	DrainDeadline     time.Time    `bun:"drain_deadline"`
	JobID             JobID        `bun:"job_id"`
	CancelRequestedAt time.Time    `bun:"cancel_requested_at"`
	CancelReason      string       `bun:"cancel_reason"`
}

// GetWanted returns what is asked of a worker, or sql.ErrNoRows.
func GetWanted(ctx context.Context, db bun.IDB, id WorkerID) (*Wanted, error) {
	w := new(Wanted)
	err := db.NewRaw(`
		SELECT w.status, w.drain_reason, w.drain_deadline,
			j.id AS job_id, j.cancel_requested_at, j.cancel_reason
		FROM workers w
		LEFT JOIN job_attempts a ON a.worker_id = w.id AND a.ended_at IS NULL
		LEFT JOIN jobs j ON j.id = a.job_id
		WHERE w.id = ?`, id).Scan(ctx, w)
	return w, err
}
