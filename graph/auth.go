package graph

import (
	"context"
	"fmt"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
)

type principalKey struct{}

// withPrincipal carries who calls from the HTTP layer to the resolvers, which
// hand it to jobs as an argument.
func withPrincipal(ctx context.Context, p jobs.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// principal is who calls, or nobody, who may do nothing.
func principal(ctx context.Context) jobs.Principal {
	p, _ := ctx.Value(principalKey{}).(jobs.Principal)
	return p
}

type baseKey struct{}

// withBase carries from the HTTP layer to the resolvers where the caller reaches
// this server.
func withBase(ctx context.Context, base string) context.Context {
	return context.WithValue(ctx, baseKey{}, base)
}

// base is where the caller reaches this server: links are made with it.
func base(ctx context.Context) string {
	at, _ := ctx.Value(baseKey{}).(string)
	return at
}

// authorize is the directive @auth: it lets only callers of that role through.
func authorize(ctx context.Context, _ any, next graphql.Resolver, role models.Role) (any, error) {
	if p := principal(ctx); !p.May(role) {
		return nil, forbidden("This call takes a key of the role %s; this key's role is %s.", role, p.Role)
	}
	return next(ctx)
}

func forbidden(format string, args ...any) error {
	return &apierror.Error{Code: apierror.CodeForbidden, Message: fmt.Sprintf(format, args...)}
}

// bearer is the key in an Authorization header, with or without its scheme.
func bearer(authorization string) string {
	scheme, key, found := strings.Cut(strings.TrimSpace(authorization), " ")
	if found && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	return authorization
}
