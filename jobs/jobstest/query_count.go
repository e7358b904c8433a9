package jobstest

import (
	"context"
	"sync/atomic"

	"github.com/uptrace/bun"
)

// QueryCount counts queries.
type QueryCount struct{ N atomic.Int64 }

func (c *QueryCount) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (c *QueryCount) AfterQuery(context.Context, *bun.QueryEvent) { c.N.Add(1) }
