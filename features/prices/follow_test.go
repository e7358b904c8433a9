package prices

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/periodic"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func TestFollower_Pass(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	pool := jobstest.AddPool(t, s, 0, 4)
	s.Exec(t, "UPDATE pools SET gpu_type = 'L4', price_source = 'file', price_per_hour_usd = 0.9")
	plain := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: pool.PoolSpec}
	plain.Name, plain.PricePerHourUSD, plain.PriceSource = "plain", 0.7, "hangs"
	require.NoError(t, capacity.InsertPool(t.Context(), s.DB, plain))
	path := filepath.Join(t.TempDir(), "prices.json")
	claim := (&periodic.Periods{DB: s.DB}).Claim
	follower := &Follower{DB: s.DB, Claim: claim, limit: 100 * time.Millisecond, Sources: []*Source{
		{Name: "file", File: path, EverySeconds: 86400, StaleAfterMinutes: 60, IgnoreAfterMinutes: 120},
		{Name: "hangs", Command: []string{"sleep", "600"}, EverySeconds: 86400, StaleAfterMinutes: 60, IgnoreAfterMinutes: 120},
		{Name: "unused", File: "/nowhere", EverySeconds: 86400},
	}}
	// pass lets the time for the next reading come.
	pass := func(document string) (*capacity.Pool, error) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte(document), 0o600))
		s.Exec(t, "DELETE FROM passes WHERE name = 'prices of file'")
		err := follower.Pass(t.Context())
		found, listed := capacity.GetPools(t.Context(), s.DB, []models.PoolID{pool.ID})
		require.NoError(t, listed)
		return found[0], err
	}
	now, err := postgres.Now(t.Context(), s.DB)
	require.NoError(t, err)

	quoted, err := pass(valid(now.Add(-time.Minute), 0.4))
	require.ErrorContains(t, err, "read the source of prices hangs: it did not answer in time", "it holds up nobody for long")
	require.InDelta(t, 0.4, quoted.PriceAt(now), 0)
	require.WithinDuration(t, now.Add(-time.Minute), quoted.QuotedAt, time.Second)
	require.False(t, quoted.PriceStale(now))
	require.True(t, quoted.PriceStale(now.Add(time.Hour)))
	require.InDelta(t, 0.4, quoted.PriceAt(now.Add(118*time.Minute)), 0, "the last price holds")
	require.InDelta(t, 0.9, quoted.PriceAt(now.Add(2*time.Hour)), 0, "for some time")

	for name, document := range map[string]string{
		"its prices are of":             valid(now.Add(-7*24*time.Hour), 0.1),
		"which is in the future":        valid(now.Add(time.Hour), 0.1),
		"it is not JSON":                "nonsense",
		"must be from 0 to":             valid(now, -1),
		"it has none for such machines": `{"at": "` + now.Format(time.RFC3339) + `", "prices": [{"gpuType": "T4", "pricePerHourUsd": 1}]}`,
		"it has none for such machines yet": fmt.Sprintf(`{"at": %q, "prices": [{"gpuType": "L4", "from": %q, "pricePerHourUsd": 1}]}`,
			now.Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339)),
	} {
		kept, _ := pass(document)
		require.Contains(t, kept.QuoteProblem, "The source file gives no price: ", name)
		require.Contains(t, kept.QuoteProblem, name)
		require.InDelta(t, 0.4, kept.PriceAt(now), 0, name)
	}

	ahead := fmt.Sprintf(`{"at": %q, "prices": [{"gpuType": "L4", "pricePerHourUsd": 0.5}, {"gpuType": "L4", "from": %q, "pricePerHourUsd": 0.3}]}`,
		now.Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))
	quoted, err = pass(ahead)
	require.NoError(t, err)
	require.Empty(t, quoted.QuoteProblem)
	require.InDelta(t, 0.5, quoted.PriceAt(now), 0)
	require.InDelta(t, 0.3, quoted.PriceAt(now.Add(61*time.Minute)), 0)
	s.Exec(t, `UPDATE pools SET quote_ahead = jsonb_set(quote_ahead, '{0,from}', to_jsonb(clock_timestamp())) WHERE name <> 'plain'`)
	require.NoError(t, os.Remove(path))
	require.NoError(t, follower.Pass(t.Context()), "nothing is read before its time")

	history, err := capacity.ListPrices(t.Context(), s.DB, []models.PoolID{pool.ID}, time.Hour, 100)
	require.NoError(t, err)
	var usd []float64
	for _, step := range history {
		usd = append(usd, step.PricePerHourUSD)
	}
	require.Equal(t, []float64{0.9, 0.4, 0.5, 0.3}, usd)
	removed := 0
	require.NoError(t, jobs.InTx(t.Context(), s.DB, func(ctx context.Context, tx bun.Tx) (err error) {
		removed, err = capacity.DeleteOldPrices(ctx, tx, 0, 100)
		return err
	}))
	require.Equal(t, 3, removed, "the newest stays, of each pool")
	var price float64
	require.NoError(t, s.DB.NewRaw("SELECT pool_price(p) FROM pools p WHERE name = 'plain'").Scan(t.Context(), &price))
	require.InDelta(t, 0.7, price, 0, "the constant, as long as a source says nothing")
}

func TestFollower_OneProcessReads(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	jobstest.AddPool(t, s, 0, 4)
	s.Exec(t, "UPDATE pools SET gpu_type = 'L4', price_source = 'counts'")
	log := filepath.Join(t.TempDir(), "log")
	script := fmt.Sprintf("echo run >> %s; echo '%s'", log, valid(time.Now(), 0.4))
	source := &Source{Name: "counts", Command: []string{"/bin/sh", "-c", script}, EverySeconds: 86400, StaleAfterMinutes: 60,
		IgnoreAfterMinutes: 120}

	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			f := &Follower{DB: s.DB, Claim: (&periodic.Periods{DB: s.DB}).Claim, Sources: []*Source{source}}
			require.NoError(t, f.Pass(t.Context()))
		})
	}
	all.Wait()

	runs, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, "run\n", string(runs))
}
