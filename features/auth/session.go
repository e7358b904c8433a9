package auth

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/secrets"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/uptrace/bun"
)

// Sessions end after a day, or after half an hour without a request.
const (
	sessionTTL  = 24 * time.Hour
	sessionIdle = 30 * time.Minute
)

// LogIn opens a console session under an operator's key and returns the session's secret. It
// returns ErrUnauthenticated for an unknown key and FORBIDDEN for a key that may not read what
// operators read. remote is the caller's address for the audit log: see Principal.From.
func (k *Keys) LogIn(ctx context.Context, secret, remote string) (string, error) {
	p, err := k.Authenticate(ctx, secret)
	if err != nil {
		return "", err
	}
	if !p.May(access.RoleViewer) {
		return "", apierror.Forbidden("The console is for operators and viewers: this key's role is %s.", p.Role)
	}
	token, hash := secrets.NewToken()
	session := &access.Session{ID: models.NewSessionID(), KeyID: p.KeyID, Hash: hash}
	err = jobs.InTx(ctx, k.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := access.InsertSession(ctx, tx, session, sessionTTL); err != nil {
			return err
		}
		return p.From(remote).Audit(ctx, tx, "logIn", string(session.ID), jobs.Payload{})
	})
	if err != nil {
		return "", apierror.Wrap(err, "open a session")
	}
	return token, nil
}

// Session returns the principal of a session's secret, or ErrUnauthenticated. Revoking a key or
// disabling a member ends its sessions. A member has the role that it has now.
func (k *Keys) Session(ctx context.Context, token string) (jobs.Principal, error) {
	s, err := access.FindSession(ctx, k.DB, secrets.Hash(token), sessionIdle)
	if err != nil {
		return jobs.Principal{}, apierror.Wrap(orUnauthenticated(err), "look up the session")
	}
	if s.MemberID != "" {
		member, err := access.GetMember(ctx, k.DB, s.MemberID)
		if err == nil && !member.DisabledAt.IsZero() {
			err = sql.ErrNoRows
		}
		if err != nil {
			return jobs.Principal{}, apierror.Wrap(orUnauthenticated(err), "look up the session's member")
		}
		return principalOf(member, s.KeyID), nil
	}
	key, err := access.GetAPIKey(ctx, k.DB, s.KeyID)
	if err != nil {
		return jobs.Principal{}, apierror.Wrap(orUnauthenticated(err), "look up the session's key")
	}
	return jobs.PrincipalOf(key), nil
}

// SessionLives reports whether a session is still valid. It does not count as a use of the
// session.
func (k *Keys) SessionLives(ctx context.Context, token string) (bool, error) {
	lives, err := access.SessionLives(ctx, k.DB, secrets.Hash(token), sessionIdle)
	return lives, apierror.Wrap(err, "look up the session")
}

// LogOut ends a session. It returns nil if there is none.
func (k *Keys) LogOut(ctx context.Context, token string) error {
	err := jobs.InTx(ctx, k.DB, func(ctx context.Context, tx bun.Tx) error {
		session, err := access.DeleteSession(ctx, tx, secrets.Hash(token))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		p := jobs.Principal{KeyID: session.KeyID}
		if session.MemberID != "" {
			member, err := access.GetMember(ctx, tx, session.MemberID)
			if err != nil {
				return err
			}
			p = principalOf(member, session.KeyID)
		}
		return p.Record(ctx, tx, "logOut", string(session.ID), jobs.Payload{})
	})
	return apierror.Wrap(err, "end the session")
}
