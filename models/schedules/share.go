package schedules

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// SlotFlow is the slots of one account and one tier that wait. DueAt is when the first is due.
type SlotFlow struct {
	Tier      models.Tier      `bun:"tier"`
	AccountID models.AccountID `bun:"account_id"`
	DueAt     time.Time        `bun:"due_at"`
}

// ListSlotFlows looks at up to limit flows after another, by tier and account, and returns those whose
// first slot is due. last is the last flow that it looked at, or zero if no further flows follow.
// It returns none while schedules are halted.
func ListSlotFlows(ctx context.Context, db bun.IDB, after SlotFlow, limit int) (due []SlotFlow, last SlotFlow, err error) {
	var seen []struct {
		SlotFlow `bun:",extend"`
		Due      bool `bun:"due"`
	}
	if after.AccountID == "" {
		after.AccountID = "acc_00000000-0000-0000-0000-000000000000" // before all
	}
	// It reads one row of each flow by the index: PostgreSQL has no DISTINCT that skips.
	const first = `(SELECT s.tier, s.account_id, s.due_at FROM schedule_slots s
		WHERE s.due_at IS NOT NULL AND (s.tier, s.account_id) > (%s) ORDER BY s.tier, s.account_id, s.due_at LIMIT 1)`
	err = db.NewRaw(`
		WITH RECURSIVE flows AS (
			SELECT f.*, 1 AS n FROM `+fmt.Sprintf(first, "?::text, ?::uuid")+` f WHERE `+models.SchedulesRunSQL+`
			UNION ALL
			SELECT f.*, flows.n + 1 FROM flows CROSS JOIN LATERAL `+fmt.Sprintf(first, "flows.tier, flows.account_id")+` f WHERE flows.n < ?)
		SELECT tier, account_id, due_at, due_at <= clock_timestamp() AS due FROM flows ORDER BY n`,
		after.Tier, after.AccountID, limit).Scan(ctx, &seen)
	for _, flow := range seen {
		if flow.Due {
			due = append(due, flow.SlotFlow)
		}
	}
	if len(seen) == limit {
		last = seen[limit-1].SlotFlow
	}
	return due, last, err
}

// SlotShare is how many slots of a flow a process takes.
type SlotShare struct {
	SlotFlow
	Most int
}

// TakeDueSlots takes up to so many pending slots of each flow that are due, the longest due first, and
// makes them due again after a while, so that another process takes those of one that died. It
// takes none while schedules are halted.
func TakeDueSlots(ctx context.Context, db bun.IDB, shares []SlotShare, again time.Duration) (taken []*Slot, err error) {
	if len(shares) == 0 {
		return nil, nil
	}
	err = db.NewRaw(`
		WITH due AS MATERIALIZED (
			SELECT s.at FROM unnest(?::text[], ?::uuid[], ?::int[]) f (tier, account_id, most)
			CROSS JOIN LATERAL (SELECT s.ctid AS at FROM schedule_slots s
				WHERE s.tier = f.tier AND s.account_id = f.account_id AND s.due_at <= (SELECT clock_timestamp())
				ORDER BY s.due_at LIMIT f.most FOR UPDATE SKIP LOCKED) s
			WHERE `+models.SchedulesRunSQL+`)
		UPDATE schedule_slots s SET due_at = clock_timestamp() + make_interval(secs => ?), tries = tries + 1
		WHERE s.ctid = ANY(ARRAY(SELECT at FROM due)) RETURNING s.*`,
		postgres.TextArray(postgres.Column(shares, func(f SlotShare) models.Tier { return f.Tier })),
		postgres.UUIDArray(postgres.Column(shares, func(f SlotShare) models.AccountID { return f.AccountID })),
		pgdialect.Array(postgres.Column(shares, func(f SlotShare) int { return f.Most })), again.Seconds()).Scan(ctx, &taken)
	slices.SortFunc(taken, func(a, b *Slot) int { // an UPDATE returns its rows in any order
		return cmp.Or(cmp.Compare(slices.Index(models.Tiers, a.Tier), slices.Index(models.Tiers, b.Tier)), a.At.Compare(b.At))
	})
	return taken, err
}

// SlotUse is an account's use of slots: how many of them wait, and the rate that bounds them.
type SlotUse struct {
	AccountID        models.AccountID `bun:"id"`
	SubmitsPerMinute int              `bun:"submits_per_minute"`
	// Waiting are slots that are due or were tried, and those of backfills. A slot that waits for the end
	// of its jitter does not count.
	Waiting int `bun:"waiting"`
}

// ReadSlotUse returns the use of slots of accounts.
func ReadSlotUse(ctx context.Context, db bun.IDB, accounts []models.AccountID) (use map[models.AccountID]*SlotUse, err error) {
	var rows []*SlotUse
	err = db.NewRaw(`
		SELECT a.id, a.submits_per_minute, (SELECT count(*) FROM schedule_slots s WHERE s.tier = ANY (?::text[]) AND s.account_id = a.id
			AND s.due_at IS NOT NULL AND (s.tries > 0 OR s.due_at <= clock_timestamp() OR s.cause = 'BACKFILL')) AS waiting
		FROM accounts a WHERE a.id = ANY (?::uuid[])`, postgres.TextArray(models.Tiers), postgres.UUIDArray(accounts)).Scan(ctx, &rows)
	use = map[models.AccountID]*SlotUse{}
	for _, row := range rows {
		use[row.AccountID] = row
	}
	return use, err
}

// SumSlotsAnHour returns how many slots the active schedules of an account have in their busiest
// hours, except one; all with "".
func SumSlotsAnHour(ctx context.Context, db bun.IDB, account models.AccountID, except models.ScheduleID) (n int, err error) {
	q := db.NewSelect().Model((*Schedule)(nil)).ColumnExpr("coalesce(sum(sc.slots_an_hour), 0)").Where("sc.account_id = ? AND sc.next_fire_at IS NOT NULL", account)
	if except != "" {
		q.Where("sc.id <> ?", except)
	}
	err = q.Scan(ctx, &n)
	return n, err
}

// SumSlotsOf is [SumSlotsAnHour] for many accounts. Those without active schedules are left out.
func SumSlotsOf(ctx context.Context, db bun.IDB, accounts []models.AccountID) (map[models.AccountID]int, error) {
	var rows []struct {
		AccountID models.AccountID `bun:"account_id"`
		Slots     int              `bun:"slots"`
	}
	err := db.NewRaw(`
		SELECT a.id AS account_id, s.slots FROM unnest(?::uuid[]) AS a (id)
		CROSS JOIN LATERAL (SELECT sum(slots_an_hour) AS slots FROM schedules WHERE account_id = a.id AND next_fire_at IS NOT NULL) AS s
		WHERE s.slots IS NOT NULL`, postgres.UUIDArray(accounts)).Scan(ctx, &rows)
	sums := map[models.AccountID]int{}
	for _, row := range rows {
		sums[row.AccountID] = row.Slots
	}
	return sums, err
}

// SavePlans writes what a decision changes of schedules whose rows are locked.
func SavePlans(ctx context.Context, tx bun.Tx, schedules []*Schedule) error {
	if len(schedules) == 0 {
		return nil
	}
	type plan struct {
		ID           string    `json:"id"`
		DecidedUntil time.Time `json:"decided_until"`
		NextSlot     time.Time `json:"next_slot,omitzero"`
		NextFireAt   time.Time `json:"next_fire_at,omitzero"`
		LastFireAt   time.Time `json:"last_fire_at,omitzero"`
		HeldAt       time.Time `json:"held_at,omitzero"`
		SlotsAnHour  int       `json:"slots_an_hour"`
	}
	plans := make([]plan, len(schedules))
	for i, s := range schedules {
		plans[i] = plan{string(s.ID)[len("sch_"):], s.DecidedUntil, s.NextSlot, s.NextFireAt, s.LastFireAt, s.HeldAt, s.SlotsAnHour}
	}
	encoded, err := json.Marshal(plans)
	if err != nil {
		return err
	}
	_, err = tx.NewRaw(`
		UPDATE schedules s SET decided_until = p.decided_until, next_slot = p.next_slot, next_fire_at = p.next_fire_at, last_fire_at = p.last_fire_at,
			held_at = p.held_at, slots_an_hour = p.slots_an_hour, updated_at = clock_timestamp()
		FROM jsonb_to_recordset(?::jsonb) p (id uuid, decided_until timestamptz, next_slot timestamptz, next_fire_at timestamptz, last_fire_at timestamptz,
			held_at timestamptz, slots_an_hour int)
		WHERE s.id = p.id`, string(encoded)).Exec(ctx)
	return err
}
