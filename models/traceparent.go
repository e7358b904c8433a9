package models

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// TracedJob is a job that has a traceparent.
type TracedJob struct {
	ID          JobID     `bun:"id"`
	Traceparent string    `bun:"traceparent"`
	Now         time.Time `bun:"now"`
}

// ListTraceparents returns those of these jobs that have a traceparent, with the time.
func ListTraceparents(ctx context.Context, db bun.IDB, ids []JobID) (found []TracedJob, err error) {
	err = db.NewSelect().Model((*Job)(nil)).Column("id", "traceparent").ColumnExpr("clock_timestamp() AS now").
		Where("j.id IN (?) AND j.traceparent IS NOT NULL", bun.List(ids)).Scan(ctx, &found)
	return found, err
}
