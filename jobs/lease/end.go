package lease

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/strictjson"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// Completion is what a worker reports when it completes a job.
type Completion struct {
	Video       *jobs.UploadedObject
	Thumbnail   *jobs.UploadedObject
	Spritesheet *jobs.UploadedObject
	// Preview is the clip or picture that a draft ends with. Other jobs have none.
	Preview   *jobs.UploadedObject
	Log       *jobs.UploadedObject
	Output    json.RawMessage
	LeaseNext bool
}

// End is the answer to a call that ended an attempt. Next is the worker's next lease, if it
// asked for one and a job was ready.
type End struct {
	Job  *models.Job
	Next *Lease
}

const (
	maxReasonBytes = 4 << 10
	maxDetailBytes = 16 << 10
	maxOutputBytes = 256 << 10
)

// Complete ends a job COMPLETED after the store has confirmed every object. Calling it again
// with the same token returns the same answer. If the job's cancellation was requested before,
// Complete ends it CANCELLED and returns CONFLICT.
func (h *Attempts) Complete(ctx context.Context, p jobs.Principal, f Fence, c Completion) (*End, error) {
	end, err := h.complete(ctx, p, f, c)
	return end, apierror.Wrap(err, "complete attempt %s", f.AttemptID)
}

func (h *Attempts) complete(ctx context.Context, p jobs.Principal, f Fence, c Completion) (*End, error) {
	verified, err := h.verifyCompletion(ctx, p, f, c)
	if errors.Is(err, apierror.ErrLeaseLost) {
		return h.again(ctx, p, f, models.AttemptSucceeded, c.LeaseNext)
	}
	if err != nil {
		return nil, err
	}
	l, err := h.finish(ctx, &fencedCall{p: p, fence: f, objects: verified, writes: c.Preview != nil,
		act: func(ctx context.Context, l *lockedLease) error {
			if err := h.mayComplete(l.job, &c); err != nil {
				return err
			}
			if err := l.change.Completing(); err != nil {
				return err
			}
			if err := l.publish(verified); err != nil {
				return err
			}
			if l.job.DraftSteps > 0 {
				if err := l.keepDraft(ctx); err != nil {
					return err
				}
			}
			l.end(models.AttemptSucceeded, "", "")
			l.worker.JobsCompleted++
			l.job.Output, l.job.FailureClass, l.job.FailureReason = c.Output, "", ""
			if err := l.change.Move(models.JobCompleted); err != nil {
				return err
			}
			l.change.Note(models.EventCompleted, jobs.Payload{"gpuSeconds": l.attempt.GPUSeconds})
			l.change.Over()
			l.job.Progress.Percent = 100
			return nil
		}})
	if errors.Is(err, apierror.ErrLeaseLost) {
		return h.again(ctx, p, f, models.AttemptSucceeded, c.LeaseNext)
	}
	if err != nil {
		return nil, err
	}
	if l.job.Status == models.JobCancelled {
		return nil, apierror.Conflict("This job is CANCELLED: a cancel was requested before it completed.")
	}
	return h.answerEnd(ctx, p, l.job, l.attempt, l.worker, c.LeaseNext)
}

// mayComplete refuses a completion without the artifacts that a job of its model must have.
func (h *Attempts) mayComplete(job *models.Job, c *Completion) (err error) {
	switch {
	case job.DraftSteps == 0 && c.Preview != nil:
		return apierror.Invalid("preview", "Only a draft produces a preview: name the video in video.")
	case job.DraftSteps > 0 && (c.Preview == nil || c.Video != nil):
		return apierror.Invalid("preview", "A draft produces a preview, not a video: name the preview in preview.")
	}
	if model := h.Catalogue.Current().At(job.Model, job.ModelVersion); model != nil && model.RequiresVideo() && c.Video == nil &&
		job.DraftSteps == 0 {
		return apierror.Invalid("video", "A job of type %s produces a video: upload it and name it in video.", job.Type)
	}
	c.Output, err = strictjson.ReadStored("result", c.Output, maxOutputBytes)
	return err
}

// verifyCompletion asks the store about each object before any row is locked.
func (h *Attempts) verifyCompletion(ctx context.Context, p jobs.Principal, f Fence, c Completion) ([]*models.Artifact, error) {
	var verified []*models.Artifact
	for _, object := range []struct {
		t models.ArtifactType
		o *jobs.UploadedObject
	}{
		{models.ArtifactFinalVideo, c.Video},
		{models.ArtifactThumbnail, c.Thumbnail},
		{models.ArtifactSpritesheet, c.Spritesheet},
		{models.ArtifactPreview, c.Preview},
		{models.ArtifactLog, c.Log},
	} {
		if object.o == nil {
			continue
		}
		a, err := h.verify(ctx, f, object.t, object.o)
		if err != nil {
			return nil, h.lostOr(ctx, p, f, err)
		}
		verified = append(verified, a)
	}
	return verified, nil
}

func (l *lockedLease) publish(verified []*models.Artifact) error {
	for _, a := range verified {
		kept, err := l.keep(a)
		if err != nil {
			return err
		}
		switch kept.Type {
		case models.ArtifactFinalVideo:
			l.job.ResultID = kept.ID
		case models.ArtifactThumbnail:
			l.change.Thumbnail = true
		case models.ArtifactPreview:
			l.job.Progress.PreviewID = kept.ID
		case models.ArtifactLog:
			l.attempt.LogID = kept.ID
		}
	}
	return nil
}

// Failure is how an attempt failed, as its worker reports it.
type Failure struct {
	Class   models.FailureClass
	Message string
	// ErrorDetail is a stack trace, or the last output of the runtime.
	ErrorDetail       string
	RetryAfterSeconds *int
	Log               *jobs.UploadedObject
	LeaseNext         bool
}

// Fail ends an attempt FAILED. The job is retried later if the class and the number of failures
// allow it; otherwise the job is FAILED too. Calling Fail again with the same token returns the
// same answer.
func (h *Attempts) Fail(ctx context.Context, p jobs.Principal, f Fence, failure Failure) (*End, error) {
	end, err := h.fail(ctx, p, f, failure)
	return end, apierror.Wrap(err, "fail attempt %s", f.AttemptID)
}

func (h *Attempts) fail(ctx context.Context, p jobs.Principal, f Fence, failure Failure) (*End, error) {
	attempt, err := f.find(ctx, h.DB, p)
	if err != nil {
		return nil, err
	}
	if !attempt.EndedAt.IsZero() {
		return h.again(ctx, p, f, models.AttemptFailed, failure.LeaseNext)
	}
	if failure.RetryAfterSeconds != nil && (*failure.RetryAfterSeconds < 0 || *failure.RetryAfterSeconds > maxRetryAfter) {
		return nil, apierror.Invalid("retryAfterSeconds", "retryAfterSeconds must be from 0 to %d.", maxRetryAfter)
	}
	var logs []*models.Artifact
	if failure.Log != nil {
		log, err := h.verify(ctx, f, models.ArtifactLog, failure.Log)
		if err != nil {
			return nil, err
		}
		logs = append(logs, log)
	}
	failure.Message, failure.ErrorDetail = text.Clip(text.Printable(failure.Message), maxReasonBytes),
		text.Clip(text.Printable(failure.ErrorDetail), maxDetailBytes)
	known := h.Catalogue.Current()
	l, err := h.finish(ctx, &fencedCall{p: p, fence: f, objects: logs, writes: true, act: func(ctx context.Context, l *lockedLease) error {
		if err := l.publish(logs); err != nil {
			return err
		}
		l.end(models.AttemptFailed, failure.Class, failure.Message)
		l.attempt.ErrorDetail = failure.ErrorDetail
		return l.failed(ctx, known, failure)
	}})
	if errors.Is(err, apierror.ErrLeaseLost) {
		return h.again(ctx, p, f, models.AttemptFailed, failure.LeaseNext)
	}
	if err != nil {
		return nil, err
	}
	return h.answerEnd(ctx, p, l.job, l.attempt, l.worker, failure.LeaseNext)
}

// again answers a repeated or concurrent call about an ended attempt: with the same answer if the
// attempt ended as the call asked, and with ErrLeaseLost otherwise. It waits for the standbys for which
// that end waited. The answer contains the next lease until the worker has ended that lease or a later one.
func (h *Attempts) again(ctx context.Context, p jobs.Principal, f Fence, as models.AttemptStatus, leaseNext bool) (*End, error) {
	a, err := f.find(ctx, h.DB, p)
	if err != nil {
		return nil, err
	}
	if a.Status == models.AttemptCancelled && as == models.AttemptSucceeded {
		return nil, apierror.Conflict("This job is CANCELLED: a cancel was requested before it completed.")
	}
	if a.Status != as && a.Status != models.AttemptCancelled {
		return nil, apierror.ErrLeaseLost
	}
	job, err := models.AwaitJob(ctx, h.DB, a.JobID)
	if err != nil {
		return nil, err
	}
	if leaseNext {
		// The worker got the next lease and has ended it. This call is a late duplicate, and nobody
		// would run a job that is leased for it.
		had, err := models.EndedAnother(ctx, h.DB, a)
		if err != nil {
			return nil, err
		}
		leaseNext = !had
	}
	return h.answerEnd(ctx, p, job, a, nil, leaseNext)
}

// answerEnd adds the next lease. Its request id is derived from the ended attempt, so that a
// repeated call finds the same lease. worker is the row as the end left it, or nil.
func (h *Attempts) answerEnd(ctx context.Context, p jobs.Principal, job *models.Job, ended *models.Attempt, worker *models.Worker,
	leaseNext bool) (*End, error) {
	end := &End{Job: job}
	if !leaseNext {
		return end, nil
	}
	// The end is committed. Without a next lease the worker asks again.
	call := LeaseCall{WorkerID: p.WorkerID, RequestID: "after " + string(ended.ID)}
	var err error
	if worker != nil {
		end.Next, _, err = h.Leaser.wait(ctx, h.Catalogue.Current(), worker, call)
	} else {
		end.Next, _, err = h.Leaser.Lease(ctx, p, call)
	}
	if err != nil {
		slog.DebugContext(ctx, "no next lease", "worker", p.WorkerID, "error", err)
	}
	return end, nil
}

// keepDraft keeps a draft that ends now for as long as its account's setting says. It returns
// INVALID_INPUT if the newest checkpoint is from before the draft's last step.
func (l *lockedLease) keepDraft(ctx context.Context) error {
	newest, err := models.GetArtifacts(ctx, l.change.Tx, []models.ArtifactID{l.job.LatestCheckpointID})
	if err != nil {
		return err
	}
	if len(newest) == 0 || *newest[0].Step < l.job.DraftSteps {
		return apierror.Invalid("preview", "The draft ends at step %d: commit a checkpoint of that step or a later one first.", l.job.DraftSteps)
	}
	hours, err := models.GetDraftsKeptHours(ctx, l.change.Tx, l.job.AccountID)
	if err != nil {
		return err
	}
	l.job.KeptUntil = l.change.Now.Add(time.Duration(hours) * time.Hour)
	return nil
}
