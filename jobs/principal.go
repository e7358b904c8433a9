package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/uptrace/bun"
)

// Principal is the caller: a key's role and account, and the worker if the caller uses a
// worker's own token.
type Principal struct {
	Role      access.Role
	AccountID models.AccountID
	// KeyID is the key of the call. A member of the console acts under a key that nobody holds.
	KeyID    models.KeyID
	WorkerID models.WorkerID
	// Member is the person who is logged in to the console; nil for a key.
	Member *Member
	// Machine is set for a caller without a key whose machine has proved its identity. It may
	// only register a worker.
	Machine *Machine

	// address is the caller's network address, if known: see From.
	address string
	// Bulk is the bulk operation that the caller's actions belong to, if any.
	Bulk models.BulkID
}

// Host is the principal with direct access to the database: the running server itself, and the
// command that makes the first key.
var Host = Principal{Role: access.RoleAdmin}

// Member is a person who logs in by name.
type Member struct {
	ID    models.MemberID
	Name  string
	Email string
}

// String returns the e-mail address, by which lists and the audit log name a member.
func (m *Member) String() string { return m.Email }

// May reports whether the caller has a role. ADMIN includes OPERATOR, which includes CLIENT and
// VIEWER; WORKER is separate. VIEWER reads what OPERATOR reads, and changes nothing: every verb
// checks either a role above it or RequireChange.
func (p Principal) May(role access.Role) bool {
	switch p.Role {
	case access.RoleAdmin:
		return role != access.RoleWorker
	case access.RoleOperator:
		return role == access.RoleOperator || role == access.RoleClient || role == access.RoleViewer
	}
	return p.Role == role
}

// MayRead reports whether the caller may call a read that requires the role. A VIEWER may call
// each read that a CLIENT or an OPERATOR may.
func (p Principal) MayRead(role access.Role) bool {
	return p.May(role) || p.Role == access.RoleViewer && (role == access.RoleClient || role == access.RoleOperator)
}

// From returns the caller with the address (host:port) of its connection, for the audit log.
// Behind a proxy that is the proxy's address, since anybody can forge a header.
func (p Principal) From(remote string) Principal {
	if at, err := netip.ParseAddrPort(remote); err == nil {
		p.address = at.Addr().Unmap().String()
	}
	return p
}

// Actor identifies the caller in rows that say who did something: the id of the key, or who the
// member is.
func (p Principal) Actor() string {
	if p.Member != nil {
		return p.Member.String()
	}
	return string(p.KeyID)
}

// Address returns the caller's network address without the port, or "" if it is unknown.
func (p Principal) Address() string { return p.address }

// Scope returns the account to which the caller's lists are limited, or "" for operators and
// viewers, who see all.
func (p Principal) Scope() models.AccountID {
	if p.May(access.RoleViewer) {
		return ""
	}
	return p.AccountID
}

// Sees reports whether the caller may read rows of an account.
func (p Principal) Sees(account models.AccountID) bool {
	return p.May(access.RoleViewer) || p.Role == access.RoleClient && p.AccountID == account
}

// RequireChange refuses a caller whose role only reads. Verbs that owners and operators share
// call it; being able to see a row is not enough to change it.
func (p Principal) RequireChange() error {
	if p.Role == access.RoleViewer {
		return apierror.Forbidden("The role VIEWER only reads. Changes require the role CLIENT, OPERATOR or ADMIN.")
	}
	return nil
}

// RequireViewer refuses callers who may not read what operators read.
func (p Principal) RequireViewer() error {
	if !p.May(access.RoleViewer) {
		return apierror.Forbidden("This is for operators and viewers: this key's role is %s.", p.Role)
	}
	return nil
}

// RequireOperator returns FORBIDDEN unless the caller may do what operators do.
func (p Principal) RequireOperator() error {
	if !p.May(access.RoleOperator) {
		return apierror.Forbidden("This is for operators: this key's role is %s.", p.Role)
	}
	return nil
}

// RequireAdmin returns FORBIDDEN unless the caller may do what admins do.
func (p Principal) RequireAdmin() error {
	if !p.May(access.RoleAdmin) {
		return apierror.Forbidden("This operation requires a key with the role ADMIN. This key has the role %s.", p.Role)
	}
	return nil
}

// PrincipalOf returns the caller that a key stands for.
func PrincipalOf(key *access.APIKey) Principal {
	return Principal{Role: key.Role, AccountID: key.AccountID, KeyID: key.ID}
}

// VisibleJob returns a job that the caller may see, or NOT_FOUND: its owner and
// operators and viewers may.
func VisibleJob(ctx context.Context, db bun.IDB, p Principal, id models.JobID) (*models.Job, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("job")
	}
	job, err := models.GetJob(ctx, db, id)
	return Visible(p, id, job, err)
}

// JobToChange returns a job that the caller may change: see VisibleJob and RequireChange.
func JobToChange(ctx context.Context, db bun.IDB, p Principal, id models.JobID) (*models.Job, error) {
	if err := p.RequireChange(); err != nil {
		return nil, err
	}
	return VisibleJob(ctx, db, p, id)
}

// Visible is a job that was read, if the caller may see it.
func Visible(p Principal, id models.JobID, job *models.Job, err error) (*models.Job, error) {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, apierror.NotFound("job")
	case err != nil:
		return nil, fmt.Errorf("read job %s: %w", id, err)
	case job == nil || !p.Sees(job.AccountID):
		return nil, apierror.NotFound("job")
	}
	return job, nil
}

// RequireWorker returns an error unless the caller is that worker: FORBIDDEN for a caller that
// is no worker, and NOT_FOUND for another one.
func (p Principal) RequireWorker(id models.WorkerID) error {
	if p.WorkerID == "" {
		return apierror.Forbidden("This call requires the worker's own token, which registerWorker returned.")
	}
	if p.WorkerID != id {
		return apierror.NotFound("worker")
	}
	return nil
}

// RequireEnrolmentKey refuses callers other than agents: workers, and machines without a key.
func (p Principal) RequireEnrolmentKey() error {
	if p.WorkerID != "" || p.Machine != nil {
		return apierror.Forbidden("Hosted providers are called for an enrolment key (rl_live_…), not for a worker's token.")
	}
	return nil
}
