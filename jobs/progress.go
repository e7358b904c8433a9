package jobs

import (
	"context"
	"math"
	"time"

	"github.com/reelay/reelay/models"
)

// ProgressReport is what a worker says of its work.
type ProgressReport struct {
	models.Progress
	// ResumedFrom is the checkpoint that the attempt went on from, said once.
	ResumedFrom models.ArtifactID
}

// Progress events are thinned: one per this much of either.
const (
	progressEventEvery   = 5 * time.Second
	progressEventPercent = 1.0
)

const maxMessageBytes = 500

// ReportProgress keeps the newest progress of a held job. It may go back.
func (h *Holder) ReportProgress(ctx context.Context, p Principal, f Fence, report ProgressReport) (*Answer, error) {
	if err := report.valid(); err != nil {
		return nil, err
	}
	l, err := h.fenced(ctx, &fencedCall{p: p, fence: f, act: func(ctx context.Context, l *held) error {
		if report.ResumedFrom != "" {
			if err := l.resumed(ctx, report.ResumedFrom); err != nil {
				return err
			}
		}
		l.progress(report.Progress)
		if report.Phase == models.PhaseUploading {
			return l.change.completing()
		}
		return nil
	}})
	if err != nil {
		return nil, wrap(err, "progress of attempt %s", f.AttemptID)
	}
	answer := l.answer()
	return answer, wrap(h.delivered(ctx, answer, l.job.CancelDeliveredAt), "progress of attempt %s", f.AttemptID)
}

func (r *ProgressReport) valid() error {
	if !(r.Percent >= 0 && r.Percent <= 100) {
		return invalid("percent", "percent must be from 0 to 100.")
	}
	if r.ETASeconds != nil && !(*r.ETASeconds >= 0 && *r.ETASeconds <= math.MaxInt32) {
		return invalid("etaSeconds", "etaSeconds must be 0 or more.")
	}
	for name, n := range map[string]*int{"step": r.Step, "totalSteps": r.TotalSteps, "frame": r.Frame, "totalFrames": r.TotalFrames} {
		if n != nil && (*n < 0 || *n > math.MaxInt32) {
			return invalid(name, "%s must be from 0 to %d.", name, math.MaxInt32)
		}
	}
	if r.Phase == models.PhaseDone || r.Phase == models.PhaseWaiting {
		return invalid("phase", "The phase of a job that is worked on is never %s.", r.Phase)
	}
	r.Message = clip(printable(r.Message), maxMessageBytes)
	return nil
}

func (l *held) progress(p models.Progress) {
	job, now := l.job, l.change.now
	p.UpdatedAt = now
	job.Progress = p
	if job.ProgressEventPercent != nil && math.Abs(p.Percent-*job.ProgressEventPercent) < progressEventPercent &&
		now.Sub(job.ProgressEventAt) < progressEventEvery {
		return
	}
	job.ProgressEventAt, job.ProgressEventPercent = now, &p.Percent
	l.change.note(models.EventProgress, payload{"percent": p.Percent, "phase": p.Phase, "message": p.Message})
}

// resumed notes which checkpoint the attempt went on from.
func (l *held) resumed(ctx context.Context, id models.ArtifactID) error {
	if l.attempt.ResumedFromStep != nil {
		return nil
	}
	if !id.Valid() {
		return notFound("checkpoint")
	}
	found, err := models.GetArtifacts(ctx, l.change.tx, []models.ArtifactID{id})
	if err != nil {
		return err
	}
	if len(found) == 0 || found[0].JobID != l.job.ID || found[0].Type != models.ArtifactCheckpoint {
		return notFound("checkpoint")
	}
	l.attempt.ResumedFromStep = found[0].Step
	l.change.note(models.EventResumed, payload{"artifact": id, "step": found[0].Step, "percent": found[0].Percent})
	return nil
}
