package lease

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
)

// Heartbeat extends the lease. An expired lease that was not reaped is still the newest one, so it
// is extended too: a worker that was cut off for a minute keeps an hour of work. The first
// heartbeat starts the job. samples are the newest of the worker's GPUs, or nil.
func (h *Attempts) Heartbeat(ctx context.Context, p jobs.Principal, f Fence, samples []GPUSample) (*Answer, error) {
	answer, err := h.heartbeat(ctx, p, f, samples)
	return answer, apierror.Wrap(err, "heartbeat of attempt %s", f.AttemptID)
}

func (h *Attempts) heartbeat(ctx context.Context, p jobs.Principal, f Fence, samples []GPUSample) (*Answer, error) {
	ordered, err := inOrder(samples)
	if err != nil {
		return nil, err
	}
	return h.beat(ctx, p, f, models.LeaseBeat{GPUUtilization: utilization(ordered), GPUs: ordered})
}

// beat is one heartbeat or progress report. found is PostgreSQL's answer, or nil if no lease
// was extended.
type beat struct {
	models.LeaseBeat
	found *models.Beat
}

func (h *Attempts) beat(ctx context.Context, p jobs.Principal, f Fence, says models.LeaseBeat) (*Answer, error) {
	if !f.AttemptID.Valid() || !f.Token.Valid() || p.WorkerID == "" {
		_, err := f.live(ctx, h.DB, p)
		return nil, err
	}
	says.Fence = models.Fence{WorkerID: p.WorkerID, AttemptID: f.AttemptID, Token: f.Token}
	b := &beat{LeaseBeat: says}
	if err := jobs.InTurn(ctx, &h.beats, b, h.beatAll); err != nil {
		return nil, err
	}
	if b.found == nil { // the first one of an attempt, or the caller has no lease
		if err := h.begin(ctx, p, f); err != nil {
			return nil, err
		}
		if err := jobs.InTurn(ctx, &h.beats, b, h.beatAll); err != nil {
			return nil, err
		}
	}
	if b.found == nil { // it has ended meanwhile
		return nil, apierror.ErrLeaseLost
	}
	found := b.found
	answer := &Answer{LeaseExpiresAt: found.LeaseExpiresAt, Directive: directive(&models.Wanted{
		Status: found.WorkerStatus, DrainReason: found.DrainReason, DrainDeadline: found.DrainDeadline,
		JobID: found.JobID, CancelRequestedAt: found.CancelRequestedAt, CancelReason: found.CancelReason,
		YieldRequestedAt: found.YieldRequestedAt, YieldTo: found.YieldTo,
	})}
	return answer, h.delivered(ctx, answer, found.CancelDeliveredAt)
}

// begin records an attempt's first sign of work.
func (h *Attempts) begin(ctx context.Context, p jobs.Principal, f Fence) error {
	_, err := h.fenced(ctx, &fencedCall{p: p, fence: f, act: func(context.Context, *lockedLease) error { return nil }})
	return err
}

// beatAll extends the leases of a batch of heartbeats, and saves the progress that they
// report. It waits for each row up to patience.
func (h *Attempts) beatAll(ctx context.Context, all []*beat, patience time.Duration) error {
	beats := make([]models.LeaseBeat, len(all))
	for i, b := range all {
		beats[i] = b.LeaseBeat
	}
	var found map[models.Fence]*models.Beat
	err := jobs.WithRetry(ctx, func() (err error) {
		found, err = models.ExtendLeases(ctx, h.DB, beats, LeaseTTL, YieldWithin, progressEvents, patience)
		return err
	})
	if err != nil {
		return jobs.BatchError(err)
	}
	var news []string
	for _, b := range all {
		b.found = found[b.Fence]
		if b.found != nil && b.Progress != nil {
			news = append(news, change.JobTopics(b.found.JobID, b.found.EventWritten)...)
		}
	}
	h.Leaser.Notifier.Publish(ctx, news)
	return nil
}

// GPUSample is one GPU at one moment.
type GPUSample = models.GPUSample

const (
	MaxGPUs        = 64
	maxGPUMemory   = 1 << 60
	maxTemperature = 200
	maxPower       = 100_000
	maxErrors      = 1 << 53
	maxXid         = 1000
)

// inOrder returns the samples in the order of the GPUs. It returns INVALID_INPUT for impossible
// samples.
func inOrder(samples []GPUSample) ([]GPUSample, error) {
	if len(samples) > MaxGPUs {
		return nil, apierror.Invalid("gpus", "There may be %d GPUs.", MaxGPUs)
	}
	ordered := slices.SortedFunc(slices.Values(samples), func(a, b GPUSample) int { return cmp.Compare(a.Index, b.Index) })
	for i, s := range ordered {
		if i > 0 && ordered[i-1].Index == s.Index {
			return nil, apierror.Invalid("gpus", "There are two samples of GPU %d.", s.Index)
		}
		if err := validSample(&s); err != nil {
			return nil, err
		}
	}
	return ordered, nil
}

// utilization returns the utilization of each GPU, or nil if there are none or one's is unknown.
func utilization(ordered []GPUSample) []float64 {
	var all []float64
	for _, s := range ordered {
		if s.Utilization == nil {
			return nil
		}
		all = append(all, *s.Utilization)
	}
	return all
}

// validSample returns INVALID_INPUT if a GPU cannot be in that state.
func validSample(s *GPUSample) error {
	if s.Index < 0 || s.Index >= MaxGPUs {
		return apierror.Invalid("gpus", "The index of a GPU must be from 0 to %d.", MaxGPUs-1)
	}
	for _, field := range []struct {
		name      string
		value     *float64
		low, high float64
	}{
		{"utilization", s.Utilization, 0, 1},
		{"memoryUsedBytes", float(s.MemoryUsedBytes), 0, maxGPUMemory},
		{"memoryTotalBytes", float(s.MemoryTotalBytes), 0, maxGPUMemory},
		{"temperatureC", s.TemperatureC, -maxTemperature, maxTemperature},
		{"powerW", s.PowerW, 0, maxPower},
		{"eccUncorrected", float(s.ECCUncorrected), 0, maxErrors},
		{"xid", float(s.Xid), 0, maxXid},
	} {
		if v := field.value; v != nil && !(*v >= field.low && *v <= field.high) { // NaN is neither
			return apierror.Invalid("gpus", "%s of GPU %d must be from %.0f to %.0f.", field.name, s.Index, field.low, field.high)
		}
	}
	return nil
}

// float converts an optional number.
func float[T int | int64](v *T) *float64 {
	if v == nil {
		return nil
	}
	return new(float64(*v))
}
