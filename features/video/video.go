package video

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Videos are jobs as the Videos API shows them: those of type video.generate of
// the caller's own account, whichever way they came, until they are deleted.
type Videos struct {
	DB        *bun.DB
	Jobs      *query.Jobs
	Submitter *submit.Submitter
	Canceller *operate.Canceller
	Deleter   *operate.Deleter
}

// Create submits a video. A request that its sender counts as a retry, and that
// equals one of the last 15 minutes, returns that one's job, and true; so does a
// first request whose retry came before it, and one with the idempotency key of
// an equal one. Its errors are Submit's.
func (v *Videos) Create(ctx context.Context, p jobs.Principal, in submit.Submission, request submit.VideoRequest) (*Video, bool, error) {
	in.Video = &request
	job, repeated, err := v.Submitter.Submit(ctx, p, in)
	if err != nil {
		return nil, false, err
	}
	video, err := v.show(ctx, p, job)
	return video, repeated, err
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
func (v *Videos) Get(ctx context.Context, p jobs.Principal, id models.JobID) (*Video, error) {
	job, err := models.GetVideoJob(ctx, v.DB, p.AccountID, id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "video"), "read video %s", id)
	}
	return v.show(ctx, p, job)
}

// PageRequest asks for a part of the list of videos.
type PageRequest struct {
	// After is the last one of the part before; "" begins. It may be deleted by
	// now.
	After       models.JobID
	OldestFirst bool
	// Limit is from 0 to 100.
	Limit int
}

// List returns a part of the account's videos, or NOT_FOUND if it is to come
// after one that never was.
func (v *Videos) List(ctx context.Context, p jobs.Principal, of PageRequest) (*paging.Page[*Video], error) {
	if of.After != "" {
		job, err := models.GetJob(ctx, v.DB, of.After)
		if err == nil && job.AccountID != p.AccountID {
			err = sql.ErrNoRows
		}
		if err != nil {
			return nil, apierror.Wrap(apierror.OrNotFound(err, "video"), "read video %s", of.After)
		}
	}
	found, err := models.ListVideoJobs(ctx, v.DB, p.AccountID, of.After, of.OldestFirst, of.Limit+1)
	if err != nil {
		return nil, fmt.Errorf("list videos: %w", err)
	}
	more := len(found) > of.Limit
	videos, err := v.showAll(ctx, p, found[:min(len(found), of.Limit)])
	if err != nil {
		return nil, err
	}
	return &paging.Page[*Video]{Items: videos, More: more}, nil
}

func (v *Videos) show(ctx context.Context, p jobs.Principal, job *models.Job) (*Video, error) {
	shown, err := v.showAll(ctx, p, []*models.Job{job})
	if err != nil {
		return nil, err
	}
	return shown[0], nil
}

// showAll reads what belongs to jobs by a fixed number of queries.
func (v *Videos) showAll(ctx context.Context, p jobs.Principal, found []*models.Job) ([]*Video, error) {
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
	edges, err := v.Jobs.Of(p, found...)
	if err != nil {
		return nil, err
	}
	prompts, err := edges.Prompts(ctx)
	if err != nil {
		return nil, err
	}
	kept, err := models.GetVideos(ctx, v.DB, ids)
	if err != nil {
		return nil, fmt.Errorf("read what was asked for: %w", err)
	}
	most, err := models.MaxPercents(ctx, v.DB, again)
	if err != nil {
		return nil, fmt.Errorf("read the progress of jobs: %w", err)
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
