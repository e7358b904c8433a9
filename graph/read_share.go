package graph

import (
	"context"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/models"
	"github.com/vektah/gqlparser/v2/ast"
)

// admit waits until the caller's share allows what an operation reads. It returns the
// context to read with, and a function to call with the response. A response to a
// subscription waits before its first batch, when there is an event to answer with.
func (r *Resolver) admit(ctx context.Context, made *response) (reads context.Context, end func(*graphql.Response), err error) {
	if !graphql.HasOperationContext(ctx) || isFree(ctx) {
		return models.AsRead(ctx, false), func(*graphql.Response) {}, nil
	}
	op, p := graphql.GetOperationContext(ctx), principal(ctx)
	size := sizeOfOperation(op)
	var read *query.Read
	end = func(response *graphql.Response) {
		if read != nil {
			read.EndAt(size.looks + fieldsOf(response))
		}
	}
	if op.Operation.Operation == ast.Subscription {
		await := sync.OnceValues(func() (reads context.Context, err error) {
			reads, read, err = r.Reader.Shares.Await(ctx, p, size.price+size.looks)
			return reads, err
		})
		made.reads = func(context.Context) (context.Context, error) { return await() }
		return ctx, end, nil
	}
	reads, read, err = r.Reader.Shares.Admit(ctx, p, size.price+size.looks)
	op.Stats.SetExtension(sizeOf, nil) // a stream asks for a second response, to learn that there is none
	return reads, end, err
}

// fieldBytes is how long a field of an answer is, with its name.
const fieldBytes = 20

// fieldsOf is about how many fields a response has.
func fieldsOf(response *graphql.Response) int {
	if response == nil {
		return 0
	}
	return len(response.Data) / fieldBytes
}

// sizeOf names the size of an operation's answer among its statistics.
const sizeOf = "size"

func sizeOfOperation(op *graphql.OperationContext) size {
	s, _ := op.Stats.GetExtension(sizeOf).(size)
	return s
}

// isFree tells whether the operation that ctx is of waits for no share.
func isFree(ctx context.Context) bool {
	s := sizeOfOperation(graphql.GetOperationContext(ctx))
	return s.price+s.looks <= query.FreePrice
}

// writeApart keeps a mutation's own statements from those that read for its answer.
func writeApart(ctx context.Context, next graphql.Resolver) (any, error) {
	if graphql.GetFieldContext(ctx).Object == "Mutation" {
		ctx = models.WithoutRead(ctx)
	}
	return next(ctx)
}
