package pass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/tracing"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/uptrace/bun"
)

// Relay delivers the outbox's messages, each at least once.
type Relay struct {
	DB *bun.DB
	// Publish hands one message to the queue. It returns ErrUnpublishable if the queue can
	// never take this message, and another error if it can take none now.
	Publish func(ctx context.Context, m *models.OutboxMessage) error
}

// ErrUnpublishable means that there is no handler for a message; a newer release may have
// written it.
var ErrUnpublishable = errors.New("this message has no handler")

const (
	relayBatch = 200
	// relayClaim is how long this process owns a message. After that another process may take
	// it.
	relayClaim = 30 * time.Second
)

// Pass delivers one batch and returns how many messages it delivered. A message that the queue
// cannot take now is due again at once. The retry delay of one without a handler is its age,
// so that it does not hold up others.
func (r *Relay) Pass(ctx context.Context) (int, error) {
	messages, err := models.ClaimOutbox(ctx, r.DB, relayBatch, relayClaim)
	if err != nil {
		return 0, fmt.Errorf("claim the outbox: %w", err)
	}
	var carried, refused, left []int64
	var failed error
	for _, p := range parcels(messages) {
		if failed == nil {
			err = r.Publish(ctx, p.message)
		}
		switch {
		case failed != nil:
			left = append(left, p.ids...)
		case err == nil:
			carried = append(carried, p.ids...)
		case errors.Is(err, ErrUnpublishable):
			refused = append(refused, p.ids...)
			slog.ErrorContext(ctx, "outbox message waits for who handles it", "message", p.ids[0], "kind", p.message.Kind, "error", err)
		default:
			left, failed = append(left, p.ids...), fmt.Errorf("publish outbox message %d: %w", p.ids[0], err)
		}
	}
	// If the process ends before it settles a claim, the claim expires.
	defer r.trace(ctx, messages, carried)
	if err := models.SettleOutbox(context.WithoutCancel(ctx), r.DB, carried, refused, left); err != nil {
		return 0, errors.Join(failed, fmt.Errorf("settle the outbox: %w", err))
	}
	return len(carried), failed
}

// parcel is a message that stands for one or more outbox messages.
type parcel struct {
	message *models.OutboxMessage
	ids     []int64
}

// parcels merges the ready messages of a lane, up to MaxReady jobs in each: a message is
// expensive, one more job in it is cheap.
func parcels(messages []*models.OutboxMessage) []parcel {
	var all []parcel
	open := map[models.Tier]int{} // where in all
	told := map[models.Tier]change.JobReady{}
	for _, m := range messages {
		all = append(all, parcel{m, []int64{m.ID}})
		var ready change.JobReady
		if m.Kind != models.OutboxJobReady || json.Unmarshal(m.Payload, &ready) != nil {
			continue
		}
		first, ok := told[ready.Lane]
		if !ok || first.Count()+ready.Count() > change.MaxReady {
			open[ready.Lane], told[ready.Lane] = len(all)-1, ready
			continue
		}
		first.Others = append(append(first.Others, ready.JobID), ready.Others...)
		told[ready.Lane] = first
		into := &all[open[ready.Lane]]
		into.message = &models.OutboxMessage{Kind: m.Kind, Payload: first.Payload()}
		into.ids = append(into.ids, m.ID)
		all = all[:len(all)-1]
	}
	return all
}

// Readier handles the lanes' messages and keeps the ready index in step with PostgreSQL.
type Readier struct {
	DB       *bun.DB
	Notifier *change.Notifier
}

// Ready puts the jobs that are still queued back into the ready index. It returns NOT_FOUND if
// none is.
func (r *Readier) Ready(ctx context.Context, ids ...models.JobID) error {
	queued, err := backlog.GetQueuedJobs(ctx, r.DB, ids)
	if err != nil {
		return fmt.Errorf("read queued jobs: %w", err)
	}
	if len(queued) == 0 {
		return apierror.NotFound("queued job")
	}
	r.Notifier.Ready(ctx, jobs.ReadyHints(queued)...)
	return nil
}

// sweepHeads is how many jobs of each account's queue a sweep restores: more than the workers
// take before the next sweep.
const sweepHeads = 100

// Sweep puts the heads of all queues and the standings of all accounts back into the ready index,
// and rebuilds a lost index. See the package's comment for what it alone repairs.
func (r *Readier) Sweep(ctx context.Context) error {
	queued, err := backlog.ListQueuedJobs(ctx, r.DB, sweepHeads)
	if err != nil {
		return fmt.Errorf("list queued jobs: %w", err)
	}
	heads := jobs.ReadyHints(queued)
	if err := r.Notifier.Index.Rebuild(ctx, heads); err != nil {
		return fmt.Errorf("sweep the ready index: %w", err)
	}
	standings, err := models.ListFlowStates(ctx, r.DB, nil)
	if err != nil {
		return fmt.Errorf("list the standings of accounts: %w", err)
	}
	if err := r.Notifier.Index.SetFlows(ctx, standings...); err != nil {
		return fmt.Errorf("sweep the ready index: %w", err)
	}
	r.Notifier.Waiters.Look()
	return nil
}

// Mend sweeps at once if the ready index was lost.
func (r *Readier) Mend(ctx context.Context) error {
	if _, err := r.Notifier.Index.First(ctx, nil, nil, 1); !errors.Is(err, jobs.ErrIndexLost) {
		return err
	}
	return r.Sweep(ctx)
}

// trace records for each queued job of the delivered messages how long it was in the outbox.
func (r *Relay) trace(ctx context.Context, messages []*models.OutboxMessage, delivered []int64) {
	if !tracing.Enabled() {
		return
	}
	since := map[models.JobID]time.Time{}
	for _, m := range messages {
		var ready change.JobReady
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
