package auth

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/uptrace/bun"
)

// SSOPolicy decides who may log in with single sign-on.
type SSOPolicy struct {
	// Roles maps groups to roles. A person in several groups gets the highest role. Without one,
	// the login is refused.
	Roles map[string]access.Role
	// Domains are the allowed domains of e-mail addresses; empty allows all.
	Domains []string
	// Account is the name of the account of new members.
	Account string
}

// Identity is what an OpenID provider says of a person, once its token was checked.
type Identity struct {
	Issuer, Subject string
	Email           string
	EmailVerified   bool
	Name            string
	Groups          []string
}

func (s SSOPolicy) roleOf(groups []string) access.Role {
	best := access.Role("")
	for _, group := range groups {
		if role := s.Roles[group]; slices.Index(memberRoles, role) > slices.Index(memberRoles, best) {
			best = role
		}
	}
	return best
}

// check refuses an identity that may not log in.
func (s SSOPolicy) check(who Identity) error {
	email := normalEmail(who.Email)
	_, domain, _ := strings.Cut(email, "@")
	switch {
	case who.Subject == "" || validEmail(email) != nil:
		return apierror.Forbidden("Your single sign-on sent no usable e-mail address. Reelay needs the claims sub and email.")
	case !who.EmailVerified:
		return apierror.Forbidden("Your single sign-on has not verified the address %s (claim email_verified).", email)
	case len(s.Domains) > 0 && !slices.Contains(s.Domains, domain):
		return apierror.Forbidden("Addresses at %s may not log in here.", domain)
	case s.roleOf(who.Groups) == "":
		return apierror.Forbidden("None of your groups has a role here. Ask an admin to map one of them: %s.", groupsInWords(who.Groups))
	}
	return nil
}

func groupsInWords(groups []string) string {
	if len(groups) == 0 {
		return "your single sign-on sent no groups"
	}
	return text.Clip(text.Printable(strings.Join(groups, ", ")), 200)
}

// LogInIdentity opens a session for a person whom an OpenID provider has identified. The member
// is made at its first login, or taken over by a verified e-mail address, and then has no
// password any more. Each login sets the role from the groups. It returns FORBIDDEN, and ends the
// member's logins, if no group has a role or the address is not allowed.
func (m *Members) LogInIdentity(ctx context.Context, who Identity, from Visitor) (token string, err error) {
	refusal := m.SSO.check(who)
	err = jobs.InTx(ctx, m.DB, func(ctx context.Context, tx bun.Tx) error {
		member, err := findIdentity(ctx, tx, who, refusal == nil)
		if err != nil {
			return err
		}
		if refusal != nil {
			return m.turnAway(ctx, tx, member, who, from, refusal)
		}
		if member == nil {
			if member, err = m.welcome(ctx, tx, who); err != nil {
				return err
			}
		}
		if !member.DisabledAt.IsZero() {
			return apierror.Forbidden("This member is disabled. Ask an admin to enable it.")
		}
		if err := m.adopt(ctx, tx, member, who); err != nil {
			return err
		}
		token, err = openSession(ctx, tx, member, from, "logIn", jobs.Payload{"by": "single sign-on"})
		return err
	})
	if err == nil && refusal != nil {
		return "", refusal
	}
	return token, apierror.Wrap(err, "log in %s", text.Clip(who.Subject, 64))
}

func (who Identity) key() string { return who.Issuer + " " + who.Subject }

// findIdentity returns the member of an identity, locked, or nil. Its e-mail address finds one
// that has not logged in this way before.
func findIdentity(ctx context.Context, tx bun.Tx, who Identity, byEmail bool) (*access.Member, error) {
	member, err := access.FindMemberBySubject(ctx, tx, who.key())
	if errors.Is(err, sql.ErrNoRows) && byEmail {
		member, err = access.FindMemberByEmail(ctx, tx, normalEmail(who.Email))
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if member.SingleSignOn() && member.Subject != who.key() {
		return nil, apierror.Forbidden("The address %s belongs to another person of your single sign-on. Ask an admin.", member.Email)
	}
	return access.LockMember(ctx, tx, member.ID)
}

// turnAway records a refused login and ends the member's other ones.
func (m *Members) turnAway(ctx context.Context, tx bun.Tx, member *access.Member, who Identity, from Visitor, refusal error) error {
	target := ""
	if member != nil {
		target = string(member.ID)
		if err := access.DeleteSessions(ctx, tx, member.ID, nil); err != nil {
			return err
		}
	}
	return jobs.Host.From(from.Remote).Audit(ctx, tx, "logInFailed", target,
		jobs.Payload{"email": text.Clip(text.Printable(who.Email), 254), "by": "single sign-on", "reason": refusal.Error()})
}

func (m *Members) welcome(ctx context.Context, tx bun.Tx, who Identity) (*access.Member, error) {
	house, err := ensureAccount(ctx, tx, m.SSO.Account, models.TierCritical)
	if err != nil {
		return nil, err
	}
	name := who.Name
	if validName(name) != nil {
		name = ""
	}
	return insertMember(ctx, tx, jobs.Host, NewMember{Email: who.Email, Name: name, Role: m.SSO.roleOf(who.Groups), AccountID: house.ID},
		who.key())
}

// adopt sets what the provider decides: the role, and that there is no password.
func (m *Members) adopt(ctx context.Context, tx bun.Tx, member *access.Member, who Identity) error {
	role := m.SSO.roleOf(who.Groups)
	if member.Role == role && member.Subject == who.key() {
		return nil
	}
	note := jobs.Payload{"before": memberPayload(member), "by": "single sign-on"}
	member.Role, member.Subject, member.PasswordHash = role, who.key(), ""
	note["after"] = memberPayload(member)
	if err := access.DeleteSessions(ctx, tx, member.ID, nil); err != nil {
		return err
	}
	if err := access.DeleteInvitations(ctx, tx, member.ID); err != nil {
		return err
	}
	if err := access.UpdateMember(ctx, tx, member); err != nil {
		return err
	}
	return jobs.Host.Audit(ctx, tx, "updateMember", string(member.ID), note)
}
