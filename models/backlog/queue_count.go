package backlog

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

const (
	// countedQueue is how many queued jobs of a lane, tier and model are counted exactly. The
	// lane's remaining jobs, by its accounts' counters, are divided evenly among the models
	// that have more.
	countedQueue = "10000"
	// sampledQueue is how many of these jobs, the longest waiting, are read to estimate the
	// work. The others are taken to be alike.
	sampledQueue = "1000"
)

// depthsSQL defines depths: for each lane, tier and model the number of queued jobs and the
// start of the longest wait. A loose scan of the index jobs_by_wait jumps from one combination
// to the next, so that the cost is bounded however long the queues are.
const depthsSQL = `
	WITH RECURSIVE waiting AS (
		(SELECT lane, tier, model FROM jobs WHERE status = 'QUEUED' ORDER BY lane, tier, model LIMIT 1)
		UNION ALL
		SELECT next.* FROM waiting w CROSS JOIN LATERAL (
			SELECT lane, tier, model FROM jobs
			WHERE status = 'QUEUED' AND (lane, tier, model) > (w.lane, w.tier, w.model)
			ORDER BY lane, tier, model LIMIT 1) next),
	counted AS MATERIALIZED (
		SELECT w.*, found.n, found.queued_at, found.n = ` + countedQueue + ` AS more FROM waiting w CROSS JOIN LATERAL (
			SELECT count(*) AS n, min(queued_at) AS queued_at FROM (
				SELECT queued_at FROM jobs
				WHERE status = 'QUEUED' AND lane = w.lane AND tier = w.tier AND model = w.model
				ORDER BY queued_at LIMIT ` + countedQueue + `) first) found),
	beyond AS (
		SELECT lane, greatest((SELECT sum(queued) FROM account_lanes l WHERE l.lane = c.lane) - sum(n), 0) / count(*) FILTER (WHERE more) AS share
		FROM counted c GROUP BY lane HAVING bool_or(more)),
	depths AS (
		SELECT c.lane, c.tier, c.model, c.queued_at, c.n + CASE WHEN more THEN b.share::bigint ELSE 0 END AS depth,
			least(c.n, ` + sampledQueue + `) AS sampled
		FROM counted c LEFT JOIN beyond b USING (lane))`

// sampleSQL selects the sample of jobs j for a row d of depths.
const sampleSQL = `
	FROM jobs j WHERE j.status = 'QUEUED' AND j.lane = d.lane AND j.tier = d.tier AND j.model = d.model
	ORDER BY j.queued_at LIMIT ` + sampledQueue

// QueueCount sums up the waiting and running jobs of a lane for one model, or for all.
type QueueCount struct {
	Lane    models.Tier `bun:"lane"`
	Model   string      `bun:"model"`
	Depth   int         `bun:"depth"`
	Running int         `bun:"running"`
	// Promoted is how many of Depth were promoted into the lane.
	Promoted int `bun:"promoted"`
	// Pause is the pause of the whole lane or, without one, that of the model in the lane.
	Pause *models.Pause `bun:"pause,type:jsonb"`
	// OldestWaitSeconds is how long the lane's own job has waited that has waited longest, and
	// PromotedWaitSeconds the same of promoted ones. Time in which the queue was closed does not
	// count.
	OldestWaitSeconds   *float64 `bun:"oldest_wait_seconds"`
	PromotedWaitSeconds *float64 `bun:"promoted_wait_seconds"`
	// OldestQueuedAt is since when the longest waiting job of the lane's own has waited, as if the
	// queue had never been closed.
	OldestQueuedAt time.Time `bun:"queued_at"`
	// GPUSeconds is the estimated work of the queued jobs.
	GPUSeconds float64 `bun:"gpu_seconds"`
}

// Paused reports whether the queue is paused.
func (q *QueueCount) Paused() bool { return q.Pause != nil }

// queuesSQL defines queues: the number of queued and live jobs by lane and model.
const queuesSQL = depthsSQL + `,
	live AS (SELECT lane, model, count(*) AS n FROM jobs WHERE status IN ('ASSIGNED', 'RUNNING', 'COMPLETING') GROUP BY lane, model),
	queues AS (
		SELECT lane, model, coalesce(q.depth, 0) AS depth, coalesce(q.promoted, 0) AS promoted, coalesce(live.n, 0) AS running,
			extract(epoch FROM clock_timestamp() - q.queued_at)::float8 - paused_seconds(lane, model, q.queued_at, clock_timestamp()) AS oldest_wait,
			extract(epoch FROM clock_timestamp() - q.promoted_at)::float8 - paused_seconds(lane, model, q.promoted_at, clock_timestamp()) AS promoted_wait,
			coalesce(q.gpu_seconds, 0) AS gpu_seconds
		FROM (
			SELECT d.lane, d.model, sum(d.depth) AS depth, sum(d.depth) FILTER (WHERE ` + promotedSQL + `) AS promoted,
				min(d.queued_at) FILTER (WHERE NOT ` + promotedSQL + `) AS queued_at, min(d.queued_at) FILTER (WHERE ` + promotedSQL +
	`) AS promoted_at, sum(d.depth::float8 / d.sampled * work.gpu_seconds) AS gpu_seconds
			FROM depths d CROSS JOIN LATERAL (SELECT sum(estimated_gpu_seconds) AS gpu_seconds FROM (SELECT j.estimated_gpu_seconds` + sampleSQL +
	`) j) work
			GROUP BY d.lane, d.model) q
		FULL JOIN live USING (lane, model))`

// pauseSQL selects the pause of the queue of a lane and model.
const pauseSQL = "(SELECT to_jsonb(p) FROM pauses p WHERE p.lane = %[1]s AND p.model IN ('', %[2]s) ORDER BY p.model LIMIT 1)"

// CountQueues counts the queued and the live jobs by lane and model. It includes empty queues
// that are paused. A row without a model is a paused lane without jobs. Beyond 10,000 queued
// jobs of a lane, tier and model the depth is approximate, beyond 1,000 the work.
func CountQueues(ctx context.Context, db bun.IDB) ([]QueueCount, error) {
	var counts []QueueCount
	err := db.NewRaw(queuesSQL+`,
		pauses AS (`+models.PausesSQL+`)
		SELECT lane, model, coalesce(depth, 0) AS depth, coalesce(promoted, 0) AS promoted, coalesce(running, 0) AS running,
			clock_timestamp() - make_interval(secs => oldest_wait) AS queued_at, oldest_wait AS oldest_wait_seconds, promoted_wait AS promoted_wait_seconds,
			coalesce(gpu_seconds, 0) AS gpu_seconds,
			`+fmt.Sprintf(pauseSQL, "found.lane", "found.model")+` AS pause
		FROM (SELECT * FROM queues FULL JOIN (SELECT lane, model FROM pauses) paused USING (lane, model)) found
		WHERE model <> '' OR NOT EXISTS (SELECT FROM queues q WHERE q.lane = found.lane)
		ORDER BY array_position(?::text[], lane), model`, postgres.TextArray(models.Tiers)).Scan(ctx, &counts)
	return counts, err
}

// CountQueue is CountQueues for one lane and model, or for the whole lane if model is empty.
func CountQueue(ctx context.Context, db bun.IDB, lane models.Tier, model string) (*QueueCount, error) {
	count := new(QueueCount)
	err := db.NewRaw(queuesSQL+`,
		pauses AS (`+models.PausesSQL+`)
		SELECT ?0 AS lane, ?1 AS model, coalesce(sum(depth), 0) AS depth, coalesce(sum(promoted), 0) AS promoted, coalesce(sum(running), 0) AS running,
			clock_timestamp() - make_interval(secs => max(oldest_wait)) AS queued_at, max(oldest_wait) AS oldest_wait_seconds,
			max(promoted_wait) AS promoted_wait_seconds, coalesce(sum(gpu_seconds), 0) AS gpu_seconds,
			`+fmt.Sprintf(pauseSQL, "?0", "?1")+` AS pause
		FROM queues WHERE lane = ?0 AND (?1 = '' OR model = ?1)`, lane, model).Scan(ctx, count)
	return count, err
}

// QueueDemand is the queued work of one kind in one lane, with the same requirements.
type QueueDemand struct {
	// AccountID is set if the work is one account's.
	AccountID models.AccountID `bun:"account_id"`
	Lane      models.Tier      `bun:"lane"`
	Kind
	// Region is the region that the jobs must run in, or "".
	Region string       `bun:"region"`
	Needs  models.Needs `bun:"needs"`
	// Depth is the number of jobs, GPUSeconds the catalogue's estimate for them. Both are as
	// exact as in CountQueues.
	Depth      float64 `bun:"depth"`
	GPUSeconds float64 `bun:"gpu_seconds"`
}

// QueueDemands sums up the queued jobs of these models, by lane, kind, and what they require.
func QueueDemands(ctx context.Context, db bun.IDB, modelNames []string) ([]QueueDemand, error) {
	demands := []QueueDemand{}
	err := db.NewRaw(depthsSQL+`
		SELECT d.lane, kind.model, kind.time_class, kind.region, kind.needs,
			sum(d.depth::float8 / d.sampled * kind.n) AS depth, sum(d.depth::float8 / d.sampled * kind.gpu_seconds) AS gpu_seconds
		FROM depths d CROSS JOIN LATERAL (
			SELECT model, time_class, region, needs, count(*) AS n, sum(estimated_gpu_seconds) AS gpu_seconds
			FROM (SELECT `+kindSQL+`, `+regionSQL+` AS region, j.needs, j.estimated_gpu_seconds`+sampleSQL+`) first
			GROUP BY model, time_class, region, needs) kind
		WHERE d.model = ANY (?::text[])
		GROUP BY d.lane, kind.model, kind.time_class, kind.region, kind.needs
		ORDER BY array_position(?::text[], d.lane)`, postgres.TextArray(modelNames), postgres.TextArray(models.Tiers)).Scan(ctx, &demands)
	return demands, err
}

// AccountDemands sums up the queued jobs of these models and accounts, by account, lane,
// kind, and what they require. At most 10,000 jobs of an account in a line of a model count, and the kinds of 1,000.
func AccountDemands(ctx context.Context, db bun.IDB, modelNames []string, accounts []models.AccountID) ([]QueueDemand, error) {
	demands := []QueueDemand{}
	const queued = `FROM jobs j
		WHERE status = 'QUEUED' AND lane = l.lane AND account_id = l.account_id AND ` + promotedSQL +
		` = l.promoted AND model = asked.model LIMIT `
	err := db.NewRaw(`
		SELECT l.account_id, l.lane, kind.model, kind.time_class, kind.region, kind.needs,
			sum(counted.n::float8 / least(counted.n, `+sampledQueue+`) * kind.n) AS depth,
			sum(counted.n::float8 / least(counted.n, `+sampledQueue+`) * kind.gpu_seconds) AS gpu_seconds
		FROM account_lanes l CROSS JOIN unnest(?::text[]) AS asked (model)
		CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT `+queued+countedQueue+`) first) counted
		CROSS JOIN LATERAL (
			SELECT model, time_class, region, needs, count(*) AS n, sum(estimated_gpu_seconds) AS gpu_seconds
			FROM (SELECT `+kindSQL+`, `+regionSQL+` AS region, j.needs, j.estimated_gpu_seconds `+queued+sampledQueue+`) first
			GROUP BY model, time_class, region, needs) kind
		WHERE l.account_id = ANY (?::uuid[]) AND l.queued > 0
		GROUP BY l.account_id, l.lane, kind.model, kind.time_class, kind.region, kind.needs
		ORDER BY l.account_id, array_position(?::text[], l.lane)`, postgres.TextArray(modelNames), postgres.UUIDArray(accounts),
		postgres.TextArray(models.Tiers)).Scan(ctx, &demands)
	return demands, err
}

// UserQueue is the waiting jobs of one of an account's users.
type UserQueue struct {
	AccountID models.AccountID
	UserID    string
}

// CountUserQueues counts the waiting jobs of each of these, up to most[i]. It reads at most
// that many entries of the index of waiting jobs.
func CountUserQueues(ctx context.Context, db bun.IDB, of []UserQueue, most []int) ([]int, error) {
	var counts []int
	err := db.NewRaw(`
		SELECT found.n FROM unnest(?::uuid[], ?::text[], ?::integer[]) WITH ORDINALITY AS q (account_id, user_id, most, place)
		CROSS JOIN LATERAL (
			SELECT count(*) AS n FROM (
				SELECT FROM jobs j
				WHERE j.account_id = q.account_id AND j.user_id = q.user_id AND j.status IN ('SCHEDULED', 'BLOCKED', 'QUEUED')
				LIMIT q.most) first) found
		ORDER BY q.place`,
		postgres.UUIDArray(postgres.Column(of, func(u UserQueue) models.AccountID { return u.AccountID })),
		postgres.TextArray(postgres.Column(of, func(u UserQueue) string { return u.UserID })), pgdialect.Array(most)).Scan(ctx, &counts)
	return counts, err
}
