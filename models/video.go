package models

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// Video is what the Videos API keeps of a job beside the job itself.
type Video struct {
	bun.BaseModel `bun:"table:videos,alias:v"`

	JobID JobID `bun:"job_id,pk"`
	// Model, Size and Seconds are as the client named them; "" for a job that
	// came another way.
	Model   string `bun:"model,nullzero"`
	Size    string `bun:"size,nullzero"`
	Seconds string `bun:"seconds,nullzero"`
	// RemixOf is the job that it is a remix of, whose row may be gone.
	RemixOf JobID `bun:"remix_of"`
	// Digest is the same for the same request of the same caller.
	Digest []byte `bun:"digest,nullzero"`
	// Retries is the highest retry count that was answered with this job.
	Retries int `bun:"retries"`
	// AwaitsFirst tells that a repeated request made the job, and that the first
	// one did not come yet.
	AwaitsFirst bool `bun:"awaits_first"`
	// DeleteAskedAt is from when on nobody is shown it.
	DeleteAskedAt time.Time `bun:"delete_asked_at,nullzero"`
	CreatedAt     time.Time `bun:"created_at,nullzero,default:clock_timestamp()"`
}

// InsertVideos writes what is kept of new jobs.
func InsertVideos(ctx context.Context, tx bun.Tx, videos []*Video) error {
	_, err := tx.NewInsert().Model(&videos).Exec(ctx)
	return err
}

// GetVideos returns what is kept of these jobs, in no order.
func GetVideos(ctx context.Context, db bun.IDB, ids []JobID) ([]*Video, error) {
	var found []*Video
	if len(ids) == 0 {
		return nil, nil
	}
	err := db.NewSelect().Model(&found).Where("v.job_id IN (?)", bun.List(ids)).Scan(ctx)
	return found, err
}

// VideoClaim is a request that may be one that was made before. Of those that are
// claimed together each has another digest.
type VideoClaim struct {
	Digest []byte
	// Retry is which retry of his the sender says that it is, Age for how long the
	// request has been here.
	Retry int
	Age   time.Duration
}

// ClaimedVideo is the job that a request made before.
type ClaimedVideo struct {
	JobID  JobID  `bun:"job_id"`
	Digest []byte `bun:"digest"`
}

// ClaimRetriedVideos answers requests that their senders count as their retries:
// it returns the jobs that the same requests, by their digests, made within so
// long a time. Of several, which equal requests made that were sent beside each
// other, it is the newest that no retry of this count was given yet.
func ClaimRetriedVideos(ctx context.Context, tx bun.Tx, claims []VideoClaim, within time.Duration) (claimed []ClaimedVideo, err error) {
	if len(claims) == 0 {
		return nil, nil
	}
	err = tx.NewRaw(`
		UPDATE videos v SET retries = greatest(v.retries, found.retry) FROM (
			SELECT f.job_id, c.retry FROM unnest(?0::text[], ?1::integer[]) AS c (digest, retry) CROSS JOIN LATERAL (
				SELECT job_id FROM videos
				WHERE digest = decode(c.digest, 'hex') AND created_at > (SELECT clock_timestamp()) - make_interval(secs => ?2)
					AND delete_asked_at IS NULL
				ORDER BY retries >= c.retry, created_at DESC, job_id DESC LIMIT 1) f) found
		WHERE v.job_id = found.job_id
		RETURNING v.job_id, v.digest`,
		digestArray(claims), pgdialect.Array(column(claims, func(c VideoClaim) int { return c.Retry })), within.Seconds()).Scan(ctx, &claimed)
	return claimed, err
}

// ClaimOvertakenVideos answers first requests that have been here for so long: it
// returns the jobs that their own retries made before. Those are such as were made
// meanwhile, or, since a request may be on its way for a while before it is here,
// made within a time that are shown and have not ended.
func ClaimOvertakenVideos(ctx context.Context, tx bun.Tx, claims []VideoClaim, within time.Duration) (claimed []ClaimedVideo, err error) {
	if len(claims) == 0 {
		return nil, nil
	}
	err = tx.NewRaw(`
		UPDATE videos v SET awaits_first = false FROM (
			SELECT f.job_id FROM unnest(?0::text[], ?1::float8[]) AS c (digest, age) CROSS JOIN LATERAL (
				SELECT job_id FROM videos v
				WHERE digest = decode(c.digest, 'hex') AND awaits_first AND created_at > (SELECT clock_timestamp()) - make_interval(secs => ?2)
					AND (created_at > (SELECT clock_timestamp()) - make_interval(secs => c.age)
						OR delete_asked_at IS NULL AND EXISTS (SELECT FROM jobs j WHERE j.id = v.job_id AND j.completed_at IS NULL))
				ORDER BY created_at, job_id LIMIT 1) f) found
		WHERE v.job_id = found.job_id
		RETURNING v.job_id, v.digest`,
		digestArray(claims), floatArray(column(claims, func(c VideoClaim) float64 { return c.Age.Seconds() })), within.Seconds()).Scan(ctx, &claimed)
	return claimed, err
}

func digestArray(claims []VideoClaim) any {
	return textArray(column(claims, func(c VideoClaim) string { return hex.EncodeToString(c.Digest) }))
}

// videoJobs are the jobs of an account that the Videos API shows.
func videoJobs(q *bun.SelectQuery, account AccountID) *bun.SelectQuery {
	return q.Where("j.account_id = ? AND j.type = 'video.generate' AND j.deleted_at IS NULL", account).
		Where("NOT EXISTS (SELECT FROM videos v WHERE v.job_id = j.id AND v.delete_asked_at IS NOT NULL)")
}

// GetVideoJob returns a job of the account that the Videos API shows, or
// sql.ErrNoRows.
func GetVideoJob(ctx context.Context, db bun.IDB, account AccountID, id JobID) (*Job, error) {
	j := new(Job)
	err := videoJobs(db.NewSelect().Model(j), account).Where("j.id = ?", id).Scan(ctx)
	return j, err
}

// ListVideoJobs returns jobs of the account that the Videos API shows, newest
// first or oldest first, that come after the given one (or all).
func ListVideoJobs(ctx context.Context, db bun.IDB, account AccountID, after JobID, oldestFirst bool, limit int) ([]*Job, error) {
	var found []*Job
	q := videoJobs(db.NewSelect().Model(&found), account).Limit(int64(limit))
	order, beyond := "j.id DESC", "j.id < ?"
	if oldestFirst {
		order, beyond = "j.id", "j.id > ?"
	}
	if after != "" {
		q = q.Where(beyond, after)
	}
	err := q.Order(order).Scan(ctx)
	return found, err
}

// MaxPercents returns the most that these jobs' events of their present run say
// of how far they came, by job; those without such events are left out.
func MaxPercents(ctx context.Context, db bun.IDB, ids []JobID) (map[JobID]float64, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var rows []struct {
		JobID   JobID   `bun:"job_id"`
		Percent float64 `bun:"percent"`
	}
	err := db.NewRaw(`
		SELECT e.job_id, max((e.payload ->> 'percent')::float8) AS percent
		FROM jobs j JOIN job_events e ON e.job_id = j.id AND e.run = j.run
		WHERE j.id IN (?0) AND e.job_id IN (?0) AND e.type = 'PROGRESS' AND jsonb_typeof(e.payload -> 'percent') = 'number'
		GROUP BY e.job_id`, bun.List(ids)).Scan(ctx, &rows)
	most := make(map[JobID]float64, len(rows))
	for _, row := range rows {
		most[row.JobID] = row.Percent
	}
	return most, err
}

// AskVideoDeleted has nobody be shown a job's video from now on. Asking again
// changes nothing.
func AskVideoDeleted(ctx context.Context, db bun.IDB, id JobID) error {
	_, err := db.NewRaw(`
		INSERT INTO videos AS v (job_id, delete_asked_at) VALUES (?, clock_timestamp())
		ON CONFLICT (job_id) DO UPDATE SET delete_asked_at = coalesce(v.delete_asked_at, excluded.delete_asked_at)`, id).Exec(ctx)
	return err
}

// ListVideosToDelete returns jobs whose video was asked to be deleted and that
// wait for nothing more than that, or were not told to stop, oldest wish first.
func ListVideosToDelete(ctx context.Context, db bun.IDB, limit int) ([]*Job, error) {
	var found []*Job
	err := db.NewSelect().Model(&found).Join("JOIN videos AS v ON v.job_id = j.id").
		Where("v.delete_asked_at IS NOT NULL AND (j.completed_at IS NOT NULL OR j.cancel_requested_at IS NULL)").
		Order("v.delete_asked_at").Limit(int64(limit)).Scan(ctx)
	return found, err
}
