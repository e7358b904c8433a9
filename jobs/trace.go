package jobs

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/tracing"
	"github.com/reelay/reelay/models"
)

// Traceparent returns the traceparent of the attempt's span, for its worker, or "" if the job has
// none.
func (l *Lease) Traceparent() string {
	if l.Job.Traceparent == "" {
		return ""
	}
	return tracing.ForAttempt(l.Job.Traceparent, string(l.Job.ID), l.Attempt.AttemptNo)
}

// trace records the spans that a committed change ends: the wait in the queue, and the attempt.
// An attempt's span links to that of the attempt before it.
func (c *Change) trace() {
	job := c.job
	if job.Traceparent == "" || !tracing.Enabled() {
		return
	}
	id, run := tracing.String("reelay.job", job.ID), tracing.Int("reelay.run", job.Run)
	if c.from == models.JobQueued && job.Status == models.JobAssigned {
		tracing.Record(tracing.Span{
			Parent: job.Traceparent, Name: "queue", From: job.QueuedAt, To: job.LeasedAt,
			Attrs: []tracing.Attr{id, run, tracing.String("reelay.lane", job.Lane), tracing.String("reelay.model", job.Model)},
		})
	}
	if c.ending == nil {
		return
	}
	attempt := c.ending.Attempt
	span := tracing.Span{
		Parent: job.Traceparent, Name: "attempt", From: attempt.LeasedAt, To: attempt.EndedAt,
		ID: tracing.AttemptID(string(job.ID), attempt.AttemptNo), Failed: attempt.Status == models.AttemptFailed || attempt.Status == models.AttemptLost,
		Attrs: []tracing.Attr{
			id, run, tracing.String("reelay.attempt", attempt.ID), tracing.Int("reelay.attempt_no", attempt.AttemptNo), tracing.String("reelay.worker", attempt.WorkerID),
			tracing.String("reelay.attempt_status", attempt.Status), tracing.String("reelay.failure_class", attempt.FailureClass),
		},
	}
	if attempt.AttemptNo > 1 {
		span.Link = tracing.AttemptID(string(job.ID), attempt.AttemptNo-1)
	}
	tracing.Record(span)
}

// trace records for each queued job of the delivered messages how long it was in the outbox.
func (r *Relay) trace(ctx context.Context, messages []*models.OutboxMessage, delivered []int64) {
	if !tracing.Enabled() {
		return
	}
	since := map[models.JobID]time.Time{}
	for _, m := range messages {
		var ready JobReady
		if m.Kind != models.OutboxJobReady || !slices.Contains(delivered, m.ID) || json.Unmarshal(m.Payload, &ready) != nil {
			continue
		}
		for _, id := range append(ready.Others, ready.JobID) {
			since[id] = m.CreatedAt
		}
	}
	if len(since) == 0 {
		return
	}
	ids := make([]models.JobID, 0, len(since))
	for id := range since {
		ids = append(ids, id)
	}
	found, err := models.ListTraceparents(ctx, r.DB, ids)
	if err != nil {
		slog.DebugContext(ctx, "the spans of the outbox are lost", "error", err)
		return
	}
	for _, job := range found {
		tracing.Record(tracing.Span{
			Parent: job.Traceparent, Name: "outbox", From: since[job.ID], To: job.Now, Attrs: []tracing.Attr{tracing.String("reelay.job", job.ID)},
		})
	}
}
