package jobs

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/models"
)

// settle tells the jobs that wait for one that is over, and those that wait for
// them in turn, in the transaction that ends it. They are of the same account,
// whose row is locked: nobody else can be at them.
func (c *change) settle(ctx context.Context) error {
	for over := []*change{c}; len(over) > 0; over = over[1:] {
		waiting, err := models.LockDependents(ctx, c.tx, over[0].job.ID)
		if err != nil {
			return fmt.Errorf("find the jobs that wait for job %s: %w", over[0].job.ID, err)
		}
		for _, job := range waiting {
			child := &change{tx: c.tx, now: c.now, job: job, from: job.Status, was: *readyJob(job, 0)}
			if err := child.parentOver(over[0].job); err != nil {
				return err
			}
			if err := child.write(ctx); err != nil {
				return err
			}
			c.others = append(c.others, child)
			if child.job.Status.Terminal() {
				over = append(over, child)
			}
		}
	}
	return nil
}

// parentOver releases a blocked job if it waits for no other, or fails it with
// its parent.
func (c *change) parentOver(parent *models.Job) error {
	if parent.Status != models.JobCompleted {
		return c.failed(models.FailDependency, fmt.Sprintf("job %s, which this one depends on, is %s", parent.ID, parent.Status))
	}
	c.job.BlockedBy--
	return c.unblock()
}

// unblock queues a blocked job that waits neither for another nor for its time.
func (c *change) unblock() error {
	if c.job.BlockedBy > 0 || c.job.RunAt.After(c.now) {
		return nil
	}
	if err := c.queued(false); err != nil {
		return err
	}
	c.note(models.EventQueued, payload{"lane": c.job.Lane})
	return nil
}

// dependencies are the parents of a job that is about to wait for them: how many
// are not COMPLETED, and one that never will be.
type dependencies struct {
	open   int
	failed *models.Job
}

func reckonDependencies(parents []*models.Job) (d dependencies) {
	for _, parent := range parents {
		switch parent.Status {
		case models.JobCompleted:
		case models.JobFailed, models.JobCancelled:
			d.failed = parent
			d.open++
		default:
			d.open++
		}
	}
	return d
}
