package lease

import (
	"context"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// providerRoom returns the searches whose workers may begin a job at their hosted provider: all if the pool has
// none. If a job waits whose slot there is still taken, the first search claims it, before any other job: its work
// may go on, which is paid. All searches pass over the jobs that only another pool may have.
func (b *claimBatch) providerRoom(ctx context.Context, all []*search, lanes []models.LaneState) (may []*search, err error) {
	s := all[0] // all are of one pool
	if s.worker.Provider != engine.Provider {
		return all, nil
	}
	room, err := capacity.LookUpRoom(ctx, b.DB, s.worker.PoolID, s.reach.Queues(lanes), s.reach.Accounts(), s.passed)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look for room at the provider: %w", err)
	case !room.Limited:
		return all, nil
	case room.Resume != "":
		job, err := models.GetJob(ctx, b.DB, room.Resume)
		if err != nil {
			return nil, fmt.Errorf("read a job with a slot: %w", err)
		}
		b.lane = lanes[slices.IndexFunc(lanes, func(l models.LaneState) bool { return l.Lane == job.Lane })]
		head := jobs.ReadyJob{Queue: job.Queue(), ID: job.ID, Account: job.AccountID, VirtualTime: -1}
		b.claims = append(b.claims, &claim{search: s, head: head, resumes: true})
		return nil, nil
	case len(room.Elsewhere) > 0:
		for _, s := range all {
			s.alone, s.passed = true, lo.Union(s.passed, room.Elsewhere)
		}
	}
	return all[:min(len(all), max(room.Free, 0))], nil
}

// takeSlots takes slots at hosted providers for the claims that are given. Claims that get none are not given.
func (b *claimBatch) takeSlots(ctx context.Context, tx bun.Tx) error {
	var wishes []capacity.SlotWish
	for _, c := range b.claims {
		if c.verdict == given && c.made.worker.Provider == engine.Provider {
			wishes = append(wishes, capacity.SlotWish{PoolID: c.made.worker.PoolID, JobID: c.made.job.ID})
		}
	}
	if len(wishes) == 0 {
		return nil
	}
	slots, err := capacity.TakeSlots(ctx, tx, wishes)
	if err != nil {
		return fmt.Errorf("take slots at the provider: %w", err)
	}
	for _, c := range b.claims {
		slot, asked := slots[c.head.ID]
		switch {
		case !asked || slot.Taken:
		case slot.Elsewhere:
			c.verdict = notForIt
		default:
			c.verdict = noSlot
		}
	}
	return nil
}
