package access

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Session is a person's login to the console under one key. A member logs in under a key that
// nobody holds.
type Session struct {
	bun.BaseModel `bun:"table:sessions,alias:s"`

	ID         models.SessionID `bun:"id,pk"`
	KeyID      models.KeyID     `bun:"key_id"`
	MemberID   models.MemberID  `bun:"member_id"`
	Hash       []byte           `bun:"hash"`
	CreatedAt  time.Time        `bun:"created_at,nullzero,default:now()"`
	LastSeenAt time.Time        `bun:"last_seen_at,nullzero,default:now()"`
	ExpiresAt  time.Time        `bun:"expires_at"`
	// Address is where the login came from, Browser its User-Agent; each may be empty.
	Address string `bun:"address,nullzero"`
	Browser string `bun:"browser,nullzero"`
}

// InsertSession writes a new login that ends after ttl, and deletes the oldest ones that have
// ended.
func InsertSession(ctx context.Context, db bun.IDB, s *Session, ttl time.Duration) error {
	_, err := db.NewRaw(`
		WITH over AS (
			DELETE FROM sessions WHERE id IN (
				SELECT id FROM sessions WHERE expires_at < clock_timestamp() LIMIT 100 FOR UPDATE SKIP LOCKED))
		INSERT INTO sessions (id, key_id, member_id, hash, address, browser, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, clock_timestamp() + make_interval(secs => ?))`,
		s.ID, s.KeyID, s.MemberID, s.Hash, postgres.Nullable(s.Address), postgres.Nullable(s.Browser), ttl.Seconds()).Exec(ctx)
	return err
}

// FindSession returns the login with the hash if it was used within idle, and records the use.
// Otherwise it returns sql.ErrNoRows.
func FindSession(ctx context.Context, db bun.IDB, hash []byte, idle time.Duration) (*Session, error) {
	s := new(Session)
	err := db.NewRaw(`
		UPDATE sessions SET last_seen_at = clock_timestamp()
		WHERE hash = ? AND expires_at > clock_timestamp()
			AND last_seen_at > clock_timestamp() - make_interval(secs => ?)
		RETURNING *`, hash, idle.Seconds()).Scan(ctx, s)
	return s, err
}

// SessionLives reports whether the login with the hash was used within idle, its key is still
// valid, and its member, if any, is not disabled. It does not count as a use.
func SessionLives(ctx context.Context, db bun.IDB, hash []byte, idle time.Duration) (bool, error) {
	return db.NewSelect().Model((*Session)(nil)).Join("JOIN api_keys AS k ON k.id = s.key_id").
		Join("LEFT JOIN members AS m ON m.id = s.member_id").Where("m.disabled_at IS NULL").
		Where("s.hash = ? AND s.expires_at > clock_timestamp()", hash).
		Where("s.last_seen_at > clock_timestamp() - make_interval(secs => ?)", idle.Seconds()).
		Where(validKey).Exists(ctx)
}

// DeleteSession ends a login and returns it, or returns sql.ErrNoRows.
func DeleteSession(ctx context.Context, tx bun.Tx, hash []byte) (*Session, error) {
	s := new(Session)
	err := tx.NewRaw("DELETE FROM sessions WHERE hash = ? RETURNING *", hash).Scan(ctx, s)
	return s, err
}

// ListSessions returns a member's logins that have not ended, the newest use first.
func ListSessions(ctx context.Context, db bun.IDB, id models.MemberID, idle time.Duration) ([]*Session, error) {
	sessions := []*Session{}
	err := db.NewSelect().Model(&sessions).Where("s.member_id = ? AND s.expires_at > clock_timestamp()", id).
		Where("s.last_seen_at > clock_timestamp() - make_interval(secs => ?)", idle.Seconds()).
		Order("s.last_seen_at DESC").Limit(100).Scan(ctx)
	return sessions, err
}

// DeleteSessions ends a member's logins, except the one with the hash, which may be nil.
func DeleteSessions(ctx context.Context, tx bun.Tx, id models.MemberID, except []byte) error {
	_, err := tx.NewRaw("DELETE FROM sessions WHERE member_id = ? AND hash IS DISTINCT FROM ?", id, except).Exec(ctx)
	return err
}

// RecordLogin records that a member logged in.
func RecordLogin(ctx context.Context, tx bun.Tx, id models.MemberID) error {
	_, err := tx.NewRaw("UPDATE members SET last_login_at = clock_timestamp() WHERE id = ?", id).Exec(ctx)
	return err
}
