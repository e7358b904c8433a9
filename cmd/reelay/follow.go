package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
)

const (
	// watchEvery is how often a watched job's state is sent at most.
	watchEvery = 200 * time.Millisecond
	// firstTries is how often a watch may fail before it ever began.
	firstTries = 4
	// giveUpAfter is how long a watch does without an answer.
	giveUpAfter = 10 * time.Minute
)

// follow watches a job until it has ended and returns it. show is given every
// state; its error ends the watch.
func follow(ctx context.Context, c *client.Client, id string, d *display, show func(*client.Job) error) (*client.Job, error) {
	defer d.keep()
	var newest *client.Job
	failures, since := 0, time.Now()
	for job, err := range c.WatchJob(ctx, id, watchEvery) {
		if err != nil {
			failures++
			if ctx.Err() != nil {
				d.keep()
				return nil, interrupted(id)
			}
			e, ok := errors.AsType[*client.Error](err)
			gone := newest == nil && failures >= firstTries || time.Since(since) > giveUpAfter
			if !ok || !e.Retryable() || gone {
				return nil, apiError(err)
			}
			if failures == 1 && newest != nil {
				d.note("the connection broke; trying again")
			}
			continue
		}
		newest, failures, since = job, 0, time.Now()
		if err := show(job); err != nil {
			return nil, err
		}
	}
	if newest == nil || !newest.Status.Terminal() {
		return nil, interrupted(id)
	}
	return newest, nil
}

// interrupted is the end of a watch that the user stopped.
func interrupted(id string) error {
	return fmt.Errorf("stopped watching; the job goes on. See it with `reelay watch %s`, end it with `reelay cancel %s`", id, id)
}

// ending is nil for a job that ended well, else why it did not.
func ending(job *client.Job) error {
	switch job.Status {
	case client.JobStatusCompleted:
		return nil
	case client.JobStatusCancelled:
		return fmt.Errorf("%s was cancelled", job.Id)
	}
	return fmt.Errorf("%s failed: %s", job.Id, failure(job))
}

// failure tells why a job failed.
func failure(job *client.Job) string {
	if job.DeletedAt != nil {
		return why(job.FailureClass, new("the job was deleted since, and the reason with it"))
	}
	return why(job.FailureClass, job.FailureReason)
}

// why tells of a failure its class and its sentence, as far as they are known.
func why(class *client.FailureClass, reason *string) string {
	var known []string
	if class != nil {
		known = append(known, string(*class))
	}
	if reason != nil && *reason != "" {
		known = append(known, clean(*reason))
	}
	if len(known) == 0 {
		return "-"
	}
	return strings.Join(known, ": ")
}
