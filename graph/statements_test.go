package graph_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// counter counts SQL statements.
type counter struct{ n atomic.Int64 }

func (c *counter) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }
func (c *counter) AfterQuery(context.Context, *bun.QueryEvent)                        { c.n.Add(1) }

// A page costs as many statements as a list of one: no edge is read row by row.
func TestStatementsOfAPage(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const most = 50
	for i := range most {
		job := a.Submit(t)
		worker := a.Worker(t, fmt.Sprint("w", i))
		_, fence := a.Lease(t, worker)
		log := a.Upload(t, worker, fence, "LOG", []byte("log"))
		_, err := a.Holder.Fail(t.Context(), worker, fence, jobs.Failure{Class: "INVALID_INPUT", Message: "no", Log: &log})
		require.NoError(t, err)
		require.NotEmpty(t, job.ID)
	}
	statements := &counter{}
	a.DB.AddQueryHook(statements)
	count := func(first int, node string) int64 {
		before := statements.n.Load()
		data := a.as(t, "ADMIN", `query ($n: Int!) { jobs(first: $n) { edges { node { id `+node+` } } } }`, map[string]any{"n": first})
		require.Len(t, at[[]any](t, data, "jobs", "edges"), first)
		return statements.n.Load() - before
	}

	for _, node := range []string{
		`prompt waitingFor { code } account { name } result { id } latestCheckpoint { id } dependsOn { id status }
			artifacts { id url } attempts { status worker { id pool { name } currentJob { id } } checkpoint { id } log { id url } }`,
		`events(first: 5) { edges { node { seq type payload } } pageInfo { hasNextPage } }`,
	} {
		count(1, node) // plans, connections
		one := count(1, node)
		require.Equal(t, one, count(10, node), node)
		require.Equal(t, one, count(most, node), node)
		t.Log(one, "statements")
	}
}
