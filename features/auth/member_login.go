package auth

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/secrets"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/uptrace/bun"
)

// Visitor is where a login comes from.
type Visitor struct {
	// Remote is the address (host:port) of the connection: see jobs.Principal.From.
	Remote string
	// Browser is the User-Agent header.
	Browser string
}

// principalOf returns a member as a caller.
func principalOf(member *access.Member, key models.KeyID) jobs.Principal {
	return jobs.Principal{
		Role: member.Role, AccountID: member.AccountID, KeyID: key,
		Member: &jobs.Member{ID: member.ID, Name: member.Name, Email: member.Email},
	}
}

// LogIn opens a session for a member with a password and returns the session's secret. It
// returns UNAUTHENTICATED for a wrong password and an unknown, disabled or invited member, all
// with the same words and after the same time, and RATE_LIMITED after too many wrong passwords
// from one address or for one member.
func (m *Members) LogIn(ctx context.Context, email, password string, from Visitor) (string, error) {
	email = normalEmail(email)
	if validEmail(email) != nil {
		email = "" // it is no member's; the rest takes as long
	}
	succeed, audited, err := m.tries.begin(from.Remote, email, time.Now())
	if err != nil {
		return "", err
	}
	member, err := access.FindMemberByEmail(ctx, m.DB, email)
	if errors.Is(err, sql.ErrNoRows) {
		member, err = &access.Member{}, nil
	}
	if err != nil {
		return "", apierror.Wrap(err, "find the member")
	}
	right, err := isPassword(ctx, password, member.PasswordHash)
	if err != nil {
		return "", err
	}
	if !right || !member.DisabledAt.IsZero() {
		if !audited {
			return "", errWrongLogin
		}
		if err := jobs.Host.From(from.Remote).Audit(ctx, m.DB, "logInFailed", string(member.ID), jobs.Payload{"email": email}); err != nil {
			return "", err
		}
		return "", errWrongLogin
	}
	token, err := m.open(ctx, member.ID, from, jobs.Payload{"by": "password"})
	if err == nil {
		succeed()
	}
	return token, err
}

// open opens a session of a member.
func (m *Members) open(ctx context.Context, id models.MemberID, from Visitor, note jobs.Payload) (token string, err error) {
	err = jobs.InTx(ctx, m.DB, func(ctx context.Context, tx bun.Tx) error {
		member, err := access.LockMember(ctx, tx, id)
		if err != nil {
			return err
		}
		if !member.DisabledAt.IsZero() {
			return errWrongLogin
		}
		token, err = openSession(ctx, tx, member, from, "logIn", note)
		return err
	})
	return token, apierror.Wrap(err, "open a session")
}

func openSession(ctx context.Context, tx bun.Tx, member *access.Member, from Visitor, action string, note jobs.Payload) (string, error) {
	key, err := access.MemberKey(ctx, tx, member.ID)
	if err != nil {
		return "", err
	}
	token, hash := secrets.NewToken()
	session := &access.Session{
		ID: models.NewSessionID(), KeyID: key, MemberID: member.ID, Hash: hash,
		Address: jobs.Host.From(from.Remote).Address(), Browser: text.Clip(strings.Join(strings.Fields(text.Printable(from.Browser)), " "), 200),
	}
	if err := access.InsertSession(ctx, tx, session, sessionTTL); err != nil {
		return "", err
	}
	if err := access.RecordLogin(ctx, tx, member.ID); err != nil {
		return "", err
	}
	return token, principalOf(member, key).From(from.Remote).Audit(ctx, tx, action, string(session.ID), note)
}

var errNoInvitation = apierror.New(apierror.CodeNotFound,
	"This link is unknown, used, replaced, or older than 3 days. Ask an admin for another one.")

// Invited returns the member whom a link invites. It does not use up the link.
func (m *Members) Invited(ctx context.Context, token string) (*access.Member, error) {
	id, err := access.FindInvitation(ctx, m.DB, secrets.Hash(token))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoInvitation
	}
	if err != nil {
		return nil, apierror.Wrap(err, "find the invitation")
	}
	member, err := access.GetMember(ctx, m.DB, id)
	return member, apierror.Wrap(err, "read member %s", id)
}

// Accept sets the password of an invited member, uses up the link, and returns the secret of a
// new session. All other logins of the member end.
func (m *Members) Accept(ctx context.Context, invitation, password string, from Visitor) (token string, err error) {
	seen, err := m.Invited(ctx, invitation)
	if err != nil {
		return "", err
	}
	hash, err := hashPassword(ctx, password, seen.Email, seen.Name)
	if err != nil {
		return "", err
	}
	err = jobs.InTx(ctx, m.DB, func(ctx context.Context, tx bun.Tx) error {
		id, err := access.TakeInvitation(ctx, tx, secrets.Hash(invitation))
		if errors.Is(err, sql.ErrNoRows) {
			return errNoInvitation
		}
		if err != nil {
			return err
		}
		token, err = setPassword(ctx, tx, id, hash, from, "acceptInvitation")
		return err
	})
	return token, apierror.Wrap(err, "accept an invitation")
}

// setPassword sets a member's password and replaces all logins of the member by a new one.
func setPassword(ctx context.Context, tx bun.Tx, id models.MemberID, hash string, from Visitor, action string) (string, error) {
	member, err := access.LockMember(ctx, tx, id)
	if err != nil {
		return "", err
	}
	if !member.DisabledAt.IsZero() || member.SingleSignOn() {
		return "", errWrongLogin
	}
	member.PasswordHash = hash
	if err := access.UpdateMember(ctx, tx, member); err != nil {
		return "", err
	}
	if err := access.DeleteSessions(ctx, tx, id, nil); err != nil {
		return "", err
	}
	return openSession(ctx, tx, member, from, action, jobs.Payload{})
}

var errNoMember = apierror.Forbidden("This login belongs to a key, not to a member.")

// ChangePassword replaces the caller's own password. All logins of the member end; it returns
// the secret of a new one. It returns FORBIDDEN for a key or a wrong old password, and
// RATE_LIMITED after too many.
func (m *Members) ChangePassword(ctx context.Context, p jobs.Principal, old, password string, from Visitor) (token string, err error) {
	if p.Member == nil {
		return "", errNoMember
	}
	succeed, _, err := m.tries.begin(from.Remote, p.Member.Email, time.Now())
	if err != nil {
		return "", err
	}
	member, err := access.GetMember(ctx, m.DB, p.Member.ID)
	if err != nil {
		return "", apierror.Wrap(err, "read the member")
	}
	if member.SingleSignOn() {
		return "", apierror.Conflict("You log in with single sign-on and have no password here.")
	}
	right, err := isPassword(ctx, old, member.PasswordHash)
	if err != nil {
		return "", err
	}
	if !right {
		return "", apierror.New(apierror.CodeForbidden, "The old password is wrong.").In("old")
	}
	succeed()
	hash, err := hashPassword(ctx, password, member.Email, member.Name)
	if err != nil {
		return "", err
	}
	err = jobs.InTx(ctx, m.DB, func(ctx context.Context, tx bun.Tx) error {
		token, err = setPassword(ctx, tx, member.ID, hash, from, "changePassword")
		return err
	})
	return token, apierror.Wrap(err, "change the password")
}

// Sessions returns the caller's own logins, the newest use first.
func (m *Members) Sessions(ctx context.Context, p jobs.Principal) ([]*access.Session, error) {
	if p.Member == nil {
		return nil, errNoMember
	}
	found, err := access.ListSessions(ctx, m.DB, p.Member.ID, sessionIdle)
	return found, apierror.Wrap(err, "list the logins")
}

// Self returns the caller as a member.
func (m *Members) Self(ctx context.Context, p jobs.Principal) (*access.Member, error) {
	if p.Member == nil {
		return nil, errNoMember
	}
	member, err := access.GetMember(ctx, m.DB, p.Member.ID)
	return member, apierror.Wrap(err, "read the member")
}

// LogOutEverywhere ends all logins of the caller, except the one with this secret, if any.
func (m *Members) LogOutEverywhere(ctx context.Context, p jobs.Principal, except string) error {
	if p.Member == nil {
		return errNoMember
	}
	err := jobs.InTx(ctx, m.DB, func(ctx context.Context, tx bun.Tx) error {
		var keep []byte
		if except != "" {
			keep = secrets.Hash(except)
		}
		if err := access.DeleteSessions(ctx, tx, p.Member.ID, keep); err != nil {
			return err
		}
		return p.Audit(ctx, tx, "logOutEverywhere", string(p.Member.ID), jobs.Payload{})
	})
	return apierror.Wrap(err, "end the logins")
}
