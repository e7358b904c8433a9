package capacity

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// ProviderError is an error of a provider, counted.
type ProviderError struct {
	bun.BaseModel `bun:"table:provider_errors,alias:pe"`

	PoolID models.PoolID `bun:"pool_id,pk"`
	// Status is the HTTP status, 200 for a job that failed, or 0 if there was no answer. Code is the provider's.
	Status int    `bun:"status,pk"`
	Code   string `bun:"code,pk"`
	// Means is a provider.Meaning. Known is false if no rule says what the error means.
	Means  string    `bun:"means,pk"`
	Known  bool      `bun:"known"`
	Count  int64     `bun:"count,default:1"`
	LastAt time.Time `bun:"last_at,nullzero,default:clock_timestamp()"`
	// Text is what the provider said the last time.
	Text string `bun:"text"`
}

// maxProviderErrors bounds the rows of one account: what comes after them counts as without a code.
const maxProviderErrors = 200

// CountProviderError counts an error.
func CountProviderError(ctx context.Context, tx bun.Tx, e *ProviderError) error {
	_, err := tx.NewRaw(`
		INSERT INTO provider_errors AS e (pool_id, status, code, means, known, text)
		SELECT ?0, ?1, CASE WHEN (SELECT count(*) FROM provider_errors WHERE pool_id = ?0) < ?6 THEN ?2 ELSE '' END, ?3, ?4, ?5
		ON CONFLICT (pool_id, status, code, means) DO UPDATE SET count = e.count + 1, last_at = clock_timestamp(),
			text = excluded.text, known = excluded.known`,
		e.PoolID, e.Status, e.Code, e.Means, e.Known, e.Text, maxProviderErrors).Exec(ctx)
	return err
}

// ListProviderErrors returns the errors of an account, the newest first.
func ListProviderErrors(ctx context.Context, db bun.IDB, pool models.PoolID) (found []*ProviderError, err error) {
	err = db.NewSelect().Model(&found).Where("pool_id = ?", pool).Order("last_at DESC").Limit(maxProviderErrors).Scan(ctx)
	return found, err
}

// ProviderUse is how much an account uses of its limits.
type ProviderUse struct {
	ProviderAccount
	Pool string      `bun:"pool"`
	Kind engine.Kind `bun:"kind"`
	// Models are those of the pool.
	Models []string `bun:"models,array"`
	Slots  int      `bun:"slots"`
	// CallsInMinute is how many calls there were in the last minute.
	CallsInMinute int `bun:"calls_in_minute"`
	// Unknown is how many jobs of its models wait for a decision about a submit that was not answered.
	Unknown int `bun:"unknown"`
	// Now is PostgreSQL's clock.
	Now time.Time `bun:"now"`
}

// ProviderState is how an account is.
type ProviderState string

const (
	ProviderReady ProviderState = "READY"
	// ProviderFull means that all slots are taken.
	ProviderFull ProviderState = "FULL"
	// ProviderPaused means that the provider asked to wait.
	ProviderPaused ProviderState = "PAUSED"
	// ProviderOpen means that nobody calls: calls failed, or the key was refused.
	ProviderOpen ProviderState = "OPEN"
	// ProviderTrying means that one call at a time tries whether the provider works again.
	ProviderTrying ProviderState = "TRYING"
)

// ProviderStates are all states.
var ProviderStates = []ProviderState{ProviderReady, ProviderFull, ProviderPaused, ProviderOpen, ProviderTrying}

// State is how the account is now.
func (u *ProviderUse) State() ProviderState {
	switch {
	case u.PausedUntil.After(u.Now):
		return ProviderPaused
	case u.OpenUntil.After(u.Now):
		return ProviderOpen
	case !u.OpenSince.IsZero():
		return ProviderTrying
	case u.Slots >= u.Concurrent:
		return ProviderFull
	}
	return ProviderReady
}

// Why says why the account is in its state, in a sentence, or "".
func (u *ProviderUse) Why() string {
	switch u.State() {
	case ProviderPaused:
		return u.Title() + " asked to wait: " + u.Reason
	case ProviderOpen:
		return "The circuit is open, since calls of " + u.Title() + " fail: " + u.Reason
	case ProviderTrying:
		return "One call at a time tries whether " + u.Title() + " works again. Before: " + u.Reason
	case ProviderFull:
		return fmt.Sprintf("All %d slots at %s are taken.", u.Concurrent, u.Title())
	}
	return ""
}

// Until is when the state can change by itself, or nil.
func (u *ProviderUse) Until() *time.Time {
	switch u.State() {
	case ProviderPaused:
		return &u.PausedUntil
	case ProviderOpen:
		return &u.OpenUntil
	}
	return nil
}

// Title is the provider's name, and APIVersion the generation of its API that Reelay speaks.
func (u *ProviderUse) Title() string      { return u.Kind.Hosted().Title }
func (u *ProviderUse) APIVersion() string { return u.Kind.Hosted().Version }

// ListProviderUse returns the accounts of these pools, or of all for nil, in the order of the pools' names.
func ListProviderUse(ctx context.Context, db bun.IDB, pools []models.PoolID) (found []*ProviderUse, err error) {
	err = db.NewRaw(`
		SELECT pa.pool_id, pa.concurrent, pa.per_minute, pa.on_unknown, extract(epoch FROM pa.unknown_wait) AS unknown_seconds, pa.paused_until,
			pa.failures, pa.open_since, pa.open_until, pa.reason, p.name AS pool, p.engine_kind AS kind, p.models, clock_timestamp() AS now,
			(SELECT count(*) FROM provider_slots s WHERE s.pool_id = pa.pool_id AND `+slotHeldSQL+`) AS slots,
			(SELECT count(*) FROM unnest(pa.calls) AS at WHERE at > clock_timestamp() - interval '1 minute') AS calls_in_minute,
			(SELECT count(*) FROM provider_slots s JOIN jobs j ON j.id = s.job_id
				WHERE s.pool_id = pa.pool_id AND j.status = 'SCHEDULED' AND j.failure_class = 'SUBMIT_UNKNOWN') AS unknown
		FROM provider_accounts pa JOIN pools p ON p.id = pa.pool_id
		WHERE p.deleted_at IS NULL AND (?0 OR pa.pool_id = ANY (?1::uuid[])) ORDER BY p.name`,
		pools == nil, postgres.UUIDArray(pools)).Scan(ctx, &found)
	for _, u := range found {
		u.UnknownWait = time.Duration(u.UnknownSeconds * float64(time.Second))
	}
	return found, err
}

// providerDownSQL is the condition for an account pa whose circuit has been open for three minutes.
const providerDownSQL = `(pa.open_since < clock_timestamp() - interval '3 minutes')`

// CountTroubledProvidersSQL counts the accounts, of pools that are not paused, whose circuit has been open for three
// minutes, and the jobs that wait for a decision about a submit.
const CountTroubledProvidersSQL = `SELECT
	(SELECT count(*) FROM provider_accounts pa JOIN pools p ON p.id = pa.pool_id
		WHERE p.deleted_at IS NULL AND p.paused_at IS NULL AND ` + providerDownSQL + `) AS providers_down,
	(SELECT count(*) FROM provider_slots s JOIN jobs j ON j.id = s.job_id
		WHERE j.status = 'SCHEDULED' AND j.failure_class = 'SUBMIT_UNKNOWN') AS submits_unknown`
