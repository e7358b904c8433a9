package models

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// InVideosAPI reports whether the Videos API shows a job: it has videos, and no drafts.
func (j *Job) InVideosAPI() bool { return j.Type == "video.generate" && j.DraftSteps == 0 }

// Video is what the Videos API stores about a job besides the job itself.
type Video struct {
	bun.BaseModel `bun:"table:videos,alias:v"`

	JobID JobID `bun:"job_id,pk"`
	// Model, Size and Seconds are as the client named them. They are empty for a job that was
	// submitted in another way.
	Model   string `bun:"model,nullzero"`
	Size    string `bun:"size,nullzero"`
	Seconds string `bun:"seconds,nullzero"`
	// RemixOf is the job that this job is a remix of. Its row may have been deleted.
	RemixOf JobID `bun:"remix_of"`
	// Digest is equal for equal requests of the same caller.
	Digest []byte `bun:"digest,nullzero"`
	// Retries is the highest retry count that was answered with this job.
	Retries int `bun:"retries"`
	// AwaitsFirst means that a repeated request made the job, and the first request has not
	// arrived yet.
	AwaitsFirst bool `bun:"awaits_first"`
	// DeleteAskedAt is the time from which the API does not show the job.
	DeleteAskedAt time.Time `bun:"delete_asked_at,nullzero"`
	CreatedAt     time.Time `bun:"created_at,nullzero,default:clock_timestamp()"`
}

// InsertVideos writes the videos of new jobs.
func InsertVideos(ctx context.Context, tx bun.Tx, videos []*Video) error {
	_, err := tx.NewInsert().Model(&videos).Exec(ctx)
	return err
}

// GetVideos returns the videos of these jobs, in no particular order.
func GetVideos(ctx context.Context, db bun.IDB, ids []JobID) ([]*Video, error) {
	var found []*Video
	if len(ids) == 0 {
		return nil, nil
	}
	err := db.NewSelect().Model(&found).Where("v.job_id IN (?)", bun.List(ids)).Scan(ctx)
	return found, err
}

// VideoClaim is a request that may repeat an earlier one. Claims of one call have different
// digests.
type VideoClaim struct {
	Digest []byte
	// Retry is the sender's retry count, Age the time since the request arrived.
	Retry int
	Age   time.Duration
}

// ClaimedVideo is the job that an equal request made before.
type ClaimedVideo struct {
	JobID  JobID  `bun:"job_id"`
	Digest []byte `bun:"digest"`
}

// ClaimRetriedVideos answers requests that their senders mark as retries. It returns the jobs
// that requests with the same digests made within the given time. If equal concurrent requests
// made several jobs, it prefers those that no retry with this count was answered with, and
// among them the newest.
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
		digestArray(claims), pgdialect.Array(postgres.Column(claims, func(c VideoClaim) int { return c.Retry })), within.Seconds()).Scan(ctx,
		&claimed)
	return claimed, err
}

// ClaimOvertakenVideos answers first requests whose own retries overtook them: it returns the
// jobs that the retries made within the given time. A job counts if it was made since the
// request arrived. A request can be delayed on its way here, so a job that the API shows and
// that has not ended counts as well.
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
		digestArray(claims), postgres.FloatArray(postgres.Column(claims, func(c VideoClaim) float64 { return c.Age.Seconds() })),
		within.Seconds()).Scan(ctx,
		&claimed)
	return claimed, err
}

func digestArray(claims []VideoClaim) any {
	return postgres.TextArray(postgres.Column(claims, func(c VideoClaim) string { return hex.EncodeToString(c.Digest) }))
}

// videoJobs restricts a query to the jobs of an account that the Videos API shows.
func videoJobs(q *bun.SelectQuery, account AccountID) *bun.SelectQuery {
	return q.Where("j.account_id = ? AND j.type = 'video.generate' AND j.deleted_at IS NULL AND j.draft_steps IS NULL", account).
		Where("NOT EXISTS (SELECT FROM videos v WHERE v.job_id = j.id AND v.delete_asked_at IS NOT NULL)")
}

// GetVideoJob returns a job of the account that the Videos API shows, or sql.ErrNoRows.
func GetVideoJob(ctx context.Context, db bun.IDB, account AccountID, id JobID) (*Job, error) {
	j := new(Job)
	err := videoJobs(db.NewSelect().Model(j), account).Where("j.id = ?", id).Scan(ctx)
	return j, err
}

// ListVideoJobs returns jobs of the account that the Videos API shows, newest or oldest first,
// that come after the given one, or from the first if it is empty.
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

// MaxPercents returns, by job, the highest percentage in the events of the current run. Jobs
// without such events are left out.
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

// AskVideoDeleted hides a job's video from now on. A repeated call changes nothing.
func AskVideoDeleted(ctx context.Context, db bun.IDB, id JobID) error {
	_, err := db.NewRaw(`
		INSERT INTO videos AS v (job_id, delete_asked_at) VALUES (?, clock_timestamp())
		ON CONFLICT (job_id) DO UPDATE SET delete_asked_at = coalesce(v.delete_asked_at, excluded.delete_asked_at)`, id).Exec(ctx)
	return err
}

// ListVideosToDelete returns jobs whose video is to be deleted and that either have ended or
// have not been cancelled yet, the oldest request first.
func ListVideosToDelete(ctx context.Context, db bun.IDB, limit int) ([]*Job, error) {
	var found []*Job
	err := db.NewSelect().Model(&found).Join("JOIN videos AS v ON v.job_id = j.id").
		Where("v.delete_asked_at IS NOT NULL AND (j.completed_at IS NOT NULL OR j.cancel_requested_at IS NULL)").
		Order("v.delete_asked_at").Limit(int64(limit)).Scan(ctx)
	return found, err
}

// videoPrefix begins the ids by which clients of the Videos API know jobs.
const videoPrefix = "video_"

// VideoID returns a job's id as the Videos API shows it: video_ and 32 hexadecimal digits.
func VideoID(id JobID) string { return videoPrefix + strings.ReplaceAll(id.UUID(), "-", "") }

// ParseVideoID returns the job that a VideoID names, and whether s is a VideoID.
func ParseVideoID(s string) (JobID, bool) {
	digits, ok := strings.CutPrefix(s, videoPrefix)
	if !ok || len(digits) != 32 || strings.ToLower(digits) != digits {
		return "", false
	}
	var id uuid.UUID
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return "", false
	}
	return JobID(JobKind + "_" + id.String()), true
}
