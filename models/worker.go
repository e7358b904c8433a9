package models

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// WorkerStatus is the state of a worker.
type WorkerStatus string

const (
	WorkerBooting    WorkerStatus = "BOOTING"
	WorkerIdle       WorkerStatus = "IDLE"
	WorkerBusy       WorkerStatus = "BUSY"
	WorkerDraining   WorkerStatus = "DRAINING"
	WorkerLost       WorkerStatus = "LOST"
	WorkerTerminated WorkerStatus = "TERMINATED"
)

// Worker is one registered GPU process in a pool.
type Worker struct {
	bun.BaseModel `bun:"table:workers,alias:w"`

	ID                 WorkerID `bun:"id,pk" json:"id"`
	PoolID             PoolID   `bun:"pool_id" json:"pool_id"`
	Provider           string   `bun:"provider" json:"provider"`
	ProviderInstanceID string   `bun:"provider_instance_id" json:"provider_instance_id"`
	Slot               int      `bun:"slot" json:"slot"`
	Offer
	GPUCount       int          `bun:"gpu_count" json:"gpu_count"`
	Zone           string       `bun:"zone,nullzero" json:"zone,omitzero"`
	GPUMemoryBytes *int64       `bun:"gpu_memory_bytes" json:"gpu_memory_bytes"`
	WarmModels     []string     `bun:"warm_models,array" json:"warm_models"`
	AgentVersion   string       `bun:"agent_version" json:"agent_version"`
	Status         WorkerStatus `bun:"status" json:"status"`
	// TokenHash is the SHA-256 of the worker's own token, or nil while the worker boots and
	// after its end.
	TokenHash      []byte `bun:"token_hash,nullzero" json:"token_hash,omitzero"`
	EnrolmentKeyID KeyID  `bun:"enrolment_key_id" json:"enrolment_key_id"`
	// Machine is the place (project/zone/name) of the machine whose signed identity registered
	// the worker, or "" if a key enrolled it.
	Machine         string    `bun:"machine,nullzero" json:"machine,omitzero"`
	DrainReason     string    `bun:"drain_reason,nullzero" json:"drain_reason,omitzero"`
	DrainDeadline   time.Time `bun:"drain_deadline,nullzero" json:"drain_deadline,omitzero"`
	GPUUtilization  []float64 `bun:"gpu_utilization,array" json:"gpu_utilization,format:emitnull"`
	JobsCompleted   int       `bun:"jobs_completed" json:"jobs_completed"`
	GPUSeconds      float64   `bun:"gpu_seconds" json:"gpu_seconds"`
	CreatedAt       time.Time `bun:"created_at,nullzero,default:now()" json:"created_at,omitzero"`
	RegisteredAt    time.Time `bun:"registered_at,nullzero" json:"registered_at,omitzero"`
	LastHeartbeatAt time.Time `bun:"last_heartbeat_at,nullzero" json:"last_heartbeat_at,omitzero"`
	IdleSince       time.Time `bun:"idle_since,nullzero" json:"idle_since,omitzero"`
	EndedAt         time.Time `bun:"ended_at,nullzero" json:"ended_at,omitzero"`
	// LostAt is when the worker was last declared lost.
	LostAt time.Time `bun:"lost_at,nullzero" json:"lost_at,omitzero"`
	// BootFailure is why its registration was refused, or why it ended before it registered or soon
	// after; "" otherwise.
	BootFailure string `bun:"boot_failure,nullzero" json:"boot_failure,omitzero"`
	WorkerQuarantine
}

// enginesProvider is engine.Provider.
const enginesProvider = "engines"

// Key is equal for workers that can run the same jobs. Those of engines share the limits of their pool, too.
func (w *Worker) Key() string {
	if w.Provider == enginesProvider {
		return string(w.PoolID) + " " + w.Offer.Key()
	}
	return w.Offer.Key()
}

// Name is how operators know the worker: the machine, with the slot of the second worker on it and
// those after it. It is "" if the machine is unknown.
func (w *Worker) Name() string {
	if w.Slot == 0 || w.ProviderInstanceID == "" {
		return w.ProviderInstanceID
	}
	return w.ProviderInstanceID + "/" + strconv.Itoa(w.Slot)
}

// InsertWorker writes a new worker. If another worker that has not ended has its slot, it
// writes nothing and returns sql.ErrNoRows.
func InsertWorker(ctx context.Context, db bun.IDB, w *Worker) error {
	return postgres.MustChange(db.NewInsert().Model(w).
		On("CONFLICT (provider, provider_instance_id, slot) WHERE ended_at IS NULL DO NOTHING").Exec(ctx))
}

// GetWorkers returns the workers with these ids, in no particular order.
func GetWorkers(ctx context.Context, db bun.IDB, ids []WorkerID) (found []*Worker, err error) {
	err = db.NewSelect().Model(&found).Where("w.id IN (?)", bun.List(ids)).Scan(ctx)
	return found, err
}

// TokenOwner holds the columns of a worker that identify a caller by its token.
type TokenOwner struct {
	WorkerID       WorkerID `bun:"id"`
	EnrolmentKeyID KeyID    `bun:"enrolment_key_id"`
	TokenHash      []byte   `bun:"token_hash"`
}

// FindTokenOwners returns the workers whose tokens have these hashes, in no particular order.
func FindTokenOwners(ctx context.Context, db bun.IDB, hashes [][]byte) (found []TokenOwner, err error) {
	err = postgres.Read(ctx, db, `
		SELECT w.* FROM unnest((SELECT @hashes::bytea[])) AS asked (hash)
		CROSS JOIN LATERAL (SELECT id, enrolment_key_id, token_hash FROM workers WHERE token_hash = asked.hash LIMIT 1) w`,
		pgx.NamedArgs{"hashes": hashes}, &found)
	return found, err
}

// FindWorkerBySlot returns the worker that has not ended in a slot of a machine, or
// sql.ErrNoRows.
func FindWorkerBySlot(ctx context.Context, db bun.IDB, provider, instanceID string, slot int) (*Worker, error) {
	w := new(Worker)
	err := db.NewSelect().Model(w).
		Where("w.provider = ? AND w.provider_instance_id = ? AND w.slot = ? AND w.ended_at IS NULL", provider, instanceID, slot).
		Scan(ctx)
	return w, err
}

// LockWorker returns a worker and locks it until the transaction ends, or returns
// sql.ErrNoRows.
func LockWorker(ctx context.Context, tx bun.Tx, id WorkerID) (*Worker, error) {
	w := new(Worker)
	err := tx.NewSelect().Model(w).Where("w.id = ?", id).For("NO KEY UPDATE").Scan(ctx)
	return w, err
}

// UpdateWorker writes all columns of a worker that can change, except those that its pool
// or the quarantine of its host sets. It returns sql.ErrNoRows if the worker is not in state from.
func UpdateWorker(ctx context.Context, tx bun.Tx, w *Worker, from WorkerStatus) error {
	return postgres.MustChange(tx.NewUpdate().Model(w).
		ExcludeColumn("id", "pool_id", "tiers", "accounts", "price_per_hour_usd", "provider", "provider_instance_id", "slot", "created_at",
			"quarantined_until", "quarantine_cause", "quarantine_reason").
		Where("w.id = ? AND w.status = ?", w.ID, from).
		Exec(ctx))
}

// WorkerFilter narrows a list of workers. Empty fields do not narrow it.
type WorkerFilter struct {
	PoolID PoolID
	Status []WorkerStatus
	// NoPool selects the workers that belong to no pool.
	NoPool bool
	// Zone selects the workers of a zone, and those of a region with that name that have no zone.
	GPUType, Zone, Version string
	// Quarantined selects the workers on hosts that are in quarantine now.
	Quarantined bool
}

func (f WorkerFilter) apply(q *bun.SelectQuery) *bun.SelectQuery {
	if f.PoolID != "" {
		q = q.Where("w.pool_id = ?", f.PoolID)
	}
	if f.NoPool {
		q = q.Where("w.pool_id IS NULL")
	}
	if f.GPUType != "" {
		q = q.Where("w.gpu_type = ?", f.GPUType)
	}
	if f.Zone != "" {
		q = q.Where("coalesce(w.zone, w.region) = ?", f.Zone)
	}
	if f.Version != "" {
		q = q.Where("w.agent_version = ?", f.Version)
	}
	if f.Quarantined {
		q = q.Where("w.quarantined_until > clock_timestamp()")
	}
	if len(f.Status) > 0 {
		q = q.Where("w.status IN (?)", bun.List(f.Status))
		if !slices.Contains(f.Status, WorkerTerminated) {
			q = q.Where("w.ended_at IS NULL") // which an index asks for
		}
	}
	return q
}

// ListWorkers returns workers older than after, or from the newest if it is empty, newest
// first.
func ListWorkers(ctx context.Context, db bun.IDB, f WorkerFilter, after WorkerID, limit int) ([]*Worker, error) {
	var workers []*Worker
	q := f.apply(db.NewSelect().Model(&workers)).Order("w.id DESC").Limit(int64(limit))
	if after != "" {
		q = q.Where("w.id < ?", after)
	}
	err := q.Scan(ctx)
	return workers, err
}

// CountWorkers counts up to limit workers.
func CountWorkers(ctx context.Context, db bun.IDB, f WorkerFilter, limit int) (int, error) {
	some := f.apply(db.NewSelect().Model((*Worker)(nil)).ColumnExpr("1")).Limit(int64(limit))
	var n int
	err := db.NewSelect().ColumnExpr("count(*)").TableExpr("(?) AS found", some).Scan(ctx, &n)
	return n, err
}

// ListSilentWorkers returns IDLE and DRAINING workers that hold no lease and gave no sign of
// life for longer than silence, and workers that are still BOOTING after their pool's limit.
func ListSilentWorkers(ctx context.Context, db bun.IDB, silence time.Duration, limit int) ([]WorkerID, error) {
	var ids []WorkerID
	err := db.NewRaw(`
		SELECT id FROM workers
		WHERE ended_at IS NULL AND (
			status IN ('IDLE', 'DRAINING') AND last_heartbeat_at < clock_timestamp() - make_interval(secs => ?)
				AND NOT EXISTS (SELECT FROM job_attempts a WHERE a.worker_id = workers.id AND a.ended_at IS NULL)
			OR status = 'BOOTING' AND created_at < clock_timestamp()
				- make_interval(secs => coalesce((SELECT boot_limit_seconds FROM pools p WHERE p.id = workers.pool_id), ?)))
		LIMIT ?`, silence.Seconds(), DefaultBootLimitSeconds, limit).Scan(ctx, &ids)
	return ids, err
}

// FilterSilentWorkers returns those of these workers that should give signs of life and gave none
// for longer than silence.
func FilterSilentWorkers(ctx context.Context, db bun.IDB, ids []WorkerID, silence time.Duration) (silent []WorkerID, err error) {
	err = db.NewRaw(`
		SELECT id FROM workers
		WHERE id IN (?) AND status IN ('IDLE', 'BUSY', 'DRAINING')
			AND last_heartbeat_at < clock_timestamp() - make_interval(secs => ?)`, bun.List(ids), silence.Seconds()).Scan(ctx, &silent)
	return silent, err
}

// OfferedModel is a model that workers with a GPU type offer.
type OfferedModel struct {
	Model   string `bun:"model"`
	GPUType string `bun:"gpu_type"`
}

// ListOfferedModels lists what workers offer, without lost and ended workers.
func ListOfferedModels(ctx context.Context, db bun.IDB) (all []OfferedModel, err error) {
	err = db.NewRaw(`
		SELECT DISTINCT unnest(models) AS model, gpu_type FROM workers WHERE ended_at IS NULL AND status IN ('IDLE', 'BUSY')`).Scan(ctx, &all)
	return all, err
}

// ListExpectedModels lists those of these models that a worker should offer: a pool names them, or
// jobs of them are queued.
func ListExpectedModels(ctx context.Context, db bun.IDB, names []string) (expected []string, err error) {
	err = db.NewRaw(`
		SELECT asked.name FROM unnest(?0::text[]) asked (name)
		WHERE EXISTS (SELECT FROM pools WHERE deleted_at IS NULL AND asked.name = ANY (models))
			OR EXISTS (
				SELECT FROM unnest(?1::text[]) lane (lane) CROSS JOIN unnest(?1::text[]) tier (tier)
				CROSS JOIN LATERAL (SELECT FROM jobs j WHERE j.status = 'QUEUED' AND j.lane = lane.lane AND j.tier = tier.tier AND j.model = asked.name LIMIT 1) waiting)`,
		postgres.TextArray(names), postgres.TextArray(Tiers)).Scan(ctx, &expected)
	return expected, err
}

// Wanted is what the rows ask of a worker: the worker's own row, and the row of the job that
// it holds, if any.
type Wanted struct {
	WorkerID          WorkerID     `bun:"worker_id"`
	Status            WorkerStatus `bun:"status"`
	DrainReason       string       `bun:"drain_reason"`
	DrainDeadline     time.Time    `bun:"drain_deadline"`
	JobID             JobID        `bun:"job_id"`
	CancelRequestedAt time.Time    `bun:"cancel_requested_at"`
	CancelReason      string       `bun:"cancel_reason"`
	YieldRequestedAt  time.Time    `bun:"yield_requested_at"`
	YieldTo           Tier         `bun:"yield_to"`
}

// ListWanted returns what is asked of these workers. A request to give way that is older than
// yieldWithin is left out.
func ListWanted(ctx context.Context, db bun.IDB, ids []WorkerID, yieldWithin time.Duration) (all []*Wanted, err error) {
	err = db.NewRaw(`
		SELECT w.id AS worker_id, w.status, w.drain_reason, w.drain_deadline,
			j.id AS job_id, j.cancel_requested_at, j.cancel_reason, a.yield_to,
			CASE WHEN a.yield_requested_at > clock_timestamp() - make_interval(secs => ?) THEN a.yield_requested_at END AS yield_requested_at
		FROM workers w
		LEFT JOIN job_attempts a ON a.worker_id = w.id AND a.ended_at IS NULL
		LEFT JOIN jobs j ON j.id = a.job_id
		WHERE w.id = ANY (?::uuid[])`, yieldWithin.Seconds(), postgres.UUIDArray(ids)).Scan(ctx, &all)
	return all, err
}

// ListMachineWorkers returns the workers on a machine that have not ended, by slot.
func ListMachineWorkers(ctx context.Context, db bun.IDB, provider, instanceID string) (workers []*Worker, err error) {
	err = db.NewSelect().Model(&workers).
		Where("w.provider = ? AND w.provider_instance_id = ? AND w.ended_at IS NULL", provider, instanceID).Order("w.slot").Scan(ctx)
	return workers, err
}

// ListKeptInstances divides those of these instances of a provider that have or had workers. A worker
// needs the kept ones: it has not ended, or it ended less than grace ago and may register again. The
// others are over. An agent that was drained for one of the reasons in final, or that never registered,
// does not come back.
func ListKeptInstances(ctx context.Context, db bun.IDB, provider string, ids, final []string, grace time.Duration) (kept, over []string,
	err error) {
	var found []struct {
		InstanceID string `bun:"provider_instance_id"`
		Kept       bool   `bun:"kept"`
	}
	err = db.NewRaw(`
		SELECT provider_instance_id, bool_or(ended_at IS NULL OR ended_at > clock_timestamp() - make_interval(secs => ?2)
			AND registered_at IS NOT NULL AND coalesce(drain_reason, '') <> ALL (?3::text[])) AS kept
		FROM workers WHERE provider = ?0 AND provider_instance_id = ANY (?1::text[])
		GROUP BY 1`, provider, postgres.TextArray(ids), grace.Seconds(), postgres.TextArray(final)).Scan(ctx, &found)
	for _, f := range found {
		if f.Kept {
			kept = append(kept, f.InstanceID)
		} else {
			over = append(over, f.InstanceID)
		}
	}
	return kept, over, err
}

// DefaultBootLimitSeconds is a pool's BootLimitSeconds if it states none.
const DefaultBootLimitSeconds = 600
