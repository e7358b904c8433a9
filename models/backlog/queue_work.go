package backlog

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// QueueWork is the queued work of one kind in a lane, with the same requirements.
type QueueWork struct {
	Lane models.Tier `bun:"lane"`
	Kind
	// AccountID is set if ListQueueWork was asked for that account apart.
	AccountID models.AccountID `bun:"account_id"`
	GPURank   int              `bun:"gpu_rank"`
	Region    string           `bun:"region"`
	Needs     models.Needs     `bun:"needs"`
	// Depth is the number of jobs, GPUSeconds the catalogue's estimate for them. Both are as
	// exact as in CountQueues.
	Depth      float64 `bun:"depth"`
	GPUSeconds float64 `bun:"gpu_seconds"`
}

// Queue returns the queue in which the work waits.
func (w *QueueWork) Queue() models.Queue {
	return models.Queue{Line: models.Line{Lane: w.Lane}, Model: w.Model, GPURank: w.GPURank, Region: w.Region, Needs: w.Needs}
}

// ListQueueWork sums up all queued jobs by lane, kind, and what decides which workers run them. Those
// of the given accounts are summed up for each account.
func ListQueueWork(ctx context.Context, db bun.IDB, accounts []models.AccountID) ([]QueueWork, error) {
	var work []QueueWork
	const group = "model, time_class, account_id, gpu_rank, region, needs"
	err := db.NewRaw(depthsSQL+`
		SELECT d.lane, `+group+`, sum(d.depth::float8 / d.sampled * n) AS depth, sum(d.depth::float8 / d.sampled * kind.gpu_seconds) AS gpu_seconds
		FROM (SELECT lane, tier, model AS of_model, depth, sampled FROM depths) d CROSS JOIN LATERAL (
			SELECT `+group+`, count(*) AS n, sum(estimated_gpu_seconds) AS gpu_seconds
			FROM (
				SELECT `+kindSQL+`, CASE WHEN j.account_id = ANY (?0::uuid[]) THEN j.account_id END AS account_id, j.gpu_rank,
					`+regionSQL+` AS region, j.needs, j.estimated_gpu_seconds
				FROM jobs j WHERE j.status = 'QUEUED' AND j.lane = d.lane AND j.tier = d.tier AND j.model = d.of_model
				ORDER BY j.queued_at LIMIT `+sampledQueue+`) first
			GROUP BY `+group+`) kind
		GROUP BY d.lane, `+group+`
		ORDER BY array_position(?1::text[], d.lane), model`, postgres.UUIDArray(accounts), postgres.TextArray(models.Tiers)).Scan(ctx, &work)
	return work, err
}
