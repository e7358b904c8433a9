package models

import (
	"context"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// InputFetch is an image that a BLOCKED job waits for.
type InputFetch struct {
	bun.BaseModel `bun:"table:input_fetches,alias:f"`

	JobID     JobID     `bun:"job_id,pk"`
	AccountID AccountID `bun:"account_id"`
	// Tries counts the tries that have begun, the current one included.
	Tries int `bun:"tries"`
	// Problem says for people why the newest try failed.
	Problem string    `bun:"problem,nullzero"`
	NextAt  time.Time `bun:"next_at,nullzero"`
}

// InsertInputFetches queues the images of jobs to be fetched.
func InsertInputFetches(ctx context.Context, tx bun.Tx, jobs ...*Job) error {
	_, err := tx.NewRaw("INSERT INTO input_fetches (job_id, account_id) SELECT * FROM unnest(?::uuid[], ?::uuid[])",
		postgres.UUIDArray(postgres.Column(jobs, func(j *Job) JobID { return j.ID })),
		postgres.UUIDArray(postgres.Column(jobs, func(j *Job) AccountID { return j.AccountID }))).Exec(ctx)
	return err
}

// DropInputFetches removes the fetches that earlier runs of locked jobs left behind.
func DropInputFetches(ctx context.Context, tx bun.Tx, jobs []JobID) error {
	_, err := tx.NewRaw("DELETE FROM input_fetches WHERE job_id = ANY (?::uuid[])", postgres.UUIDArray(jobs)).Exec(ctx)
	return err
}

// ClaimInputFetches claims up to limit due fetches for ttl, with at most perAccount claimed
// fetches per account. After ttl another caller can claim them.
func ClaimInputFetches(ctx context.Context, db bun.IDB, limit, perAccount int, ttl time.Duration) ([]*InputFetch, error) {
	var claimed []*InputFetch
	err := db.NewRaw(`
		WITH busy AS (
			SELECT account_id, count(*) AS n FROM input_fetches WHERE claimed_until > (SELECT clock_timestamp()) GROUP BY account_id),
		due AS (
			SELECT f.job_id, f.next_at, coalesce(busy.n, 0) + row_number() OVER (PARTITION BY f.account_id ORDER BY f.next_at) AS place
			FROM input_fetches f LEFT JOIN busy ON busy.account_id = f.account_id
			WHERE f.next_at <= (SELECT clock_timestamp()) AND f.claimed_until <= (SELECT clock_timestamp())),
		taken AS (
			SELECT job_id FROM input_fetches
			WHERE job_id IN (SELECT job_id FROM due WHERE place <= ?1 ORDER BY next_at LIMIT ?0)
				AND claimed_until <= (SELECT clock_timestamp())
			FOR UPDATE SKIP LOCKED)
		UPDATE input_fetches f SET tries = f.tries + 1, claimed_until = clock_timestamp() + make_interval(secs => ?2)
		FROM taken WHERE f.job_id = taken.job_id
		RETURNING f.job_id, f.account_id, f.tries`, limit, perAccount, ttl.Seconds()).Scan(ctx, &claimed)
	return claimed, err
}

// PostponeInputFetch releases a claimed fetch, to be retried after a delay. If counts is
// false, the try does not count, since the image was not the cause. An expired claim changes
// nothing.
func PostponeInputFetch(ctx context.Context, db bun.IDB, f *InputFetch, counts bool, after time.Duration) error {
	_, err := db.NewRaw(`
		UPDATE input_fetches SET claimed_until = '-infinity', next_at = clock_timestamp() + make_interval(secs => ?),
			problem = coalesce(?, problem), tries = tries - CASE WHEN ? THEN 0 ELSE 1 END
		WHERE job_id = ? AND tries = ?`, after.Seconds(), postgres.Nullable(f.Problem), counts, f.JobID, f.Tries).Exec(ctx)
	return err
}

// EndInputFetch removes a claimed fetch of a locked job. It returns sql.ErrNoRows if another
// caller has claimed it since.
func EndInputFetch(ctx context.Context, tx bun.Tx, f *InputFetch) error {
	return postgres.MustChange(tx.NewRaw("DELETE FROM input_fetches WHERE job_id = ? AND tries = ?", f.JobID, f.Tries).Exec(ctx))
}

// ListInputFetches returns the fetches that these jobs wait for, in no particular order.
func ListInputFetches(ctx context.Context, db bun.IDB, jobs []JobID) ([]*InputFetch, error) {
	var found []*InputFetch
	err := db.NewSelect().Model(&found).Where("f.job_id IN (?)", bun.List(jobs)).Scan(ctx)
	return found, err
}
