package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// counter counts SQL statements, including prepared ones, and keeps the last one.
type counter struct {
	n    atomic.Int64
	last atomic.Pointer[string]
}

// TraceQueryStart implements pgx.QueryTracer.
func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	c.last.Store(&query.SQL)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// countReads makes a stack read over connections whose statements are counted.
func countReads(t *testing.T, s *jobstest.Stack) *counter {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(modelstest.DSNOf(t, s.DB))
	require.NoError(t, err)
	c := &counter{}
	cfg.ConnConfig.Tracer, cfg.ConnConfig.DefaultQueryExecMode = c, pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s.ReadOver(bun.NewDB(stdlib.OpenDBFromPool(pool), pgdialect.New(), bun.WithDiscardUnknownColumns()))
	return c
}

// newBatchingAPI returns an API whose batches wait so long that the number of statements does
// not depend on the machine's load.
func newBatchingAPI(t *testing.T) *api {
	t.Helper()
	s := jobstest.New(t)
	server := httptest.NewServer(handlerWith(s, graph.Options{BatchWait: 300 * time.Millisecond}))
	t.Cleanup(server.Close)
	return &api{s, server.URL}
}

// A page costs as many statements as a page of one: no edge is read row by row.
func TestStatementsOfAPage(t *testing.T) {
	t.Parallel()
	a := newBatchingAPI(t)
	const most = 50
	for i := range most {
		job := a.Submit(t)
		worker := a.Worker(t, fmt.Sprint("w", i))
		_, fence := a.Lease(t, worker)
		log := a.Upload(t, worker, fence, "LOG", []byte("log"))
		_, err := a.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: "INVALID_INPUT", Message: "no", Log: &log})
		require.NoError(t, err)
		require.NotEmpty(t, job.ID)
	}
	statements := countReads(t, a.Stack)
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
		`attempts { status log { id } } artifacts { id } events(first: 5) { edges { node { seq } } }`,
	} {
		one := count(1, node)
		require.NotZero(t, one)
		require.Equal(t, one, count(10, node), node)
		require.Equal(t, one, count(most, node), node)
		t.Log(one, "statements")
	}
}

func TestStatementsOfPools(t *testing.T) {
	t.Parallel()
	a := newBatchingAPI(t)
	statements := countReads(t, a.Stack)
	grow := func(name string) {
		pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{Name: name, Provider: "local",
			CapacityClass: models.CapacitySpot,
			Models:        []string{"testcard"}, MaxWorkers: 1}}
		require.NoError(t, capacity.UpsertPool(t.Context(), a.DB, pool))
		a.Exec(t, "UPDATE pools SET price_source = 'feed', quoted_usd = 0.4, quote_stale_at = now() - interval '1 h'")
		require.NoError(t, capacity.RecordPrices(t.Context(), a.DB))
		for i := range 4 {
			require.NoError(t, capacity.InsertScalingDecision(t.Context(), a.DB, &capacity.ScalingDecision{
				PoolID: pool.ID, To: i, Reason: fmt.Sprint(name, " decision ", i), Inputs: json.RawMessage("{}"),
			}))
		}
	}
	read := func(most int) int64 {
		before := statements.n.Load()
		data := a.as(t, access.RoleOperator,
			`{ pools { name scalingHistory(first: 3) { reason } all: scalingHistory { to } price { pricePerHourUsd source stale } priceHistory(hours: 1) { pricePerHourUsd } lossesPerHour } }`, nil)
		pools := at[[]any](t, data, "pools")
		require.Len(t, pools, most)
		for _, each := range pools {
			pool := each.(map[string]any)
			name := pool["name"].(string)
			require.Equal(t, []any{
				map[string]any{"reason": name + " decision 3"}, map[string]any{"reason": name + " decision 2"},
				map[string]any{"reason": name + " decision 1"},
			}, pool["scalingHistory"])
			require.Len(t, pool["all"], 4)
			require.Equal(t, map[string]any{"pricePerHourUsd": 0.4, "source": "feed", "stale": true}, pool["price"])
			require.Equal(t, []any{map[string]any{"pricePerHourUsd": 0.4}}, pool["priceHistory"])
			require.Nil(t, pool["lossesPerHour"])
		}
		return statements.n.Load() - before
	}

	grow("p0")
	one := read(1)
	require.NotZero(t, one)
	for i := 1; i < 10; i++ {
		grow(fmt.Sprint("p", i))
	}

	require.Equal(t, one, read(10))
	refused := ask(t, a.url, a.Secrets[access.RoleOperator], `{ pools { scalingHistory(first: 0) { to } } }`, nil)
	require.Equal(t, "INVALID_INPUT", refused.codes()[0])
	require.Len(t, refused.Errors, 10, "a list that is not null is asked of each")
	for _, hours := range []int{-1, 0, 721} {
		refused = ask(t, a.url, a.Secrets[access.RoleOperator], fmt.Sprintf(`{ pools { priceHistory(hours: %d) { from } } }`, hours), nil)
		require.Equal(t, "INVALID_INPUT", refused.codes()[0])
	}
}
