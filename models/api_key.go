package models

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// Role is what a key may do. ADMIN ⊃ OPERATOR ⊃ CLIENT; WORKER stands alone.
type Role string

const (
	RoleClient   Role = "CLIENT"
	RoleWorker   Role = "WORKER"
	RoleOperator Role = "OPERATOR"
	RoleAdmin    Role = "ADMIN"
)

// APIKey is one key of an account. The secret itself is not kept, only its
// SHA-256.
type APIKey struct {
	bun.BaseModel `bun:"table:api_keys,alias:k"`

	ID         KeyID     `bun:"id,pk"`
	AccountID  AccountID `bun:"account_id"`
	Name       string    `bun:"name"`
	Role       Role      `bun:"role"`
	Prefix     string    `bun:"prefix"`
	Hash       []byte    `bun:"hash"`
	CreatedAt  time.Time `bun:"created_at,nullzero,default:now()"`
	LastUsedAt time.Time `bun:"last_used_at,nullzero"`
	ExpiresAt  time.Time `bun:"expires_at,nullzero"`
	RevokedAt  time.Time `bun:"revoked_at,nullzero"`
}

// InsertAPIKey writes a new key.
func InsertAPIKey(ctx context.Context, db bun.IDB, k *APIKey) error {
	_, err := db.NewInsert().Model(k).Exec(ctx)
	return err
}

// FindAPIKey returns the valid key of that hash, or sql.ErrNoRows. It notes that
// the key was used, to the hour.
func FindAPIKey(ctx context.Context, db bun.IDB, hash []byte) (*APIKey, error) {
	k := new(APIKey)
	err := db.NewSelect().Model(k).
		Where("k.hash = ? AND k.revoked_at IS NULL", hash).
		Where("k.expires_at IS NULL OR k.expires_at > clock_timestamp()").
		Scan(ctx)
	if err != nil {
		return nil, err
	}
	if time.Since(k.LastUsedAt) > time.Hour {
		_, err = db.NewRaw("UPDATE api_keys SET last_used_at = clock_timestamp() WHERE id = ?", k.ID).Exec(ctx)
	}
	return k, err
}

// GetAPIKey returns the valid key of that id, or sql.ErrNoRows.
func GetAPIKey(ctx context.Context, db bun.IDB, id KeyID) (*APIKey, error) {
	k := new(APIKey)
	err := db.NewSelect().Model(k).
		Where("k.id = ? AND k.revoked_at IS NULL", id).
		Where("k.expires_at IS NULL OR k.expires_at > clock_timestamp()").
		Scan(ctx)
	return k, err
}

// RevokeAPIKey ends a key, or returns sql.ErrNoRows.
func RevokeAPIKey(ctx context.Context, db bun.IDB, id KeyID) error {
	return mustChange(db.NewRaw(
		"UPDATE api_keys SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = ?", id).Exec(ctx))
}

// Session is a person's login to the console, under one key.
type Session struct {
	bun.BaseModel `bun:"table:sessions,alias:s"`

	ID         SessionID `bun:"id,pk"`
	KeyID      KeyID     `bun:"key_id"`
	Hash       []byte    `bun:"hash"`
	CreatedAt  time.Time `bun:"created_at,nullzero,default:now()"`
	LastSeenAt time.Time `bun:"last_seen_at,nullzero,default:now()"`
	ExpiresAt  time.Time `bun:"expires_at"`
}

// InsertSession writes a new login that ends after ttl, and clears away the
// oldest ones that are over.
func InsertSession(ctx context.Context, db bun.IDB, s *Session, ttl time.Duration) error {
	_, err := db.NewRaw(`
		WITH over AS (
			DELETE FROM sessions WHERE id IN (
				SELECT id FROM sessions WHERE expires_at < clock_timestamp() LIMIT 100 FOR UPDATE SKIP LOCKED))
		INSERT INTO sessions (id, key_id, hash, expires_at)
		VALUES (?, ?, ?, clock_timestamp() + make_interval(secs => ?))`, s.ID, s.KeyID, s.Hash, ttl.Seconds()).Exec(ctx)
	return err
}

// FindSession returns the login of that hash that was used within idle, or
// sql.ErrNoRows, and notes that it was used.
func FindSession(ctx context.Context, db bun.IDB, hash []byte, idle time.Duration) (*Session, error) {
	s := new(Session)
	err := db.NewRaw(`
		UPDATE sessions SET last_seen_at = clock_timestamp()
		WHERE hash = ? AND expires_at > clock_timestamp()
			AND last_seen_at > clock_timestamp() - make_interval(secs => ?)
		RETURNING *`, hash, idle.Seconds()).Scan(ctx, s)
	return s, err
}

// DeleteSession ends a login.
func DeleteSession(ctx context.Context, db bun.IDB, hash []byte) error {
	_, err := db.NewRaw("DELETE FROM sessions WHERE hash = ?", hash).Exec(ctx)
	return err
}
