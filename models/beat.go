package models

import (
	"context"
	"database/sql"
	_ "embed"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// LeaseBeat is one heartbeat of a batch. If GPUUtilization or GPUs is nil, the last samples stay.
type LeaseBeat struct {
	Fence
	GPUUtilization []float64   `json:"gpus,omitzero"`
	GPUs           []GPUSample `json:"samples,omitzero"`
	// Progress is the newest progress of the job, or nil if the worker reports none. Its
	// UpdatedAt is ignored.
	*Progress
}

// Thinning says after how many percent, or how much time, the next PROGRESS event of a job is
// written.
type Thinning struct {
	Percent float64
	After   time.Duration
}

// Beat is PostgreSQL's answer to a heartbeat.
type Beat struct {
	JobID             JobID
	LeaseExpiresAt    time.Time
	CancelRequestedAt time.Time
	CancelDeliveredAt time.Time
	CancelReason      string
	WorkerStatus      WorkerStatus
	DrainReason       string
	DrainDeadline     time.Time
	// YieldRequestedAt is as in Attempt, but zero once the request is older than it may be.
	YieldRequestedAt time.Time
	YieldTo          Tier
	// EventWritten is true if an event of the job's progress was written.
	EventWritten bool
}

//go:embed sql/extend_leases.sql
var extendLeasesSQL string

// ExtendLeases restarts the leases of RUNNING attempts that these workers hold under these
// tokens, and returns what it extended. It records the workers' signs of life with their
// newest GPU samples, and the newest progress of each RUNNING or COMPLETING job. It writes an
// event of the progress if thin allows one. Requests to give way that are older than yieldWithin
// are left out. Rows are locked in the usual order, each within patience; see LockLeases.
func ExtendLeases(ctx context.Context, db bun.IDB, beats []LeaseBeat, ttl, yieldWithin time.Duration, thin Thinning,
	patience time.Duration) (map[Fence]*Beat, error) {
	arg, err := postgres.RowsArg(newestOf(beats))
	if err != nil {
		return nil, err
	}
	extended := make(map[Fence]*Beat, len(beats))
	rows, err := postgres.Run(ctx, db, extendLeasesSQL, pgx.NamedArgs{
		"beats": arg, "ttl": ttl.Seconds(), "yield_within": yieldWithin.Seconds(),
		"thin_percent": thin.Percent, "thin_after": thin.After.Seconds(), "patience": lockTimeout(patience),
	})
	err = postgres.Scan(rows, err, func(rows *sql.Rows) error {
		var hold Fence
		var b Beat
		var cancelRequested, cancelDelivered, deadline, yieldRequested sql.NullTime
		var cancelReason, drainReason, yieldTo sql.NullString
		err := rows.Scan(&hold.WorkerID, &hold.AttemptID, &hold.Token, &b.JobID, &b.LeaseExpiresAt,
			&cancelRequested, &cancelDelivered, &cancelReason, &b.WorkerStatus, &drainReason, &deadline, &b.EventWritten, &yieldRequested, &yieldTo)
		b.CancelRequestedAt, b.CancelDeliveredAt, b.DrainDeadline = cancelRequested.Time, cancelDelivered.Time, deadline.Time
		b.CancelReason, b.DrainReason = cancelReason.String, drainReason.String
		b.YieldRequestedAt, b.YieldTo = yieldRequested.Time, Tier(yieldTo.String)
		extended[hold] = &b
		return err
	})
	return extended, err
}

// newestOf merges the beats of each lease into one, with the newest samples and progress.
func newestOf(beats []LeaseBeat) []LeaseBeat {
	var newest []LeaseBeat
	index := make(map[Fence]int, len(beats))
	for _, b := range beats {
		i, known := index[b.Fence]
		if !known {
			index[b.Fence] = len(newest)
			newest = append(newest, b)
			continue
		}
		if b.GPUUtilization != nil {
			newest[i].GPUUtilization = b.GPUUtilization
		}
		if b.GPUs != nil {
			newest[i].GPUs = b.GPUs
		}
		if b.Progress != nil {
			newest[i].Progress = b.Progress
		}
	}
	return newest
}

// Touch is a sign of life of a worker. If Warm is nil, the worker's warm models stay.
type Touch struct {
	WorkerID WorkerID `json:"worker_id"`
	Warm     []string `json:"warm,omitzero"`
}

//go:embed sql/touch_workers.sql
var touchWorkersSQL string

// TouchWorkers records signs of life, at most one per worker, with the models that the workers
// hold warm, and returns the workers. It skips the write if the last sign is less than 5
// seconds old and nothing else changed. It waits for each row up to patience; see LockLeases.
func TouchWorkers(ctx context.Context, db bun.IDB, touches []Touch, patience time.Duration) (touched []*Worker, err error) {
	arg, err := postgres.RowsArg(touches)
	if err != nil {
		return nil, err
	}
	rows, err := postgres.Run(ctx, db, touchWorkersSQL, pgx.NamedArgs{"signs": arg, "patience": lockTimeout(patience)})
	err = postgres.Scan(rows, err, func(rows *sql.Rows) error {
		var w postgres.RowScan[Worker]
		err := rows.Scan(&w)
		touched = append(touched, w.Row)
		return err
	})
	return touched, err
}
