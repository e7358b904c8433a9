package jobs

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Videos are jobs as the Videos API shows them: those of type video.generate of
// the caller's own account, whichever way they came, until they are deleted.
type Videos struct {
	Reader    *Reader
	Submitter *Submitter
	Canceller *Canceller
	Deleter   *Deleter
}

// VideoRequest is what a Submission by the Videos API has beside the job.
type VideoRequest struct {
	// Model, Size and Seconds are as the client named them, and are shown so.
	Model, Size, Seconds string
	// RemixOf is the job that it is a remix of.
	RemixOf models.JobID
	// Digest (32 bytes) is the same for the same request of the same caller.
	Digest []byte
	// Retry is which retry of his the sender says that it is; 0 is none.
	Retry int
	// Age is for how long the request has been here.
	Age time.Duration
}

// retryWindow is for how long a repeated request of the Videos API is known: the
// official clients give up after 10 minutes for each of three tries at most, and
// send a second one within seconds of a first that failed.
const retryWindow = 15 * time.Minute

// Repeated returns the job that this request has made before, or nil. It is a
// courtesy, so that no input is stored in vain: Create is what decides.
func (v *Videos) Repeated(ctx context.Context, p Principal, key *string, request VideoRequest) (*models.Job, error) {
	if key == nil && request.Retry == 0 {
		return nil, nil
	}
	asked := models.JobKey{Account: p.AccountID}
	if key != nil {
		asked.Key = *key
	}
	var found *models.Job
	err := inTx(ctx, v.Submitter.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := models.Lock(ctx, tx, request.lock()); err != nil {
			return err
		}
		used := map[models.JobKey]*models.Job{}
		if asked.Key != "" {
			before, err := models.FindJobsByKeys(ctx, tx, []models.JobKey{asked})
			if err != nil {
				return err
			}
			for _, job := range before {
				used[asked] = job
			}
		}
		before, err := madeBefore(ctx, tx, []videoAsked{{&request, asked}}, used)
		found = before[string(request.Digest)]
		return err
	})
	return found, wrap(err, "look for a repeated request")
}

// Create submits a video. A request that its sender counts as a retry, and that
// equals one of the last 15 minutes, returns that one's job, and true; so does a
// first request whose retry came before it, and one with the idempotency key of
// an equal one. Its errors are Submit's.
func (v *Videos) Create(ctx context.Context, p Principal, in Submission, request VideoRequest) (*Video, bool, error) {
	in.Video = &request
	job, repeated, err := v.Submitter.Submit(ctx, p, in)
	if err != nil {
		return nil, false, err
	}
	video, err := v.show(ctx, job)
	return video, repeated, err
}

// lock is the advisory lock of equal requests: the first one and its retries may
// be here at the same time, and go one by one.
func (r *VideoRequest) lock() int64 { return int64(binary.BigEndian.Uint64(r.Digest)) }

// videoAsked is a request with its account and idempotency key, if it has one.
type videoAsked struct {
	*VideoRequest
	key models.JobKey
}

// madeBefore returns the jobs that equal requests made before, by their digests,
// which are locked. One with an idempotency key is known by that and its digest:
// by what was asked for it could not be, since each request's input file is stored
// anew.
func madeBefore(ctx context.Context, tx bun.Tx, asked []videoAsked, used map[models.JobKey]*models.Job) (map[string]*models.Job, error) {
	var retried, overtaken []models.VideoClaim
	digests := map[models.JobID][]byte{}
	var keyed []models.JobID
	for _, a := range asked {
		claim := models.VideoClaim{Digest: a.Digest, Retry: a.Retry, Age: a.Age}
		switch first := used[a.key]; {
		case a.key.Key != "" && first != nil:
			keyed, digests[first.ID] = append(keyed, first.ID), a.Digest
		case a.key.Key != "":
		case a.Retry > 0:
			retried = append(retried, claim)
		default:
			overtaken = append(overtaken, claim)
		}
	}
	again, err := models.ClaimRetriedVideos(ctx, tx, retried, retryWindow)
	if err != nil {
		return nil, err
	}
	late, err := models.ClaimOvertakenVideos(ctx, tx, overtaken, retryWindow)
	if err != nil {
		return nil, err
	}
	kept, err := models.GetVideos(ctx, tx, keyed)
	if err != nil {
		return nil, err
	}
	ids := map[models.JobID]string{}
	for _, claimed := range append(again, late...) {
		ids[claimed.JobID] = string(claimed.Digest)
	}
	for _, video := range kept {
		if bytes.Equal(video.Digest, digests[video.JobID]) {
			ids[video.JobID] = string(video.Digest)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := models.GetJobs(ctx, tx, slices.Collect(maps.Keys(ids)))
	return keyedBy(found, func(j *models.Job) string { return ids[j.ID] }), err
}

// row is what is kept of the request with its new job.
func (r *VideoRequest) row(job *models.Job) *models.Video {
	return &models.Video{
		JobID: job.ID, Model: r.Model, Size: r.Size, Seconds: r.Seconds, RemixOf: r.RemixOf,
		Digest: r.Digest, Retries: r.Retry, AwaitsFirst: r.Retry > 0,
	}
}

// Video is a job as the Videos API shows it.
type Video struct {
	*models.Job
	// Asked is what the client asked for, as far as it came by the Videos API.
	Asked models.Video
	// Prompt is "" if it is gone.
	Prompt string
	// Percent does not go back while the job's run lasts: where the job itself
	// goes back to its checkpoint, it stays where it was.
	Percent float64
}

// Get returns a video of the caller's account, or NOT_FOUND.
func (v *Videos) Get(ctx context.Context, p Principal, id models.JobID) (*Video, error) {
	job, err := models.GetVideoJob(ctx, v.Reader.DB, p.AccountID, id)
	if err != nil {
		return nil, wrap(orNotFound(err, "video"), "read video %s", id)
	}
	return v.show(ctx, job)
}

// VideoPage asks for a part of the list of videos.
type VideoPage struct {
	// After is the last one of the part before; "" begins. It may be deleted by
	// now.
	After       models.JobID
	OldestFirst bool
	// Limit is from 0 to 100.
	Limit int
}

// List returns a part of the account's videos, or NOT_FOUND if it is to come
// after one that never was.
func (v *Videos) List(ctx context.Context, p Principal, of VideoPage) (*Page[*Video], error) {
	if of.After != "" {
		job, err := models.GetJob(ctx, v.Reader.DB, of.After)
		if err == nil && job.AccountID != p.AccountID {
			err = sql.ErrNoRows
		}
		if err != nil {
			return nil, wrap(orNotFound(err, "video"), "read video %s", of.After)
		}
	}
	found, err := models.ListVideoJobs(ctx, v.Reader.DB, p.AccountID, of.After, of.OldestFirst, of.Limit+1)
	if err != nil {
		return nil, fmt.Errorf("list videos: %w", err)
	}
	more := len(found) > of.Limit
	videos, err := v.showAll(ctx, found[:min(len(found), of.Limit)])
	if err != nil {
		return nil, err
	}
	return &Page[*Video]{Items: videos, More: more}, nil
}

func (v *Videos) show(ctx context.Context, job *models.Job) (*Video, error) {
	shown, err := v.showAll(ctx, []*models.Job{job})
	if err != nil {
		return nil, err
	}
	return shown[0], nil
}

// showAll reads what belongs to jobs by a fixed number of queries.
func (v *Videos) showAll(ctx context.Context, found []*models.Job) ([]*Video, error) {
	if len(found) == 0 {
		return nil, nil
	}
	var ids, again []models.JobID
	for _, job := range found {
		ids = append(ids, job.ID)
		if job.AttemptNo > 1 && job.Status != models.JobCompleted {
			again = append(again, job.ID)
		}
	}
	prompts, err := v.Reader.Prompts(ctx, ids)
	if err != nil {
		return nil, err
	}
	kept, err := models.GetVideos(ctx, v.Reader.DB, ids)
	if err != nil {
		return nil, fmt.Errorf("read what was asked for: %w", err)
	}
	most, err := models.MaxPercents(ctx, v.Reader.DB, again)
	if err != nil {
		return nil, fmt.Errorf("read how far jobs came: %w", err)
	}
	asked := make(map[models.JobID]*models.Video, len(kept))
	for _, row := range kept {
		asked[row.JobID] = row
	}
	videos := make([]*Video, len(found))
	for i, job := range found {
		videos[i] = &Video{Job: job, Prompt: prompts[job.ID].Text, Percent: percent(job, most[job.ID])}
		if row := asked[job.ID]; row != nil {
			videos[i].Asked = *row
		}
	}
	return videos, nil
}

// percent is how far a job came at most, as its events tell: what they do not
// tell of yet could not be found again after a loss.
func percent(job *models.Job, most float64) float64 {
	if job.Status == models.JobCompleted {
		return 100
	}
	if job.ProgressEventPercent != nil {
		most = max(most, *job.ProgressEventPercent)
	}
	return most
}
