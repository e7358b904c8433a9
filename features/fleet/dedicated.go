package fleet

import (
	"context"
	"slices"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// readDemands adds up the queued jobs that the pools can run. Jobs of accounts with dedicated pools
// are listed separately, by account.
func readDemands(ctx context.Context, db bun.IDB, pools []poolState) ([]backlog.QueueDemand, error) {
	var names []string
	var accounts []models.AccountID
	for _, p := range pools {
		names, accounts = append(names, p.pool.Models...), append(accounts, p.pool.Accounts...)
	}
	names, accounts = lo.Uniq(names), lo.Uniq(accounts)
	slices.Sort(names)
	all, err := backlog.QueueDemands(ctx, db, names)
	if err != nil || len(accounts) == 0 {
		return all, err
	}
	own, err := backlog.AccountDemands(ctx, db, names, accounts)
	return apart(all, own), err
}

// apart subtracts the jobs of single accounts from the sum of all.
func apart(all, own []backlog.QueueDemand) []backlog.QueueDemand {
	type queue struct {
		lane models.Tier
		backlog.Kind
		region string
		needs  models.Needs
	}
	queueOf := func(q backlog.QueueDemand) queue { return queue{q.Lane, q.Kind, q.Region, q.Needs} }
	theirs := map[queue]backlog.QueueDemand{}
	for _, q := range own {
		at := queueOf(q)
		sum := theirs[at]
		sum.Depth, sum.GPUSeconds = sum.Depth+q.Depth, sum.GPUSeconds+q.GPUSeconds
		theirs[at] = sum
	}
	var rest []backlog.QueueDemand
	for _, q := range all {
		out := theirs[queueOf(q)]
		// Both numbers are estimates if the queues are long.
		if q.Depth, q.GPUSeconds = q.Depth-out.Depth, max(q.GPUSeconds-out.GPUSeconds, 0); q.Depth >= 0.5 {
			rest = append(rest, q)
		}
	}
	return append(rest, own...)
}

// takes reports whether a pool with this offer takes jobs of the queue.
func takes(o models.Offer, q backlog.QueueDemand) bool {
	return o.Runs(q.Model, q.Lane, q.AccountID, q.Needs, q.Region)
}

// dedicatedFirst puts the pools first that are dedicated to accounts, since nobody else can use
// their workers.
func dedicatedFirst(pools []*poolShare) []*poolShare {
	dedicated, open := lo.FilterReject(pools, func(p *poolShare, _ int) bool { return len(p.pool.Accounts) > 0 })
	return append(dedicated, open...)
}
