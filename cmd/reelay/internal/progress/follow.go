package progress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
)

// readReasons asks why a job waits, so that people do not wait in silence. A failure of that is not
// one of the watch: then nothing is known.
func readReasons(ctx context.Context, c *client.Client, job *client.Job) []client.WaitingReason {
	switch job.Status {
	case client.JobStatusQueued, client.JobStatusBlocked, client.JobStatusScheduled:
	default:
		return nil
	}
	reasons, err := c.WaitingFor(ctx, job.Id)
	if err != nil {
		return nil
	}
	return reasons
}

const (
	// watchEvery is the shortest interval between two states of a watched job.
	watchEvery = 200 * time.Millisecond
	// FirstTries is how many times a watch may fail before its first state.
	FirstTries = 4
	// GiveUpAfter is how long a watch continues without an answer.
	GiveUpAfter = 10 * time.Minute
)

// Follow watches a job until it ends and returns it. It calls show with every state; an
// error from show ends the watch.
func Follow(ctx context.Context, c *client.Client, id string, d *Display, show func(*client.Job) error) (*client.Job, error) {
	defer d.Keep()
	var newest *client.Job
	failures, since := 0, time.Now()
	for job, err := range c.WatchJob(ctx, id, watchEvery) {
		if err != nil {
			failures++
			if ctx.Err() != nil {
				d.Keep()
				return nil, Interrupted(id)
			}
			e, ok := errors.AsType[*client.Error](err)
			gone := newest == nil && failures >= FirstTries || time.Since(since) > GiveUpAfter
			if !ok || !e.Retryable() || gone {
				return nil, connect.WithAdvice(err)
			}
			if failures == 1 && newest != nil {
				d.Note("the connection broke; reconnecting")
			}
			continue
		}
		newest, failures, since = job, 0, time.Now()
		d.Reasons = readReasons(ctx, c, job)
		if err := show(job); err != nil {
			return nil, err
		}
	}
	if newest == nil || !newest.Status.Terminal() {
		return nil, Interrupted(id)
	}
	return newest, nil
}

// Interrupted returns the error of a watch that the user stopped.
func Interrupted(id string) error {
	return terminal.StatusError(terminal.ExitInterrupted,
		fmt.Errorf("stopped watching; the job continues. Watch it with `reelay watch %s`, cancel it with `reelay cancel %s`", id, id))
}

// Ending returns nil for a completed job, or an error that says why it did not complete.
func Ending(job *client.Job) error {
	switch job.Status {
	case client.JobStatusCompleted:
		return nil
	case client.JobStatusCancelled:
		if c := job.Cancellation; c != nil && c.Reason != nil && *c.Reason != "" {
			return fmt.Errorf("%s was cancelled: %s", job.Id, output.Clean(*c.Reason))
		}
		return fmt.Errorf("%s was cancelled", job.Id)
	}
	return fmt.Errorf("%s failed: %s", job.Id, Failure(job))
}

// Failure returns the reason why a job failed.
func Failure(job *client.Job) string {
	if job.DeletedAt != nil {
		return Cause(job.FailureClass, new("the job was deleted, together with the reason"))
	}
	return Cause(job.FailureClass, job.FailureReason)
}

// Cause returns the class and the message of a failure, as far as they are known.
func Cause(class *client.FailureClass, reason *string) string {
	var known []string
	if class != nil {
		known = append(known, string(*class))
	}
	if reason != nil && *reason != "" {
		known = append(known, output.Clean(*reason))
	}
	if len(known) == 0 {
		return "-"
	}
	return strings.Join(known, ": ")
}
