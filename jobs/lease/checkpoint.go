package lease

import (
	"context"
	"math"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
)

// CommitCheckpoint makes an uploaded checkpoint the one from which the next attempt resumes, after
// the store has confirmed its size and checksum. Committing it again changes nothing.
func (h *Attempts) CommitCheckpoint(ctx context.Context, p jobs.Principal, f Fence, c jobs.Checkpoint) (*Answer, error) {
	if c.Step < 0 || c.Step > math.MaxInt32 {
		return nil, apierror.Invalid("step", "step must be 0 or more.")
	}
	if !(c.Percent >= 0 && c.Percent <= 100) {
		return nil, apierror.Invalid("percent", "percent must be from 0 to 100.")
	}
	if c.DurationSeconds != nil && !(*c.DurationSeconds >= 0 && *c.DurationSeconds <= catalogue.MaxTimeout) {
		return nil, apierror.Invalid("durationSeconds", "durationSeconds must be from 0 to %d.", catalogue.MaxTimeout)
	}
	answer, err := h.commit(ctx, p, f, models.ArtifactCheckpoint, &c.Object, func(l *lockedLease, a *models.Artifact, isNew bool) {
		if !isNew {
			return
		}
		l.job.LatestCheckpointID, l.attempt.CheckpointID, l.attempt.CheckpointAt = a.ID, a.ID, l.change.Now
		l.job.Crashes, l.change.Checkpoint = 0, &c
		data := jobs.Payload{"artifact": a.ID, "step": c.Step, "percent": c.Percent, "sizeBytes": a.SizeBytes}
		if c.DurationSeconds != nil {
			data["durationSeconds"] = *c.DurationSeconds
		}
		l.change.Note(models.EventCheckpointed, data)
	}, func(a *models.Artifact) { a.Step, a.Percent = &c.Step, &c.Percent })
	return answer, apierror.Wrap(err, "checkpoint of attempt %s", f.AttemptID)
}

// CommitArtifact publishes a PREVIEW, a LOG, or a frame of EVIDENCE while the job runs.
func (h *Attempts) CommitArtifact(ctx context.Context, p jobs.Principal, f Fence, t models.ArtifactType, o jobs.UploadedObject) (*Answer,
	error) {
	if t != models.ArtifactPreview && t != models.ArtifactLog && t != models.ArtifactEvidence {
		return nil, apierror.Invalid("type", "Only a PREVIEW, a LOG or EVIDENCE is committed while the job runs.")
	}
	answer, err := h.commit(ctx, p, f, t, &o, func(l *lockedLease, a *models.Artifact, _ bool) {
		switch t {
		case models.ArtifactLog:
			l.attempt.LogID = a.ID
		case models.ArtifactPreview:
			l.job.Progress.PreviewID = a.ID
		}
	}, nil)
	return answer, apierror.Wrap(err, "artifact of attempt %s", f.AttemptID)
}

// commit verifies an object before the transaction that keeps it. That transaction checks the
// lease.
func (h *Attempts) commit(ctx context.Context, p jobs.Principal, f Fence, t models.ArtifactType, o *jobs.UploadedObject,
	then func(l *lockedLease, a *models.Artifact, isNew bool), complete func(*models.Artifact),
) (*Answer, error) {
	verified, err := h.verify(ctx, f, t, o)
	if err != nil {
		return nil, h.lostOr(ctx, p, f, err)
	}
	if complete != nil {
		complete(verified)
	}
	l, err := h.fenced(ctx, &fencedCall{p: p, fence: f, objects: []*models.Artifact{verified},
		act: func(ctx context.Context, l *lockedLease) error {
			kept, err := l.keep(verified)
			if err != nil {
				return err
			}
			then(l, kept, kept == verified)
			return nil
		}})
	if err != nil {
		return nil, err
	}
	answer := l.answer()
	return answer, h.delivered(ctx, answer, l.job.CancelDeliveredAt)
}

// RejectCheckpoint marks a checkpoint that could not be restored. No later lease contains it.
func (h *Attempts) RejectCheckpoint(ctx context.Context, p jobs.Principal, f Fence, id models.ArtifactID, reason string) (*Answer, error) {
	l, err := h.fenced(ctx, &fencedCall{p: p, fence: f, writes: true, act: func(ctx context.Context, l *lockedLease) error {
		if !id.Valid() {
			return apierror.NotFound("checkpoint")
		}
		return l.rejectCheckpoint(ctx, id, reason)
	}})
	if err != nil {
		return nil, apierror.Wrap(err, "reject a checkpoint of attempt %s", f.AttemptID)
	}
	answer := l.answer()
	return answer, apierror.Wrap(h.delivered(ctx, answer, l.job.CancelDeliveredAt), "reject a checkpoint of attempt %s", f.AttemptID)
}
