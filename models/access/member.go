package access

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Member is a person who logs in to the console.
type Member struct {
	bun.BaseModel `bun:"table:members,alias:m"`

	ID models.MemberID `bun:"id,pk"`
	// AccountID owns the jobs that the member submits.
	AccountID models.AccountID `bun:"account_id"`
	Email     string           `bun:"email"`
	Name      string           `bun:"name"`
	// Role is VIEWER, OPERATOR or ADMIN.
	Role Role `bun:"role"`
	// PasswordHash is empty until the member chose a password, and for members of single
	// sign-on.
	PasswordHash string `bun:"password_hash,nullzero"`
	// Subject is the issuer and the subject at the OpenID provider, or "".
	Subject     string    `bun:"subject,nullzero"`
	CreatedAt   time.Time `bun:"created_at,nullzero,default:now()"`
	LastLoginAt time.Time `bun:"last_login_at,nullzero"`
	DisabledAt  time.Time `bun:"disabled_at,nullzero"`
}

// HasPassword reports whether the member can log in with a password.
func (m *Member) HasPassword() bool { return m.PasswordHash != "" }

// SingleSignOn reports whether the member logs in at the OpenID provider.
func (m *Member) SingleSignOn() bool { return m.Subject != "" }

// InsertMember writes a new member and the key under which it acts, which nobody holds: hash is
// of a secret that was not kept. It returns false if the e-mail address or the subject is taken.
func InsertMember(ctx context.Context, tx bun.Tx, m *Member, key models.KeyID, hash []byte) (bool, error) {
	done, err := tx.NewInsert().Model(m).On("CONFLICT DO NOTHING").Exec(ctx)
	if err != nil {
		return false, err
	}
	if n, err := done.RowsAffected(); n == 0 {
		return false, err
	}
	_, err = tx.NewRaw(`
		INSERT INTO api_keys (id, account_id, name, role, prefix, hash, member_id)
		VALUES (?, ?, ?, ?, '', ?, ?)`, key, m.AccountID, m.Email, m.Role, hash, m.ID).Exec(ctx)
	return err == nil, err
}

// GetMember returns a member, or sql.ErrNoRows.
func GetMember(ctx context.Context, db bun.IDB, id models.MemberID) (*Member, error) {
	m := new(Member)
	err := db.NewSelect().Model(m).Where("m.id = ?", id).Scan(ctx)
	return m, err
}

// LockMember returns a member and locks its row until the transaction ends, or returns
// sql.ErrNoRows.
func LockMember(ctx context.Context, tx bun.Tx, id models.MemberID) (*Member, error) {
	m := new(Member)
	err := tx.NewSelect().Model(m).Where("m.id = ?", id).For("UPDATE").Scan(ctx)
	return m, err
}

// LockMembers locks the rows of members in the order of their ids until the transaction ends.
func LockMembers(ctx context.Context, tx bun.Tx, ids []models.MemberID) error {
	var locked []models.MemberID
	return tx.NewSelect().Model((*Member)(nil)).Column("id").Where("m.id IN (?)", bun.List(ids)).Order("m.id").For("UPDATE").Scan(ctx, &locked)
}

// ShareLockMember reports whether a member has a role and is not disabled, and keeps both so until
// the transaction ends.
func ShareLockMember(ctx context.Context, db bun.IDB, id models.MemberID, role Role) (bool, error) {
	var ids []models.MemberID
	err := db.NewSelect().Model((*Member)(nil)).Column("id").
		Where("m.id = ? AND m.role = ? AND m.disabled_at IS NULL", id, role).For("SHARE").Scan(ctx, &ids)
	return len(ids) == 1, err
}

// FindMemberByEmail returns the member with a normal e-mail address, or sql.ErrNoRows.
func FindMemberByEmail(ctx context.Context, db bun.IDB, email string) (*Member, error) {
	m := new(Member)
	err := db.NewSelect().Model(m).Where("m.email = ?", email).Scan(ctx)
	return m, err
}

// FindMemberBySubject returns the member with a subject of the OpenID provider, or
// sql.ErrNoRows.
func FindMemberBySubject(ctx context.Context, db bun.IDB, subject string) (*Member, error) {
	m := new(Member)
	err := db.NewSelect().Model(m).Where("m.subject = ?", subject).Scan(ctx)
	return m, err
}

// ListMembers returns members by e-mail, disabled ones included.
func ListMembers(ctx context.Context, db bun.IDB, limit int) ([]*Member, error) {
	members := []*Member{}
	err := db.NewSelect().Model(&members).Order("m.email").Limit(int64(limit)).Scan(ctx)
	return members, err
}

// CountMembers returns how many members there are.
func CountMembers(ctx context.Context, db bun.IDB) (int, error) {
	n, err := db.NewSelect().Model((*Member)(nil)).Count(ctx)
	return int(n), err
}

// UpdateMember writes the fields of a member that can change, and the role of its key.
func UpdateMember(ctx context.Context, tx bun.Tx, m *Member) error {
	_, err := tx.NewUpdate().Model(m).Column("name", "role", "password_hash", "subject", "disabled_at").WherePK().Exec(ctx)
	if err != nil {
		return err
	}
	_, err = tx.NewRaw("UPDATE api_keys SET role = ? WHERE member_id = ?", m.Role, m.ID).Exec(ctx)
	return err
}

// MemberKey returns the key under which a member acts.
func MemberKey(ctx context.Context, db bun.IDB, id models.MemberID) (models.KeyID, error) {
	var key models.KeyID
	err := db.NewRaw("SELECT id FROM api_keys WHERE member_id = ?", id).Scan(ctx, &key)
	return key, err
}

// InsertInvitation writes a one-time link that is valid for ttl, and deletes the member's older
// ones.
func InsertInvitation(ctx context.Context, tx bun.Tx, hash []byte, id models.MemberID, ttl time.Duration) (expires time.Time, err error) {
	if err := DeleteInvitations(ctx, tx, id); err != nil {
		return time.Time{}, err
	}
	err = tx.NewRaw(`
		INSERT INTO invitations (hash, member_id, expires_at)
		VALUES (?, ?, clock_timestamp() + make_interval(secs => ?)) RETURNING expires_at`, hash, id, ttl.Seconds()).Scan(ctx, &expires)
	return expires, err
}

// FindInvitation returns the member whom a valid one-time link invites, or sql.ErrNoRows.
func FindInvitation(ctx context.Context, db bun.IDB, hash []byte) (models.MemberID, error) {
	var id models.MemberID
	err := db.NewRaw("SELECT member_id FROM invitations WHERE hash = ? AND expires_at > clock_timestamp()", hash).Scan(ctx, &id)
	return id, err
}

// TakeInvitation uses up a one-time link and returns its member, or sql.ErrNoRows if it is
// unknown, used or over.
func TakeInvitation(ctx context.Context, tx bun.Tx, hash []byte) (models.MemberID, error) {
	var id models.MemberID
	err := tx.NewRaw("DELETE FROM invitations WHERE hash = ? AND expires_at > clock_timestamp() RETURNING member_id", hash).Scan(ctx, &id)
	return id, err
}

// DeleteInvitations deletes a member's one-time links.
func DeleteInvitations(ctx context.Context, tx bun.Tx, id models.MemberID) error {
	_, err := tx.NewRaw("DELETE FROM invitations WHERE member_id = ?", id).Exec(ctx)
	return err
}
