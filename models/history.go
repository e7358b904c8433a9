package models

import (
	"context"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// HistorySpan is a span of time of which the history knows what happened. All sums of gauges are
// over its Samples.
type HistorySpan struct {
	bun.BaseModel `bun:"table:history,alias:h"`

	// Seconds is the length of the span: 60, 600, 3600 or 86400. At is when it begins.
	Seconds int       `bun:"seconds,pk"`
	At      time.Time `bun:"at,pk"`
	// Minutes is how many of its minutes are known, Samples in how many of them gauges were read.
	Minutes int `bun:"minutes"`
	Samples int `bun:"samples"`
	HistoryGauges
}

// HistoryGauges are the gauges of all of Reelay.
type HistoryGauges struct {
	Scheduled   float64 `bun:"scheduled"`
	Blocked     float64 `bun:"blocked"`
	DeadLetters float64 `bun:"dead_letters"`
	// DrainSeconds is the time to empty all queues. DrainSamples is how many samples knew it.
	DrainSeconds float64 `bun:"drain_seconds"`
	DrainSamples int     `bun:"drain_samples"`
}

// Add adds another span's gauges.
func (g *HistoryGauges) Add(other HistoryGauges) {
	g.Scheduled += other.Scheduled
	g.Blocked += other.Blocked
	g.DeadLetters += other.DeadLetters
	g.DrainSeconds += other.DrainSeconds
	g.DrainSamples += other.DrainSamples
}

// HistoryJobs is what happened to the jobs of a lane and model in a span.
type HistoryJobs struct {
	bun.BaseModel `bun:"table:history_jobs,alias:hj"`

	Seconds int       `bun:"seconds,pk"`
	At      time.Time `bun:"at,pk"`
	Lane    Tier      `bun:"lane,pk"`
	Model   string    `bun:"model,pk"`

	Submitted int `bun:"submitted"`
	// Started counts first leases of runs, the next three ends of runs.
	Started   int                  `bun:"started"`
	Completed int                  `bun:"completed"`
	Failed    int                  `bun:"failed"`
	Cancelled int                  `bun:"cancelled"`
	Failures  map[FailureClass]int `bun:"failures,type:jsonb"`
	// Waits are from queued to the first lease, Pickups from a lease to its start, Renders all
	// leases of a completed run.
	Waits   Histogram `bun:"waits,type:jsonb"`
	Pickups Histogram `bun:"pickups,type:jsonb"`
	Renders Histogram `bun:"renders,type:jsonb"`

	Queued float64 `bun:"queued"`
	// Closed is how many of the queued jobs could not start, because their queue was paused or all
	// leases halted.
	Closed        float64 `bun:"closed"`
	QueuedMax     float64 `bun:"queued_max"`
	Running       float64 `bun:"running"`
	OldestWaitMax float64 `bun:"oldest_wait_max"`
}

// Add adds what happened in another span, or to other jobs. QueuedMax is right if it is the
// former.
func (j *HistoryJobs) Add(other *HistoryJobs) {
	j.Submitted += other.Submitted
	j.Started += other.Started
	j.Completed += other.Completed
	j.Failed += other.Failed
	j.Cancelled += other.Cancelled
	if j.Failures == nil {
		j.Failures = map[FailureClass]int{}
	}
	for class, n := range other.Failures {
		j.Failures[class] += n
	}
	j.Waits.Add(other.Waits)
	j.Pickups.Add(other.Pickups)
	j.Renders.Add(other.Renders)
	j.Queued += other.Queued
	j.Closed += other.Closed
	j.QueuedMax = max(j.QueuedMax, other.QueuedMax)
	j.Running += other.Running
	j.OldestWaitMax = max(j.OldestWaitMax, other.OldestWaitMax)
}

// HistoryPool is what happened on the workers of a pool in a span. Pool is empty for workers
// without one.
type HistoryPool struct {
	bun.BaseModel `bun:"table:history_pools,alias:hp"`

	Seconds int       `bun:"seconds,pk"`
	At      time.Time `bun:"at,pk"`
	Pool    string    `bun:"pool,pk"`
	Region  string    `bun:"region,pk"`
	GPUType string    `bun:"gpu_type,pk"`

	// Attempts counts the attempts that ended: Preempted those whose worker was lost or handed
	// them back by no operator's doing, Expired those whose lease ran out.
	Attempts  int `bun:"attempts"`
	Preempted int `bun:"preempted"`
	Expired   int `bun:"expired"`
	// ByOperators counts the attempts whose worker an operator preempted. Preempted leaves them out.
	ByOperators int `bun:"by_operators"`
	// Paid is the paid time of the machines.
	Paid Paid `bun:"paid,type:jsonb"`
	// Checkpoints is how long checkpoints stopped their render, Recoveries the time from the loss
	// of a worker until its job ran again.
	Checkpoints Histogram `bun:"checkpoints,type:jsonb"`
	Recoveries  Histogram `bun:"recoveries,type:jsonb"`

	Booting  float64 `bun:"booting"`
	Idle     float64 `bun:"idle"`
	Busy     float64 `bun:"busy"`
	Draining float64 `bun:"draining"`
	// GPUs is how many report how busy they are, GPUsBusy the sum of that (each 0 to 1).
	GPUs     float64 `bun:"gpus"`
	GPUsBusy float64 `bun:"gpus_busy"`
}

// Add adds what happened in another span, or on other workers.
func (p *HistoryPool) Add(other *HistoryPool) {
	p.Attempts += other.Attempts
	p.Preempted += other.Preempted
	p.Expired += other.Expired
	p.ByOperators += other.ByOperators
	p.Paid.Add(other.Paid)
	p.Checkpoints.Add(other.Checkpoints)
	p.Recoveries.Add(other.Recoveries)
	p.Booting += other.Booting
	p.Idle += other.Idle
	p.Busy += other.Busy
	p.Draining += other.Draining
	p.GPUs += other.GPUs
	p.GPUsBusy += other.GPUsBusy
}

// HistoryRows is what the history has of some spans.
type HistoryRows struct {
	Spans []*HistorySpan
	Jobs  []*HistoryJobs
	Pools []*HistoryPool
}

// HistoryPiece asks for the spans of a length that begin from one time and before another.
type HistoryPiece struct {
	Seconds  int
	From, To time.Time
}

// ListHistory returns the spans of these pieces.
func ListHistory(ctx context.Context, db bun.IDB, pieces []HistoryPiece) (*HistoryRows, error) {
	found := new(HistoryRows)
	for table, rows := range map[string]any{"history": &found.Spans, "history_jobs": &found.Jobs, "history_pools": &found.Pools} {
		// OFFSET 0 makes PostgreSQL read each piece by the primary key: it takes pieces to be long.
		err := db.NewRaw(`
			SELECT r.* FROM unnest(?::integer[], ?::timestamptz[], ?::timestamptz[]) AS piece (seconds, since, until)
			CROSS JOIN LATERAL (
				SELECT * FROM ? h WHERE h.seconds = piece.seconds AND h.at >= piece.since AND h.at < piece.until OFFSET 0) r`,
			pgdialect.Array(postgres.Column(pieces, func(p HistoryPiece) int { return p.Seconds })),
			pgdialect.Array(postgres.Column(pieces, func(p HistoryPiece) time.Time { return p.From })),
			pgdialect.Array(postgres.Column(pieces, func(p HistoryPiece) time.Time { return p.To })), bun.Ident(table)).Scan(ctx, rows)
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// PutHistory writes a span and what happened in it. It reports whether it did: a span is written
// once, by the first process to do so.
func PutHistory(ctx context.Context, tx bun.Tx, span *HistorySpan, jobs []*HistoryJobs, pools []*HistoryPool) (bool, error) {
	n, err := postgres.Affected(tx.NewInsert().Model(span).On("CONFLICT DO NOTHING").Exec(ctx))
	if err != nil || n == 0 {
		return false, err
	}
	for _, j := range jobs {
		j.Seconds, j.At = span.Seconds, span.At
	}
	for _, p := range pools {
		p.Seconds, p.At = span.Seconds, span.At
	}
	if len(jobs) > 0 {
		if _, err := tx.NewInsert().Model(&jobs).Exec(ctx); err != nil {
			return false, err
		}
	}
	if len(pools) > 0 {
		if _, err := tx.NewInsert().Model(&pools).Exec(ctx); err != nil {
			return false, err
		}
	}
	return true, nil
}

// HistoryState is what the history has, by PostgreSQL's clock.
type HistoryState struct {
	Now time.Time `bun:"now"`
	// BeganAt is when Reelay was installed. There is nothing to know of the time before.
	BeganAt time.Time `bun:"began_at"`
	// Newest is the begin of the newest span of each length that is asked for, or zero.
	Newest []time.Time `bun:"-"`
}

// ReadHistoryState returns the state, with the newest spans of these lengths.
func ReadHistoryState(ctx context.Context, db bun.IDB, lengths []int) (*HistoryState, error) {
	state := &HistoryState{Newest: make([]time.Time, len(lengths))}
	if err := db.NewRaw("SELECT clock_timestamp() AS now, began_at FROM learning").Scan(ctx, state); err != nil {
		return nil, err
	}
	var newest []struct {
		Place int       `bun:"place"`
		At    time.Time `bun:"at"`
	}
	err := db.NewRaw(`
		SELECT asked.place, newest.at FROM unnest(?::integer[]) WITH ORDINALITY AS asked (seconds, place)
		CROSS JOIN LATERAL (SELECT at FROM history h WHERE h.seconds = asked.seconds ORDER BY at DESC LIMIT 1) newest`,
		pgdialect.Array(lengths)).Scan(ctx, &newest)
	if err != nil {
		return nil, err
	}
	for _, n := range newest {
		state.Newest[n.Place-1] = n.At
	}
	return state, nil
}

// MissingHistory returns the begins of the spans of a length from one time and before another
// that the history does not have, newest first, up to limit.
func MissingHistory(ctx context.Context, db bun.IDB, seconds int, from, to time.Time, limit int) ([]time.Time, error) {
	var missing []time.Time
	err := db.NewRaw(`
		SELECT wanted.at FROM generate_series(?1::timestamptz, ?2::timestamptz - interval '1 microsecond', make_interval(secs => ?0)) AS wanted (at)
		WHERE NOT EXISTS (SELECT FROM history h WHERE h.seconds = ?0 AND h.at = wanted.at)
		ORDER BY wanted.at DESC LIMIT ?3`, seconds, from, to, limit).Scan(ctx, &missing)
	return missing, err
}

// ForgetHistory deletes the spans of a length that began before a time, up to limit.
func ForgetHistory(ctx context.Context, db bun.IDB, seconds int, before time.Time, limit int) (int, error) {
	return postgres.Affected(db.NewRaw(`
		DELETE FROM history WHERE seconds = ?0 AND at IN (SELECT at FROM history WHERE seconds = ?0 AND at < ?1 ORDER BY at LIMIT ?2)`,
		seconds, before, limit).Exec(ctx))
}
