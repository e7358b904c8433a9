package capacity

import (
	"context"
	"time"

	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// UnknownSubmit is what becomes of a job whose submit a hosted provider did not answer.
type UnknownSubmit string

const (
	// UnknownWait means that the job waits for an operator's decision, and is given up after a time.
	UnknownWait UnknownSubmit = "WAIT"
	// UnknownGiveUp means that the job fails.
	UnknownGiveUp UnknownSubmit = "GIVE_UP"
	// UnknownPayAgain means that the job is submitted again, which may be paid twice.
	UnknownPayAgain UnknownSubmit = "PAY_AGAIN"
)

// ProviderLimits are the limits of an account at a hosted provider, and what becomes of unanswered submits.
type ProviderLimits struct {
	// Concurrent is how many jobs the provider may have at a time; 0 means none.
	Concurrent int `bun:"concurrent"`
	// PerMinute is how many calls may be made in any minute.
	PerMinute int           `bun:"per_minute"`
	OnUnknown UnknownSubmit `bun:"on_unknown"`
	// UnknownWait is how long a job waits for a decision.
	UnknownWait time.Duration `bun:"-"`
}

// ProviderAccount is what a pool of a hosted provider uses there.
type ProviderAccount struct {
	bun.BaseModel `bun:"table:provider_accounts,alias:pa"`

	PoolID models.PoolID `bun:"pool_id,pk"`
	ProviderLimits
	// Calls are the times of the calls of the last minute.
	Calls []time.Time `bun:"calls,array"`
	// PausedUntil is when calls may be made again, as the provider asked; zero if it did not.
	PausedUntil time.Time `bun:"paused_until,nullzero"`
	// Failures is how many calls failed in a row. OpenSince and OpenUntil are zero while the circuit is
	// closed: from the one to the other nobody calls, and after that one call at a time tries.
	Failures  int       `bun:"failures"`
	OpenSince time.Time `bun:"open_since,nullzero"`
	OpenUntil time.Time `bun:"open_until,nullzero"`
	// Reason is why the circuit is open, or why the provider asked to wait.
	Reason string `bun:"reason"`

	UnknownSeconds float64 `bun:"unknown_seconds,scanonly"`
}

// GetProviderAccount returns the account of a pool, or sql.ErrNoRows if the pool has none.
func GetProviderAccount(ctx context.Context, db bun.IDB, pool models.PoolID) (*ProviderAccount, error) {
	a := new(ProviderAccount)
	err := db.NewSelect().Model(a).ColumnExpr("pa.*, extract(epoch FROM unknown_wait) AS unknown_seconds").
		Where("pa.pool_id = ?", pool).Scan(ctx)
	a.UnknownWait = time.Duration(a.UnknownSeconds * float64(time.Second))
	return a, err
}

// LockProviderAccount locks the account of a pool. It returns sql.ErrNoRows if the pool has none.
func LockProviderAccount(ctx context.Context, tx bun.Tx, pool models.PoolID) (*ProviderAccount, error) {
	a := new(ProviderAccount)
	err := tx.NewSelect().Model(a).Where("pa.pool_id = ?", pool).For("NO KEY UPDATE").Scan(ctx)
	return a, err
}

// UpdateProviderAccount writes what changed with a call.
func UpdateProviderAccount(ctx context.Context, tx bun.Tx, a *ProviderAccount) error {
	return postgres.MustChange(tx.NewUpdate().Model(a).
		Column("calls", "paused_until", "failures", "open_since", "open_until", "reason").WherePK().Exec(ctx))
}

// SetProviderLimits makes the accounts of these pools have these limits, and makes those that are missing.
func SetProviderLimits(ctx context.Context, db bun.IDB, all map[models.PoolID]ProviderLimits) error {
	type row struct {
		PoolID  models.PoolID `json:"pool_id"`
		Jobs    int           `json:"concurrent"`
		Calls   int           `json:"per_minute"`
		Unknown UnknownSubmit `json:"on_unknown"`
		Seconds float64       `json:"wait"`
	}
	var rows []row
	for pool, l := range all {
		rows = append(rows, row{pool, l.Concurrent, l.PerMinute, l.OnUnknown, l.UnknownWait.Seconds()})
	}
	if len(rows) == 0 {
		return nil
	}
	arg, err := postgres.RowsArg(rows)
	if err != nil {
		return err
	}
	_, err = db.NewRaw(`
		INSERT INTO provider_accounts AS a (pool_id, concurrent, per_minute, on_unknown, unknown_wait)
		SELECT pool_id, concurrent, per_minute, on_unknown, make_interval(secs => wait)
		FROM jsonb_to_recordset(?::jsonb) AS r (pool_id uuid, concurrent integer, per_minute integer, on_unknown text, wait double precision)
		ORDER BY pool_id
		ON CONFLICT (pool_id) DO UPDATE SET concurrent = excluded.concurrent, per_minute = excluded.per_minute,
			on_unknown = excluded.on_unknown, unknown_wait = excluded.unknown_wait
		WHERE (a.concurrent, a.per_minute, a.on_unknown, a.unknown_wait) IS DISTINCT FROM
			(excluded.concurrent, excluded.per_minute, excluded.on_unknown, excluded.unknown_wait)`, arg).Exec(ctx)
	return err
}

// UsualLimits are the limits of an account at a hosted provider of which the operator says nothing.
func UsualLimits(kind engine.Kind) ProviderLimits {
	hosted := kind.Hosted()
	return ProviderLimits{
		Concurrent: hosted.Concurrent, PerMinute: hosted.PerMinute, OnUnknown: UnknownWait, UnknownWait: 24 * time.Hour,
	}
}

// writeProviderAccounts makes the accounts of these pools that are missing, and removes those of pools that are of
// no hosted provider now.
func writeProviderAccounts(ctx context.Context, tx bun.Tx, pools []*Pool) error {
	var over []models.PoolID
	for _, p := range pools {
		if !p.HasEngines() || p.EngineKind.Hosted() == nil || !p.DeletedAt.IsZero() {
			over = append(over, p.ID)
			continue
		}
		l := UsualLimits(p.EngineKind)
		_, err := tx.NewRaw(`INSERT INTO provider_accounts (pool_id, concurrent, per_minute) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			p.ID, l.Concurrent, l.PerMinute).Exec(ctx)
		if err != nil {
			return err
		}
	}
	if len(over) == 0 {
		return nil
	}
	_, err := tx.NewRaw("DELETE FROM provider_accounts WHERE pool_id = ANY (?::uuid[])", postgres.UUIDArray(over)).Exec(ctx)
	return err
}

// HostedPool is a pool of a hosted provider.
type HostedPool struct {
	ID   models.PoolID `bun:"id"`
	Name string        `bun:"name"`
	Kind engine.Kind   `bun:"engine_kind"`
}

// ListHostedPools returns the pools of hosted providers.
func ListHostedPools(ctx context.Context, db bun.IDB) ([]HostedPool, error) {
	var kinds []engine.Kind
	for _, kind := range engine.Kinds {
		if kind.Hosted() != nil {
			kinds = append(kinds, kind)
		}
	}
	var found []HostedPool
	err := db.NewRaw(`SELECT id, name, engine_kind FROM pools WHERE provider = ? AND engine_kind IN (?) AND deleted_at IS NULL ORDER BY name`,
		engine.Provider, bun.List(kinds)).Scan(ctx, &found)
	return found, err
}
