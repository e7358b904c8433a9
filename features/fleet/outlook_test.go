package fleet_test

import (
	"context"
	"testing"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func TestOutlook(t *testing.T) {
	t.Parallel()

	s, scaler, provider, pool := scaled(t, 0, 9)
	scaler.Policy, s.Pools.Policy = fleet.DefaultPolicy, fleet.DefaultPolicy
	s.Exec(t, `INSERT INTO arrival_hours (hour, model, tier, jobs, gpu_seconds)
		SELECT date_trunc('hour', now()) - make_interval(hours => h), 'testcard', 'PRO', 600, 36000 FROM generate_series(-1, 400) h`)

	explained, err := s.Pools.Explain(t.Context(), s.Admin, pool.ID)
	require.NoError(t, err)
	require.NoError(t, scaler.Scale(t.Context()))

	require.InDelta(t, 10, explained.Demand.Expected[0].Workers, 1.5, "600 jobs an hour of a minute each keep 10 workers busy")
	require.Contains(t, explained.Reason, "with the forecast (")
	require.InDelta(t, 9, provider.Started, 1)
	require.Contains(t, string(scalingHistory(t, s, pool, 1)[0].Inputs), `"expected": [{"lane": "PRO"`)

	// Two workers leave without being asked; one is drained.
	workers := enrol(t, s, provider, pool)
	for i, reason := range []string{"preempted", "", "the pool needs fewer workers"} {
		s.Exec(t, `UPDATE workers SET status = 'TERMINATED', token_hash = NULL, ended_at = now(), drain_reason = nullif(?, ''),
			registered_at = now() - interval '1 day' WHERE id = ?`, reason, workers[i].WorkerID)
	}
	// What on-demand workers of the region and workers without a pool do says nothing of spot.
	s.Exec(t, `UPDATE workers SET capacity_class = 'ON_DEMAND', status = 'TERMINATED', token_hash = NULL, ended_at = now(), drain_reason = 'preempted',
		registered_at = now() - interval '1 day' WHERE id = ?`, workers[3].WorkerID)
	s.Exec(t, `UPDATE workers SET pool_id = NULL, status = 'TERMINATED', token_hash = NULL, ended_at = now(), drain_reason = 'preempted',
		registered_at = now() - interval '1 day' WHERE id = ?`, workers[4].WorkerID)
	require.NoError(t, jobs.InTx(t.Context(), s.DB, func(ctx context.Context, tx bun.Tx) error {
		rates, err := capacity.ReadPreemptionRates(ctx, tx, []string{"the pool needs fewer workers"})
		require.NoError(t, err)
		require.Equal(t, 2, rates["local"].Preempted)
		require.InDelta(t, 3, rates["local"].WorkerHours, 0.2, "an hour of each that ended, and moments of the others")
		return nil
	}))
}

func TestArrivalHours(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	for range 3 {
		s.Submit(t)
	}
	s.Exec(t, "UPDATE learning SET until = clock_timestamp() - interval '1 minute'")
	for range 2 { // jobs count once
		testrun.Eventually(t, "the jobs are older than what a pass leaves to the next", func() bool {
			_, err := s.Learner.Learn(t.Context())
			require.NoError(t, err)
			history, err := models.ReadArrivalHours(t.Context(), s.DB)
			require.NoError(t, err)
			return len(history.Hours) > 0 && history.Hours[0].Jobs >= 3
		})
	}

	history, err := models.ReadArrivalHours(t.Context(), s.DB)

	require.NoError(t, err)
	require.Equal(t, 3.0, history.Hours[0].Jobs)
}
