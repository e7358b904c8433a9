package erasure

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// LockAccount returns an account and locks it until the transaction ends, also against rows that name it: see
// refuse_closed in the migrations. It returns sql.ErrNoRows for an unknown id.
func LockAccount(ctx context.Context, tx bun.Tx, id models.AccountID) (*models.Account, error) {
	a := new(models.Account)
	err := tx.NewSelect().Model(a).Where("ac.id = ?", id).For("UPDATE").Scan(ctx)
	return a, err
}

// AdminsElsewhere reports whether the account has none of the valid ADMIN keys, or others have some, too.
func AdminsElsewhere(ctx context.Context, tx bun.Tx, id models.AccountID, admins []models.KeyID) (bool, error) {
	if len(admins) == 0 {
		return true, nil
	}
	var own, others int
	err := tx.NewRaw(`
		SELECT count(*) FILTER (WHERE account_id = ?0), count(*) FILTER (WHERE account_id <> ?0) FROM api_keys WHERE id IN (?1)`,
		id, bun.List(admins)).Scan(ctx, &own, &others)
	return own == 0 || others > 0, err
}

// Close closes a locked account whose limits are 0. Its keys and members are no longer valid, its schedules fire no
// more, and its endpoints are told nothing.
func Close(ctx context.Context, tx bun.Tx, id models.AccountID) error {
	for _, statement := range []string{
		`UPDATE accounts SET closed_at = clock_timestamp(), budgeted = false WHERE id = ?`,
		`UPDATE api_keys SET revoked_at = clock_timestamp() WHERE account_id = ? AND revoked_at IS NULL`,
		`UPDATE members SET disabled_at = clock_timestamp() WHERE account_id = ? AND disabled_at IS NULL`,
		`DELETE FROM sessions WHERE key_id IN (SELECT id FROM api_keys WHERE account_id = ?)`,
		`UPDATE schedules SET next_slot = NULL, next_fire_at = NULL WHERE account_id = ? AND next_fire_at IS NOT NULL`,
		`UPDATE webhook_endpoints SET deleted_at = clock_timestamp(),
			secret = NULL, secret_key = NULL, old_secret = NULL, old_secret_key = NULL, old_secret_until = NULL
			WHERE account_id = ? AND deleted_at IS NULL`,
	} {
		if _, err := tx.NewRaw(statement, id).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// IsClosed reports whether the hash is that of a key of a closed account.
func IsClosed(ctx context.Context, db bun.IDB, hash []byte) (closed bool, err error) {
	err = db.NewRaw(`
		SELECT EXISTS (SELECT FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE k.hash = ? AND a.closed_at IS NOT NULL)`,
		hash).Scan(ctx, &closed)
	return closed, err
}
