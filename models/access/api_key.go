// Package access holds the rows of who may do what, and of who did what: API keys, members,
// sessions and the audit log.
package access

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Role is the set of permissions of a key. ADMIN includes OPERATOR, which includes CLIENT and
// VIEWER; WORKER stands alone. VIEWER reads what OPERATOR reads, and changes nothing.
type Role string

const (
	RoleClient   Role = "CLIENT"
	RoleWorker   Role = "WORKER"
	RoleViewer   Role = "VIEWER"
	RoleOperator Role = "OPERATOR"
	RoleAdmin    Role = "ADMIN"
)

// APIKey is one key of an account. Only the SHA-256 of the secret is stored.
type APIKey struct {
	bun.BaseModel `bun:"table:api_keys,alias:k"`

	ID         models.KeyID     `bun:"id,pk"`
	AccountID  models.AccountID `bun:"account_id"`
	Name       string           `bun:"name"`
	Role       Role             `bun:"role"`
	Prefix     string           `bun:"prefix"`
	Hash       []byte           `bun:"hash"`
	CreatedAt  time.Time        `bun:"created_at,nullzero,default:now()"`
	LastUsedAt time.Time        `bun:"last_used_at,nullzero"`
	ExpiresAt  time.Time        `bun:"expires_at,nullzero"`
	RevokedAt  time.Time        `bun:"revoked_at,nullzero"`
	// MemberID is the member who acts under this key, which nobody holds; empty for other keys.
	MemberID models.MemberID `bun:"member_id"`
}

// InsertAPIKey writes a new key. It returns false if the id is taken.
func InsertAPIKey(ctx context.Context, db bun.IDB, k *APIKey) (bool, error) {
	done, err := db.NewInsert().Model(k).On("CONFLICT (id) DO NOTHING").Exec(ctx)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n == 1, err
}

// validKey is the condition for a key that is neither revoked nor expired.
const validKey = "k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())"

// FindAPIKey returns the valid key with the hash, or sql.ErrNoRows. It records the use of the
// key, at most once an hour.
func FindAPIKey(ctx context.Context, db bun.IDB, hash []byte) (*APIKey, error) {
	k := new(APIKey)
	if err := db.NewSelect().Model(k).Where("k.hash = ? AND k.member_id IS NULL", hash).Where(validKey).Scan(ctx); err != nil {
		return nil, err
	}
	if time.Since(k.LastUsedAt) < time.Hour {
		return k, nil
	}
	_, err := db.NewRaw("UPDATE api_keys SET last_used_at = clock_timestamp() WHERE id = ?", k.ID).Exec(ctx)
	return k, err
}

// GetAPIKey returns the valid key with the id, or sql.ErrNoRows.
func GetAPIKey(ctx context.Context, db bun.IDB, id models.KeyID) (*APIKey, error) {
	k := new(APIKey)
	err := db.NewSelect().Model(k).Where("k.id = ?", id).Where(validKey).Scan(ctx)
	return k, err
}

// ShareLockAPIKey reports whether a key is valid, and keeps it from being revoked until the
// transaction ends.
func ShareLockAPIKey(ctx context.Context, db bun.IDB, id models.KeyID) (bool, error) {
	var ids []models.KeyID
	err := db.NewSelect().Model((*APIKey)(nil)).Column("id").Where("k.id = ?", id).Where(validKey).For("SHARE").Scan(ctx, &ids)
	return len(ids) == 1, err
}

// ListAPIKeys returns the keys of an account, or of all accounts if account is empty, newest
// first. Revoked and expired keys are included, those of members are not.
func ListAPIKeys(ctx context.Context, db bun.IDB, account models.AccountID, limit int) ([]*APIKey, error) {
	keys := []*APIKey{}
	q := db.NewSelect().Model(&keys).Where("k.member_id IS NULL").Order("k.id DESC").Limit(int64(limit))
	if account != "" {
		q = q.Where("k.account_id = ?", account)
	}
	err := q.Scan(ctx)
	return keys, err
}

// GetAPIKeys returns the keys with these ids, revoked and expired ones included, in no
// particular order. Callers may pass what columns say of who acted: that which is no id of a key,
// such as the name of Reelay itself, names no key and is not sent.
func GetAPIKeys(ctx context.Context, db bun.IDB, ids []models.KeyID) ([]*APIKey, error) {
	ids = lo.Filter(ids, func(id models.KeyID, _ int) bool { return id.Valid() })
	if len(ids) == 0 {
		return nil, nil
	}
	var keys []*APIKey
	err := db.NewSelect().Model(&keys).Where("k.id IN (?)", bun.List(ids)).Scan(ctx)
	return keys, err
}

// LockAdmins returns the valid ADMIN keys and locks them until the transaction ends, so that
// no other transaction can revoke the last one meanwhile.
func LockAdmins(ctx context.Context, tx bun.Tx) ([]models.KeyID, error) {
	var ids []models.KeyID
	err := tx.NewSelect().Model((*APIKey)(nil)).Column("id").Where("k.role = ? AND k.member_id IS NULL", RoleAdmin).Where(validKey).
		Order("k.id").For("NO KEY UPDATE").Scan(ctx, &ids)
	return ids, err
}

// RevokeAPIKey revokes a key and returns it. It returns sql.ErrNoRows if the key is unknown or
// already revoked.
func RevokeAPIKey(ctx context.Context, tx bun.Tx, id models.KeyID) (*APIKey, error) {
	k := new(APIKey)
	err := tx.NewRaw("UPDATE api_keys SET revoked_at = clock_timestamp() WHERE id = ? AND revoked_at IS NULL AND member_id IS NULL RETURNING *", id).Scan(ctx, k)
	return k, err
}
