package models

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Paid is the time of workers that was paid for, by class: each second is in exactly one. `reelay simulate`
// has the same classes.
type Paid struct {
	// Boot is from the creation of a machine until its worker registered.
	Boot PaidSum `json:"boot,omitzero"`
	// Load is from a lease until the render began: the worker loads the model and its inputs.
	Load PaidSum `json:"load,omitzero"`
	// Idle is without a lease.
	Idle PaidSum `json:"idle,omitzero"`
	// Useful is render time that was not lost. As long as a render runs, its time counts here; what is
	// lost then moves to Wasted when the attempt ends, so that Useful of a short span can be negative.
	Useful PaidSum `json:"useful,omitzero"`
	// Wasted is render time that no result or checkpoint kept, and that of attempts whose worker was silent.
	Wasted PaidSum `json:"wasted,omitzero"`
	// Ending is from the end of a worker until its machine was gone.
	Ending PaidSum `json:"ending,omitzero"`
}

// PaidSum is time and what it cost.
type PaidSum struct {
	Seconds float64 `json:"seconds,omitzero"`
	// USD is 0 for workers without a price.
	USD float64 `json:"usd,omitzero"`
}

func (s *PaidSum) add(o PaidSum) { s.Seconds, s.USD = s.Seconds+o.Seconds, s.USD+o.USD }

// PaidClass is a class of paid time.
type PaidClass string

// The classes of paid time: see Paid.
const (
	PaidBoot   PaidClass = "BOOT"
	PaidLoad   PaidClass = "LOAD"
	PaidIdle   PaidClass = "IDLE"
	PaidUseful PaidClass = "USEFUL"
	PaidWasted PaidClass = "WASTED"
	PaidEnding PaidClass = "ENDING"
)

// PaidClasses are all classes, in the order of a worker's life.
var PaidClasses = []PaidClass{PaidBoot, PaidLoad, PaidIdle, PaidUseful, PaidWasted, PaidEnding}

// Of returns the time of a class.
func (p *Paid) Of(class PaidClass) *PaidSum {
	return map[PaidClass]*PaidSum{PaidBoot: &p.Boot, PaidLoad: &p.Load, PaidIdle: &p.Idle, PaidUseful: &p.Useful, PaidWasted: &p.Wasted,
		PaidEnding: &p.Ending}[class]
}

// Add adds what was paid for elsewhere or at another time.
func (p *Paid) Add(o Paid) {
	for _, class := range PaidClasses {
		p.Of(class).add(*o.Of(class))
	}
}

// Total returns the sum of the classes.
func (p Paid) Total() (all PaidSum) {
	for _, class := range PaidClasses {
		all.add(*p.Of(class))
	}
	return all
}

// PaidTime is the paid time of a class.
type PaidTime struct {
	Class PaidClass
	PaidSum
}

// Times returns the paid time of all classes.
func (p Paid) Times() []PaidTime {
	all := make([]PaidTime, len(PaidClasses))
	for i, class := range PaidClasses {
		all[i] = PaidTime{class, *p.Of(class)}
	}
	return all
}

// Rendering returns the time for which workers held jobs.
func (p Paid) Rendering() (all PaidSum) {
	for _, one := range []PaidSum{p.Load, p.Useful, p.Wasted} {
		all.add(one)
	}
	return all
}

// paidFact is what was paid for on the workers of a pool.
type paidFact struct {
	Pool    string  `bun:"pool"`
	Region  string  `bun:"region"`
	GPUType string  `bun:"gpu_type"`
	What    string  `bun:"what"`
	Seconds float64 `bun:"seconds"`
	USD     float64 `bun:"usd"`
}

// PricedSQL is the CTE priced: parts of span(since, until) with one price each, of the pools of
// payers(pool_id). A price is in USD per second.
const PricedSQL = `priced AS MATERIALIZED (
			SELECT p.id AS pool_id, greatest(x.since, span.since) AS since, least(x.until, span.until) AS until, x.usd / 3600 AS usd
			FROM span CROSS JOIN payers JOIN pools p ON p.id = payers.pool_id CROSS JOIN LATERAL (
				SELECT CASE WHEN lag(since) OVER w IS NULL THEN '-infinity' ELSE since END AS since,
					coalesce(lead(since) OVER w, 'infinity') AS until, usd
				FROM (
					(SELECT since, usd FROM pool_prices WHERE pool_id = p.id AND since <= span.since ORDER BY since DESC LIMIT 1)
					UNION ALL
					SELECT since, usd FROM pool_prices WHERE pool_id = p.id AND since > span.since AND since < span.until
					UNION ALL
					SELECT '-infinity', coalesce( -- it was cheaper or dearer only from the first price on
						(SELECT usd FROM pool_prices WHERE pool_id = p.id ORDER BY since LIMIT 1), pool_price(p))
					WHERE NOT EXISTS (SELECT FROM pool_prices WHERE pool_id = p.id AND since <= span.since)) known
				WINDOW w AS (ORDER BY since)) x)`

// PaidPartsSQL selects what a time t(pool_id, since, until, n) of n workers cost within span, in parts
// with one price each: their seconds, and the price of a second or NULL. Until NULL is the end of span.
const PaidPartsSQL = `SELECT x.usd,
				greatest(extract(epoch FROM least(coalesce(t.until, 'infinity'), x.until) - greatest(t.since, x.since))::float8, 0) * t.n AS seconds
			FROM (
				SELECT since, until, usd FROM priced WHERE pool_id = t.pool_id
				UNION ALL
				SELECT span.since, span.until, NULL WHERE NOT EXISTS (SELECT FROM priced WHERE pool_id = t.pool_id)) x
			WHERE t.n > 0 AND x.until > t.since AND (t.until IS NULL OR x.since < t.until)`

// countPaid returns what was paid for from one time and before another, in rows by pool, region and GPU
// type. All figures of cost and paid time come from it.
//
// A machine of the ledger is paid for from its creation until it is gone, at each time at the price that
// its pool had then. A worker without such a machine is paid for while it is registered. Attempts of a
// worker follow each other, and their ids are in the order of time up to the difference of two clocks:
// therefore the newest three before the span are read, and those in it.
func countPaid(ctx context.Context, db bun.IDB, from, to time.Time) ([]*HistoryPool, error) {
	var facts []paidFact
	err := db.NewRaw(`
		WITH span AS (SELECT ?0::timestamptz AS since, ?1::timestamptz AS until),
		payers AS (SELECT p.id AS pool_id FROM pools p, span WHERE p.deleted_at IS NULL OR p.deleted_at > span.since - interval '1 day'),
		`+PricedSQL+`,
		hired AS MATERIALIZED (
			SELECT m.pool_id, m.workers, m.created_at, m.billed_until
			FROM span JOIN machines m ON m.gone_at IS NULL AND m.created_at < span.until
			UNION ALL
			SELECT m.pool_id, m.workers, m.created_at, m.billed_until
			FROM span JOIN machines m ON m.gone_at IS NOT NULL AND m.billed_until > span.since AND m.created_at < span.until),
		lives AS MATERIALIZED (
			SELECT w.id, w.pool_id, coalesce(p.region, w.region) AS region, coalesce(p.gpu_type, w.gpu_type) AS gpu_type, h.id AS machine,
				greatest(w.created_at, h.created_at) AS created_at, w.registered_at, least(w.ended_at, h.billed_until) AS ended_at
			FROM (
				SELECT id, pool_id, region, gpu_type, provider, provider_instance_id, created_at, registered_at, ended_at
				FROM workers w, span WHERE ended_at IS NULL AND created_at < span.until
				UNION ALL
				SELECT id, pool_id, region, gpu_type, provider, provider_instance_id, created_at, registered_at, ended_at
				FROM workers w, span WHERE ended_at >= span.since AND created_at < span.until) w
			LEFT JOIN machines h ON h.provider = w.provider AND h.instance_id = w.provider_instance_id
			LEFT JOIN pools p ON h.id IS NOT NULL AND p.id = w.pool_id),
		work AS MATERIALIZED (
			SELECT l.pool_id, l.region, l.gpu_type, a.leased_at, least(a.ended_at, l.ended_at) AS ended_at, a.ended_at AS over_at,
				coalesce(a.started_at, 'infinity') AS started_at, a.leased_at + make_interval(secs => a.gpu_seconds) AS worked_until,
				a.wasted_gpu_seconds
			FROM span CROSS JOIN lives l CROSS JOIN LATERAL (
				SELECT * FROM job_attempts WHERE worker_id = l.id AND ended_at IS NULL
				UNION ALL
				(SELECT * FROM job_attempts WHERE worker_id = l.id AND ended_at IS NOT NULL AND id < uuid7_floor(span.since)
				ORDER BY id DESC NULLS LAST LIMIT 3)
				UNION ALL
				SELECT * FROM job_attempts WHERE worker_id = l.id AND ended_at IS NOT NULL AND id >= uuid7_floor(span.since)
					AND id < uuid7_floor(span.until + interval '1 minute')) a
			WHERE l.registered_at IS NOT NULL AND a.leased_at < span.until AND (a.ended_at IS NULL OR a.ended_at >= span.since)),
		times AS (
			SELECT h.pool_id, p.region, p.gpu_type, 'hired' AS what, h.created_at AS since, h.billed_until AS until, h.workers AS n
			FROM hired h JOIN pools p ON p.id = h.pool_id
			UNION ALL
			SELECT pool_id, region, gpu_type, 'boot', created_at, least(registered_at, ended_at), 1 FROM lives WHERE machine IS NOT NULL
			UNION ALL
			SELECT pool_id, region, gpu_type, CASE WHEN machine IS NULL THEN 'free' ELSE 'alive' END, registered_at, ended_at, 1
			FROM lives WHERE registered_at IS NOT NULL
			UNION ALL
			SELECT pool_id, region, gpu_type, 'leased', leased_at, ended_at, 1 FROM work
			UNION ALL
			SELECT pool_id, region, gpu_type, 'load', leased_at, least(started_at, ended_at), 1 FROM work
			UNION ALL
			-- What is wasted becomes known when the attempt ends: render time that was lost, and the time
			-- after its worker's last sign of life.
			SELECT pool_id, region, gpu_type, 'wasted', over_at, over_at + make_interval(secs =>
				least(wasted_gpu_seconds, greatest(extract(epoch FROM worked_until - least(started_at, worked_until))::float8, 0))
				+ greatest(extract(epoch FROM ended_at - greatest(worked_until, least(started_at, ended_at)))::float8, 0)), 0
			FROM work, span WHERE over_at >= span.since AND over_at < span.until)
		SELECT coalesce(p.name, '') AS pool, t.region, t.gpu_type, t.what, sum(part.seconds) AS seconds,
			coalesce(sum(part.seconds * part.usd), 0) AS usd
		FROM times t CROSS JOIN span LEFT JOIN pools p ON p.id = t.pool_id
		CROSS JOIN LATERAL (
			`+PaidPartsSQL+`
			UNION ALL
			SELECT (SELECT usd FROM priced WHERE pool_id = t.pool_id AND since <= t.since AND until > t.since),
				extract(epoch FROM t.until - t.since)::float8
			WHERE t.n = 0) part
		GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`, from, to).Scan(ctx, &facts)
	if err != nil {
		return nil, err
	}
	var found []*HistoryPool
	for len(facts) > 0 {
		first := facts[0]
		sums := map[string]PaidSum{}
		for len(facts) > 0 && facts[0].Pool == first.Pool && facts[0].Region == first.Region && facts[0].GPUType == first.GPUType {
			sums[facts[0].What] = PaidSum{facts[0].Seconds, facts[0].USD}
			facts = facts[1:]
		}
		found = append(found, &HistoryPool{Pool: first.Pool, Region: first.Region, GPUType: first.GPUType, Paid: paidOf(sums)})
	}
	return found, nil
}

// paidOf divides sums of times into the classes.
func paidOf(sums map[string]PaidSum) Paid {
	less := func(all PaidSum, parts ...PaidSum) PaidSum {
		for _, part := range parts {
			all.Seconds, all.USD = all.Seconds-part.Seconds, all.USD-part.USD
		}
		return all
	}
	p := Paid{Boot: sums["boot"], Load: sums["load"], Wasted: sums["wasted"]}
	p.Useful = less(sums["leased"], p.Load, p.Wasted)
	p.Idle = less(sums["alive"], sums["leased"])
	p.Idle.add(sums["free"])
	// A machine on which more workers run than its pool says has no time left.
	if p.Ending = less(sums["hired"], p.Boot, sums["alive"]); p.Ending.Seconds < 0 {
		p.Ending = PaidSum{}
	}
	return p
}

// PaidTotal is what was paid for in a pool since the installation, up to the newest minute of the history,
// without times in which no process recorded for two days.
type PaidTotal struct {
	bun.BaseModel `bun:"table:paid_totals,alias:pt"`

	Pool string `bun:"pool,pk"`
	Paid Paid   `bun:"paid,type:jsonb"`
}

// ListPaidTotals returns the totals of all pools, also of those that were deleted, by name.
func ListPaidTotals(ctx context.Context, db bun.IDB) (found []*PaidTotal, err error) {
	err = db.NewSelect().Model(&found).Order("pt.pool").Scan(ctx)
	return found, err
}

// AddPaid adds what the pools paid in a span to their totals.
func AddPaid(ctx context.Context, tx bun.Tx, pools []*HistoryPool) error {
	sums := map[string]*Paid{}
	for _, p := range pools {
		if sums[p.Pool] == nil {
			sums[p.Pool] = new(Paid)
		}
		sums[p.Pool].Add(p.Paid)
	}
	if len(sums) == 0 {
		return nil
	}
	names := postgres.TextArray(slices.Sorted(maps.Keys(sums)))
	if _, err := tx.NewRaw(`
		INSERT INTO paid_totals (pool, paid) SELECT name, '{}' FROM unnest(?::text[]) AS pool (name) ON CONFLICT DO NOTHING`, names).
		Exec(ctx); err != nil {
		return err
	}
	var totals []*PaidTotal
	if err := tx.NewRaw("SELECT * FROM paid_totals WHERE pool = ANY (?::text[]) ORDER BY pool FOR NO KEY UPDATE", names).
		Scan(ctx, &totals); err != nil {
		return err
	}
	for _, total := range totals {
		total.Paid.Add(*sums[total.Pool])
	}
	_, err := tx.NewUpdate().Model(&totals).Column("paid").Bulk().Exec(ctx)
	return err
}
