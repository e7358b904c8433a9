package capacity

import (
	"context"
	"time"

	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Capacity is the capacity of one kind: workers that are alike, and the pools that can add
// more of them.
type Capacity struct {
	models.Offer
	Booting int `bun:"booting"`
	Idle    int `bun:"idle"`
	Busy    int `bun:"busy"`
	// Quarantined is how many idle workers get no job, because their hosts are in quarantine.
	Quarantined int `bun:"quarantined"`
	// Poolless is how many of the booting, idle and busy workers belong to no pool, and PoollessIdle
	// how many of the idle ones.
	Poolless     int `bun:"poolless"`
	PoollessIdle int `bun:"poolless_idle"`
	// Pools is how many pools there are, and Most how many workers they may have together.
	Pools int `bun:"pools"`
	Most  int `bun:"most"`
	// Opens is Most without pools that cannot boot workers: their machines come by themselves or do not
	// start, they are outside their active hours, or their provider fails or has just refused some.
	// Room is how many more workers the other pools may boot now.
	Opens int `bun:"opens"`
	Room  int `bun:"room"`
	// Leaving is for how many workers the pools have machines that end. They count against Most.
	Leaving int `bun:"leaving"`
	// Unmanaged is how much of Most is of pools whose machines come by themselves.
	Unmanaged int `bun:"unmanaged"`
	// EnginesDown and EnginesHeld are how many engines of these pools nobody reaches, and how many are
	// drained or held. EngineProblem is what is known of one of the former.
	EnginesDown   int    `bun:"engines_down"`
	EnginesHeld   int    `bun:"engines_held"`
	EngineProblem string `bun:"engine_problem"`
	// Closed is how much of Most is of pools outside their active hours, the first of which begin at
	// OpensAt.
	Closed  int       `bun:"closed"`
	OpensAt time.Time `bun:"opens_at,nullzero"`
	// Refused is how much of Most is of pools whose provider has just refused machines. It is asked again
	// from RefusedUntil on. Failing is how much is of pools whose provider cannot list or delete machines.
	// Refusal is what one of these providers said.
	Refused      int       `bun:"refused"`
	RefusedUntil time.Time `bun:"refused_until,nullzero"`
	Failing      int       `bun:"failing"`
	Refusal      string    `bun:"refusal"`
	// Paused means that a pool is paused.
	Paused bool `bun:"paused"`
	// Dear means that the price of a pool is above its limit: it gets no more workers, and Most
	// leaves it out.
	Dear bool `bun:"dear"`
	// BatchWaits means that jobs of BATCH boot no workers of a pool: they wait for cheaper ones.
	BatchWaits bool `bun:"batch_waits"`
	// NotBooting means that the machines of a pool do not start: BootFailure is why the newest did not,
	// and the scaler tries one from BootRetryAt on. BootFailures is how many in a row did not.
	NotBooting   bool      `bun:"not_booting"`
	BootFailures int       `bun:"boot_failures"`
	BootFailure  string    `bun:"boot_failure"`
	BootRetryAt  time.Time `bun:"boot_retry_at,nullzero"`
	// BootingSince is when the first of the booting workers began to boot.
	BootingSince time.Time `bun:"booting_since,nullzero"`
	// BootSeconds is the median of the pools' last boot times, or nil before the first boot.
	BootSeconds *float64 `bun:"boot_seconds"`
}

// Possible reports whether there is a worker of this kind, or a pool can have one, now or when an
// operator ends its pause or its price falls.
func (c *Capacity) Possible() bool {
	return c.Booting+c.Idle+c.Busy+c.Quarantined+c.Most > 0 || c.Paused || c.Dear
}

// ListCapacity returns the capacity for any of these models.
func ListCapacity(ctx context.Context, db bun.IDB, models []string) ([]Capacity, error) {
	var found []Capacity
	err := db.NewRaw(`
		SELECT models, tiers, accounts, gpu_type, region, capacity_class, price_per_hour_usd,
			count(*) FILTER (WHERE status = 'BOOTING') AS booting,
			count(*) FILTER (WHERE status = 'IDLE') AS idle,
			count(*) FILTER (WHERE status = 'QUARANTINED') AS quarantined,
			count(*) FILTER (WHERE status = 'BUSY') AS busy,
			count(*) FILTER (WHERE poolless AND status <> 'QUARANTINED') AS poolless, count(*) FILTER (WHERE poolless AND status = 'IDLE') AS poolless_idle,
			count(*) FILTER (WHERE status = '') AS pools, sum(max_workers) AS most,
			coalesce(sum(max_workers) FILTER (WHERE opens), 0) AS opens,
			coalesce(sum(greatest(max_workers - workers - leaving, 0)) FILTER (WHERE opens), 0) AS room,
			coalesce(sum(leaving) FILTER (WHERE max_workers > 0), 0) AS leaving,
			coalesce(sum(max_workers) FILTER (WHERE unmanaged), 0) AS unmanaged,
			sum(engines_down) AS engines_down, sum(engines_held) AS engines_held, coalesce(max(engine_problem), '') AS engine_problem,
			coalesce(sum(max_workers) FILTER (WHERE closed), 0) AS closed, min(until) FILTER (WHERE closed) AS opens_at,
			coalesce(sum(max_workers) FILTER (WHERE refused), 0) AS refused, min(until) FILTER (WHERE refused) AS refused_until,
			coalesce(sum(max_workers) FILTER (WHERE failing), 0) AS failing, coalesce(max(refusal), '') AS refusal,
			bool_or(paused) AS paused, bool_or(dear) AS dear, bool_or(batch_waits) AS batch_waits,
			bool_or(boot_failures > 0) AS not_booting, max(boot_failures) AS boot_failures,
			coalesce(max(boot_failure), '') AS boot_failure, min(boot_retry_at) AS boot_retry_at,
			min(created_at) FILTER (WHERE status = 'BOOTING') AS booting_since, max(boot_seconds) AS boot_seconds
		FROM (
			SELECT models, tiers, accounts, gpu_type, region, capacity_class, price_per_hour_usd,
				CASE WHEN status = 'IDLE' AND quarantined_until > clock_timestamp() THEN 'QUARANTINED' ELSE status END AS status, pool_id IS NULL AS poolless,
				0 AS max_workers, 0 AS workers, 0 AS leaving, false AS opens, false AS unmanaged, false AS paused, false AS dear, false AS batch_waits,
				false AS closed, false AS refused, NULL::timestamptz AS until, false AS failing, NULL AS refusal,
				0 AS boot_failures, NULL AS boot_failure, NULL::timestamptz AS boot_retry_at, created_at, NULL::float8 AS boot_seconds,
				0 AS engines_down, 0 AS engines_held, NULL AS engine_problem
			FROM workers WHERE ended_at IS NULL AND status IN ('BOOTING', 'IDLE', 'BUSY')
			UNION ALL
			SELECT models, tiers, accounts, gpu_type, region, capacity_class, price, '', false,
				CASE WHEN usable THEN max_workers ELSE 0 END, workers.n, leaving.n,
				usable AND NOT closed AND NOT refused AND NOT failing AND NOT not_booting AND provider NOT IN ('static', ?2), usable AND provider IN ('static', ?2),
				paused_at IS NOT NULL, dear, batch_waits,
				closed, refused, CASE WHEN closed THEN closed_until WHEN refused THEN backoff_until END, failing,
				CASE WHEN refused THEN backoff_reason WHEN failing THEN provider_problem END,
				CASE WHEN not_booting THEN boot_failures ELSE 0 END, CASE WHEN not_booting THEN boot_failure END,
				CASE WHEN not_booting THEN boot_retry_at END, NULL, boots.seconds,
				CASE WHEN usable THEN engines.down ELSE 0 END, CASE WHEN usable THEN engines.held ELSE 0 END, engines.problem
			FROM pools
			CROSS JOIN LATERAL (
				SELECT count(*) FILTER (WHERE down)::integer AS down, count(*) FILTER (WHERE shown.state IN ('DRAINING', 'HELD'))::integer AS held,
					min(CASE WHEN shown.state = 'UNKNOWN' THEN e.url || ': no agent drives it' ELSE e.url || ': ' || e.reason END) FILTER (WHERE down) AS problem
				FROM engines e
				CROSS JOIN LATERAL (SELECT engine_state(e) AS state) shown
				CROSS JOIN LATERAL (SELECT shown.state IN ('UNREACHABLE', 'FAILED', 'UNKNOWN') AS down) counted
				WHERE e.pool_id = pools.id) engines
			CROSS JOIN LATERAL (SELECT pool_price(pools) AS price) priced
			CROSS JOIN LATERAL (SELECT max_price_per_hour_usd > 0 AND price > max_price_per_hour_usd AS dear) at_price
			CROSS JOIN LATERAL (SELECT paused_at IS NULL AND NOT dear AS usable) state
			CROSS JOIN LATERAL (SELECT usable AND coalesce(closed_until > clock_timestamp(), false) AS closed) hours
			CROSS JOIN LATERAL (
				SELECT usable AND NOT closed AND coalesce(backoff_until > clock_timestamp(), false) AS refused,
					usable AND NOT closed AND provider_problem <> '' AS failing,
					usable AND NOT closed AND pools.boot_failures >= ?1 AS not_booting) trouble
			CROSS JOIN LATERAL (
				SELECT count(*)::integer AS n FROM workers w
				WHERE w.pool_id = pools.id AND w.ended_at IS NULL AND w.status IN ('BOOTING', 'IDLE', 'BUSY')) workers
			CROSS JOIN LATERAL (
				SELECT coalesce(sum(greatest(m.workers - coalesce(live.n, 0), 0)), 0)::integer AS n
				FROM machines m LEFT JOIN (
					SELECT w.provider_instance_id AS instance_id, count(*) AS n FROM workers w
					WHERE w.pool_id = pools.id AND w.ended_at IS NULL AND w.status IN ('BOOTING', 'IDLE', 'BUSY')
					GROUP BY w.provider_instance_id) live USING (instance_id)
				WHERE m.pool_id = pools.id AND m.gone_at IS NULL) leaving
			CROSS JOIN LATERAL (
				SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM took)::float8) AS seconds
				FROM (
					SELECT registered_at - created_at AS took FROM workers
					WHERE pool_id = pools.id AND registered_at IS NOT NULL ORDER BY id DESC LIMIT 20) last) boots
			WHERE deleted_at IS NULL) kinds
		WHERE models && ?0::text[]
		GROUP BY models, tiers, accounts, gpu_type, region, capacity_class, price_per_hour_usd`, postgres.TextArray(models),
		NotBootingAfter, engine.Provider).Scan(ctx, &found)
	return found, err
}

// UnknownSlowBoot is how many seconds a slow boot takes in a pool where no worker has booted.
const UnknownSlowBoot = 120

// OnDemandBoots returns how many seconds a worker of on-demand capacity takes to boot at most, by
// model: nine of ten of the last boots of the slowest pool were as fast. A model without such a
// pool is left out.
func OnDemandBoots(ctx context.Context, db bun.IDB, models []string) (map[string]float64, error) {
	var found []struct {
		Model   string  `bun:"model"`
		Seconds float64 `bun:"seconds"`
	}
	err := db.NewRaw(`
		SELECT m.model, max(coalesce(boots.seconds, ?)) AS seconds
		FROM unnest(?::text[]) AS m (model)
		JOIN pools p ON p.deleted_at IS NULL AND p.paused_at IS NULL AND p.capacity_class = 'ON_DEMAND' AND m.model = ANY (p.models)
		CROSS JOIN LATERAL (
			SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY extract(epoch FROM took)::float8) AS seconds
			FROM (
				SELECT registered_at - created_at AS took FROM workers
				WHERE pool_id = p.id AND registered_at IS NOT NULL ORDER BY id DESC LIMIT 20) last) boots
		GROUP BY m.model`, UnknownSlowBoot, postgres.TextArray(models)).Scan(ctx, &found)
	boots := map[string]float64{}
	for _, b := range found {
		boots[b.Model] = b.Seconds
	}
	return boots, err
}
