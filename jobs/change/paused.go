package change

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/uptrace/bun"
)

// Wait is the wait of a job that was QUEUED when it was locked, up to now.
func (c *Change) Wait() backlog.Wait {
	w := backlog.Wait{Lane: c.Before.Lane, Model: c.Before.Model, Since: c.Before.QueuedAt, Until: c.Now}
	if c.Job.Status == models.JobQueued {
		w.To = c.Job.Lane
	}
	return w
}

// settlePauses leaves the time in which queues were closed out of the waits that end with these
// changes. A job that moves to another lane takes the wait along that it has had: there it is
// queued since a time from which it would have waited as long.
func settlePauses(ctx context.Context, tx bun.Tx, changes []*Change) error {
	var ending []*Change
	var waits []backlog.Wait
	for _, c := range changes {
		queued := c.Before.Status == models.JobQueued && !c.Before.QueuedAt.IsZero()
		if !queued || c.NeverPaused || c.Job.Status == models.JobQueued && c.Job.Lane == c.Before.Lane {
			continue
		}
		ending, waits = append(ending, c), append(waits, c.Wait())
	}
	paused, err := backlog.ListPaused(ctx, tx, waits)
	if err != nil {
		return fmt.Errorf("read for how long queues were closed: %w", err)
	}
	for i, c := range ending {
		if c.Job.Status != models.JobQueued {
			c.leftQueue(paused[i].Seconds)
		} else if !paused[i].Since.IsZero() {
			shift := paused[i].Since.Sub(c.Job.QueuedAt).Seconds()
			c.Job.QueuedAt = paused[i].Since
			c.Job.PausedSeconds += shift
			if c.Job.QueuedSeconds != nil {
				c.Job.QueuedSeconds = new(*c.Job.QueuedSeconds + shift)
			}
		}
	}
	return nil
}

// leftQueue counts the closed part of a wait that has just ended.
func (c *Change) leftQueue(paused float64) {
	c.Job.PausedSeconds += paused
	if c.Before.WaitedSeconds == nil && c.Job.WaitedSeconds != nil {
		c.Job.WaitedSeconds = new(max(*c.Job.WaitedSeconds-paused, 0))
	}
}
