package graph

import (
	"context"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/graph/failure"
	"github.com/reelay/reelay/graph/limit"
	"github.com/reelay/reelay/graph/loader"
	"github.com/reelay/reelay/models/postgres"
	"github.com/vektah/gqlparser/v2/ast"
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
			return loader.New(r.Reads, loader.Options{Principal: principal(ctx), Schedules: r.Schedules, Reads: share.reads, Wait: batchWait})
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

// readShare is what one response takes of its caller's share of reads.
type readShare struct {
	ctx context.Context // the context to make the response with
	// reads returns the context for the query of a batch. It is nil if that is the
	// context of the batch.
	reads func(context.Context) (context.Context, error)
	// end gives the share back. It takes the response to learn what was really read.
	end func(*graphql.Response)
}

// admit waits until the caller's share allows what a response reads. The response to a
// subscription waits in its first batch instead: until then there may be no event.
func (r *Resolver) admit(ctx context.Context) (readShare, error) {
	if !graphql.HasOperationContext(ctx) {
		return readShare{ctx: postgres.AsRead(ctx, false), end: func(*graphql.Response) {}}, nil
	}
	op, p := graphql.GetOperationContext(ctx), principal(ctx)
	size := limit.SizeOf(op)
	if size.Price() <= query.FreePrice {
		return readShare{ctx: postgres.AsRead(ctx, false), end: func(*graphql.Response) {}}, nil
	}
	var read *query.Read
	end := func(response *graphql.Response) {
		if read != nil {
			read.EndAt(size.ActualPrice(fieldsOf(response)))
		}
	}
	if op.Operation.Operation == ast.Subscription {
		await := sync.OnceValues(func() (reads context.Context, err error) {
			reads, read, err = r.Reads.Shares.Await(ctx, p, size.Price())
			return reads, err
		})
		return readShare{ctx, func(context.Context) (context.Context, error) { return await() }, end}, nil
	}
	reads, read, err := r.Reads.Shares.Admit(ctx, p, size.Price())
	limit.ClearSize(op) // over a stream a second response says that there are no more
	return readShare{ctx: reads, end: func(response *graphql.Response) {
		read.EndAt(size.ActualPrice(fieldsOf(response)))
	}}, err
}

// fieldBytes is the assumed size of a field in an answer, with its name.
const fieldBytes = 20

// fieldsOf estimates the number of fields in a response.
func fieldsOf(response *graphql.Response) int {
	if response == nil {
		return 0
	}
	return len(response.Data) / fieldBytes
}

// writeApart keeps the statements of a mutation out of the share that its answer reads
// under.
func writeApart(ctx context.Context, next graphql.Resolver) (any, error) {
	if graphql.GetFieldContext(ctx).Object == "Mutation" {
		ctx = postgres.WithoutRead(ctx)
	}
	return next(ctx)
}
