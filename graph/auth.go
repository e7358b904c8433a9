package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/graph/transport"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/access"
)

// principal returns the caller. Without one it has no role, and so no permissions.
func principal(ctx context.Context) jobs.Principal { return transport.CallerOf(ctx).Principal }

// base returns the address at which the caller reaches this server. Links begin with it.
func base(ctx context.Context) string { return transport.CallerOf(ctx).Base }

// authorize is the directive @auth: it refuses callers that do not have the role. A VIEWER may
// call the queries and subscriptions of a CLIENT and of an OPERATOR, and no mutation.
func authorize(ctx context.Context, _ any, next graphql.Resolver, role access.Role) (any, error) {
	p, may := principal(ctx), jobs.Principal.MayRead
	if graphql.GetFieldContext(ctx).Object == "Mutation" {
		may = jobs.Principal.May
	}
	if !may(p, role) {
		return nil, apierror.Forbidden("This operation requires a key with the role %s. This key has the role %s.", role, p.Role)
	}
	return next(ctx)
}
