package capacity

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// SlotKept is how long a slot stays taken when nobody knows whether the provider still works on its job.
const SlotKept = 600 * time.Second

// slotHeldSQL is the condition for a slot s that is taken.
const slotHeldSQL = `(s.expires_at IS NULL OR s.expires_at > clock_timestamp())`

// slotBindsSQL is the condition for a slot s of a job j that no other pool may have: the provider may work on the job,
// or has done so. What the provider has is paid, so that holds also when the slot does not count any more. It ends
// with the account of the pool.
const slotBindsSQL = `(` + slotHeldSQL + ` OR j.handle <> '')`

// freeSlotsSQL is how many more jobs the provider of the account a may get now. While the circuit is open there
// are none; after that one job tries.
const freeSlotsSQL = `(CASE
	WHEN a.paused_until > clock_timestamp() OR a.open_until > clock_timestamp() THEN 0
	WHEN a.open_until IS NOT NULL THEN least(a.concurrent, 1)
	ELSE a.concurrent END - (SELECT count(*) FROM provider_slots s WHERE s.pool_id = a.pool_id AND ` + slotHeldSQL + `))`

// SlotWish asks for a slot of a job at the provider of a pool.
type SlotWish struct {
	PoolID models.PoolID `json:"pool_id"`
	JobID  models.JobID  `json:"job_id"`
}

// SlotAnswer is what became of a SlotWish.
type SlotAnswer struct {
	JobID models.JobID `bun:"job_id"`
	// Taken means that the job has a slot now, or that its pool has no limit.
	Taken bool `bun:"taken"`
	// Elsewhere means that only another pool may have the job.
	Elsewhere bool `bun:"elsewhere"`
}

// TakeSlots gives jobs slots at hosted providers, as far as their limits allow. A job that had one keeps it, and
// gets none of another pool. Pools without an account have no limit. It locks the accounts, after workers and jobs,
// until the transaction ends.
func TakeSlots(ctx context.Context, tx bun.Tx, wishes []SlotWish) (map[models.JobID]SlotAnswer, error) {
	arg, err := postgres.PlacedArg(wishes)
	if err != nil {
		return nil, err
	}
	// Two statements: the second must see the slots that others took before they let go of the lock.
	if _, err := tx.NewRaw(`SELECT pool_id FROM provider_accounts
		WHERE pool_id IN (SELECT pool_id FROM jsonb_to_recordset(?::jsonb) AS w (pool_id uuid)) ORDER BY pool_id FOR NO KEY UPDATE`, arg).
		Exec(ctx); err != nil {
		return nil, err
	}
	var answers []SlotAnswer
	err = tx.NewRaw(`
		WITH wishes AS (
			SELECT w.place, w.pool_id, w.job_id, coalesce(s.pool_id = w.pool_id AND `+slotHeldSQL+`, false) AS had,
				coalesce(s.pool_id <> w.pool_id AND `+slotBindsSQL+`, false) AS elsewhere
			FROM jsonb_to_recordset(?0::jsonb) AS w (place integer, pool_id uuid, job_id uuid)
			JOIN jobs j ON j.id = w.job_id LEFT JOIN provider_slots s ON s.job_id = w.job_id),
		room AS (
			SELECT a.pool_id, `+freeSlotsSQL+` AS free
			FROM provider_accounts a WHERE a.pool_id IN (SELECT pool_id FROM wishes)),
		given AS (
			SELECT w.job_id, w.pool_id, r.pool_id IS NOT NULL AS limited
			FROM (SELECT *, row_number() OVER (PARTITION BY pool_id, had ORDER BY place) AS nth FROM wishes WHERE NOT elsewhere) w
			LEFT JOIN room r USING (pool_id)
			WHERE r.pool_id IS NULL OR w.had OR w.nth <= r.free),
		written AS (
			INSERT INTO provider_slots (job_id, pool_id) SELECT job_id, pool_id FROM given WHERE limited
			ON CONFLICT (job_id) DO UPDATE SET pool_id = excluded.pool_id, expires_at = NULL, webhooks = 0,
				taken_at = CASE WHEN provider_slots.pool_id = excluded.pool_id THEN provider_slots.taken_at ELSE clock_timestamp() END)
		SELECT w.job_id, w.elsewhere, g.job_id IS NOT NULL AS taken FROM wishes w LEFT JOIN given g USING (job_id)`, arg).Scan(ctx, &answers)
	found := map[models.JobID]SlotAnswer{}
	for _, answer := range answers {
		found[answer.JobID] = answer
	}
	return found, err
}

// FreeSlots gives back the slots of jobs, and keeps those of others for a while, since the provider may still work on
// them. One of the latter that gave its slot back before has one again: only that account can go on with its work.
func FreeSlots(ctx context.Context, tx bun.Tx, free []models.JobID, keep []SlotWish) error {
	slices.Sort(free)
	arg, err := postgres.PlacedArg(keep)
	if err != nil {
		return err
	}
	_, err = tx.NewRaw(`
		WITH freed AS (DELETE FROM provider_slots WHERE job_id = ANY (?0::uuid[]))
		INSERT INTO provider_slots AS s (job_id, pool_id, expires_at)
		SELECT k.job_id, k.pool_id, clock_timestamp() + make_interval(secs => ?2)
		FROM jsonb_to_recordset(?1::jsonb) AS k (pool_id uuid, job_id uuid) JOIN provider_accounts a USING (pool_id) ORDER BY k.job_id
		ON CONFLICT (job_id) DO UPDATE SET expires_at = excluded.expires_at WHERE s.expires_at IS NULL`,
		postgres.UUIDArray(free), arg, SlotKept.Seconds()).Exec(ctx)
	return err
}

// ProviderRoom is what a worker of a hosted provider may begin.
type ProviderRoom struct {
	// Limited is false for pools without an account. Free is how many more jobs the provider may get.
	Limited bool
	Free    int
	// Resume is the queued job of a taken slot that comes first, or "".
	Resume models.JobID
	// Elsewhere are queued jobs that only another pool may have.
	Elsewhere []models.JobID
}

// mostElsewhere bounds ProviderRoom.Elsewhere.
const mostElsewhere = 1000

// LookUpRoom returns what the workers of a pool may begin that take jobs of these queues and accounts, or of all
// accounts if there are none, without a lock. It leaves out jobs in passed.
func LookUpRoom(ctx context.Context, db bun.IDB, pool models.PoolID, queues []models.Queue, accounts []models.AccountID,
	passed []models.JobID) (room ProviderRoom, err error) {
	asked, err := postgres.PlacedArg(queues)
	if err != nil {
		return room, err
	}
	var row struct {
		Free      int            `bun:"free"`
		Resume    models.JobID   `bun:"resume"`
		Elsewhere []models.JobID `bun:"elsewhere,array"`
	}
	err = db.NewRaw(`
		WITH waiting AS (
			SELECT s.*, `+slotHeldSQL+` AS held
			FROM provider_slots s JOIN jobs j ON j.id = s.job_id JOIN startable_jobs q ON q.id = s.job_id
			WHERE `+slotBindsSQL+` AND j.id <> ALL (?1::uuid[]) AND (j.account_id = ANY (?3::uuid[]) OR ?3::uuid[] = '{}')
				AND (q.lane, q.promoted, q.model, q.gpu_rank, q.region, q.needs) IN (
					SELECT lane, promoted, model, gpu_rank, region, needs FROM jsonb_to_recordset(?2::jsonb)
						AS asked (lane text, promoted boolean, model text, gpu_rank integer, region text, needs text)))
		SELECT `+freeSlotsSQL+` AS free,
			(SELECT job_id FROM waiting w WHERE w.pool_id = a.pool_id AND w.held ORDER BY w.taken_at, w.job_id LIMIT 1) AS resume,
			ARRAY(SELECT job_id FROM waiting w WHERE w.pool_id <> a.pool_id ORDER BY w.taken_at, w.job_id LIMIT ?4) AS elsewhere
		FROM provider_accounts a WHERE a.pool_id = ?0`,
		pool, postgres.UUIDArray(passed), asked, postgres.UUIDArray(accounts), mostElsewhere).Scan(ctx, &row)
	if err == sql.ErrNoRows {
		return ProviderRoom{}, nil
	}
	return ProviderRoom{Limited: true, Free: row.Free, Resume: row.Resume, Elsewhere: row.Elsewhere}, err
}

// ProviderSlot is a slot that a job has at a provider.
type ProviderSlot struct {
	JobID   models.JobID `bun:"job_id"`
	TakenAt time.Time    `bun:"taken_at"`
	// ExpiresAt is until when the slot is kept although no worker has the job; zero while one has it.
	ExpiresAt time.Time `bun:"expires_at,nullzero"`
}

// ListProviderSlots returns the slots of an account that are taken, the oldest first.
func ListProviderSlots(ctx context.Context, db bun.IDB, pool models.PoolID) (found []*ProviderSlot, err error) {
	err = db.NewRaw("SELECT s.job_id, s.taken_at, s.expires_at FROM provider_slots s WHERE s.pool_id = ? AND "+slotHeldSQL+
		" ORDER BY s.taken_at, s.job_id", pool).Scan(ctx, &found)
	return found, err
}

// ForgetSlots removes the slots that have expired of jobs that have ended, and those without an end of jobs that no
// worker has.
func ForgetSlots(ctx context.Context, db bun.IDB) error {
	// A job that is locked here cannot start meanwhile.
	_, err := db.NewRaw(`
		WITH over AS MATERIALIZED (
			SELECT j.id FROM provider_slots s JOIN jobs j ON j.id = s.job_id
			WHERE s.expires_at < clock_timestamp() AND j.status IN ('COMPLETED', 'FAILED', 'CANCELLED')
				OR s.expires_at IS NULL AND j.status NOT IN ('ASSIGNED', 'RUNNING', 'COMPLETING')
			ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED)
		DELETE FROM provider_slots s USING over
		WHERE s.job_id = over.id AND (s.expires_at IS NULL OR s.expires_at < clock_timestamp())`).Exec(ctx)
	return err
}
