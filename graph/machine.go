package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/graph/failure"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/identity"
	"github.com/reelay/reelay/models"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// authenticate returns the holder of a key, or the machine that an identity token is about.
// Only requests over HTTP come here, so no stream can outlive its token.
func (a *API) authenticate(ctx context.Context, secret string) (jobs.Principal, error) {
	if a.machines == nil || !identity.Is(secret) {
		return a.keys.Authenticate(ctx, secret)
	}
	machine, err := a.machines(ctx, secret)
	if err != nil {
		return jobs.Principal{}, err
	}
	return jobs.Principal{Role: models.RoleWorker, Machine: machine}, nil
}

// machinesRegister refuses everything but one registerWorker to callers without a key.
type machinesRegister struct{}

var _ interface {
	graphql.HandlerExtension
	graphql.OperationContextMutator
} = machinesRegister{}

// ExtensionName implements graphql.HandlerExtension.
func (machinesRegister) ExtensionName() string { return "MachinesRegister" }

// Validate implements graphql.HandlerExtension.
func (machinesRegister) Validate(graphql.ExecutableSchema) error { return nil }

var errOnlyRegister = apierror.Forbidden("An identity token of a machine allows one registerWorker, and nothing else: use the worker's token that it returns.")

// MutateOperationContext implements graphql.OperationContextMutator.
func (machinesRegister) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if principal(ctx).Machine == nil {
		return nil
	}
	all := op.Operation.SelectionSet
	if op.Operation.Operation == ast.Mutation && len(all) == 1 {
		if field, ok := all[0].(*ast.Field); ok && field.Name == "registerWorker" {
			return nil
		}
	}
	return failure.Refusal(errOnlyRegister)
}
