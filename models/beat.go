package models

import (
	"context"
	"database/sql"
	_ "embed"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
)

// LeaseBeat is one of many heartbeats. GPUUtilization may be nil: as before.
type LeaseBeat struct {
	Hold
	GPUUtilization []float64 `json:"gpus,omitzero"`
	// Progress is the newest of the job, if the worker reports it; its UpdatedAt is not
	// read.
	*Progress
}

// Thinning is how far a job's progress, or how late, is told by an event again.
type Thinning struct {
	Percent float64
	After   time.Duration
}

// Beat is a heartbeat's answer as PostgreSQL gives it.
type Beat struct {
	JobID             JobID
	LeaseExpiresAt    time.Time
	CancelRequestedAt time.Time
	CancelDeliveredAt time.Time
	CancelReason      string
	WorkerStatus      WorkerStatus
	DrainReason       string
	DrainDeadline     time.Time
	// Told is whether an event tells of the job's progress.
	Told bool
}

//go:embed sql/extend_leases.sql
var extendLeasesSQL string

// ExtendLeases restarts the leases of those attempts that are RUNNING and held by
// that worker under that token, notes that sign of their workers' life with the
// newest of each one's samples, keeps the newest progress that is reported of each job
// that is RUNNING or COMPLETING, with an event of it by thinning, and returns what it
// extended. It locks them in the order of locks.
func ExtendLeases(ctx context.Context, db bun.IDB, beats []LeaseBeat, ttl time.Duration, thin Thinning) (map[Hold]*Beat, error) {
	type placed struct {
		Place int `json:"place"`
		LeaseBeat
	}
	asked := make([]placed, len(beats))
	for i, b := range beats {
		asked[i] = placed{i, b}
	}
	arg, err := rowsArg(asked)
	if err != nil {
		return nil, err
	}
	extended := make(map[Hold]*Beat, len(beats))
	rows, err := run(ctx, db, extendLeasesSQL, pgx.NamedArgs{
		"beats": arg, "ttl": ttl.Seconds(), "thin_percent": thin.Percent, "thin_after": thin.After.Seconds(),
	})
	err = scan(rows, err, func(rows *sql.Rows) error {
		var hold Hold
		var b Beat
		var cancelRequested, cancelDelivered, deadline sql.NullTime
		var cancelReason, drainReason sql.NullString
		err := rows.Scan(&hold.WorkerID, &hold.AttemptID, &hold.Token, &b.JobID, &b.LeaseExpiresAt,
			&cancelRequested, &cancelDelivered, &cancelReason, &b.WorkerStatus, &drainReason, &deadline, &b.Told)
		b.CancelRequestedAt, b.CancelDeliveredAt, b.DrainDeadline = cancelRequested.Time, cancelDelivered.Time, deadline.Time
		b.CancelReason, b.DrainReason = cancelReason.String, drainReason.String
		extended[hold] = &b
		return err
	})
	return extended, err
}

// Touch is a sign of a worker's life. Warm may be nil: as before.
type Touch struct {
	WorkerID WorkerID `json:"worker_id"`
	Warm     []string `json:"warm,omitzero"`
}

//go:embed sql/touch_workers.sql
var touchWorkersSQL string

// TouchWorkers notes signs of workers' life, each of which is there once, and what
// they hold warm, and returns the workers: of a sign that is hardly newer than the
// last, nothing is written.
func TouchWorkers(ctx context.Context, db bun.IDB, touches []Touch) (touched []*Worker, err error) {
	arg, err := rowsArg(touches)
	if err != nil {
		return nil, err
	}
	rows, err := run(ctx, db, touchWorkersSQL, pgx.NamedArgs{"signs": arg})
	err = scan(rows, err, func(rows *sql.Rows) error {
		var w rowScan[Worker]
		err := rows.Scan(&w)
		touched = append(touched, w.row)
		return err
	})
	return touched, err
}
