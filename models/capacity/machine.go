package capacity

import (
	"context"
	"encoding/json"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Machine is a row of the ledger of machines: one that the scaler asked a provider for. It is paid for
// from CreatedAt until BilledUntil. A time that is unknown is zero.
type Machine struct {
	bun.BaseModel `bun:"table:machines,alias:m"`

	ID         int64         `bun:"id,pk,autoincrement" json:"id"`
	PoolID     models.PoolID `bun:"pool_id" json:"pool_id"`
	Provider   string        `bun:"provider" json:"provider"`
	InstanceID string        `bun:"instance_id" json:"instance_id"`
	// Workers is how many workers it runs. The price of a pool is that of one.
	Workers int `bun:"workers" json:"workers"`
	// AskedAt is when the scaler wrote down that it would ask for it.
	AskedAt time.Time `bun:"asked_at,nullzero,default:clock_timestamp()" json:"asked_at,omitzero"`
	// CreatedAt is zero until the provider has confirmed the machine, and RegisteredAt until its first
	// worker has registered.
	CreatedAt    time.Time `bun:"created_at,nullzero" json:"created_at,omitzero"`
	RegisteredAt time.Time `bun:"registered_at,nullzero" json:"registered_at,omitzero"`
	// ToldAt is when its deletion was first asked for, DeletedAt when the provider confirmed that.
	ToldAt    time.Time `bun:"told_at,nullzero" json:"told_at,omitzero"`
	DeletedAt time.Time `bun:"deleted_at,nullzero" json:"deleted_at,omitzero"`
	// ListedAt is when a list of the provider last had it, as far as that was noted: see fleet. MissingAt
	// is since when the lists lack it or say that it has ended, or zero.
	ListedAt  time.Time `bun:"listed_at,nullzero" json:"listed_at,omitzero"`
	MissingAt time.Time `bun:"missing_at,nullzero" json:"missing_at,omitzero"`
	// SpokeAt is the last sign of life of its workers before MissingAt, if they were silent then.
	SpokeAt time.Time `bun:"spoke_at,nullzero" json:"spoke_at,omitzero"`
	// GoneAt is when it was clear that it does not exist any more.
	GoneAt      time.Time `bun:"gone_at,nullzero" json:"gone_at,omitzero"`
	BilledUntil time.Time `bun:"billed_until,nullzero" json:"billed_until,omitzero"`
}

// InsertMachines writes the machines that a provider will be asked for.
func InsertMachines(ctx context.Context, tx bun.Tx, machines []*Machine) error {
	_, err := tx.NewInsert().Model(&machines).Exec(ctx)
	return err
}

// ListMachines returns the machines of these pools that are not gone, in no particular order.
func ListMachines(ctx context.Context, db bun.IDB, pools []models.PoolID) (found []*Machine, err error) {
	err = db.NewSelect().Model(&found).Where("m.pool_id = ANY (?::uuid[]) AND m.gone_at IS NULL", postgres.UUIDArray(pools)).Scan(ctx)
	return found, err
}

// UpdateMachines writes what changed of machines, except what a registration writes. A time at which a
// deletion was asked for or confirmed stays. Machines are locked in the order of their ids.
func UpdateMachines(ctx context.Context, db bun.IDB, machines []*Machine) error {
	if len(machines) == 0 {
		return nil
	}
	changed, err := json.Marshal(machines)
	if err != nil {
		return err
	}
	_, err = db.NewRaw(`
		WITH n AS MATERIALIZED (
			SELECT * FROM jsonb_to_recordset(?::jsonb) AS n (id bigint, created_at timestamptz, told_at timestamptz, deleted_at timestamptz,
				listed_at timestamptz, missing_at timestamptz, spoke_at timestamptz, gone_at timestamptz, billed_until timestamptz)),
		locked AS MATERIALIZED (SELECT id FROM machines WHERE id IN (SELECT id FROM n) ORDER BY id FOR NO KEY UPDATE)
		UPDATE machines m SET created_at = n.created_at, told_at = coalesce(m.told_at, n.told_at), deleted_at = coalesce(m.deleted_at, n.deleted_at),
			listed_at = n.listed_at, missing_at = n.missing_at, spoke_at = n.spoke_at, gone_at = n.gone_at, billed_until = n.billed_until
		FROM n WHERE m.id = n.id AND m.id IN (SELECT id FROM locked)`, string(changed)).Exec(ctx)
	return err
}

// MachinesCreated records that a provider confirmed the creation of machines at a time, and that it
// refused others: they were never paid for.
func MachinesCreated(ctx context.Context, db bun.IDB, provider string, at time.Time, created, refused []string) error {
	_, err := db.NewRaw(`
		WITH locked AS MATERIALIZED (
			SELECT id FROM machines WHERE provider = ?0 AND instance_id = ANY (?2::text[] || ?3::text[]) AND gone_at IS NULL
			ORDER BY id FOR NO KEY UPDATE)
		UPDATE machines SET
			created_at = CASE WHEN instance_id = ANY (?2::text[]) THEN coalesce(created_at, least(?1, registered_at)) ELSE created_at END,
			gone_at = CASE WHEN instance_id = ANY (?3::text[]) AND created_at IS NULL THEN clock_timestamp() ELSE gone_at END,
			billed_until = CASE WHEN instance_id = ANY (?3::text[]) AND created_at IS NULL THEN ?1 ELSE billed_until END
		WHERE id IN (SELECT id FROM locked)`,
		provider, at, postgres.TextArray(created), postgres.TextArray(refused)).Exec(ctx)
	return err
}

// MachineRegistered records that a worker has registered from a machine. A machine without a row is not
// in the ledger.
func MachineRegistered(ctx context.Context, db bun.IDB, provider, instanceID string, at time.Time) error {
	_, err := db.NewRaw(`
		UPDATE machines SET registered_at = coalesce(registered_at, ?2), created_at = coalesce(created_at, asked_at)
		WHERE provider = ?0 AND instance_id = ?1 AND (registered_at IS NULL OR created_at IS NULL)`, provider, instanceID, at).Exec(ctx)
	return err
}

// MachinesFound records that the list of a pool's provider had machines at a time that are not in the
// ledger, or that seemed to be gone. Machines of another pool stay its own.
func MachinesFound(ctx context.Context, db bun.IDB, pool *Pool, ids []string, at time.Time) error {
	_, err := db.NewRaw(`
		INSERT INTO machines (pool_id, provider, instance_id, workers, asked_at, created_at, listed_at)
		SELECT ?0, ?1, id, ?2, ?4, ?4, ?4 FROM unnest(?3::text[]) AS found (id) ORDER BY id
		ON CONFLICT (provider, instance_id) DO UPDATE SET created_at = coalesce(machines.created_at, machines.asked_at),
			listed_at = excluded.listed_at, missing_at = NULL, gone_at = NULL, billed_until = NULL
		WHERE machines.pool_id = excluded.pool_id AND machines.gone_at IS NOT NULL`,
		pool.ID, pool.Provider, max(1, pool.WorkersPerMachine), postgres.TextArray(ids), at).Exec(ctx)
	return err
}

// ListOthersMachines returns those of these machines of a pool's provider that another pool asked for.
func ListOthersMachines(ctx context.Context, db bun.IDB, pool *Pool, ids []string) (found []string, err error) {
	err = db.NewRaw(`
		SELECT instance_id FROM machines
		WHERE provider = ? AND instance_id = ANY (?::text[]) AND pool_id <> ? AND gone_at IS NULL`,
		pool.Provider, postgres.TextArray(ids), pool.ID).Scan(ctx, &found)
	return found, err
}

// CountPaidWorkers returns for how many workers of each pool machines are paid for now: those of the
// ledger, and the registered workers whose machine is not in it.
func CountPaidWorkers(ctx context.Context, db bun.IDB) (map[models.PoolID]int, error) {
	var found []PoolCount
	err := db.NewRaw(`
		SELECT pool_id, sum(n) AS count FROM (
			SELECT pool_id, workers AS n FROM machines WHERE gone_at IS NULL AND created_at IS NOT NULL
			UNION ALL
			SELECT pool_id, 1 FROM workers w
			WHERE ended_at IS NULL AND registered_at IS NOT NULL AND pool_id IS NOT NULL
				AND NOT EXISTS (SELECT FROM machines WHERE provider = w.provider AND instance_id = w.provider_instance_id)) paid
		GROUP BY pool_id`).Scan(ctx, &found)
	counts := make(map[models.PoolID]int, len(found))
	for _, f := range found {
		counts[f.PoolID] = f.Count
	}
	return counts, err
}

// CloseMachines ends the rows of machines of pools that were deleted so long ago. The scaler no longer
// compares such pools with their provider. It returns how many.
func CloseMachines(ctx context.Context, tx bun.Tx, age time.Duration) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		UPDATE machines m SET gone_at = clock_timestamp(), billed_until = coalesce(m.missing_at, m.deleted_at, p.deleted_at)
		FROM pools p
		WHERE m.pool_id = p.id AND m.gone_at IS NULL AND p.deleted_at < clock_timestamp() - make_interval(secs => ?)`,
		age.Seconds()).Exec(ctx))
}

// DeleteOldMachines removes up to limit machines that were gone so long ago, and returns how many.
func DeleteOldMachines(ctx context.Context, tx bun.Tx, age time.Duration, limit int) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		DELETE FROM machines WHERE id IN (
			SELECT id FROM machines
			WHERE gone_at IS NOT NULL AND billed_until < (SELECT clock_timestamp()) - make_interval(secs => ?0)
			ORDER BY billed_until LIMIT ?1 FOR UPDATE SKIP LOCKED)`, age.Seconds(), limit).Exec(ctx))
}
