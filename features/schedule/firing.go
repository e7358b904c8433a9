package schedule

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/schedules"
)

// flowsAtOnce is at how many accounts and tiers with slots that wait one query looks.
const flowsAtOnce = 1000

// Fire submits what the slots that are due stand for, and returns how many slots it ended, once none is
// due. Any number of processes may call it at once. A slot that fails is due again later, and delays
// no others; nor do slow submits, since each account has only some of the places.
func (r *Runner) Fire(ctx context.Context) (int, error) {
	f := &firing{runner: r, under: map[string]models.AccountID{}, done: make(chan fired, firePlaces)}
	for {
		took := 0
		if !f.stop {
			var err error
			if took, err = f.take(ctx); err != nil {
				f.fail(ctx, fmt.Errorf("find slots that are due: %w", err))
				f.stop = true
			}
		}
		switch {
		case len(f.under) > 0 && (took == 0 || firePlaces-len(f.under) < fireTurn):
			f.wait(ctx)
		case took == 0 && (f.stop || f.after.AccountID == ""):
			return f.ended, f.failed
		}
	}
}

// firing is one call of Fire.
type firing struct {
	runner *Runner
	turns  turns
	after  schedules.SlotFlow          // the flow at which the next look begins
	under  map[string]models.AccountID // the slots under way, by their keys
	done   chan fired
	ended  int
	failed error
	stop   bool // takes nothing more
}

// fired is how the fire of a slot ended.
type fired struct {
	key   string
	ended bool
	err   error
}

// take takes slots that are due as there are places, and begins to fire them.
func (f *firing) take(ctx context.Context) (int, error) {
	due, last, err := schedules.ListSlotFlows(ctx, f.runner.DB, f.after, flowsAtOnce)
	if err != nil {
		return 0, err
	}
	f.after = last
	busy := map[models.AccountID]int{}
	for account := range maps.Values(f.under) {
		busy[account]++
	}
	taken, err := schedules.TakeDueSlots(ctx, f.runner.DB, f.turns.share(due, firePlaces-len(f.under), busy), fireAgain)
	if err != nil {
		return 0, err
	}
	for _, slot := range taken {
		key := key(slot)
		if _, mine := f.under[key]; mine { // its submit takes longer than fireAgain
			continue
		}
		f.under[key] = slot.AccountID
		go func() {
			ended, err := f.runner.fire(ctx, slot)
			if err != nil {
				err = fmt.Errorf("fire the slot %s of schedule %s: %w", slot.At, slot.ScheduleID, err)
			}
			f.done <- fired{key, ended, err}
		}()
	}
	return len(taken), nil
}

// wait waits until some slots under way have ended, for at most lookEvery: others may be due by then.
func (f *firing) wait(ctx context.Context) {
	tick := time.NewTimer(lookEvery)
	defer tick.Stop()
	for enough := min(fireTurn, len(f.under)); enough > 0; enough-- {
		select {
		case one := <-f.done:
			delete(f.under, one.key)
			if one.ended {
				f.ended++
			}
			f.fail(ctx, one.err)
		case <-tick.C:
			return
		}
	}
}

// fail notes the first error. While PostgreSQL is away, and once the process ends, nothing more is taken.
func (f *firing) fail(ctx context.Context, err error) {
	f.failed = cmp.Or(f.failed, err)
	f.stop = f.stop || postgres.IsOutage(err) || ctx.Err() != nil
}
