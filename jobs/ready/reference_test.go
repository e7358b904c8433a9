package ready_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/ready"
	"github.com/reelay/reelay/models"
)

var modelNames = []string{"preview", "film", "a:b"}

// place is an account in a lane.
type place struct {
	lane    models.Tier
	account models.AccountID
}

// reference is the ready index as a slice.
type reference struct {
	queued []jobs.ReadyJob
	times  map[place]float64
	tried  int
}

func newReference() *reference { return &reference{times: map[place]float64{}} }

// step adds some jobs or removes one, in the index and here.
func (r *reference) step(ctx context.Context, rt *rapid.T, index *ready.Index) {
	if len(r.queued) > 0 && rapid.Bool().Draw(rt, "remove") {
		i := rapid.IntRange(0, len(r.queued)-1).Draw(rt, "which")
		gone := r.queued[i]
		gone.VirtualTime = r.advance(rt, gone)
		if rapid.Bool().Draw(rt, "stale") {
			gone.VirtualTime = -1 // not known
		} else {
			r.times[place{gone.Lane, gone.Account}] = gone.VirtualTime
		}
		r.queued = slices.Delete(r.queued, i, i+1)
		require.NoError(rt, index.Remove(ctx, gone))
		return
	}
	var added []jobs.ReadyJob
	for range rapid.IntRange(1, 4).Draw(rt, "jobs") {
		r.tried++
		j := jobs.ReadyJob{
			ID:      models.JobID(fmt.Sprintf("job_%d", r.tried)),
			Account: models.AccountID(fmt.Sprintf("acc_%d", rapid.IntRange(1, 5).Draw(rt, "account"))),
			Lane:    rapid.SampledFrom(models.Tiers).Draw(rt, "lane"),
			Model:   rapid.SampledFrom(modelNames).Draw(rt, "model"),
			Order:   rapid.Int64Range(0, 3).Draw(rt, "priority")<<49 | int64(r.tried),
		}
		j.VirtualTime = r.advance(rt, j)
		r.times[place{j.Lane, j.Account}] = j.VirtualTime
		added = append(added, j)
	}
	r.queued = append(r.queued, added...)
	require.NoError(rt, index.Add(ctx, added...))
}

// advance draws the account's next virtual time, often the same as others'.
func (r *reference) advance(rt *rapid.T, j jobs.ReadyJob) float64 {
	return r.times[place{j.Lane, j.Account}] + float64(rapid.IntRange(0, 2).Draw(rt, "given"))/3
}

func (r *reference) first(names []string, n int) []jobs.ReadyJob {
	var all []jobs.ReadyJob
	for _, lane := range models.Tiers {
		heads := map[models.AccountID]jobs.ReadyJob{}
		for _, j := range r.queued {
			head, known := heads[j.Account]
			if j.Lane == lane && slices.Contains(names, j.Model) && (!known || j.Order < head.Order) {
				j.VirtualTime = r.times[place{lane, j.Account}]
				heads[j.Account] = j
			}
		}
		var inLane []jobs.ReadyJob
		for _, head := range heads {
			inLane = append(inLane, head)
		}
		slices.SortFunc(inLane, func(a, b jobs.ReadyJob) int {
			return cmp.Or(cmp.Compare(a.VirtualTime, b.VirtualTime), cmp.Compare(a.Order, b.Order))
		})
		all = append(all, inLane...)
	}
	return all[:min(n, len(all))]
}
