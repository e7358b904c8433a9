package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/models"
)

// outcomes counts what became of jobs, most of it by model.
type outcomes struct {
	ended, failed, previews, made, continued, discarded *prometheus.CounterVec
	finished, reused                                    *prometheus.CounterVec
	models                                              *bound
	// These are by lane.
	yields, yieldCost *prometheus.CounterVec
}

func newOutcomes(models *bound) outcomes {
	byModel := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"model"}, labels...))
	}
	return outcomes{
		models: models,
		finished: counter("reelay_jobs_finished_total",
			"Runs of jobs that ended, by status and failure class, which is none unless it is FAILED.", "status", "class"),
		reused: byModel("reelay_jobs_reused_total", "Jobs that were answered with the result of an equal job, by model. They count as ended, too."),
		ended:  byModel("reelay_jobs_ended_total", "Runs of jobs that ended, by model and status.", "status"),
		failed: byModel("reelay_attempts_failed_total", "Attempts that failed and count against maxAttempts, by model and failure class.",
			"class"),
		previews:  byModel("reelay_previews_total", "Pictures of unfinished videos, and clips of drafts, by model."),
		made:      byModel("reelay_drafts_made_total", "Drafts that were submitted, by model."),
		continued: byModel("reelay_drafts_continued_total", "Drafts that were continued, by model."),
		discarded: byModel("reelay_drafts_discarded_total", "Completed drafts that were deleted before anyone continued them, by model."),
		yields: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "reelay_yields_total", Help: "Jobs that gave way to a job of a higher lane, by their lane and by that one.",
		}, []string{"lane", "to"}),
		yieldCost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "reelay_yield_wasted_seconds_total", Help: "GPU seconds of work that were lost because jobs gave way, by their lane.",
		}, []string{"lane"}),
	}
}

func (o *outcomes) all() []prometheus.Collector {
	return []prometheus.Collector{o.finished, o.reused, o.ended, o.failed, o.previews, o.made, o.continued, o.discarded, o.yields, o.yieldCost}
}

// submitted counts a new job.
func (o *outcomes) submitted(job *models.Job) {
	if job.DraftSteps > 0 {
		o.made.WithLabelValues(o.models.of(job.Model)).Inc()
	}
	if job.Continues != "" {
		o.continued.WithLabelValues(o.models.of(job.Model)).Inc()
	}
}

// changed counts a change of a job.
func (o *outcomes) changed(before, after *models.Job) {
	if !before.Status.Terminal() && after.Status.Terminal() {
		class := "none"
		if after.Status == models.JobFailed {
			class = string(after.FailureClass)
		}
		o.finished.WithLabelValues(string(after.Status), class).Inc()
		o.ended.WithLabelValues(o.models.of(after.Model), string(after.Status)).Inc()
	}
	if before.ReusedFrom == "" && after.ReusedFrom != "" {
		o.reused.WithLabelValues(o.models.of(after.Model)).Inc()
	}
	if after.Run == before.Run && after.Failures > before.Failures {
		o.failed.WithLabelValues(o.models.of(after.Model), string(after.FailureClass)).Inc()
	}
	if after.PreviewID != "" && after.PreviewID != before.PreviewID {
		o.previews.WithLabelValues(o.models.of(after.Model)).Inc()
	}
	// The checkpoint of a draft belongs to the job that continues it, and is gone once the
	// draft expired.
	if before.DraftSteps > 0 && before.Status == models.JobCompleted && before.LatestCheckpointID != "" &&
		before.DeletedAt.IsZero() && !after.DeletedAt.IsZero() {
		o.discarded.WithLabelValues(o.models.of(after.Model)).Inc()
	}
}
