package graph

import (
	"context"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/graph/failure"
	"github.com/reelay/reelay/graph/limit"
	"github.com/reelay/reelay/graph/loader"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

type loadersKey struct{}

// load returns the loaders of the response that is being made.
func load(ctx context.Context) *loader.Loaders {
	return ctx.Value(loadersKey{}).(func() *loader.Loaders)()
}

// respond makes one response. The response waits for the caller's share of reads, and
// has loaders of its own. A refused query is answered with its first errors, which name
// the arguments that they are about.
func (r *Resolver) respond(batchWait time.Duration) graphql.ResponseMiddleware {
	return func(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
		share, err := r.admit(ctx)
		if err != nil {
			return &graphql.Response{Errors: gqlerror.List{failure.Present(ctx, err)}}
		}
		var response *graphql.Response
		defer func() { share.end(response) }() // even if next panics
		ctx = context.WithValue(share.ctx, loadersKey{}, sync.OnceValue(func() *loader.Loaders {
			return loader.New(r.Reader, loader.Options{Principal: principal(ctx), Reads: share.reads, Wait: batchWait})
		}))
		response = next(ctx)
		if response != nil && response.Data == nil {
			response.Errors = response.Errors[:min(len(response.Errors), limit.MaxErrors)]
			if graphql.HasOperationContext(ctx) {
				limit.NameArguments(graphql.GetOperationContext(ctx).RawQuery, response.Errors)
			}
		}
		return response
	}
}
