package graph

import (
	"context"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/graph/limit"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/models"
	"github.com/vektah/gqlparser/v2/ast"
)

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
		return readShare{ctx: models.AsRead(ctx, false), end: func(*graphql.Response) {}}, nil
	}
	op, p := graphql.GetOperationContext(ctx), principal(ctx)
	size := limit.SizeOf(op)
	if size.Price() <= query.FreePrice {
		return readShare{ctx: models.AsRead(ctx, false), end: func(*graphql.Response) {}}, nil
	}
	var read *query.Read
	end := func(response *graphql.Response) {
		if read != nil {
			read.EndAt(size.ActualPrice(fieldsOf(response)))
		}
	}
	if op.Operation.Operation == ast.Subscription {
		await := sync.OnceValues(func() (reads context.Context, err error) {
			reads, read, err = r.Reader.Shares.Await(ctx, p, size.Price())
			return reads, err
		})
		return readShare{ctx, func(context.Context) (context.Context, error) { return await() }, end}, nil
	}
	reads, read, err := r.Reader.Shares.Admit(ctx, p, size.Price())
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
		ctx = models.WithoutRead(ctx)
	}
	return next(ctx)
}
