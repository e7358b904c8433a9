package pass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/uptrace/bun"
)

// Promoter moves jobs that waited too long to a higher lane.
type Promoter struct {
	DB       *bun.DB
	Notifier *change.Notifier
}

// promoteBatch bounds how many jobs of a tier one pass moves out of a lane. The next pass
// takes the rest.
const promoteBatch = 200

// step is one promotion: jobs of a tier that are in lane from move to lane to after that total
// wait.
type step struct {
	tier, from, to models.Tier
	after          time.Duration
}

// steps lists all promotions. A job's wait is the sum of the lanes' patience, starting with
// its own lane; the time in which its queue was paused or halted is no wait. No step leads to CRITICAL.
func steps() []step {
	var all []step
	for t, tier := range models.Tiers {
		after := time.Duration(0)
		for l := t; l > 1; l-- {
			patience := jobs.Policies[models.Tiers[l]].Patience
			if patience == 0 {
				break
			}
			after += patience
			all = append(all, step{tier, models.Tiers[l], models.Tiers[l-1], after})
		}
	}
	return all
}

// Promote moves up one lane every queued job that waited longer than its lane's patience, and
// returns how many it moved. The job's tier stays. Any number of processes may call it at
// once.
func (p *Promoter) Promote(ctx context.Context) (int, error) {
	promoted := 0
	var failed []error
	for _, up := range slices.Backward(steps()) {
		ids, err := backlog.ListImpatientJobs(ctx, p.DB, up.from, up.tier, up.to, up.after, promoteBatch)
		if err != nil {
			return promoted, fmt.Errorf("find impatient jobs: %w", err)
		}
		for _, id := range ids {
			done, err := p.promote(ctx, id, up)
			if err != nil {
				failed = append(failed, fmt.Errorf("promote job %s: %w", id, err))
			} else if done != nil {
				promoted++
				p.Notifier.After(ctx, done)
			}
		}
	}
	return promoted, errors.Join(failed...)
}

func (p *Promoter) promote(ctx context.Context, id models.JobID, up step) (*change.Change, error) {
	return change.DoDue(ctx, p.DB, id, func(c *change.Change) error {
		job := c.Job
		if job.Status != models.JobQueued || job.Lane != up.from || job.Tier != up.tier {
			return nil // it moved meanwhile
		}
		paused, err := backlog.ListPaused(ctx, c.Tx, []backlog.Wait{c.Wait()})
		if err != nil {
			return fmt.Errorf("read for how long its queue was closed: %w", err)
		}
		if c.Now.Sub(job.QueuedAt).Seconds()-paused[0].Seconds < up.after.Seconds() {
			return nil // it was requeued meanwhile
		}
		job.Lane = up.to
		c.Note(models.EventQueued, jobs.Payload{"lane": job.Lane, "from": up.from, "reason": "it waited longer than its lane's patience"})
		return nil
	})
}
