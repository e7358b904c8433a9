package capacity

import (
	"context"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// MachineState is the state of a machine of the ledger. The SQL function machine_state derives it from
// the times of the row.
type MachineState string

const (
	// MachineAsked is a machine that the provider has not confirmed yet.
	MachineAsked MachineState = "ASKED"
	// MachineBooting is a machine of which no worker has registered yet.
	MachineBooting MachineState = "BOOTING"
	// MachineRunning is a machine of which a worker has registered.
	MachineRunning MachineState = "RUNNING"
	// MachineEnding is a machine whose deletion was asked for.
	MachineEnding MachineState = "ENDING"
	// MachineMissing is a machine that the provider's lists lack, or say to have ended, while Reelay has
	// not asked for its deletion and is not certain that it is gone.
	MachineMissing MachineState = "MISSING"
	// MachineGone is a machine that does not exist any more, or that was never made.
	MachineGone MachineState = "GONE"
)

// MachineStates are all states, in the order of a machine's life.
var MachineStates = []MachineState{MachineAsked, MachineBooting, MachineRunning, MachineEnding, MachineMissing, MachineGone}

// BilledMachine is a machine of the ledger with what it was paid for until now, or until it was gone.
type BilledMachine struct {
	Machine
	PoolName string       `bun:"pool_name"`
	State    MachineState `bun:"state"`
	// PaidSeconds are those of all its workers: the time of the machine times Workers.
	PaidSeconds float64 `bun:"paid_seconds"`
	// CostUSD is 0 if its pool has no price.
	CostUSD float64 `bun:"cost_usd"`
	// WorkerIDs are the workers that ran on it and are kept, newest first, at most MaxMachineWorkers.
	WorkerIDs []models.WorkerID `bun:"worker_ids,array"`
}

// MaxMachineWorkers bounds the workers that are listed of a machine.
const MaxMachineWorkers = 100

// MachineFilter narrows a list of machines. Empty fields do not narrow it.
type MachineFilter struct {
	PoolID models.PoolID
	States []MachineState
	// InstanceID is the provider's name of a machine.
	InstanceID string
	// PaidFrom and PaidUntil narrow it to machines that were paid for in this time. What they were paid for is
	// then that within it. The zero times do not narrow it.
	PaidFrom, PaidUntil time.Time
}

// MachineMark is a place in the list of machines: behind the machine with these values.
type MachineMark struct {
	AskedAt time.Time
	ID      int64
}

// askedEarlier is by how much the clock of a provider that says when a machine was created can be ahead of
// PostgreSQL's, which says when it was asked for.
const askedEarlier = time.Hour

// ListBilledMachines returns machines older than after, or from the newest if it is zero, newest first.
// What they were paid for is the sum of the same parts as models.Paid.
func ListBilledMachines(ctx context.Context, db bun.IDB, f MachineFilter, after MachineMark, limit int) (
	found []*BilledMachine, err error) {
	page := db.NewSelect().Model((*Machine)(nil)).ColumnExpr("m.*, machine_state(m) AS state").
		OrderExpr("m.asked_at DESC, m.id DESC").Limit(int64(limit))
	if f.PoolID != "" {
		page = page.Where("m.pool_id = ?", f.PoolID)
	}
	if f.InstanceID != "" {
		page = page.Where("m.instance_id = ?", f.InstanceID)
	}
	if len(f.States) > 0 {
		page = page.Where("machine_state(m) IN (?)", bun.List(f.States))
		if !slices.Contains(f.States, MachineGone) {
			page = page.Where("m.gone_at IS NULL") // which an index asks for
		}
	}
	if !f.PaidFrom.IsZero() {
		page = page.Where("m.created_at IS NOT NULL AND (m.billed_until IS NULL OR m.billed_until > ?)", f.PaidFrom)
	}
	if !f.PaidUntil.IsZero() {
		page = page.Where("m.created_at < ? AND m.asked_at < ?", f.PaidUntil, f.PaidUntil.Add(askedEarlier))
	}
	if after != (MachineMark{}) {
		page = page.Where("(m.asked_at, m.id) < (?, ?)", after.AskedAt, after.ID)
	}
	err = db.NewRaw(`
		WITH page AS MATERIALIZED (?0),
		span AS (SELECT greatest(min(created_at), ?2::timestamptz) AS since, least(clock_timestamp(), ?3::timestamptz) AS until FROM page),
		payers AS (SELECT DISTINCT pool_id FROM page),
		`+models.PricedSQL+`
		SELECT page.*, pools.name AS pool_name, paid.seconds AS paid_seconds, paid.usd AS cost_usd, array(
			SELECT w.id FROM workers w WHERE w.provider = page.provider AND w.provider_instance_id = page.instance_id
			ORDER BY w.id DESC LIMIT ?1) AS worker_ids
		FROM page JOIN pools ON pools.id = page.pool_id CROSS JOIN span CROSS JOIN LATERAL (
			SELECT coalesce(sum(part.seconds), 0) AS seconds, coalesce(sum(part.seconds * part.usd), 0) AS usd
			FROM (SELECT page.pool_id, page.created_at AS since, page.billed_until AS until, page.workers AS n) t
			CROSS JOIN LATERAL (`+models.PaidPartsSQL+`) part) paid
		ORDER BY page.asked_at DESC, page.id DESC`, page, MaxMachineWorkers, lo.EmptyableToPtr(f.PaidFrom), lo.EmptyableToPtr(f.PaidUntil)).Scan(ctx, &found)
	return found, err
}
