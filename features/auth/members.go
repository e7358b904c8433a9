package auth

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/secrets"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
	"golang.org/x/text/unicode/norm"
)

// Members manages the people who log in to the console by name, and their logins.
type Members struct {
	DB *bun.DB
	// SSO decides who may log in with single sign-on.
	SSO SSOPolicy

	tries tries
}

// NewMember describes a new member.
type NewMember struct {
	// Email is normalised: Unicode NFKC, lower case. It must then be ASCII, so that no two
	// addresses look alike.
	Email string
	Name  string
	// Role is VIEWER, OPERATOR or ADMIN.
	Role access.Role
	// AccountID owns the jobs that the member submits; "" is the caller's account.
	AccountID models.AccountID
}

// Invitation is a link with which a member chooses a password, once. It is shown only when it
// is made.
type Invitation struct {
	Member *access.Member
	// Token follows /join/ in the link.
	Token     string
	ExpiresAt time.Time
}

// invitationTTL is how long an invitation is valid.
const invitationTTL = 3 * 24 * time.Hour

// maxMembers bounds the list of members.
const maxMembers = 1_000

var memberRoles = []access.Role{access.RoleViewer, access.RoleOperator, access.RoleAdmin}

var emailPattern = regexp.MustCompile("^[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$")

// normalEmail returns the form of an e-mail address by which members are found.
func normalEmail(email string) string {
	if len(email) > 1024 {
		return ""
	}
	return strings.ToLower(norm.NFKC.String(strings.TrimSpace(email)))
}

func validEmail(email string) error {
	if len(email) > 254 || !emailPattern.MatchString(email) {
		return apierror.Invalid("email", "email must be an address such as ana@example.com, of ASCII characters.")
	}
	return nil
}

func validMemberRole(role access.Role) error {
	if !slices.Contains(memberRoles, role) {
		return apierror.Invalid("role", "The role of a member must be VIEWER, OPERATOR or ADMIN.")
	}
	return nil
}

// List returns the members by e-mail, disabled ones included, at most 1,000. It is for ADMIN.
func (m *Members) List(ctx context.Context, p jobs.Principal) ([]*access.Member, error) {
	if err := p.RequireAdmin(); err != nil {
		return nil, err
	}
	all, err := access.ListMembers(ctx, m.DB, maxMembers)
	return all, apierror.Wrap(err, "list members")
}

// Get returns a member, or NOT_FOUND. It is for ADMIN.
func (m *Members) Get(ctx context.Context, p jobs.Principal, id models.MemberID) (*access.Member, error) {
	if err := p.RequireAdmin(); err != nil {
		return nil, err
	}
	if !id.Valid() {
		return nil, apierror.NotFound("member")
	}
	member, err := access.GetMember(ctx, m.DB, id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "member"), "read member %s", id)
	}
	return member, nil
}

// Create makes a member and invites it. It is for ADMIN, and returns INVALID_INPUT, CONFLICT for
// a known e-mail address, and NOT_FOUND for an unknown account.
func (m *Members) Create(ctx context.Context, p jobs.Principal, in NewMember) (invitation *Invitation, err error) {
	if err := p.RequireAdmin(); err != nil {
		return nil, err
	}
	if in.AccountID == "" {
		in.AccountID = p.AccountID
	}
	err = jobs.InTx(ctx, m.DB, func(ctx context.Context, tx bun.Tx) error {
		member, err := insertMember(ctx, tx, p, in, "")
		if err != nil {
			return err
		}
		invitation, err = invite(ctx, tx, member)
		return err
	})
	return invitation, apierror.Wrap(err, "create a member")
}

// insertMember writes a new member, in the name of p.
func insertMember(ctx context.Context, tx bun.Tx, p jobs.Principal, in NewMember, subject string) (*access.Member, error) {
	member := &access.Member{ID: models.NewMemberID(), AccountID: in.AccountID, Email: normalEmail(in.Email), Name: strings.TrimSpace(in.Name),
		Role: in.Role, Subject: subject}
	if member.Name == "" {
		member.Name, _, _ = strings.Cut(member.Email, "@")
	}
	if err := validEmail(member.Email); err != nil {
		return nil, err
	}
	if err := validName(member.Name); err != nil {
		return nil, err
	}
	if err := validMemberRole(member.Role); err != nil {
		return nil, err
	}
	if !in.AccountID.Valid() {
		return nil, apierror.NotFound("account")
	}
	if err := openAccount(ctx, tx, in.AccountID); err != nil {
		return nil, err
	}
	_, hash := secrets.NewToken() // nobody holds the secret
	inserted, err := access.InsertMember(ctx, tx, member, models.NewKeyID(), hash)
	if err != nil {
		return nil, err
	}
	if !inserted {
		return nil, apierror.Conflict("A member with the e-mail address %s already exists.", member.Email)
	}
	return member, p.Audit(ctx, tx, "createMember", string(member.ID), memberPayload(member))
}

func memberPayload(member *access.Member) jobs.Payload {
	return jobs.Payload{"email": member.Email, "name": member.Name, "role": member.Role, "account": member.AccountID}
}

func invite(ctx context.Context, tx bun.Tx, member *access.Member) (*Invitation, error) {
	token, hash := secrets.NewToken()
	expires, err := access.InsertInvitation(ctx, tx, hash, member.ID, invitationTTL)
	return &Invitation{Member: member, Token: token, ExpiresAt: expires}, err
}

// MemberUpdate is the desired state of a member. A nil field keeps its value.
type MemberUpdate struct {
	Name *string
	Role *access.Role
}

// Update changes a member's name and role. A new role ends the member's logins, so that it takes
// effect at once everywhere. It is for ADMIN, and returns CONFLICT for one's own role.
func (m *Members) Update(ctx context.Context, p jobs.Principal, id models.MemberID, in MemberUpdate) (*access.Member, error) {
	return m.change(ctx, p, "updateMember", id, func(ctx context.Context, tx bun.Tx, member *access.Member) (jobs.Payload, error) {
		note := jobs.Payload{"before": memberPayload(member)}
		if in.Name != nil {
			if err := validName(*in.Name); err != nil {
				return nil, err
			}
			member.Name = *in.Name
		}
		if in.Role != nil && *in.Role != member.Role {
			if err := validMemberRole(*in.Role); err != nil {
				return nil, err
			}
			if isSelf(p, id) {
				return nil, apierror.Conflict("You cannot change your own role: another admin can.")
			}
			member.Role = *in.Role
			if err := access.DeleteSessions(ctx, tx, id, nil); err != nil {
				return nil, err
			}
		}
		note["after"] = memberPayload(member)
		return note, access.UpdateMember(ctx, tx, member)
	})
}

// Disable ends a member's logins and refuses new ones. It is for ADMIN, and returns CONFLICT for
// the caller.
func (m *Members) Disable(ctx context.Context, p jobs.Principal, id models.MemberID) (*access.Member, error) {
	return m.change(ctx, p, "disableMember", id, func(ctx context.Context, tx bun.Tx, member *access.Member) (jobs.Payload, error) {
		if isSelf(p, id) {
			return nil, apierror.Conflict("You cannot disable yourself: another admin can.")
		}
		if member.DisabledAt.IsZero() {
			now, err := postgres.Now(ctx, tx)
			if err != nil {
				return nil, err
			}
			member.DisabledAt = now
		}
		if err := access.DeleteInvitations(ctx, tx, id); err != nil {
			return nil, err
		}
		if err := access.DeleteSessions(ctx, tx, id, nil); err != nil {
			return nil, err
		}
		return jobs.Payload{"email": member.Email}, access.UpdateMember(ctx, tx, member)
	})
}

// Enable lets a disabled member log in again. It is for ADMIN.
func (m *Members) Enable(ctx context.Context, p jobs.Principal, id models.MemberID) (*access.Member, error) {
	return m.change(ctx, p, "enableMember", id, func(ctx context.Context, tx bun.Tx, member *access.Member) (jobs.Payload, error) {
		member.DisabledAt = time.Time{}
		return jobs.Payload{"email": member.Email}, access.UpdateMember(ctx, tx, member)
	})
}

// ResetPassword removes a member's password, ends its logins, and invites it to choose another
// password. It is for ADMIN, and returns CONFLICT for a disabled member and for one of single
// sign-on.
func (m *Members) ResetPassword(ctx context.Context, p jobs.Principal, id models.MemberID) (invitation *Invitation, err error) {
	_, err = m.change(ctx, p, "resetMemberPassword", id, func(ctx context.Context, tx bun.Tx, member *access.Member) (jobs.Payload, error) {
		switch {
		case !member.DisabledAt.IsZero():
			return nil, apierror.Conflict("This member is disabled: enable it first.")
		case member.SingleSignOn():
			return nil, apierror.Conflict("This member logs in with single sign-on and has no password here.")
		}
		member.PasswordHash = ""
		if err := access.DeleteSessions(ctx, tx, id, nil); err != nil {
			return nil, err
		}
		if err := access.UpdateMember(ctx, tx, member); err != nil {
			return nil, err
		}
		var err error
		invitation, err = invite(ctx, tx, member)
		return jobs.Payload{"email": member.Email}, err
	})
	return invitation, err
}

func isSelf(p jobs.Principal, id models.MemberID) bool { return p.Member != nil && p.Member.ID == id }

// change changes a member under its row's lock, and records that. It locks the caller's row, too,
// and reads the caller's rights again under that lock: of two admins who disable each other at
// once, the second is refused, so one always remains.
func (m *Members) change(
	ctx context.Context, p jobs.Principal, action string, id models.MemberID, do func(context.Context, bun.Tx, *access.Member) (jobs.Payload,
		error),
) (member *access.Member, err error) {
	if err := p.RequireAdmin(); err != nil {
		return nil, err
	}
	if !id.Valid() {
		return nil, apierror.NotFound("member")
	}
	err = jobs.InTx(ctx, m.DB, func(ctx context.Context, tx bun.Tx) error {
		both := []models.MemberID{id}
		if p.Member != nil {
			both = append(both, p.Member.ID)
		}
		if err := access.LockMembers(ctx, tx, both); err != nil {
			return err
		}
		if err := p.Revalidate(ctx, tx); err != nil {
			return err
		}
		if member, err = access.GetMember(ctx, tx, id); err != nil {
			return apierror.OrNotFound(err, "member")
		}
		note, err := do(ctx, tx, member)
		if err != nil {
			return err
		}
		return p.Audit(ctx, tx, action, string(id), note)
	})
	if err != nil {
		return nil, apierror.Wrap(err, "change member %s", id)
	}
	return member, nil
}

// Bootstrap makes an ADMIN member for a caller who has access to the database, and its account
// if there is none of that name. It returns CONFLICT if there is a member already, unless the
// caller explicitly wants another one.
func (m *Members) Bootstrap(ctx context.Context, account, email string, another bool) (invitation *Invitation, err error) {
	err = jobs.InTx(ctx, m.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := postgres.Lock(ctx, tx, bootstrapLock); err != nil {
			return err
		}
		n, err := access.CountMembers(ctx, tx)
		if err != nil {
			return fmt.Errorf("count members: %w", err)
		}
		if n > 0 && !another {
			return apierror.Conflict("A member already exists: an admin can create others.")
		}
		house, err := ensureAccount(ctx, tx, account, models.TierCritical)
		if err != nil {
			return err
		}
		member, err := insertMember(ctx, tx, jobs.Host, NewMember{Email: email, Role: access.RoleAdmin, AccountID: house.ID}, "")
		if err != nil {
			return err
		}
		invitation, err = invite(ctx, tx, member)
		return err
	})
	return invitation, apierror.Wrap(err, "make the first member")
}
