package models

import (
	"context"
	"slices"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Fallback names the models that may render a job instead of its own.
type Fallback struct {
	Models []string `json:"models"`
	// Defaulted are the params that the client did not give. If they still have the default of one model, they
	// get that of the next.
	Defaulted []string `json:"defaulted,omitzero"`
}

// JobRoute is a change of a job's model.
type JobRoute struct {
	Run    int       `json:"run"`
	From   string    `json:"from"`
	To     string    `json:"to"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// FallbackModels are the names of the models that may render the job instead of its own, in order.
func (j *Job) FallbackModels() []string {
	if j.Fallback == nil {
		return []string{}
	}
	return j.Fallback.Models
}

// FallbackLeft are those of FallbackModels that this run has not tried. Each is tried once, so that no run
// goes in a circle.
func (j *Job) FallbackLeft() []string {
	return slices.DeleteFunc(slices.Clone(j.FallbackModels()), func(name string) bool {
		return name == j.Model || slices.ContainsFunc(j.Routes, func(r JobRoute) bool { return r.Run == j.Run && r.From == name })
	})
}

// SaveRoute writes the model of a job that was moved to another one, what depends on the model, and its routes.
func SaveRoute(ctx context.Context, tx bun.Tx, job *Job) error {
	row, err := postgres.RowsArg([]*Job{job})
	if err != nil {
		return err
	}
	return postgres.MustChange(tx.NewRaw(`
		UPDATE jobs j SET model = n.model, model_version = n.model_version, params = n.params, time_class = n.time_class,
			reuse_digest = NULL, reuse_refs = NULL, routes = n.routes
		FROM jsonb_to_recordset(?::jsonb) AS n (id uuid, model text, model_version integer, params jsonb, time_class text, routes jsonb)
		WHERE j.id = n.id`, row).Exec(ctx))
}

// ListReroutable returns queued jobs that could be moved to one of these models, without their params and metadata, the most
// urgent first: jobs of models that are away, jobs with FinishBy, and jobs that waited in their lane longer than its wait in
// seconds.
func ListReroutable(ctx context.Context, db bun.IDB, to, away []string, waits map[Tier]float64, limit int) (found []*Job, err error) {
	lanes, err := postgres.RowsArg(waits)
	if err != nil {
		return nil, err
	}
	err = db.NewSelect().Model(&found).ExcludeColumn("params", "metadata").
		Where("j.status = 'QUEUED' AND j.fallback IS NOT NULL AND j.handle IS NULL").
		Where("EXISTS (SELECT FROM jsonb_array_elements_text(j.fallback->'models') AS m WHERE m IN (?))", bun.List(append(to, ""))).
		Where(`j.model IN (?) OR j.finish_by IS NOT NULL OR greatest(j.queued_at, (j.routes->-1->>'at')::timestamptz)
			< (SELECT clock_timestamp()) - make_interval(secs => (?::jsonb->>j.lane)::float8)`, bun.List(append(away, "")), lanes).
		OrderExpr(`least(j.finish_by, greatest(j.queued_at, (j.routes->-1->>'at')::timestamptz)
			+ make_interval(secs => (?::jsonb->>j.lane)::float8)), j.queued_at`, lanes).Limit(int64(limit)).Scan(ctx)
	return found, err
}

// LockRoutesTo makes the moves of jobs to these models wait for each other until the transaction ends. A transaction calls it
// once, with all models that come into question: it locks them in one order.
func LockRoutesTo(ctx context.Context, tx bun.Tx, names []string) error {
	_, err := tx.NewRaw("SELECT pg_advisory_xact_lock(hashtextextended('route to ' || model, 0)) FROM unnest(?::text[]) AS model",
		postgres.TextArray(slices.Sorted(slices.Values(names)))).Exec(ctx)
	return err
}

// CountQueuedOf returns how many jobs of a model are queued, up to most.
func CountQueuedOf(ctx context.Context, tx bun.Tx, model string, most int) (queued int, err error) {
	err = tx.NewRaw("SELECT count(*) FROM (SELECT FROM jobs WHERE status = 'QUEUED' AND model = ? LIMIT ?) q", model, most).Scan(ctx, &queued)
	return queued, err
}

// RoutedAt is when the job came to its model, or zero if it has its first one.
func (j *Job) RoutedAt() time.Time {
	if len(j.Routes) == 0 {
		return time.Time{}
	}
	return j.Routes[len(j.Routes)-1].At
}
