package costs

import (
	"context"

	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// ProviderJob is a submit at the hosted provider of a pool, by which the provider bills.
type ProviderJob struct {
	JobID models.JobID
	// Key is Reelay's own id of the submit, a UUID, and Ref the provider's, or "" until it has answered.
	Key    string
	PoolID models.PoolID
	Asked  provider.Asked
	Ref    string
	// Made reports that the provider made the video.
	Made bool
}

// KeepAsked keeps what a job asks of the provider of a pool. The price of the last call without Ref counts, which is made
// before the submit. What was asked stays, and so does the first Ref, and that the video is made. It does nothing for a
// pool without an account, and beyond 50 submits of a job.
func KeepAsked(ctx context.Context, tx bun.Tx, p *ProviderJob) error {
	_, err := tx.NewRaw(`
		INSERT INTO provider_jobs AS p (job_id, key, pool_id, provider, model, seconds, resolution, audio, ref, made_at)
		SELECT ?0, ?1, o.id, o.engine_kind, ?3, ?4, nullif(?5, ''), ?6, nullif(?7, ''), CASE WHEN ?8 THEN clock_timestamp() END
		FROM pools o JOIN provider_accounts a ON a.pool_id = o.id WHERE o.id = ?2
			AND (SELECT count(*) FROM provider_jobs e WHERE e.job_id = ?0 AND e.key <> ?1) < ?9
		ON CONFLICT (job_id, key) DO UPDATE SET ref = coalesce(p.ref, excluded.ref), made_at = coalesce(p.made_at, excluded.made_at),
			submitted_at = CASE WHEN coalesce(p.ref, excluded.ref) IS NULL AND p.made_at IS NULL THEN clock_timestamp() ELSE p.submitted_at END`,
		p.JobID, p.Key, p.PoolID, p.Asked.Model, p.Asked.Seconds, p.Asked.Resolution, p.Asked.Audio, p.Ref, p.Made, maxProviderJobs).Exec(ctx)
	return err
}

// maxProviderJobs bounds what is kept of a job: a worker that makes up submits must not fill the ledger.
const maxProviderJobs = 50
