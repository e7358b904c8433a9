// Package transport carries GraphQL operations: over HTTP (POST, and GET for queries),
// over server-sent events, and over WebSockets in the protocol graphql-transport-ws.
package transport

import (
	"context"
	"strings"

	"github.com/reelay/reelay/jobs"
)

// Caller is the sender of a request.
type Caller struct {
	Principal jobs.Principal
	// Proof is the identity token with which the caller's machine has authenticated, or "".
	// InBody means that it was found in the body: the operation must hold it.
	Proof  string
	InBody bool
	// Base is the scheme and host at which the caller reaches this server.
	Base string
}

type callerKey struct{}

// WithCaller returns a context that carries the caller from the transports to the
// resolvers, which pass the principal to the domain as an argument.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of the operation that ctx belongs to. Its principal has no
// role, and so no permissions, if nobody is authenticated.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// Bearer returns the key in an Authorization header, with or without its scheme.
func Bearer(authorization string) string {
	scheme, key, found := strings.Cut(strings.TrimSpace(authorization), " ")
	if found && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	return authorization
}
