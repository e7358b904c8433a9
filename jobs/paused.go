package jobs

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// wait is the wait of a job that was QUEUED when it was locked, up to now.
func (c *Change) wait() models.Wait {
	w := models.Wait{Lane: c.before.Lane, Model: c.before.Model, Since: c.before.QueuedAt, Until: c.now}
	if c.job.Status == models.JobQueued {
		w.To = c.job.Lane
	}
	return w
}

// settlePauses leaves the time in which queues were closed out of the waits that end with these
// changes. A job that moves to another lane takes the wait along that it has had: there it is
// queued since a time from which it would have waited as long.
func settlePauses(ctx context.Context, tx bun.Tx, changes []*Change) error {
	var ending []*Change
	var waits []models.Wait
	for _, c := range changes {
		queued := c.before.Status == models.JobQueued && !c.before.QueuedAt.IsZero()
		if !queued || c.neverPaused || c.job.Status == models.JobQueued && c.job.Lane == c.before.Lane {
			continue
		}
		ending, waits = append(ending, c), append(waits, c.wait())
	}
	paused, err := models.ListPaused(ctx, tx, waits)
	if err != nil {
		return fmt.Errorf("read for how long queues were closed: %w", err)
	}
	for i, c := range ending {
		if c.job.Status != models.JobQueued {
			c.leftQueue(paused[i].Seconds)
		} else if !paused[i].Since.IsZero() {
			shift := paused[i].Since.Sub(c.job.QueuedAt).Seconds()
			c.job.QueuedAt = paused[i].Since
			c.job.PausedSeconds += shift
			if c.job.QueuedSeconds != nil {
				c.job.QueuedSeconds = new(*c.job.QueuedSeconds + shift)
			}
		}
	}
	return nil
}

// leftQueue counts the closed part of a wait that has just ended.
func (c *Change) leftQueue(paused float64) {
	c.job.PausedSeconds += paused
	if c.before.WaitedSeconds == nil && c.job.WaitedSeconds != nil {
		c.job.WaitedSeconds = new(max(*c.job.WaitedSeconds-paused, 0))
	}
}
