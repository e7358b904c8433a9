package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Relay carries the outbox's messages out, each at least once.
type Relay struct {
	DB *bun.DB
	// Publish hands one message to the queue. It returns ErrUnpublishable for a
	// message that the queue will not take, and another error if it can take none
	// now.
	Publish func(ctx context.Context, m *models.OutboxMessage) error
}

// ErrUnpublishable means that nobody handles a message as it is: it was written
// by a newer release, perhaps.
var ErrUnpublishable = errors.New("nobody handles this message")

const (
	relayBatch = 200
	// relayClaim is for how long a message is this process's: after that another
	// one takes it, if this one is gone.
	relayClaim = 30 * time.Second
)

// Pass carries one batch and returns how many messages it was. What the queue
// cannot take now is due again at once; what nobody handles comes again as much
// later as it is old, and holds up nothing.
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
	// A claim that is not settled, since the process ends, runs out.
	if err := models.SettleOutbox(context.WithoutCancel(ctx), r.DB, carried, refused, left); err != nil {
		return 0, errors.Join(failed, fmt.Errorf("settle the outbox: %w", err))
	}
	return len(carried), failed
}

// parcel is a message that is carried for one or more of the outbox's.
type parcel struct {
	message *models.OutboxMessage
	ids     []int64
}

// parcels joins the messages that jobs of one lane are ready, up to maxReady jobs
// in each: what one message costs is much, and what one job more in it is little.
func parcels(messages []*models.OutboxMessage) []parcel {
	var all []parcel
	open := map[models.Tier]int{} // where in all
	told := map[models.Tier]JobReady{}
	for _, m := range messages {
		all = append(all, parcel{m, []int64{m.ID}})
		var ready JobReady
		if m.Kind != models.OutboxJobReady || json.Unmarshal(m.Payload, &ready) != nil {
			continue
		}
		first, ok := told[ready.Lane]
		if !ok || first.count()+ready.count() > maxReady {
			open[ready.Lane], told[ready.Lane] = len(all)-1, ready
			continue
		}
		first.Others = append(append(first.Others, ready.JobID), ready.Others...)
		told[ready.Lane] = first
		into := &all[open[ready.Lane]]
		into.message = &models.OutboxMessage{Kind: m.Kind, Payload: first.payload()}
		into.ids = append(into.ids, m.ID)
		all = all[:len(all)-1]
	}
	return all
}

// Readier answers the lane's messages and keeps the ready index in step with
// PostgreSQL.
type Readier struct {
	DB       *bun.DB
	Notifier *Notifier
}

// Ready puts those of the jobs into the ready index again that are still queued.
// It returns NOT_FOUND if none is.
func (r *Readier) Ready(ctx context.Context, ids ...models.JobID) error {
	queued, err := models.GetQueuedJobs(ctx, r.DB, ids)
	if err != nil {
		return fmt.Errorf("read queued jobs: %w", err)
	}
	if len(queued) == 0 {
		return apierror.NotFound("queued job")
	}
	r.Notifier.ready(ctx, readyHints(queued)...)
	return nil
}

// sweepHeads is how many jobs of each account's queue a sweep puts back: more
// than the workers will take before the next.
const sweepHeads = 100

// Sweep puts the heads of all queues into the ready index again, whole anew if it was
// lost, and so mends whatever a hint missed.
func (r *Readier) Sweep(ctx context.Context) error {
	return r.reindex(ctx)
}

func (r *Readier) reindex(ctx context.Context) error {
	queued, err := models.ListQueuedJobs(ctx, r.DB, sweepHeads)
	if err != nil {
		return fmt.Errorf("list queued jobs: %w", err)
	}
	heads := readyHints(queued)
	if err := r.Notifier.Index.Rebuild(ctx, heads); err != nil {
		return fmt.Errorf("sweep the ready index: %w", err)
	}
	standings, err := models.ListStandings(ctx, r.DB, nil)
	if err != nil {
		return fmt.Errorf("list where accounts stand: %w", err)
	}
	if err := r.Notifier.Index.Stand(ctx, standings...); err != nil {
		return fmt.Errorf("sweep the ready index: %w", err)
	}
	r.Notifier.Waiters.Look()
	return nil
}

// Mend sweeps at once if the ready index was lost.
func (r *Readier) Mend(ctx context.Context) error {
	if _, err := r.Notifier.Index.First(ctx, nil, 1); !errors.Is(err, ErrIndexLost) {
		return err
	}
	return r.Sweep(ctx)
}

func readyHint(job models.QueuedJob) ReadyJob {
	return ReadyJob{
		Queue: job.Queue, ID: job.ID, Account: job.AccountID, Wish: job.Wish, Order: job.QueueOrder, VirtualTime: job.VirtualTime,
	}
}

func readyHints(queued []models.QueuedJob) []ReadyJob {
	hints := make([]ReadyJob, len(queued))
	for i, job := range queued {
		hints[i] = readyHint(job)
	}
	return hints
}
