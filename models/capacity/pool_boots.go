package capacity

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// NotBootingAfter is how many machines in a row do not start before their pool counts as not booting.
const NotBootingAfter = 3

// PoolBoots is what became of the machines of a pool that did not start: they ended before their
// agent registered, or soon after. A machine that starts clears it, and so does a change of the pool.
type PoolBoots struct {
	// BootFailures is how many did not start, in a row.
	BootFailures int `bun:"boot_failures"`
	// BootFailure is why the newest of them did not, and BootFailedAt when it ended.
	BootFailure  string    `bun:"boot_failure"`
	BootFailedAt time.Time `bun:"boot_failed_at,nullzero"`
	// BootExits means that the newest of them had registered, and ended soon after.
	BootExits bool `bun:"boot_exits"`
	// BootPauses is how many pauses the pool made in a row. The newest began at BootPausedAt. The
	// scaler tries one machine from BootRetryAt on.
	BootPauses   int       `bun:"boot_pauses"`
	BootPausedAt time.Time `bun:"boot_paused_at,nullzero"`
	BootRetryAt  time.Time `bun:"boot_retry_at,nullzero"`
}

// NotBooting reports whether the pool's machines do not start.
func (b *PoolBoots) NotBooting() bool { return b.BootFailures >= NotBootingAfter }

// SetPoolBoots writes what became of the machines of a pool that the caller has locked.
func SetPoolBoots(ctx context.Context, tx bun.Tx, p *Pool) error {
	return postgres.MustChange(tx.NewUpdate().Model(p).WherePK().
		Column("boot_failures", "boot_failure", "boot_failed_at", "boot_exits", "boot_pauses", "boot_paused_at", "boot_retry_at").Exec(ctx))
}

// LockAnyPool is LockPool for a pool that may be deleted.
func LockAnyPool(ctx context.Context, tx bun.Tx, id models.PoolID, lock PoolLock) (*Pool, error) {
	pool := new(Pool)
	err := locked(tx.NewSelect().Model(pool), lock).Where("p.id = ?", id).Scan(ctx)
	return pool, err
}

// MachineFailed reports whether another worker of a worker's machine has ended because it did not
// start: a machine counts once.
func MachineFailed(ctx context.Context, tx bun.Tx, w *models.Worker) (bool, error) {
	return tx.NewSelect().Model((*models.Worker)(nil)).
		Where("w.pool_id = ? AND w.provider_instance_id = ? AND w.id <> ?", w.PoolID, w.ProviderInstanceID, w.ID).
		Where("w.ended_at IS NOT NULL AND w.boot_failure IS NOT NULL").Exists(ctx)
}

// RecordBootFailure records why the registration of a booting worker was refused.
func RecordBootFailure(ctx context.Context, db bun.IDB, provider, instanceID string, slot int, cause string) error {
	_, err := db.NewRaw(`
		UPDATE workers SET boot_failure = ?3
		WHERE provider = ?0 AND provider_instance_id = ?1 AND slot = ?2 AND ended_at IS NULL AND status = 'BOOTING'`,
		provider, instanceID, slot, cause).Exec(ctx)
	return err
}

// NotBootingPool is a pool whose machines do not start.
type NotBootingPool struct {
	Name        string    `bun:"name"`
	Failures    int       `bun:"boot_failures"`
	Failure     string    `bun:"boot_failure"`
	BootRetryAt time.Time `bun:"boot_retry_at"`
}

// ListNotBooting returns the pools whose machines do not start, by name. Paused ones need none.
func ListNotBooting(ctx context.Context, db bun.IDB) (found []NotBootingPool, err error) {
	err = db.NewRaw(`
		SELECT name, boot_failures, boot_failure, boot_retry_at FROM pools
		WHERE boot_failures >= ? AND deleted_at IS NULL AND paused_at IS NULL ORDER BY name`, NotBootingAfter).Scan(ctx, &found)
	return found, err
}
