package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Relay carries the outbox's messages out, each at least once.
type Relay struct {
	DB *bun.DB
	// Publish hands one message to the queue. A message that it refuses is tried
	// again later.
	Publish func(ctx context.Context, m *models.OutboxMessage) error
}

const (
	relayBatch = 200
	// relayClaim is for how long a message is this process's: after that another
	// one takes it that this one did not carry out.
	relayClaim = 30 * time.Second
)

// Pass carries one batch and returns how many messages it was.
func (r *Relay) Pass(ctx context.Context) (int, error) {
	messages, err := models.ClaimOutbox(ctx, r.DB, relayBatch, relayClaim)
	if err != nil {
		return 0, fmt.Errorf("claim the outbox: %w", err)
	}
	var carried []int64
	var failed error
	for _, m := range messages {
		if err := r.Publish(ctx, m); err != nil {
			failed = fmt.Errorf("publish outbox message %d: %w", m.ID, err)
			break // the queue is away; what is left becomes due again
		}
		carried = append(carried, m.ID)
	}
	if len(carried) > 0 {
		if err := models.DeleteOutbox(ctx, r.DB, carried); err != nil {
			return 0, errors.Join(failed, fmt.Errorf("clear the outbox: %w", err))
		}
	}
	return len(carried), failed
}

// Readier answers the lane's messages and keeps the ready index in step with
// PostgreSQL.
type Readier struct {
	DB       *bun.DB
	Notifier *Notifier
}

// Ready puts a job into the ready index again, if it is still queued.
func (r *Readier) Ready(ctx context.Context, id models.JobID) error {
	job, err := models.GetQueuedJob(ctx, r.DB, id)
	if err != nil {
		return wrap(orNotFound(err, "queued job"), "ready job %s", id)
	}
	r.Notifier.ready(ctx, readyHint(*job))
	return nil
}

// sweepHeads is how many jobs of each account's queue a sweep puts back: more
// than the workers will take before the next.
const sweepHeads = 100

// Sweep puts the heads of all queues into the ready index again, whole anew if
// it was lost, and so mends whatever a hint missed.
func (r *Readier) Sweep(ctx context.Context) error {
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
