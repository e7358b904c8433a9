package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/pass"
	"github.com/reelay/reelay/models"
)

// Publisher hands the outbox's messages to asynq.
type Publisher struct {
	sender sender
}

// NewPublisher returns a publisher. Close it after use.
func NewPublisher(q Queue) *Publisher { return &Publisher{newSender(q)} }

// Close ends its connections.
func (p *Publisher) Close() { p.sender.close() }

// readyTimeout bounds one look at a job and the ready index.
const readyTimeout = 10 * time.Second

// Publish enqueues a message; it does nothing if the message is already queued. It returns an
// error that is [pass.ErrUnpublishable] for a kind or lane without a handler, and another
// error if Redis does not take the message.
func (p *Publisher) Publish(ctx context.Context, m *models.OutboxMessage) error {
	if m.Kind != models.OutboxJobReady {
		return fmt.Errorf("%w: the kind is %q", pass.ErrUnpublishable, m.Kind)
	}
	ready, err := readJobReady(m.Payload)
	if err != nil {
		return fmt.Errorf("%w: %w", pass.ErrUnpublishable, err)
	}
	// No retry: the sweep finds the job sooner.
	err = p.sender.send(ctx, asynq.NewTask(string(m.Kind), m.Payload), asynq.Queue(laneQueue(ready.Lane)),
		asynq.TaskID(taskID(ready)), asynq.MaxRetry(0), asynq.Timeout(readyTimeout))
	if err != nil {
		return fmt.Errorf("publish that job %s is ready: %w", ready.JobID, err)
	}
	return nil
}

// taskID is the same for the same jobs.
func taskID(ready change.JobReady) string {
	id := fmt.Sprintf("%s:%d", ready.JobID, ready.Version)
	if n := len(ready.Others); n > 0 {
		id += fmt.Sprintf(":%d:%s", n, ready.Others[n-1])
	}
	return id
}

func readJobReady(payload []byte) (change.JobReady, error) {
	var ready change.JobReady
	if err := json.Unmarshal(payload, &ready); err != nil {
		return ready, fmt.Errorf("read a job.ready message: %w", err)
	}
	if !slices.Contains(models.Tiers, ready.Lane) {
		return ready, fmt.Errorf("read a job.ready message of job %s: there is no lane %q", ready.JobID, ready.Lane)
	}
	return ready, nil
}

// jobReady handles the message that jobs are queued. Most messages find that workers have
// already taken the jobs.
func jobReady(handle func(context.Context, ...models.JobID) error) asynq.HandlerFunc {
	return func(ctx context.Context, task *asynq.Task) error {
		ready, err := readJobReady(task.Payload())
		if err != nil {
			return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
		}
		err = handle(ctx, append([]models.JobID{ready.JobID}, ready.Others...)...)
		if apierror.HasCode(err, apierror.CodeNotFound) {
			return nil
		}
		return outcome(err)
	}
}
