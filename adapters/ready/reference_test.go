package ready_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/reelay/reelay/adapters/ready"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var modelNames = []string{"preview", "film", "a:b"}

// place is an account in a line.
type place struct {
	line    models.Line
	account models.AccountID
}

// reference is the ready index as a slice, in the order of package fairqueue.
type reference struct {
	queued []jobs.ReadyJob
	times  map[place]float64
	capped map[models.AccountID]bool
	tried  int
}

func newReference() *reference {
	return &reference{times: map[place]float64{}, capped: map[models.AccountID]bool{}}
}

// step adds some jobs or removes one, in the index and in the reference.
func (r *reference) step(ctx context.Context, rt *rapid.T, index *ready.Index) {
	if len(r.queued) > 0 && rapid.Bool().Draw(rt, "remove") {
		i := rapid.IntRange(0, len(r.queued)-1).Draw(rt, "which")
		gone := r.queued[i]
		gone.VirtualTime = r.advance(rt, gone)
		if rapid.Bool().Draw(rt, "stale") {
			gone.VirtualTime = -1 // unknown
		} else {
			r.times[place{gone.Line, gone.Account}] = gone.VirtualTime
		}
		r.queued = slices.Delete(r.queued, i, i+1)
		require.NoError(rt, index.Remove(ctx, gone))
		return
	}
	if rapid.IntRange(0, 4).Draw(rt, "stand") == 0 {
		r.tried++
		account := drawAccount(rt)
		r.capped[account] = !r.capped[account]
		require.NoError(rt, index.SetFlows(ctx, models.FlowState{AccountID: account, Version: int64(r.tried), Capped: r.capped[account]}))
		return
	}
	var added []jobs.ReadyJob
	for range rapid.IntRange(1, 4).Draw(rt, "jobs") {
		r.tried++
		j := jobs.ReadyJob{
			Queue:           drawQueue(rt),
			ID:              models.JobID(fmt.Sprintf("job_%d", r.tried)),
			Account:         drawAccount(rt),
			PreferredRegion: rapid.SampledFrom([]string{"", "eu", "eu:west 4"}).Draw(rt, "wish"),
			Order:           rapid.Int64Range(0, 3).Draw(rt, "priority")<<49 | int64(r.tried),
		}
		j.VirtualTime = r.advance(rt, j)
		r.times[place{j.Line, j.Account}] = j.VirtualTime
		added = append(added, j)
	}
	r.queued = append(r.queued, added...)
	require.NoError(rt, index.Add(ctx, added...))
}

// advance draws the account's next virtual time, often the same as others'.
func (r *reference) advance(rt *rapid.T, j jobs.ReadyJob) float64 {
	return r.times[place{j.Line, j.Account}] + float64(rapid.IntRange(0, 2).Draw(rt, "given"))/3
}

func drawAccount(rt *rapid.T) models.AccountID {
	return models.AccountID(fmt.Sprintf("acc_%d", rapid.IntRange(1, 5).Draw(rt, "account")))
}

func drawQueue(rt *rapid.T) models.Queue {
	return models.Queue{
		Line:    models.Line{Lane: rapid.SampledFrom(models.Tiers[:3]).Draw(rt, "lane"), Promoted: rapid.Bool().Draw(rt, "promoted")},
		Model:   rapid.SampledFrom(modelNames).Draw(rt, "model"),
		GPURank: rapid.IntRange(0, 1).Draw(rt, "rank"),
		Needs:   rapid.SampledFrom([]models.Needs{"", "", "on-demand,price<=0.5"}).Draw(rt, "needs"),
		Region:  rapid.SampledFrom([]string{"", "eu:west 4"}).Draw(rt, "region"),
	}
}

// drawQueues draws queues to read, line by line.
func drawQueues(rt *rapid.T) []models.Queue {
	queues := rapid.SliceOfNDistinct(rapid.Custom(drawQueue), 0, 20, rapid.ID).Draw(rt, "queues")
	slices.SortFunc(queues, func(a, b models.Queue) int { return cmp.Compare(fmt.Sprint(a.Line), fmt.Sprint(b.Line)) })
	return queues
}

func (r *reference) first(queues []models.Queue, n int) []jobs.ReadyJob {
	for _, of := range queues {
		heads := map[models.AccountID]jobs.ReadyJob{}
		for _, j := range r.queued {
			head, known := heads[j.Account]
			if j.Line == of.Line && slices.Contains(queues, j.Queue) && !r.capped[j.Account] && (!known || j.Order < head.Order) {
				j.VirtualTime = r.times[place{j.Line, j.Account}]
				heads[j.Account] = j
			}
		}
		var first []jobs.ReadyJob
		for _, head := range heads {
			first = append(first, head)
		}
		slices.SortFunc(first, func(a, b jobs.ReadyJob) int { return fairqueue.Turns{}.Compare(placeOf(a), placeOf(b)) })
		if len(first) > 0 {
			return first[:min(n, len(first))]
		}
	}
	return nil
}

// placeOf returns a job's place in the fair order.
func placeOf(j jobs.ReadyJob) fairqueue.Place {
	return fairqueue.Place{Line: j.Line, VirtualTime: j.VirtualTime, Order: j.Order}
}
