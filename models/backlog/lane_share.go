package backlog

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// LaneShare is one account's part of a lane.
type LaneShare struct {
	Lane      models.Tier      `bun:"lane"`
	AccountID models.AccountID `bun:"account_id"`
	Name      string           `bun:"name"`
	// Weight is the account's weight. Share is the part of the lane's starts that the account gets,
	// from 0 to 1: its weight divided by the weights of all accounts with jobs that wait in the
	// lane. It is 0 if none of its own jobs waits there.
	Weight float64 `bun:"weight"`
	Share  float64 `bun:"share"`
	// Queued counts its waiting jobs in the lane, and Promoted those among them that came from a
	// lower tier.
	Queued   int `bun:"queued"`
	Promoted int `bun:"promoted"`
	// Running counts its running jobs of the lane, AccountRunning those of all lanes, of which it
	// may have MaxRunning.
	Running        int `bun:"running"`
	AccountRunning int `bun:"account_running"`
	MaxRunning     int `bun:"max_running"`
	// VirtualTime is its place: the account with the least is next. Nil if none of its jobs waits.
	VirtualTime *float64 `bun:"virtual_time"`
	// LaneQueued counts the waiting jobs of all accounts in the lane, and LaneRunning the running
	// ones.
	LaneQueued  int `bun:"lane_queued"`
	LaneRunning int `bun:"lane_running"`
}

// Floods reports whether the account has most of the waiting jobs of the lane, and more than it would have by
// its weight.
func (s *LaneShare) Floods() bool {
	part := float64(s.Queued) / float64(max(s.LaneQueued, 1))
	return s.Queued >= 10 && part > 0.5 && part > 1.5*s.Share
}

// Capped reports whether the account runs as many jobs as it may, so that none of its jobs is next.
func (s *LaneShare) Capped() bool { return s.AccountRunning >= s.MaxRunning }

// ListLaneShares returns the accounts with waiting or running jobs in a lane, or in each lane if
// lane is empty: the most waiting jobs first, at most first of each lane.
func ListLaneShares(ctx context.Context, db bun.IDB, lane models.Tier, first int) (found []*LaneShare, err error) {
	err = db.NewRaw(`
		WITH live AS MATERIALIZED (
			SELECT lane, account_id, count(*) AS running FROM jobs
			WHERE status IN ('ASSIGNED', 'RUNNING', 'COMPLETING') AND (?0 = '' OR lane = ?0) GROUP BY lane, account_id),
		waiting AS MATERIALIZED (
			SELECT lane, account_id, sum(queued) AS queued, sum(queued) FILTER (WHERE promoted) AS promoted, min(virtual_time) AS virtual_time
			FROM account_lanes WHERE queued > 0 AND (?0 = '' OR lane = ?0) GROUP BY lane, account_id),
		shares AS (
			SELECT lane, account_id, a.name, a.weight, a.running AS account_running, a.max_running, w.virtual_time,
				coalesce(w.queued, 0) AS queued, coalesce(w.promoted, 0) AS promoted, coalesce(l.running, 0) AS running,
				CASE WHEN w.queued > 0 THEN a.weight / sum(a.weight) FILTER (WHERE w.queued > 0) OVER (PARTITION BY lane) ELSE 0 END AS share,
				coalesce(sum(w.queued) OVER (PARTITION BY lane), 0) AS lane_queued, coalesce(sum(l.running) OVER (PARTITION BY lane), 0) AS lane_running,
				row_number() OVER (PARTITION BY lane ORDER BY coalesce(w.queued, 0) DESC, coalesce(l.running, 0) DESC, account_id) AS place
			FROM waiting w FULL JOIN live l USING (lane, account_id) JOIN accounts a ON a.id = account_id)
		SELECT * FROM shares WHERE place <= ?1 ORDER BY array_position(?2::text[], lane), place`,
		lane, first, postgres.TextArray(models.Tiers)).Scan(ctx, &found)
	return found, err
}

// ListLaneHeads returns the next job of each account in a lane, for the next accounts, at most
// first of each of the lane's two lines: the order in which they start if workers can run all of
// them. Accounts at their running limit are left out.
func ListLaneHeads(ctx context.Context, db bun.IDB, lane models.Tier, first int) (found []QueuedJob, err error) {
	err = db.NewRaw(`
		SELECT head.*, l.virtual_time
		FROM unnest('{false,true}'::boolean[]) AS line (promoted)
		CROSS JOIN LATERAL (
			SELECT account_id, lane, promoted, virtual_time FROM account_lanes
			WHERE lane = ? AND promoted = line.promoted AND queued > 0 AND NOT capped ORDER BY virtual_time LIMIT ?) l
		CROSS JOIN LATERAL (
			WITH RECURSIVE `+accountQueuesSQL+`
			SELECT one.* FROM queues q CROSS JOIN LATERAL (
				SELECT `+queuedColumns+` FROM queued_jobs
				WHERE lane = l.lane AND account_id = l.account_id AND promoted = l.promoted
					AND model = q.model AND gpu_rank = q.gpu_rank AND region = q.region AND needs = q.needs
				ORDER BY queue_order LIMIT 1) one
			ORDER BY queue_order LIMIT 1) head
		ORDER BY l.promoted, l.virtual_time, head.queue_order`, lane, first).Scan(ctx, &found)
	return found, err
}
