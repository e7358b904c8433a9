package models

import (
	"context"
	"time"

	"github.com/uptrace/bun"
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

// InsertVideo writes what is kept of a new job.
func InsertVideo(ctx context.Context, tx bun.Tx, v *Video) error {
	_, err := tx.NewInsert().Model(v).Exec(ctx)
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

// ClaimRetriedVideo answers a request that its sender counts as his retry: it
// returns the job that the same request, by its digest, made within so long a
// time, or sql.ErrNoRows. Of several, which equal requests made that were sent
// beside each other, it is the newest that no retry of this count was given yet.
func ClaimRetriedVideo(ctx context.Context, tx bun.Tx, digest []byte, retry int, within time.Duration) (JobID, error) {
	var id JobID
	err := tx.NewRaw(`
		UPDATE videos SET retries = greatest(retries, ?1) WHERE job_id = (
			SELECT job_id FROM videos
			WHERE digest = ?0 AND created_at > (SELECT clock_timestamp()) - make_interval(secs => ?2) AND delete_asked_at IS NULL
			ORDER BY retries >= ?1, created_at DESC, job_id DESC LIMIT 1)
		RETURNING job_id`, digest, retry, within.Seconds()).Scan(ctx, &id)
	return id, err
}

// ClaimOvertakenVideo answers a first request that has been here for so long: it
// returns the job that its own retry made before, or sql.ErrNoRows. That is one
// made meanwhile, or, since a request may be on its way for a while before it is
// here, one made within a time that is shown and has not ended.
func ClaimOvertakenVideo(ctx context.Context, tx bun.Tx, digest []byte, age, within time.Duration) (JobID, error) {
	var id JobID
	err := tx.NewRaw(`
		UPDATE videos SET awaits_first = false WHERE job_id = (
			SELECT job_id FROM videos v
			WHERE digest = ?0 AND awaits_first AND created_at > (SELECT clock_timestamp()) - make_interval(secs => ?2)
				AND (created_at > (SELECT clock_timestamp()) - make_interval(secs => ?1)
					OR delete_asked_at IS NULL AND EXISTS (SELECT FROM jobs j WHERE j.id = v.job_id AND j.completed_at IS NULL))
			ORDER BY created_at, job_id LIMIT 1)
		RETURNING job_id`, digest, age.Seconds(), within.Seconds()).Scan(ctx, &id)
	return id, err
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
