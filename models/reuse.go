package models

import (
	"context"
	"encoding/hex"
	"encoding/json"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// ResultTypes are the artifacts that a job shares with the job whose result it reuses.
var ResultTypes = []ArtifactType{ArtifactFinalVideo, ArtifactThumbnail, ArtifactSpritesheet}

// Reusable is a COMPLETED job whose result another job can have.
type Reusable struct {
	// For is the job that can have it.
	For      JobID           `bun:"asked"`
	ID       JobID           `bun:"id"`
	ResultID ArtifactID      `bun:"result_id"`
	Output   json.RawMessage `bun:"output,type:jsonb"`
}

// LockReusable returns, for each of these jobs, the newest equal one with a result, if there is one. It
// locks these rows, so that neither the jobs nor their artifacts are deleted meanwhile. It skips jobs that
// other transactions have locked.
func LockReusable(ctx context.Context, tx bun.IDB, of []*Job) (found []Reusable, err error) {
	digests := postgres.Column(of, func(j *Job) string { return hex.EncodeToString(j.ReuseDigest) })
	err = tx.NewRaw(`
		SELECT a.id AS asked, j.id, j.result_id, j.output
		FROM unnest(?::uuid[], ?::uuid[], ?::text[]) AS a (id, account_id, digest)
		CROSS JOIN LATERAL (
			SELECT id, result_id, output FROM jobs
			WHERE account_id = a.account_id AND reuse_digest = decode(a.digest, 'hex') AND status = 'COMPLETED' AND reuse_refs IS NULL
				AND id <> a.id
			ORDER BY id DESC NULLS LAST LIMIT 1 FOR SHARE SKIP LOCKED) j`,
		postgres.UUIDArray(postgres.Column(of, func(j *Job) JobID { return j.ID })),
		postgres.UUIDArray(postgres.Column(of, func(j *Job) AccountID { return j.AccountID })),
		postgres.TextArray(digests)).Scan(ctx, &found)
	return found, err
}

// ShareArtifacts writes artifacts that share the objects of others, whose jobs are locked.
func ShareArtifacts(ctx context.Context, tx bun.Tx, rows []*Artifact) error {
	return postgres.InBatches(rows, func(some []*Artifact) error {
		_, err := tx.NewInsert().Model(&some).Exec(ctx)
		return err
	})
}

// SaveReuse writes the digests of locked jobs, and the jobs whose results they reuse.
func SaveReuse(ctx context.Context, tx bun.Tx, jobs []*Job) error {
	rows, err := postgres.RowsArg(jobs)
	if err != nil {
		return err
	}
	_, err = tx.NewRaw(`
		UPDATE jobs j SET reuse_digest = n.reuse_digest, reuse_refs = n.reuse_refs, reused_from = n.reused_from
		FROM jsonb_to_recordset(?::jsonb) AS n (id uuid, reuse_digest bytea, reuse_refs jsonb, reused_from uuid)
		WHERE j.id = n.id`, rows).Exec(ctx)
	return err
}
