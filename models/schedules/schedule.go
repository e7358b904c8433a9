// Package schedules holds the rows of schedules, their slots and what became of them.
package schedules

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// CatchUp says what happens to slots that passed while no process could fire them.
type CatchUp string

// The values of CatchUp.
const (
	CatchUpSkip     CatchUp = "SKIP"     // none of them fires
	CatchUpCoalesce CatchUp = "COALESCE" // the last one fires
	CatchUpAll      CatchUp = "ALL"      // each fires
)

// RunOverlap says what happens to a slot while the job or the workflow of an earlier one has not
// ended.
type RunOverlap string

// The values of RunOverlap.
const (
	RunOverlapAllow  RunOverlap = "ALLOW"
	RunOverlapSkip   RunOverlap = "SKIP"
	RunOverlapCancel RunOverlap = "CANCEL_PREVIOUS"
)

// DSTGap says what happens at a local time that daylight saving skips.
type DSTGap string

// The values of DSTGap.
const (
	DSTGapShift DSTGap = "SHIFT" // it fires when the clock is put forward, once for all skipped times
	DSTGapSkip  DSTGap = "SKIP"  // it does not fire
)

// DSTOverlap says what happens at a local time that occurs twice.
type DSTOverlap string

// The values of DSTOverlap.
const (
	DSTOverlapFirst DSTOverlap = "FIRST"
	DSTOverlapLast  DSTOverlap = "LAST"
	DSTOverlapBoth  DSTOverlap = "BOTH"
)

// Schedule submits a job or a workflow again and again, at times.
type Schedule struct {
	bun.BaseModel `bun:"table:schedules,alias:sc"`

	ID        models.ScheduleID `bun:"id,pk"`
	AccountID models.AccountID  `bun:"account_id"`
	// CreatedBy is the key as which it submits.
	CreatedBy models.KeyID `bun:"created_by"`
	Name      string       `bun:"name"`

	// Either Cron or EverySeconds is set.
	Cron                 string     `bun:"cron,nullzero"`
	EverySeconds         int        `bun:"every_seconds,nullzero"`
	Timezone             string     `bun:"timezone"`
	DSTGap               DSTGap     `bun:"dst_gap"`
	DSTOverlap           DSTOverlap `bun:"dst_overlap"`
	JitterSeconds        int        `bun:"jitter_seconds"`
	StartAt              time.Time  `bun:"start_at,nullzero"`
	EndAt                time.Time  `bun:"end_at,nullzero"`
	CatchUp              CatchUp    `bun:"catch_up"`
	CatchUpWindowSeconds int        `bun:"catch_up_window_seconds"`
	Overlap              RunOverlap `bun:"overlap"`

	// The request, sealed; all functions leave it out except InsertSchedule, SaveRequest and
	// ReadRequest.
	Ciphertext []byte `bun:"ciphertext"`
	WrappedKey []byte `bun:"wrapped_key"`
	// What lists show of it: either the job's Model, or the name of the Workflow and how many jobs
	// it has. Tier is the highest of its jobs.
	Model        string `bun:"model"`
	Workflow     string `bun:"workflow,nullzero"`
	WorkflowJobs int    `bun:"workflow_jobs,nullzero"`
	// Models are those of the workflow's jobs, each once and in order.
	Models []string    `bun:"models,array,nullzero"`
	Tier   models.Tier `bun:"tier"`

	PausedAt    time.Time `bun:"paused_at,nullzero"`
	PausedBy    string    `bun:"paused_by,nullzero"`
	PauseReason string    `bun:"pause_reason,nullzero"`
	// DecidedUntil is the time until which each slot has a row, or was left out for good.
	DecidedUntil time.Time `bun:"decided_until"`
	// NextSlot is the next slot, and NextFireAt when it fires, at most the jitter later. They
	// are zero while the schedule is paused and after its last slot.
	NextSlot   time.Time `bun:"next_slot,nullzero"`
	NextFireAt time.Time `bun:"next_fire_at,nullzero"`
	LastFireAt time.Time `bun:"last_fire_at,nullzero"`
	// SlotsAnHour is how many slots it has in its busiest hour.
	SlotsAnHour int `bun:"slots_an_hour"`
	// IdempotencyKey is the key with which it was made, if any, and RequestDigest the digest of that
	// request.
	IdempotencyKey string `bun:"idempotency_key,nullzero"`
	RequestDigest  []byte `bun:"request_digest,nullzero"`
	// HeldAt is since when its slots are not decided, since too many of its account wait.
	HeldAt    time.Time `bun:"held_at,nullzero"`
	CreatedAt time.Time `bun:"created_at,nullzero,default:clock_timestamp()"`
	UpdatedAt time.Time `bun:"updated_at,nullzero,default:clock_timestamp()"`
}

// Paused reports whether it is paused.
func (s *Schedule) Paused() bool { return !s.PausedAt.IsZero() }

// SlotCause says why a slot exists.
type SlotCause string

// The values of SlotCause.
const (
	SlotCron     SlotCause = "CRON"
	SlotCatchUp  SlotCause = "CATCH_UP"
	SlotTrigger  SlotCause = "TRIGGER"
	SlotBackfill SlotCause = "BACKFILL"
)

// SlotState is the state of a slot.
type SlotState string

// The values of SlotState. FIRED is final. A backfill makes slots that were skipped or refused
// PENDING again, and a submit that was under way meanwhile makes them FIRED.
const (
	SlotPending SlotState = "PENDING"
	SlotFired   SlotState = "FIRED"
	SlotSkipped SlotState = "SKIPPED"
	SlotRefused SlotState = "REFUSED"
)

// LeftOut says why a slot did not fire, for metrics. The row has it in words.
type LeftOut string

// The values of LeftOut.
const (
	LeftLate    LeftOut = "late"     // no process decided on it in time
	LeftLimit   LeftOut = "limit"    // the account had as many waiting slots as it may have
	LeftPaused  LeftOut = "paused"   // the schedule was paused
	LeftChanged LeftOut = "changed"  // the times of the schedule were changed first
	LeftOverlap LeftOut = "overlap"  // an earlier run had not ended
	LeftGivenUp LeftOut = "given_up" // it could not be submitted for too long
	LeftRefused LeftOut = "refused"  // what it submits was refused
)

// LeftOuts lists all values of LeftOut.
var LeftOuts = []LeftOut{LeftLate, LeftLimit, LeftPaused, LeftChanged, LeftOverlap, LeftGivenUp, LeftRefused}

// Slot is one time at which a schedule fires. Its row guarantees that it does so once.
type Slot struct {
	bun.BaseModel `bun:"table:schedule_slots,alias:sl"`

	ScheduleID models.ScheduleID `bun:"schedule_id,pk"`
	At         time.Time         `bun:"slot,pk"`
	Cause      SlotCause         `bun:"cause"`
	State      SlotState         `bun:"state"`
	// Reason says why it was skipped or refused.
	Reason string `bun:"reason,nullzero"`
	// DueAt is when a PENDING slot is next due.
	DueAt time.Time `bun:"due_at,nullzero"`
	// AccountID is the schedule's account. Slots that ended long ago may have none.
	AccountID models.AccountID `bun:"account_id,nullzero"`
	Tier      models.Tier      `bun:"tier"`
	Tries     int              `bun:"tries"`
	// JobID is the job of a FIRED slot, or WorkflowID its workflow. It may have been deleted since.
	JobID      models.JobID      `bun:"job_id,nullzero"`
	WorkflowID models.WorkflowID `bun:"workflow_id,nullzero"`
	DecidedAt  time.Time         `bun:"decided_at,nullzero,default:clock_timestamp()"`
	EndedAt    time.Time         `bun:"ended_at,nullzero"`
	// LeftOut is set by the process that leaves it out.
	LeftOut LeftOut `bun:"-"`
}

// withoutRequest are the columns with the request. It can be as large as a workflow, so only those
// who submit, show or change it read or write it.
var withoutRequest = []string{"ciphertext", "wrapped_key"}

// InsertSchedule writes a new schedule, and reads back what the database fills. It returns
// sql.ErrNoRows if the account has one of the same name.
func InsertSchedule(ctx context.Context, tx bun.Tx, s *Schedule) error {
	return tx.NewInsert().Model(s).On("CONFLICT (account_id, name) DO NOTHING").Returning("created_at, updated_at").Scan(ctx)
}

// SaveSchedule writes all that can change of a schedule whose row is locked, except the request.
func SaveSchedule(ctx context.Context, tx bun.Tx, s *Schedule) error {
	return tx.NewUpdate().Model(s).ExcludeColumn(append(withoutRequest, "id", "account_id", "idempotency_key", "request_digest", "created_at",
		"updated_at")...).
		Set("updated_at = clock_timestamp()").WherePK().Returning("updated_at").Scan(ctx)
}

// SaveRequest writes the request of a schedule whose row is locked.
func SaveRequest(ctx context.Context, tx bun.Tx, s *Schedule) error {
	return postgres.MustChange(tx.NewUpdate().Model(s).Column(withoutRequest...).WherePK().Exec(ctx))
}

// DeleteSchedule deletes a schedule with its slots. What it submitted stays.
func DeleteSchedule(ctx context.Context, tx bun.Tx, id models.ScheduleID) error {
	return postgres.MustChange(tx.NewDelete().Model((*Schedule)(nil)).Where("id = ?", id).Exec(ctx))
}

// ReadRequest reads the request into a schedule that was read without it. It returns sql.ErrNoRows
// if the schedule is deleted.
func ReadRequest(ctx context.Context, db bun.IDB, s *Schedule) error {
	return db.NewSelect().Model(s).Column(withoutRequest...).WherePK().Scan(ctx)
}

// GetSchedule returns a schedule without its request, or sql.ErrNoRows.
func GetSchedule(ctx context.Context, db bun.IDB, id models.ScheduleID) (*Schedule, error) {
	s := new(Schedule)
	return s, db.NewSelect().Model(s).ExcludeColumn(withoutRequest...).Where("sc.id = ?", id).Scan(ctx)
}

// GetScheduleByName returns an account's schedule of this name without its request, or
// sql.ErrNoRows.
func GetScheduleByName(ctx context.Context, db bun.IDB, account models.AccountID, name string) (*Schedule, error) {
	s := new(Schedule)
	return s, db.NewSelect().Model(s).ExcludeColumn(withoutRequest...).Where("sc.account_id = ? AND sc.name = ?", account, name).Scan(ctx)
}

// GetScheduleByKey returns an account's schedule that was made with this idempotency key, without its
// request, or sql.ErrNoRows. It waits as [models.FindJobsByKeys] does.
func GetScheduleByKey(ctx context.Context, db bun.IDB, account models.AccountID, key string) (*Schedule, error) {
	s := new(Schedule)
	return s, postgres.Await(db.NewSelect().Model(s).ExcludeColumn(withoutRequest...)).
		Where("sc.account_id = ? AND sc.idempotency_key = ?", account, key).Scan(ctx)
}

// WorkflowSchedule is the schedule that submitted a workflow, without its request.
type WorkflowSchedule struct {
	Schedule  `bun:",extend"`
	Submitted models.WorkflowID `bun:"workflow_id"`
}

// GetSchedulesOfWorkflows returns the schedules that submitted workflows, in no particular order.
func GetSchedulesOfWorkflows(ctx context.Context, db bun.IDB, ids []models.WorkflowID) (found []*WorkflowSchedule, err error) {
	err = db.NewSelect().Model(&found).ExcludeColumn(append(withoutRequest, "workflow_id")...).ColumnExpr("sl.workflow_id").
		Join("JOIN schedule_slots sl ON sl.schedule_id = sc.id").Where("sl.workflow_id IN (?)", bun.List(ids)).Scan(ctx)
	return found, err
}

// LockSchedule returns a schedule without its request and locks its row, or sql.ErrNoRows.
func LockSchedule(ctx context.Context, tx bun.Tx, id models.ScheduleID) (*Schedule, error) {
	s := new(Schedule)
	return s, tx.NewSelect().Model(s).ExcludeColumn(withoutRequest...).Where("sc.id = ?", id).For("UPDATE").Scan(ctx)
}

// ListSchedules returns up to limit schedules after a name and id, without their requests, by name;
// of one account, or of all; of one name, or of all.
func ListSchedules(ctx context.Context, db bun.IDB, account models.AccountID, name, afterName string, after models.ScheduleID,
	limit int) (all []*Schedule, err error) {
	q := db.NewSelect().Model(&all).ExcludeColumn(withoutRequest...).Order("sc.name", "sc.id").Limit(int64(limit))
	if account != "" {
		q.Where("sc.account_id = ?", account)
	}
	if name != "" {
		q.Where("sc.name = ?", name)
	}
	if after != "" {
		q.Where("(sc.name, sc.id) > (?, ?)", afterName, after)
	}
	return all, q.Scan(ctx)
}

// CountSchedules counts an account's schedules.
func CountSchedules(ctx context.Context, db bun.IDB, account models.AccountID) (int, error) {
	n, err := db.NewSelect().Model((*Schedule)(nil)).Where("sc.account_id = ?", account).Count(ctx)
	return int(n), err
}

// LockDueSchedules returns and locks up to limit schedules that are due, except those of some
// accounts and those that another process decides on, the longest due first, without their requests.
// It returns none while schedules are halted.
func LockDueSchedules(ctx context.Context, tx bun.Tx, limit int, except []models.AccountID) (due []*Schedule, now time.Time, err error) {
	if now, err = postgres.Now(ctx, tx); err != nil {
		return nil, now, err
	}
	q := tx.NewSelect().Model(&due).ExcludeColumn(withoutRequest...).Where("sc.next_fire_at <= ? AND "+models.SchedulesRunSQL, now)
	if len(except) > 0 {
		q.Where("sc.account_id <> ALL (?::uuid[])", postgres.UUIDArray(except))
	}
	err = q.Order("sc.next_fire_at").Limit(int64(limit)).For("UPDATE SKIP LOCKED").Scan(ctx)
	return due, now, err
}

// InsertSlots writes slots, except those that have a row, and returns the written ones.
func InsertSlots(ctx context.Context, tx bun.Tx, slots []*Slot) (written []*Slot, err error) {
	if len(slots) == 0 {
		return nil, nil
	}
	err = tx.NewInsert().Model(&slots).On("CONFLICT DO NOTHING").Returning("*").Scan(ctx, &written)
	type key struct {
		id models.ScheduleID
		at int64
	}
	why := map[key]LeftOut{}
	for _, slot := range slots {
		why[key{slot.ScheduleID, slot.At.UnixMicro()}] = slot.LeftOut
	}
	for _, slot := range written {
		slot.LeftOut = why[key{slot.ScheduleID, slot.At.UnixMicro()}]
	}
	return written, err
}

// BackfillSlots is InsertSlots for slots of a backfill. Those that were skipped or refused are
// written again.
func BackfillSlots(ctx context.Context, tx bun.Tx, slots []*Slot) (written []*Slot, err error) {
	if len(slots) == 0 {
		return nil, nil
	}
	err = tx.NewInsert().Model(&slots).On("CONFLICT (schedule_id, slot) DO UPDATE").
		Set("cause = excluded.cause, state = excluded.state, tier = excluded.tier, tries = excluded.tries, due_at = excluded.due_at, account_id = excluded.account_id, decided_at = excluded.decided_at, reason = NULL, ended_at = NULL").
		Where("sl.state IN ('SKIPPED', 'REFUSED')").Returning("*").Scan(ctx, &written)
	return written, err
}

// NoteFire writes when a schedule last fired.
func NoteFire(ctx context.Context, tx bun.Tx, id models.ScheduleID, at time.Time) error {
	_, err := tx.NewRaw("UPDATE schedules SET last_fire_at = ? WHERE id = ?", at, id).Exec(ctx)
	return err
}

// EndSlot writes how a pending slot ended, reads back when, and reports whether it did. What was
// submitted counts: FIRED also replaces what a process wrote that did not see the submit yet.
func EndSlot(ctx context.Context, db bun.IDB, s *Slot) (bool, error) {
	err := db.NewRaw(`UPDATE schedule_slots SET state = ?, reason = ?, job_id = ?, workflow_id = ?, due_at = NULL, ended_at = clock_timestamp()
		WHERE schedule_id = ? AND slot = ? AND (state = 'PENDING' OR state IN ('SKIPPED', 'REFUSED') AND ? = 'FIRED') RETURNING ended_at`,
		s.State, bun.NullZero(s.Reason), s.JobID, s.WorkflowID, s.ScheduleID, s.At, s.State).Scan(ctx, &s.EndedAt)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// DelaySlot makes a pending slot due later, and notes why.
func DelaySlot(ctx context.Context, db bun.IDB, s *Slot, wait time.Duration) error {
	_, err := db.NewRaw(`UPDATE schedule_slots SET due_at = clock_timestamp() + make_interval(secs => ?), reason = ?
		WHERE schedule_id = ? AND slot = ? AND state = 'PENDING'`, wait.Seconds(), s.Reason, s.ScheduleID, s.At).Exec(ctx)
	return err
}

// ListSlots returns up to limit slots of a schedule before a slot, the newest first. The zero
// time begins at the newest.
func ListSlots(ctx context.Context, db bun.IDB, id models.ScheduleID, before time.Time, limit int) (slots []*Slot, err error) {
	q := db.NewSelect().Model(&slots).Where("sl.schedule_id = ?", id).Order("sl.slot DESC").Limit(int64(limit))
	if !before.IsZero() {
		q.Where("sl.slot < ?", before)
	}
	return slots, q.Scan(ctx)
}

// TriggeredSince reports whether a schedule has a slot of a trigger after a time.
func TriggeredSince(ctx context.Context, db bun.IDB, id models.ScheduleID, since time.Time) (bool, error) {
	return db.NewSelect().Model((*Slot)(nil)).Where("sl.schedule_id = ? AND sl.slot > ? AND sl.cause = ?", id, since,
		SlotTrigger).Exists(ctx)
}

// HasLaterSlot reports whether a schedule has a later slot than this one, by its times.
func HasLaterSlot(ctx context.Context, db bun.IDB, id models.ScheduleID, at time.Time) (bool, error) {
	var later bool
	// With the order, PostgreSQL uses the index, whatever it guesses.
	err := db.NewRaw(`SELECT (SELECT slot FROM schedule_slots WHERE schedule_id = ? AND slot > ? AND cause IN ('CRON', 'CATCH_UP')
		ORDER BY slot DESC LIMIT 1) IS NOT NULL`, id, at).Scan(ctx, &later)
	return later, err
}

// DeleteOldSlots deletes up to limit slots that ended a while ago, and returns how many.
func DeleteOldSlots(ctx context.Context, db bun.IDB, keep time.Duration, limit int) (int, error) {
	res, err := db.NewRaw(`DELETE FROM schedule_slots WHERE ctid = ANY(ARRAY(
		SELECT ctid FROM schedule_slots WHERE ended_at < (SELECT clock_timestamp() - make_interval(secs => ?)) ORDER BY ended_at LIMIT ?))`,
		keep.Seconds(), limit).Exec(ctx)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}
