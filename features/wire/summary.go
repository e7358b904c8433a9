package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// Summary is a job as REST and webhooks show it: flat, and in their words. Unknown values are
// null.
type Summary struct {
	JobID                models.JobID `json:"job_id" doc:"The job's id." example:"job_0192f3c8-7a1e-7c3b-9f52-3f3a3c0f7a11"`
	Model                string       `json:"model" doc:"The model's name."`
	Status               string       `json:"status" enum:"queued,assigned,running,completing,completed,failed,cancelled,scheduled,blocked" doc:"The job's status. completed, failed and cancelled are final."`
	ProgressPct          float64      `json:"progress_pct" minimum:"0" maximum:"100" doc:"The progress in percent. It may go back if a worker is lost and another one resumes from a checkpoint."`
	Phase                string       `json:"phase" enum:"waiting,starting,loading_model,resuming,rendering,encoding,submitted,generating,post_processing,uploading,done" doc:"What the job is doing. The phase of every job that has ended is done."`
	ProgressMessage      *string      `json:"progress_message" doc:"A sentence for people."`
	ETASeconds           *float64     `json:"eta_seconds" doc:"Estimated seconds until the job is done."`
	EstimatedWaitSeconds *float64     `json:"estimated_wait_seconds" doc:"Estimated seconds until a worker starts the job. Null once one has."`
	AttemptNo            int          `json:"attempt_no" doc:"The number of attempts so far."`
	MaxAttempts          int          `json:"max_attempts" doc:"The number of attempts that may fail. Preempted and lost ones do not count."`
	ResultURL            *string      `json:"result_url" doc:"A signed link to the video."`
	ThumbnailURL         *string      `json:"thumbnail_url" doc:"A signed link to a still image of the video."`
	PreviewURL           *string      `json:"preview_url" doc:"A signed link to the newest picture of the unfinished video. Null if its runtime sends none, and once the job has ended; of a completed draft, its clip or picture."`
	DurationSec          *float64     `json:"duration_sec" doc:"The length of the video in seconds; before it exists, the requested length."`
	ProcessingTimeMS     *int64       `json:"processing_time_ms" doc:"Milliseconds from the first start to the end."`
	WaitedSeconds        *float64     `json:"waited_seconds" doc:"Seconds that this run has been queued, all waits together. The current wait is added when it ends."`
	RanSeconds           *float64     `json:"ran_seconds" doc:"Seconds that workers have held this run, all attempts together. The current attempt is added when it ends."`
	Time                 *TimeSpent   `json:"time,omitempty" doc:"Where the time of this run went. The parts add up to the total. Only of a job that has ended."`
	CostUSD              *float64     `json:"cost_usd" doc:"What the account pays, in US dollars: the useful time of the run that completed. 0 if the job failed or was cancelled. Until it ends, what it would be now. Null if a pool, or the model of a hosted provider, had no price."`
	EstimatedCostUSD     *float64     `json:"estimated_cost_usd" doc:"What the job was expected to cost when it was submitted, in US dollars. Null if that is unknown."`
	FailureReason        *string      `json:"failure_reason" doc:"A sentence that says why the job failed."`
	CreatedAt            time.Time    `json:"created_at"`
	StartedAt            *time.Time   `json:"started_at" doc:"When the first worker of this run started."`
	CompletedAt          *time.Time   `json:"completed_at" doc:"When the job ended."`
	DeletedAt            *time.Time   `json:"deleted_at,omitempty" doc:"When the job was deleted: its prompt, its files and its texts are gone. Only of a deleted job."`
	AtMostOnce           bool         `json:"at_most_once,omitempty" doc:"True if the job is never started twice."`
	ConstraintState
	Deadline   *Deadline    `json:"deadline,omitempty" doc:"What is expected of finish_by, as things are now. Only of a job that has not ended."`
	Draft      *Draft       `json:"draft,omitempty" doc:"Only of a draft. A completed one has no result_url; preview_url shows it."`
	Continues  models.JobID `json:"continues,omitempty" doc:"Id of the draft that the job continues."`
	ReusedFrom models.JobID `json:"reused_from,omitempty" doc:"Id of the equal job whose result this one has. That job can be deleted since."`
	Given
}

// TimeSpent is a models.JobTime as REST shows it.
type TimeSpent struct {
	DelayedSeconds float64 `json:"delayed_seconds" doc:"Before it was due, and while it waited for other jobs or its inputs."`
	QueuedSeconds  float64 `json:"queued_seconds" doc:"While it waited for a worker."`
	PausedSeconds  float64 `json:"paused_seconds" doc:"While it was queued, and its queue paused or all starts halted."`
	BackoffSeconds float64 `json:"backoff_seconds" doc:"Pauses between failures and their retries."`
	HeldSeconds    float64 `json:"held_seconds" doc:"While workers held it, all attempts together."`
	TotalSeconds   float64 `json:"total_seconds" doc:"The sum: from the begin of this run until now, or its end."`
}

// Given is what a client said of its own about a job. A job's deletion clears the metadata.
type Given struct {
	UserID   *string                    `json:"user_id" doc:"The client's id of the end user."`
	Metadata map[string]json.RawMessage `json:"metadata" nullable:"true" doc:"The client's own data, as it was submitted. Null if none was, and once the job is deleted."`
}

// GivenOf returns what the client said about a job.
func GivenOf(job *models.Job) Given {
	g := Given{UserID: lo.EmptyableToPtr(job.UserID)}
	if json.Unmarshal(job.Metadata, &g.Metadata) != nil {
		g.Metadata = nil // no metadata
	}
	return g
}

// Draft is what a summary says of a draft.
type Draft struct {
	Steps       int           `json:"steps" doc:"The step after which the draft ends."`
	KeptUntil   *time.Time    `json:"kept_until" doc:"When it can no longer be continued. Null until it completes."`
	ContinuedBy *models.JobID `json:"continued_by" doc:"Id of the job that continues it."`
}

// Summaries describes jobs and workflows as REST and webhooks show them.
type Summaries struct {
	Jobs      *query.Jobs
	Workflows *query.Workflows
}

// New returns the summaries of what these reads read.
func New(reads *query.Reads) *Summaries {
	return &Summaries{Jobs: reads.Jobs, Workflows: reads.Workflows}
}

// drafts returns what is said of those of the jobs that are drafts.
func (r *Summaries) drafts(ctx context.Context, p jobs.Principal, rows []*models.Job) (map[models.JobID]*Draft, error) {
	all := map[models.JobID]*Draft{}
	var drafts []*models.Job
	for _, job := range rows {
		if job.DraftSteps > 0 {
			drafts = append(drafts, job)
			all[job.ID] = &Draft{Steps: job.DraftSteps}
			if !job.KeptUntil.IsZero() {
				all[job.ID].KeptUntil = new(job.KeptUntil.UTC())
			}
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	edges, err := r.Jobs.Of(p, drafts...)
	if err != nil {
		return nil, err
	}
	next, err := edges.Continuations(ctx)
	for _, job := range next {
		all[job.Continues].ContinuedBy = &job.ID
	}
	return all, err
}

// OfJobs describes jobs in their order, or returns NOT_FOUND if the caller may not see one of them.
// Its links are valid for linkTTL (a minute to a day), and begin with base, the address at which the
// reader reaches this server. It takes the same few statements for any number of jobs.
func (r *Summaries) OfJobs(ctx context.Context, p jobs.Principal, rows []*models.Job, base string,
	linkTTL time.Duration) ([]*Summary, error) {
	edges, err := r.Jobs.Of(p, rows...)
	if err != nil {
		return nil, err
	}
	outputs, err := edges.Outputs(ctx)
	if err != nil {
		return nil, err
	}
	previews, err := r.previews(ctx, p, rows)
	if err != nil {
		return nil, err
	}
	drafts, err := r.drafts(ctx, p, rows)
	if err != nil {
		return nil, err
	}
	estimates, err := edges.Estimates(ctx)
	if err != nil {
		return nil, err
	}
	times, err := edges.Times(ctx)
	if err != nil {
		return nil, err
	}
	costs, err := edges.Costs(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]*Summary, 0, len(rows))
	for _, job := range rows {
		s := summarize(job)
		if usd := costs[job.ID].USD; usd != nil {
			s.CostUSD = new(usd.InexactFloat64())
		}
		if job.EstimatedUSD != nil {
			s.EstimatedCostUSD = new(job.EstimatedUSD.InexactFloat64())
		}
		s.EstimatedWaitSeconds = estimates[job.ID].WaitSeconds
		s.Deadline = DeadlineOf(estimates[job.ID].Deadline)
		// It grows by itself until then, and an unchanged job must have an unchanged answer: see If-None-Match.
		if t := times[job.ID]; t != nil && job.Status.Terminal() {
			s.Time = new(TimeSpent(*t))
		}
		s.Draft, s.Continues = drafts[job.ID], job.Continues
		if video := outputs[job.ID].Video; video != nil {
			s.DurationSec = cmp.Or(videoSeconds(video.Metadata), s.DurationSec)
			if s.ResultURL, err = r.link(ctx, video, base, linkTTL); err != nil {
				return nil, err
			}
		}
		if still := outputs[job.ID].Still; still != nil {
			if s.ThumbnailURL, err = r.link(ctx, still, base, linkTTL); err != nil {
				return nil, err
			}
		}
		if preview := previews[job.PreviewID]; preview != nil && showsPreview(job) {
			if s.PreviewURL, err = r.link(ctx, preview, base, linkTTL); err != nil {
				return nil, err
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// showsPreview reports whether a job's preview is shown: until the video is there, and of a draft.
func showsPreview(job *models.Job) bool {
	return !job.Status.Terminal() || job.DraftSteps > 0 && job.Status == models.JobCompleted
}

func (r *Summaries) link(ctx context.Context, a *models.Artifact, base string, ttl time.Duration) (*string, error) {
	link, err := r.Jobs.Link(ctx, a, ttl)
	return new(link.At(base)), err
}

// previews returns the newest pictures of the jobs that show one, by their ids.
func (r *Summaries) previews(ctx context.Context, p jobs.Principal, rows []*models.Job) (map[models.ArtifactID]*models.Artifact, error) {
	var ids []models.ArtifactID
	for _, job := range rows {
		if job.PreviewID != "" && showsPreview(job) {
			ids = append(ids, job.PreviewID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := r.Jobs.Artifacts(ctx, p, ids)
	return lo.KeyBy(found, func(a *models.Artifact) models.ArtifactID { return a.ID }), err
}

func summarize(job *models.Job) *Summary {
	s := &Summary{
		JobID: job.ID, Model: job.Model, Status: strings.ToLower(string(job.Status)), ProgressPct: job.Percent,
		Phase:           strings.ToLower(string(job.Phase)),
		ProgressMessage: lo.EmptyableToPtr(job.Progress.Message), AttemptNo: job.AttemptNo, MaxAttempts: job.MaxAttempts, AtMostOnce: job.AtMostOnce, ReusedFrom: job.ReusedFrom,
		ConstraintState: ConstraintStateOf(job), Given: GivenOf(job),
		DurationSec: videoSeconds(job.Params), FailureReason: lo.EmptyableToPtr(job.FailureReason),
		CreatedAt: job.CreatedAt.UTC(), StartedAt: KnownTime(job.StartedAt), CompletedAt: KnownTime(job.CompletedAt),
		DeletedAt: KnownTime(job.DeletedAt),
	}
	s.WaitedSeconds, s.RanSeconds = job.QueuedSeconds, job.LeasedSeconds
	if job.Status.Live() && job.ETASeconds != nil {
		s.ETASeconds = new(estimate.Rounded(*job.ETASeconds))
	}
	if !job.StartedAt.IsZero() && !job.CompletedAt.IsZero() {
		took := max(0, job.CompletedAt.Sub(job.StartedAt).Milliseconds())
		s.ProcessingTimeMS = &took
	}
	return s
}

// videoSeconds returns the length of a video from parameters or metadata.
func videoSeconds(raw json.RawMessage) *float64 {
	var video struct {
		DurationSeconds *float64 `json:"durationSeconds"`
	}
	if json.Unmarshal(raw, &video) != nil {
		return nil
	}
	return video.DurationSeconds
}

// KnownTime returns a time in UTC, or nil for the zero time, which is unknown.
func KnownTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
