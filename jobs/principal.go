package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Principal is the caller: a key's role and account, and the worker if the caller uses a
// worker's own token.
type Principal struct {
	Role      models.Role
	AccountID models.AccountID
	KeyID     models.KeyID
	WorkerID  models.WorkerID
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
var Host = Principal{Role: models.RoleAdmin}

// May reports whether the caller has a role. ADMIN includes OPERATOR, which includes CLIENT;
// WORKER is separate.
func (p Principal) May(role models.Role) bool {
	switch p.Role {
	case models.RoleAdmin:
		return role != models.RoleWorker
	case models.RoleOperator:
		return role == models.RoleOperator || role == models.RoleClient
	}
	return p.Role == role
}

// From returns the caller with the address (host:port) of its connection, for the audit log.
// Behind a proxy that is the proxy's address, since anybody can forge a header.
func (p Principal) From(remote string) Principal {
	if at, err := netip.ParseAddrPort(remote); err == nil {
		p.address = at.Addr().Unmap().String()
	}
	return p
}

// Scope returns the account to which the caller's lists are limited, or "" for operators, who
// see all.
func (p Principal) Scope() models.AccountID {
	if p.May(models.RoleOperator) {
		return ""
	}
	return p.AccountID
}

// Sees reports whether the caller may read rows of an account.
func (p Principal) Sees(account models.AccountID) bool {
	return p.May(models.RoleOperator) || p.Role == models.RoleClient && p.AccountID == account
}

func (p Principal) RequireOperator() error {
	if !p.May(models.RoleOperator) {
		return apierror.Forbidden("This is for operators: this key's role is %s.", p.Role)
	}
	return nil
}

func (p Principal) RequireAdmin() error {
	if !p.May(models.RoleAdmin) {
		return apierror.Forbidden("This operation requires a key with the role ADMIN. This key has the role %s.", p.Role)
	}
	return nil
}

func PrincipalOf(key *models.APIKey) Principal {
	return Principal{Role: key.Role, AccountID: key.AccountID, KeyID: key.ID}
}

// VisibleJob returns a job that the caller may see, or NOT_FOUND: its owner and
// operators may.
func VisibleJob(ctx context.Context, db bun.IDB, p Principal, id models.JobID) (*models.Job, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("job")
	}
	job, err := models.GetJob(ctx, db, id)
	return Visible(p, id, job, err)
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
