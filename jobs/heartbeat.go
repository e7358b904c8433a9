package jobs

import (
	"context"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
)

// Heartbeat extends the lease. A lease that expired but was not reaped is still the newest
// one, so it is extended, too: a worker that was cut off for a minute keeps an hour of work.
// The first heartbeat starts the job. samples are the newest of the worker's GPUs, or nil.
func (h *Holder) Heartbeat(ctx context.Context, p Principal, f Fence, samples []GPUSample) (*Answer, error) {
	answer, err := h.heartbeat(ctx, p, f, samples)
	return answer, apierror.Wrap(err, "heartbeat of attempt %s", f.AttemptID)
}

func (h *Holder) heartbeat(ctx context.Context, p Principal, f Fence, samples []GPUSample) (*Answer, error) {
	utilization, err := utilization(samples)
	if err != nil {
		return nil, err
	}
	return h.beat(ctx, p, f, models.LeaseBeat{GPUUtilization: utilization})
}

// beat is one heartbeat or progress report. found is PostgreSQL's answer, or nil if no lease
// was extended.
type beat struct {
	models.LeaseBeat
	found *models.Beat
}

func (h *Holder) beat(ctx context.Context, p Principal, f Fence, says models.LeaseBeat) (*Answer, error) {
	if !f.AttemptID.Valid() || !f.Token.Valid() || p.WorkerID == "" {
		_, err := f.live(ctx, h.DB, p)
		return nil, err
	}
	says.Hold = models.Hold{WorkerID: p.WorkerID, AttemptID: f.AttemptID, Token: f.Token}
	b := &beat{LeaseBeat: says}
	if err := h.beats.Do(ctx, b, h.beatAll); err != nil {
		return nil, err
	}
	if b.found == nil { // the first one of an attempt, or no lease of the caller's
		if err := h.begin(ctx, p, f); err != nil {
			return nil, err
		}
		if err := h.beats.Do(ctx, b, h.beatAll); err != nil {
			return nil, err
		}
	}
	if b.found == nil { // it has ended meanwhile
		return nil, apierror.ErrLeaseLost
	}
	found := b.found
	answer := &Answer{LeaseExpiresAt: found.LeaseExpiresAt, Directive: directive(
		found.JobID, found.CancelRequestedAt, found.CancelReason, found.WorkerStatus, found.DrainReason, found.DrainDeadline)}
	return answer, h.delivered(ctx, answer, found.CancelDeliveredAt)
}

// begin records an attempt's first sign of work.
func (h *Holder) begin(ctx context.Context, p Principal, f Fence) error {
	_, err := h.fenced(ctx, &fencedCall{p: p, fence: f, act: func(context.Context, *held) error { return nil }})
	return err
}

// beatAll extends the leases of a batch of heartbeats, and saves the progress that they
// report.
func (h *Holder) beatAll(ctx context.Context, all []*beat) error {
	beats := make([]models.LeaseBeat, len(all))
	for i, b := range all {
		beats[i] = b.LeaseBeat
	}
	var found map[models.Hold]*models.Beat
	err := anew(ctx, func() (err error) {
		found, err = models.ExtendLeases(ctx, h.DB, beats, LeaseTTL, progressEvents)
		return err
	})
	if err != nil {
		return batchError(err)
	}
	var news []string
	for _, b := range all {
		b.found = found[b.Hold]
		if b.found != nil && b.Progress != nil {
			news = append(news, jobNews(b.found.JobID, b.found.Told)...)
		}
	}
	h.Leaser.Notifier.tell(ctx, news)
	return nil
}
