// Package capacity holds the rows of pools and of what their machines cost, boot and lose, and of
// the models that they offer.
package capacity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Pool is capacity of one kind.
type Pool struct {
	bun.BaseModel `bun:"table:pools,alias:p"`

	ID models.PoolID `bun:"id,pk"`
	PoolSpec
	Desired   int       `bun:"desired"`
	CreatedAt time.Time `bun:"created_at,nullzero,default:now()"`
	// PausedAt is when an operator paused the pool, or zero.
	PausedAt time.Time `bun:"paused_at,nullzero"`
	// PausedBy is the id of the key, or the address of the member, that paused it, or "".
	PausedBy string `bun:"paused_by"`
	// DeletedAt is when an operator deleted the pool, or zero. The row stays, because workers
	// of the past name it.
	DeletedAt time.Time `bun:"deleted_at,nullzero"`
	// Deserted means that all accounts that the pool is dedicated to are deleted, or being deleted: nobody can use it.
	Deserted bool `bun:"deserted,scanonly"`
	// BatchWaits means that jobs of BATCH boot no workers of the pool now: they wait for cheaper ones.
	BatchWaits bool `bun:"batch_waits"`
	// ClosedUntil is when its active hours begin again, or zero within them. The scaler writes it.
	ClosedUntil time.Time `bun:"closed_until,nullzero"`
	// Advice is what the provider says of the pool's spot machines, or nil.
	Advice *PoolAdvice `bun:"advice,type:jsonb"`
	PoolBackoff
	PoolTrouble
	PoolBoots
	PoolQuote
}

// PoolTrouble is why a pool's provider fails.
type PoolTrouble struct {
	// ProviderProblem is why the provider could not list or delete the pool's machines when it was
	// last asked, or "". ProviderProblemSince is since when that is so, or zero.
	ProviderProblem      string    `bun:"provider_problem"`
	ProviderProblemSince time.Time `bun:"provider_problem_since,nullzero"`
}

// PoolBackoff is how long the scaler boots no worker of a pool, because its provider refused
// machines, and how many it asks for then.
type PoolBackoff struct {
	// BackoffUntil is zero unless the newest creation failed, wholly or in part.
	BackoffUntil time.Time `bun:"backoff_until,nullzero"`
	// BackoffClass is the class of the provider's error (fleet.ErrorClass).
	BackoffClass  string `bun:"backoff_class"`
	BackoffReason string `bun:"backoff_reason"`
	// Refusals is how many creations in a row brought no machine, since one started.
	Refusals int `bun:"refusals"`
	// GrowBy is how many machines the next creation asks for at most, or 0 if any number: one after
	// a refusal, and twice as many after each creation that brought all of its machines.
	GrowBy int `bun:"grow_by"`
	// RefusedAt is when the newest refusal was recorded. The machines that were asked for before
	// belong to its answer.
	RefusedAt time.Time `bun:"refused_at,nullzero"`
}

// Partly reports whether the provider had some of the machines that it was asked for last.
func (b *PoolBackoff) Partly() bool { return b.Refusals == 0 && !b.BackoffUntil.IsZero() }

// PoolSpec is what operators write of a pool.
type PoolSpec struct {
	Name          string               `bun:"name" json:"name" yaml:"name"`
	Provider      string               `bun:"provider" json:"provider" yaml:"provider"`
	Region        string               `bun:"region" json:"region" yaml:"region"`
	Zones         []string             `bun:"zones,array" json:"zones" yaml:"zones"`
	GPUType       string               `bun:"gpu_type" json:"gpuType" yaml:"gpuType"`
	MachineType   string               `bun:"machine_type" json:"machineType" yaml:"machineType"`
	CapacityClass models.CapacityClass `bun:"capacity_class" json:"capacityClass" yaml:"capacityClass"`
	Models        []string             `bun:"models,array" json:"models" yaml:"models"`
	// FollowsCatalogue means that Models are all models of the catalogue whose runtime is EngineKind. It is
	// so if an operator names no models for a pool of engines.
	FollowsCatalogue bool `bun:"follows_catalogue" json:"-" yaml:"-"`
	// EngineKind and Engines are the kind and the addresses of a pool of engines ([engine.Provider]).
	EngineKind engine.Kind `bun:"engine_kind" json:"engineKind,omitempty" yaml:"engineKind"`
	Engines    []string    `bun:"engines,array" json:"engines,omitempty" yaml:"engines"`
	// Tiers are the lanes that the pool serves; empty means all.
	Tiers []models.Tier `bun:"tiers,array" json:"tiers" yaml:"tiers"`
	// Accounts are those that the pool is dedicated to; empty means all.
	Accounts []models.AccountID `bun:"accounts,array" json:"accounts" yaml:"accounts"`
	// YieldingTiers are the lanes whose jobs may be asked to give way to higher ones. Nil means
	// BATCH, empty means none.
	YieldingTiers []models.Tier `bun:"yielding_tiers,array" json:"yieldingTiers" yaml:"yieldingTiers"`
	// WorkersPerMachine is how many workers one machine runs, and GPUsPerWorker how many GPUs
	// each of them has. Both are 1 to 64.
	WorkersPerMachine int `bun:"workers_per_machine" json:"workersPerMachine" yaml:"workersPerMachine"`
	GPUsPerWorker     int `bun:"gpus_per_worker" json:"gpusPerWorker" yaml:"gpusPerWorker"`
	MinWorkers        int `bun:"min_workers" json:"minWorkers" yaml:"minWorkers"`
	MaxWorkers        int `bun:"max_workers" json:"maxWorkers" yaml:"maxWorkers"`
	// WarmWorkers is how many idle workers the scaler keeps beyond what the waiting jobs need.
	WarmWorkers int `bun:"warm_workers" json:"warmWorkers" yaml:"warmWorkers"`
	// IdleSeconds is how long a worker above the minimum can be idle before it is drained. Nil means
	// that the scaler decides: as long as a new worker takes to start.
	IdleSeconds *int `bun:"idle_seconds" json:"scaleDownCooldownSeconds" yaml:"scaleDownCooldownSeconds"`
	// BootLimitSeconds is how long a worker may take from its creation to its registration.
	BootLimitSeconds int     `bun:"boot_limit_seconds" json:"bootLimitSeconds" yaml:"bootLimitSeconds"`
	PricePerHourUSD  float64 `bun:"price_per_hour_usd" json:"pricePerHourUsd" yaml:"pricePerHourUsd"`
	// PriceSource names what tells the price, or "": then it is PricePerHourUSD.
	PriceSource string `bun:"price_source" json:"priceSource" yaml:"priceSource"`
	// MaxPricePerHourUSD is the price above which the scaler boots no workers; 0 is none.
	MaxPricePerHourUSD float64 `bun:"max_price_per_hour_usd" json:"maxPricePerHourUsd" yaml:"maxPricePerHourUsd"`
	// ActiveHours is when the pool may have workers (see fleet.ParseHours), or "" for always.
	ActiveHours string `bun:"active_hours" json:"activeHours" yaml:"activeHours"`
	// HoldOnFailure keeps one machine that failed, for an operator to look at.
	HoldOnFailure bool `bun:"hold_on_failure" json:"holdOnFailure" yaml:"holdOnFailure"`
	// Settings is a JSON object that the provider understands, or nil.
	Settings json.RawMessage `bun:"settings,type:jsonb" json:"settings,omitempty" yaml:"-"`
}

// ScalingDecision is what the scaler chose for a pool, and the figures it chose from.
type ScalingDecision struct {
	bun.BaseModel `bun:"table:scaling_decisions,alias:sd"`

	ID     int64           `bun:"id,pk,autoincrement"`
	PoolID models.PoolID   `bun:"pool_id"`
	At     time.Time       `bun:"at,nullzero,default:clock_timestamp()"`
	From   int             `bun:"from_count"`
	To     int             `bun:"to_count"`
	Reason string          `bun:"reason"`
	Inputs json.RawMessage `bun:"inputs,type:jsonb"`
	Error  string          `bun:"error,nullzero"`
}

// HasEngines reports whether it is a pool of engines.
func (s *PoolSpec) HasEngines() bool { return s.Provider == engine.Provider }

// Fill sets what was left out to its default.
func (s *PoolSpec) Fill() {
	if s.HasEngines() {
		s.Region, s.GPUType = cmp.Or(s.Region, "local"), cmp.Or(s.GPUType, "engine")
		s.CapacityClass = cmp.Or(s.CapacityClass, models.CapacityOnDemand)
		if hosted := s.EngineKind.Hosted(); hosted != nil {
			if len(s.Engines) == 0 && hosted.URL != "" {
				s.Engines = []string{hosted.URL}
			}
			s.MaxWorkers = cmp.Or(s.MaxWorkers, hosted.Concurrent)
		}
		s.MaxWorkers = cmp.Or(s.MaxWorkers, len(s.Engines))
		s.FollowsCatalogue = s.FollowsCatalogue || len(s.Models) == 0
	}
	s.CapacityClass = cmp.Or(s.CapacityClass, models.CapacitySpot)
	if s.Models == nil {
		s.Models = []string{}
	}
	if s.Engines == nil {
		s.Engines = []string{}
	}
	if s.Zones == nil {
		s.Zones = []string{}
	}
	if s.Tiers == nil {
		s.Tiers = []models.Tier{}
	}
	if s.Accounts == nil {
		s.Accounts = []models.AccountID{}
	}
	if s.YieldingTiers == nil {
		s.YieldingTiers = []models.Tier{models.TierBatch}
	}
	s.WorkersPerMachine, s.GPUsPerWorker = cmp.Or(s.WorkersPerMachine, 1), cmp.Or(s.GPUsPerWorker, 1)
	if len(s.Settings) == 0 {
		s.Settings = json.RawMessage("{}")
	}
	s.BootLimitSeconds = cmp.Or(s.BootLimitSeconds, models.DefaultBootLimitSeconds)
}

// Written is what an operator wrote: without the models that a pool has because the catalogue has
// them.
func (s PoolSpec) Written() PoolSpec {
	s.Fill()
	if s.FollowsCatalogue {
		s.Models = []string{}
	}
	return s
}

// Version identifies what operators wrote: it differs if any field differs.
func (s PoolSpec) Version() string {
	// A spec always encodes: its settings are JSON from the database.
	written, _ := json.Marshal(s.Written())
	sum := sha256.Sum256(written)
	return hex.EncodeToString(sum[:16])
}

// Offer is what workers of such a pool offer at its constant price.
func (s *PoolSpec) Offer() models.Offer {
	return models.Offer{
		Models: s.Models, GPUType: s.GPUType, Region: s.Region, Tiers: s.Tiers, Accounts: s.Accounts,
		CapacityClass: s.CapacityClass, PricePerHourUSD: new(s.PricePerHourUSD),
	}
}

// Offer is what the pool's workers offer at a time.
func (p *Pool) Offer(at time.Time) models.Offer {
	offer := p.PoolSpec.Offer()
	offer.PricePerHourUSD = new(p.PriceAt(at))
	return offer
}

// CopyToWorkers copies what these pools serve, and what their workers cost now, to the workers,
// so that a lease reads no pool. The workers of engines also get the place, the GPU type and the
// models of their pools, without the models that their engines lack. The caller has locked the
// pools, or repeats the call. It returns the workers that it changed. It locks workers in the order
// of their ids.
func CopyToWorkers(ctx context.Context, tx bun.Tx, pools []models.PoolID) (changed []models.WorkerID, err error) {
	err = tx.NewRaw(`
		WITH found AS (
			SELECT w.id, p.tiers, p.accounts, pool_price(p) AS price, own.* FROM workers w JOIN pools p ON p.id = w.pool_id
			LEFT JOIN engines e ON w.provider = ?1 AND e.pool_id = p.id AND e.instance = split_part(w.provider_instance_id, '#', 1)
			CROSS JOIN LATERAL (
				SELECT w.models, w.region, w.gpu_type, w.capacity_class WHERE e.url IS NULL
				UNION ALL
				SELECT `+engineModelsSQL+`, p.region, p.gpu_type, p.capacity_class WHERE e.url IS NOT NULL) own
			WHERE w.pool_id = ANY (?0::uuid[]) AND w.ended_at IS NULL
				AND (w.tiers, w.accounts, w.price_per_hour_usd, w.models, w.region, w.gpu_type, w.capacity_class) IS DISTINCT FROM
					(p.tiers, p.accounts, pool_price(p), own.models, own.region, own.gpu_type, own.capacity_class)
			ORDER BY w.id FOR NO KEY UPDATE OF w)
		UPDATE workers w SET tiers = found.tiers, accounts = found.accounts, price_per_hour_usd = found.price,
			models = found.models, region = found.region, gpu_type = found.gpu_type, capacity_class = found.capacity_class
		FROM found WHERE w.id = found.id
		RETURNING w.id`, postgres.UUIDArray(pools), engine.Provider).Scan(ctx, &changed)
	return changed, err
}

// UpsertPool writes a pool, identified by its name, and reads back its id. It keeps what the
// caller leaves out of an existing one: the price, the hours and the settings.
func UpsertPool(ctx context.Context, db bun.IDB, p *Pool) error {
	p.Fill()
	return db.NewInsert().Model(p).
		On("CONFLICT (name) WHERE deleted_at IS NULL DO UPDATE").
		Set("provider = excluded.provider, region = excluded.region, gpu_type = excluded.gpu_type").
		Set("capacity_class = excluded.capacity_class, models = excluded.models").
		Set("min_workers = excluded.min_workers, max_workers = excluded.max_workers, idle_seconds = excluded.idle_seconds").
		Returning("id, desired, created_at").
		Scan(ctx)
}

// InsertPool writes a new pool, and its price into the history. It returns sql.ErrNoRows if one has its name.
func InsertPool(ctx context.Context, db bun.IDB, p *Pool) error {
	p.Fill()
	err := postgres.MustChange(db.NewInsert().Model(p).On("CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING").Exec(ctx))
	if err != nil {
		return err
	}
	return recordPrice(ctx, db, p.ID)
}

// UpdatePool writes a pool that the caller has locked, and a new price into the history. It does not write Desired.
// The scaler may boot workers again at once: what the provider refused, or kept machines from
// starting, may have changed.
func UpdatePool(ctx context.Context, db bun.IDB, p *Pool) error {
	p.Fill()
	p.PoolBackoff, p.PoolBoots, p.ClosedUntil = PoolBackoff{}, PoolBoots{}, time.Time{}
	err := postgres.MustChange(db.NewUpdate().Model(p).ExcludeColumn("id", "desired", "created_at").WherePK().Exec(ctx))
	if err != nil {
		return err
	}
	return recordPrice(ctx, db, p.ID)
}

// RecordRefusal records that a provider refused machines of a pool: all that it was asked for, or
// only a part. The scaler leaves the pool alone for that long, and then asks for one.
func RecordRefusal(ctx context.Context, db bun.IDB, id models.PoolID, class, reason string, wait time.Duration, partly bool) error {
	_, err := db.NewRaw(`
		UPDATE pools SET backoff_class = ?1, backoff_reason = ?2, refusals = CASE WHEN ?4 THEN 0 ELSE refusals + 1 END,
			backoff_until = clock_timestamp() + make_interval(secs => ?3), grow_by = 1, refused_at = clock_timestamp()
		WHERE id = ?0`, id, class, reason, wait.Seconds(), partly).Exec(ctx)
	return err
}

// SetProviderProblem records why a pool's provider fails, or with "" that it does not.
func SetProviderProblem(ctx context.Context, db bun.IDB, id models.PoolID, problem string) error {
	_, err := db.NewRaw(`
		UPDATE pools SET provider_problem = ?1, provider_problem_since =
			CASE WHEN ?1 = '' THEN NULL ELSE coalesce(provider_problem_since, clock_timestamp()) END
		WHERE id = ?0 AND provider_problem <> ?1`, id, problem).Exec(ctx)
	return err
}

// EndBackoff records that a provider accepted the creation of all machines that it was asked for, and
// how many it may be asked for next. It may still fail to make them, so that the refusals count until
// a machine starts: see ClearRefusals.
func EndBackoff(ctx context.Context, db bun.IDB, id models.PoolID, growBy int) error {
	_, err := db.NewRaw(`
		UPDATE pools SET backoff_until = NULL, backoff_class = '', backoff_reason = '', grow_by = ?1
		WHERE id = ?0 AND (backoff_until IS NOT NULL OR grow_by <> ?1)`, id, growBy).Exec(ctx)
	return err
}

// ClearRefusals records that a machine of a pool has started which its provider accepted after the
// newest refusal. The caller has locked the pool.
func ClearRefusals(ctx context.Context, tx bun.Tx, id models.PoolID) error {
	_, err := tx.NewRaw("UPDATE pools SET refusals = 0 WHERE id = ? AND backoff_until IS NULL", id).Exec(ctx)
	return err
}

// PoolLock is a lock on pools until the transaction ends. Pools are locked before workers.
type PoolLock string

const (
	// NoPoolLock locks nothing.
	NoPoolLock PoolLock = ""
	// PoolsStay keeps pools as they are. Others may do the same.
	PoolsStay PoolLock = "SHARE"
	// PoolsToWrite is for the one who changes them.
	PoolsToWrite PoolLock = "NO KEY UPDATE"
)

// ListPools returns all pools that are not deleted, by name.
func ListPools(ctx context.Context, db bun.IDB, lock PoolLock) ([]*Pool, error) {
	var pools []*Pool
	err := locked(selectPools(db, &pools), lock).Where("p.deleted_at IS NULL").Order("p.name").Scan(ctx)
	return pools, err
}

// ListScaledPools returns all pools by name, with those that were deleted in the last day: their
// machines may have to be deleted.
func ListScaledPools(ctx context.Context, db bun.IDB, lock PoolLock) ([]*Pool, error) {
	var pools []*Pool
	err := locked(selectPools(db, &pools), lock).
		Where("p.deleted_at IS NULL OR p.deleted_at > clock_timestamp() - interval '1 day'").Order("p.name", "p.id").Scan(ctx)
	return pools, err
}

// LockPool returns a pool that is not deleted, locked, or sql.ErrNoRows.
func LockPool(ctx context.Context, tx bun.Tx, id models.PoolID, lock PoolLock) (*Pool, error) {
	pool := new(Pool)
	err := locked(selectPools(tx, pool), lock).Where("p.id = ? AND p.deleted_at IS NULL", id).Scan(ctx)
	return pool, err
}

func locked(q *bun.SelectQuery, lock PoolLock) *bun.SelectQuery {
	if lock == NoPoolLock {
		return q
	}
	return q.For(string(lock))
}

// GetPools returns the pools with these ids, in no particular order, with those that are
// deleted.
func GetPools(ctx context.Context, db bun.IDB, ids []models.PoolID) ([]*Pool, error) {
	var pools []*Pool
	err := selectPools(db, &pools).Where("p.id IN (?)", bun.List(ids)).Scan(ctx)
	return pools, err
}

// FindPoolID returns the id of the pool with a name, or sql.ErrNoRows.
func FindPoolID(ctx context.Context, db bun.IDB, name string) (id models.PoolID, err error) {
	err = db.NewSelect().Model((*Pool)(nil)).Column("id").Where("p.name = ? AND p.deleted_at IS NULL", name).Scan(ctx, &id)
	return id, err
}

// SetDesired writes the number of workers that the scaler wants in a pool.
func SetDesired(ctx context.Context, db bun.IDB, id models.PoolID, desired int) error {
	return postgres.MustChange(db.NewRaw("UPDATE pools SET desired = ? WHERE id = ?", desired, id).Exec(ctx))
}

// InsertScalingDecision writes a decision.
func InsertScalingDecision(ctx context.Context, db bun.IDB, d *ScalingDecision) error {
	_, err := db.NewInsert().Model(d).Exec(ctx)
	return err
}

// ListScalingDecisions returns the newest decisions of each of these pools,
// newest first, up to limit of each.
func ListScalingDecisions(ctx context.Context, db bun.IDB, pools []models.PoolID, limit int) ([]*ScalingDecision, error) {
	var found []*ScalingDecision
	err := db.NewRaw(`
		SELECT sd.* FROM unnest(?::uuid[]) AS p (id)
		CROSS JOIN LATERAL (SELECT * FROM scaling_decisions WHERE pool_id = p.id ORDER BY id DESC LIMIT ?) sd
		ORDER BY sd.pool_id, sd.id DESC`, postgres.UUIDArray(pools), limit).Scan(ctx, &found)
	return found, err
}

// PoolCount is the number of a pool's workers in one state.
type PoolCount struct {
	PoolID models.PoolID       `bun:"pool_id"`
	Status models.WorkerStatus `bun:"status"`
	Count  int                 `bun:"count"`
}

// CountPoolWorkers counts the workers of all pools that have not ended.
func CountPoolWorkers(ctx context.Context, db bun.IDB) ([]PoolCount, error) {
	var counts []PoolCount
	err := db.NewRaw(`
		SELECT pool_id, status, count(*) AS count FROM workers
		WHERE pool_id IS NOT NULL AND ended_at IS NULL
		GROUP BY pool_id, status`).Scan(ctx, &counts)
	return counts, err
}

// ListPoolWorkers returns the workers of these pools that have not ended: their ids, places,
// states, times and prices. The scaler reads thousands each second, so their other fields are zero.
func ListPoolWorkers(ctx context.Context, db bun.IDB, pools []models.PoolID) ([]*models.Worker, error) {
	var workers []*models.Worker
	err := db.NewSelect().Model(&workers).
		Column("id", "pool_id", "provider", "provider_instance_id", "slot", "status", "created_at", "registered_at", "jobs_completed",
			"idle_since", "lost_at", "last_heartbeat_at",
			"quarantined_until", "price_per_hour_usd", "boot_failure").
		Where("w.pool_id = ANY (?::uuid[]) AND w.ended_at IS NULL", postgres.UUIDArray(pools)).Order("w.id").Scan(ctx)
	return workers, err
}

// DrainIdleWorker drains a worker if it is still idle, or also if it is busy, and reports whether it
// was. A busy worker ends its job first.
func DrainIdleWorker(ctx context.Context, tx bun.Tx, id models.WorkerID, reason string, busyToo bool) (bool, error) {
	err := postgres.MustChange(tx.NewRaw(
		"UPDATE workers SET status = 'DRAINING', drain_reason = ? WHERE id = ? AND (status = 'IDLE' OR ? AND status = 'BUSY')",
		reason, id, busyToo).Exec(ctx))
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// DrainPool drains the idle and busy workers of a pool, and returns them. It locks workers in
// the order of their ids.
func DrainPool(ctx context.Context, tx bun.Tx, id models.PoolID, reason string) (drained []models.WorkerID, err error) {
	err = tx.NewRaw(`
		WITH found AS (
			SELECT id FROM workers WHERE pool_id = ?0 AND ended_at IS NULL AND status IN ('IDLE', 'BUSY')
			ORDER BY id FOR NO KEY UPDATE)
		UPDATE workers w SET status = 'DRAINING', drain_reason = ?1 FROM found
		WHERE w.id = found.id AND w.status IN ('IDLE', 'BUSY')
		RETURNING w.id`, id, reason).Scan(ctx, &drained)
	return drained, err
}

// SetDecisionError records why a scaling decision could not be carried out.
func SetDecisionError(ctx context.Context, db bun.IDB, id int64, message string) error {
	_, err := db.NewRaw("UPDATE scaling_decisions SET error = ? WHERE id = ?", message, id).Exec(ctx)
	return err
}
