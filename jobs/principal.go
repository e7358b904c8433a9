package jobs

import (
	"net/netip"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
)

// Principal is who calls: a key's role and account, and for a worker with its
// own token, which worker.
type Principal struct {
	Role      models.Role
	AccountID models.AccountID
	KeyID     models.KeyID
	WorkerID  models.WorkerID

	// address is where he calls from, if that is known: see From.
	address string
	// Bulk is the operation in which he does what he does, if it is one.
	Bulk models.BulkID
}

// Host is whoever has the database itself: what runs Reelay, and makes the first
// key.
var Host = Principal{Role: models.RoleAdmin}

// May tells whether the caller has a role. ADMIN ⊃ OPERATOR ⊃ CLIENT; WORKER
// stands alone.
func (p Principal) May(role models.Role) bool {
	switch p.Role {
	case models.RoleAdmin:
		return role != models.RoleWorker
	case models.RoleOperator:
		return role == models.RoleOperator || role == models.RoleClient
	}
	return p.Role == role
}

// From is the caller with the address (host:port) that his connection comes from,
// for the audit log. Behind a proxy that is the proxy's: what a header says, anybody
// can write.
func (p Principal) From(remote string) Principal {
	if at, err := netip.ParseAddrPort(remote); err == nil {
		p.address = at.Addr().Unmap().String()
	}
	return p
}

// Scope is the account to which the caller's lists are kept: "" for operators,
// who see all.
func (p Principal) Scope() models.AccountID {
	if p.May(models.RoleOperator) {
		return ""
	}
	return p.AccountID
}

// Sees tells whether rows of an account are the caller's to read.
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
		return apierror.Forbidden("This takes a key of the role ADMIN; this key's role is %s.", p.Role)
	}
	return nil
}

func PrincipalOf(key *models.APIKey) Principal {
	return Principal{Role: key.Role, AccountID: key.AccountID, KeyID: key.ID}
}
