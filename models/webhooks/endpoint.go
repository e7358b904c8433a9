// Package webhooks holds the rows of endpoints, events, and the tries to deliver them.
package webhooks

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Format is the format of the notifications to an endpoint.
type Format string

const (
	// FormatStandard is Reelay's own body.
	FormatStandard Format = "STANDARD"
	// FormatOpenAI is the body of OpenAI's webhooks, for receivers written for
	// its Videos API.
	FormatOpenAI Format = "OPENAI"
	// FormatBucket is no body, but the video itself: the endpoint is a bucket of the account.
	FormatBucket Format = "BUCKET"
)

// Endpoint is where an account is notified of the ends of its jobs. An account's
// endpoint without a URL holds the secret for the callback URLs of single jobs.
type Endpoint struct {
	bun.BaseModel `bun:"table:webhook_endpoints,alias:we"`

	ID        models.WebhookEndpointID `bun:"id,pk"`
	AccountID models.AccountID         `bun:"account_id"`
	URL       string                   `bun:"url,nullzero"`
	Format    Format                   `bun:"format"`
	Events    []string                 `bun:"events,array"`

	// The secrets are encrypted. That of a bucket is its keys. The old one, if any, also signs until OldSecretUntil.
	Secret         []byte    `bun:"secret,nullzero"`
	SecretKey      []byte    `bun:"secret_key,nullzero"`
	OldSecret      []byte    `bun:"old_secret,nullzero"`
	OldSecretKey   []byte    `bun:"old_secret_key,nullzero"`
	OldSecretUntil time.Time `bun:"old_secret_until,nullzero"`

	CreatedAt time.Time `bun:"created_at,nullzero,default:clock_timestamp()"`
	// FailingSince is the time since when every try has failed, FailedTries their number.
	FailingSince   time.Time `bun:"failing_since,nullzero"`
	FailedTries    int       `bun:"failed_tries"`
	DisabledAt     time.Time `bun:"disabled_at,nullzero"`
	DisabledReason string    `bun:"disabled_reason,nullzero"`
	DeletedAt      time.Time `bun:"deleted_at,nullzero"`
}

// Disabled reports whether deliveries to the endpoint are off.
func (e *Endpoint) Disabled() bool { return !e.DisabledAt.IsZero() }

// InsertEndpoint writes a new endpoint. If the account already has one for callbacks, a
// second is not written, without an error.
func InsertEndpoint(ctx context.Context, db bun.IDB, e *Endpoint) error {
	_, err := db.NewInsert().Model(e).On("CONFLICT (account_id) WHERE url IS NULL DO NOTHING").Returning("created_at").Exec(ctx)
	return err
}

// HasEndpoint reports whether there is, or was, an endpoint with the id.
func HasEndpoint(ctx context.Context, db bun.IDB, id models.WebhookEndpointID) (bool, error) {
	return db.NewSelect().Model((*Endpoint)(nil)).Where("we.id = ?", id).Exists(ctx)
}

// CountEndpoints counts the endpoints that an account has created.
func CountEndpoints(ctx context.Context, db bun.IDB, account models.AccountID) (int, error) {
	var n int
	err := db.NewSelect().Model((*Endpoint)(nil)).ColumnExpr("count(*)").
		Where("we.account_id = ? AND we.url IS NOT NULL AND we.deleted_at IS NULL", account).Scan(ctx, &n)
	return n, err
}

// ListEndpoints returns an account's endpoints, oldest first.
func ListEndpoints(ctx context.Context, db bun.IDB, account models.AccountID) ([]*Endpoint, error) {
	var found []*Endpoint
	err := db.NewSelect().Model(&found).
		Where("we.account_id = ? AND we.url IS NOT NULL AND we.deleted_at IS NULL", account).Order("we.id").Scan(ctx)
	return found, err
}

// ListAllEndpoints returns the endpoints of an account, or of all accounts if it is empty,
// that are older than after, newest first.
func ListAllEndpoints(ctx context.Context, db bun.IDB, account models.AccountID, after models.WebhookEndpointID, limit int) ([]*Endpoint,
	error) {
	var found []*Endpoint
	q := db.NewSelect().Model(&found).Where("we.url IS NOT NULL AND we.deleted_at IS NULL").Order("we.id DESC").Limit(int64(limit))
	if account != "" {
		q = q.Where("we.account_id = ?", account)
	}
	if after != "" {
		q = q.Where("we.id < ?", after)
	}
	err := q.Scan(ctx)
	return found, err
}

// GetEndpoint returns an endpoint, even a deleted one, or sql.ErrNoRows.
func GetEndpoint(ctx context.Context, db bun.IDB, id models.WebhookEndpointID) (*Endpoint, error) {
	e := new(Endpoint)
	err := db.NewSelect().Model(e).Where("we.id = ?", id).Scan(ctx)
	return e, err
}

// LockEndpoint is GetEndpoint, and locks the row until the transaction ends.
func LockEndpoint(ctx context.Context, tx bun.Tx, id models.WebhookEndpointID) (*Endpoint, error) {
	e := new(Endpoint)
	err := tx.NewSelect().Model(e).Where("we.id = ?", id).For("NO KEY UPDATE").Scan(ctx)
	return e, err
}

// LockCallbackEndpoint is LockEndpoint for the endpoint with an account's callback
// secret.
func LockCallbackEndpoint(ctx context.Context, tx bun.Tx, account models.AccountID) (*Endpoint, error) {
	e := new(Endpoint)
	err := tx.NewSelect().Model(e).Where("we.account_id = ? AND we.url IS NULL", account).For("NO KEY UPDATE").Scan(ctx)
	return e, err
}

// ListCallbackAccounts returns the accounts among these that have a callback secret.
func ListCallbackAccounts(ctx context.Context, db bun.IDB, accounts []models.AccountID) (have []models.AccountID, err error) {
	err = db.NewSelect().Model((*Endpoint)(nil)).Column("account_id").
		Where("we.account_id IN (?) AND we.url IS NULL", bun.List(accounts)).Scan(ctx, &have)
	return have, err
}

// RotateSecret gives a locked endpoint a new secret. The old one also signs for the
// time of overlap.
func RotateSecret(ctx context.Context, tx bun.Tx, id models.WebhookEndpointID, secret, key []byte, overlap time.Duration) error {
	return postgres.MustChange(tx.NewRaw(`
		UPDATE webhook_endpoints SET old_secret = secret, old_secret_key = secret_key,
			old_secret_until = clock_timestamp() + make_interval(secs => ?3), secret = ?1, secret_key = ?2
		WHERE id = ?0 AND deleted_at IS NULL`, id, secret, key, overlap.Seconds()).Exec(ctx))
}

// SetBucketKeys replaces the keys of a bucket.
func SetBucketKeys(ctx context.Context, tx bun.Tx, id models.WebhookEndpointID, keys, key []byte) error {
	return postgres.MustChange(tx.NewRaw(`
		UPDATE webhook_endpoints SET secret = ?1, secret_key = ?2 WHERE id = ?0 AND deleted_at IS NULL AND format = 'BUCKET'`,
		id, keys, key).Exec(ctx))
}

// DeleteEndpoint marks an endpoint as deleted and clears its secrets. The row stays,
// since deliveries refer to it. It returns sql.ErrNoRows if the endpoint is deleted already.
func DeleteEndpoint(ctx context.Context, tx bun.Tx, id models.WebhookEndpointID) error {
	return postgres.MustChange(tx.NewRaw(`
		UPDATE webhook_endpoints SET deleted_at = clock_timestamp(),
			secret = NULL, secret_key = NULL, old_secret = NULL, old_secret_key = NULL, old_secret_until = NULL
		WHERE id = ? AND deleted_at IS NULL`, id).Exec(ctx))
}

// EnableEndpoint turns the deliveries to an endpoint on again.
func EnableEndpoint(ctx context.Context, tx bun.Tx, id models.WebhookEndpointID) error {
	return postgres.MustChange(tx.NewRaw(`
		UPDATE webhook_endpoints SET
			told_since = CASE WHEN disabled_at IS NULL THEN told_since ELSE clock_timestamp() END,
			disabled_at = NULL, disabled_reason = NULL, failing_since = NULL, failed_tries = 0
		WHERE id = ? AND deleted_at IS NULL`, id).Exec(ctx))
}

// PraiseEndpoint records that a failing endpoint works again.
func PraiseEndpoint(ctx context.Context, tx bun.Tx, id models.WebhookEndpointID) error {
	_, err := tx.NewRaw("UPDATE webhook_endpoints SET failing_since = NULL, failed_tries = 0 WHERE id = ? AND failing_since IS NOT NULL",
		id).Exec(ctx)
	return err
}

// BlameEndpoint counts a failed try of an endpoint. It returns the row and for how long
// every try has failed. It returns sql.ErrNoRows for a callback endpoint, which stands for
// many receivers.
func BlameEndpoint(ctx context.Context, tx bun.Tx, id models.WebhookEndpointID) (*Endpoint, time.Duration, error) {
	var row struct {
		Endpoint `bun:",extend"`
		Seconds  float64 `bun:"failing_seconds"`
	}
	err := tx.NewRaw(`
		UPDATE webhook_endpoints SET failing_since = coalesce(failing_since, clock_timestamp()), failed_tries = failed_tries + 1
		WHERE id = ? AND url IS NOT NULL RETURNING *, extract(epoch FROM clock_timestamp() - failing_since) AS failing_seconds`, id).Scan(ctx,
		&row)
	return &row.Endpoint, time.Duration(row.Seconds * float64(time.Second)), err
}

// DisableEndpoint turns off the deliveries to an endpoint and records why. It returns
// sql.ErrNoRows if they are already off.
func DisableEndpoint(ctx context.Context, tx bun.Tx, id models.WebhookEndpointID, why string) error {
	return postgres.MustChange(tx.NewRaw(`
		UPDATE webhook_endpoints SET disabled_at = clock_timestamp(), disabled_reason = ?
		WHERE id = ? AND disabled_at IS NULL AND url IS NOT NULL`, why, id).Exec(ctx))
}

var wantingSQL = postgres.SelectOf[Endpoint](`
	WHERE we.account_id = ANY ((SELECT @accounts::uuid[])::uuid[]) AND we.deleted_at IS NULL AND we.disabled_at IS NULL
		AND (we.url IS NULL OR we.events && (SELECT @events::text[]))
	ORDER BY we.id`)

// ListWantingEndpoints returns the enabled endpoints of these accounts that subscribe to any
// of these events, and those for callbacks.
func ListWantingEndpoints(ctx context.Context, tx bun.Tx, accounts []models.AccountID, events []string) (found []*Endpoint, err error) {
	err = postgres.Read(ctx, tx, wantingSQL, pgx.NamedArgs{"accounts": postgres.Column(accounts, postgres.UUID), "events": events}, &found)
	return found, err
}
