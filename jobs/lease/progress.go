package lease

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// ProgressReport is a worker's report of its progress.
type ProgressReport struct {
	models.Progress
	// ResumedFrom is the checkpoint that the attempt resumed from. It is reported once.
	ResumedFrom models.ArtifactID
	// ResumedNote is the runtime's remark on the resume, such as that other software made the
	// checkpoint.
	ResumedNote string
	// Load is how long the attempt took to load its model. It is reported once, or never if the
	// model was loaded before.
	Load *ModelLoad
}

// ModelLoad is how long a worker took to load a model into memory. LoadSeconds includes the start
// of the runtime, but not FetchSeconds, the download of the weights.
type ModelLoad struct{ LoadSeconds, FetchSeconds float64 }

// maxLoadSeconds bounds each part of a load.
const maxLoadSeconds = 86_400

// progressEvents limits progress events: one per this much progress or time.
var progressEvents = models.Thinning{Percent: 1, After: 5 * time.Second}

// MaxMessageBytes bounds the messages of workers that are stored.
const MaxMessageBytes = 500

// ReportProgress saves the newest progress of the leased job. Progress may decrease.
func (h *Attempts) ReportProgress(ctx context.Context, p jobs.Principal, f Fence, report ProgressReport) (*Answer, error) {
	if err := report.valid(); err != nil {
		return nil, err
	}
	answer, err := h.report(ctx, p, f, report)
	return answer, apierror.Wrap(err, "progress of attempt %s", f.AttemptID)
}

func (h *Attempts) report(ctx context.Context, p jobs.Principal, f Fence, report ProgressReport) (*Answer, error) {
	if report.ResumedFrom != "" || report.Load != nil || report.Phase == models.PhaseUploading {
		_, err := h.fenced(ctx, &fencedCall{p: p, fence: f, act: func(ctx context.Context, l *lockedLease) error {
			if report.Load != nil {
				if err := l.loaded(ctx, report.Load); err != nil {
					return err
				}
			}
			if report.ResumedFrom != "" {
				if err := l.resumed(ctx, report.ResumedFrom, report.ResumedNote); err != nil {
					return err
				}
			}
			if report.Phase == models.PhaseUploading {
				return l.change.Completing()
			}
			return nil
		}})
		if err != nil {
			return nil, err
		}
	}
	return h.beat(ctx, p, f, models.LeaseBeat{Progress: &report.Progress})
}

func (r *ProgressReport) valid() error {
	if !(r.Percent >= 0 && r.Percent <= 100) {
		return apierror.Invalid("percent", "percent must be from 0 to 100.")
	}
	if r.ETASeconds != nil && !(*r.ETASeconds >= 0 && *r.ETASeconds <= math.MaxInt32) {
		return apierror.Invalid("etaSeconds", "etaSeconds must be 0 or more.")
	}
	for name, n := range map[string]*int{"step": r.Step, "totalSteps": r.TotalSteps, "frame": r.Frame, "totalFrames": r.TotalFrames} {
		if n != nil && (*n < 0 || *n > math.MaxInt32) {
			return apierror.Invalid(name, "%s must be from 0 to %d.", name, math.MaxInt32)
		}
	}
	if r.Phase == models.PhaseDone || r.Phase == models.PhaseWaiting {
		return apierror.Invalid("phase", "A job that a worker holds is never in phase %s.", r.Phase)
	}
	if load := r.Load; load != nil {
		for name, v := range map[string]float64{"load.loadSeconds": load.LoadSeconds, "load.fetchSeconds": load.FetchSeconds} {
			if !(v >= 0 && v <= maxLoadSeconds) { // NaN is neither
				return apierror.Invalid(name, "%s must be from 0 to %d.", name, maxLoadSeconds)
			}
		}
	}
	r.Message = text.Clip(text.Printable(r.Message), MaxMessageBytes)
	r.ResumedNote = text.Clip(text.Printable(r.ResumedNote), MaxMessageBytes)
	return nil
}

// loaded records the load time of the model, unless the attempt has reported it before.
func (l *lockedLease) loaded(ctx context.Context, load *ModelLoad) error {
	known := slices.ContainsFunc(l.change.Events, func(e *models.JobEvent) bool { return e.Type == models.EventLoaded })
	if !known {
		var err error
		if known, err = models.HasEvent(ctx, l.change.Tx, l.job.ID, l.attempt.ID, models.EventLoaded); err != nil {
			return err
		}
	}
	if !known {
		l.change.Note(models.EventLoaded, jobs.Payload{"model": l.job.Model, "loadSeconds": load.LoadSeconds, "fetchSeconds": load.FetchSeconds})
	}
	return nil
}

// resumed records the checkpoint from which the attempt resumed.
func (l *lockedLease) resumed(ctx context.Context, id models.ArtifactID, note string) error {
	if l.attempt.ResumedFromStep != nil {
		return nil
	}
	if !id.Valid() {
		return apierror.NotFound("checkpoint")
	}
	found, err := models.GetArtifacts(ctx, l.change.Tx, []models.ArtifactID{id})
	if err != nil {
		return err
	}
	if len(found) == 0 || found[0].JobID != l.job.ID || found[0].Type != models.ArtifactCheckpoint {
		return apierror.NotFound("checkpoint")
	}
	l.attempt.ResumedFromStep = found[0].Step
	data := jobs.Payload{"artifact": id, "step": found[0].Step, "percent": found[0].Percent}
	if note != "" {
		data["note"] = note
	}
	l.change.Note(models.EventResumed, data)
	return nil
}
