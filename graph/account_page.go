package graph

import (
	"github.com/reelay/reelay/jobs/paging"
	"github.com/reelay/reelay/models"
)

// CreatedAPIKey is a key and, this once, its secret.
type CreatedAPIKey struct {
	ID     models.KeyID
	Secret string
	Role   models.Role
}

// AccountEdge is one account of a list.
type AccountEdge struct {
	Cursor string
	Node   *models.Account
}

// AccountConnection is one page of accounts.
type AccountConnection struct {
	Edges    []*AccountEdge
	PageInfo *PageInfo
}

// AuditEdge is one entry of the audit log.
type AuditEdge struct {
	Cursor string
	Node   *models.AuditEntry
}

// AuditConnection is one page of the audit log.
type AuditConnection struct {
	Edges    []*AuditEdge
	PageInfo *PageInfo
}

func accountConnection(page *paging.Page[*models.Account]) *AccountConnection {
	edges, info := connect(page, func(cursor string, a *models.Account) *AccountEdge { return &AccountEdge{cursor, a} })
	return &AccountConnection{edges, info}
}

func auditConnection(page *paging.Page[*models.AuditEntry]) *AuditConnection {
	edges, info := connect(page, func(cursor string, e *models.AuditEntry) *AuditEdge { return &AuditEdge{cursor, e} })
	return &AuditConnection{edges, info}
}
