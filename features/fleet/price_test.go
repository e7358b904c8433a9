package fleet_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/pass"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestScaleByPrice(t *testing.T) {
	t.Parallel()

	t.Run("BootsNoWorkerAboveThePoolsLimit", func(t *testing.T) {
		t.Parallel()

		s, scaler, provider, pool := scaled(t, 1, 4)
		s.Exec(t, "UPDATE pools SET price_per_hour_usd = 0.4, max_price_per_hour_usd = 0.5, price_source = 'feed', quoted_usd = 0.6")
		s.Submit(t)

		require.NoError(t, scaler.Scale(t.Context()))
		explained, err := s.Pools.Explain(t.Context(), s.Admin, pool.ID)
		require.NoError(t, err)
		require.Zero(t, provider.Started)
		require.Equal(t, "1 waiting job needs 1 worker; its price of $0.6 per hour is above its limit of $0.5.", explained.Reason)

		s.Exec(t, "UPDATE pools SET quote_ends_at = clock_timestamp()")
		require.NoError(t, scaler.Scale(t.Context()))
		require.Equal(t, 1, provider.Started, "the quote no longer counts")

		s.Exec(t, "UPDATE pools SET quote_ends_at = NULL")
		require.NoError(t, scaler.Scale(t.Context()))
		require.Len(t, provider.Running, 1, "what runs stays")
		require.Equal(t, 1, poolStatus(t, s, pool).Booting)
		workers, err := capacity.ListPoolWorkers(t.Context(), s.DB, []models.PoolID{pool.ID})
		require.NoError(t, err)
		require.Equal(t, new(0.6), workers[0].PricePerHourUSD, "the scaler sees that it need not write it again")
	})

	t.Run("LetsBATCHWaitForACheaperHourWithinItsPatience", func(t *testing.T) {
		t.Parallel()

		s, scaler, provider, _ := scaled(t, 0, 4)
		s.Exec(t, "UPDATE accounts SET tier = 'BATCH'")
		job := s.Submit(t)
		s.Exec(t, `UPDATE pools SET price_source = 'feed', quoted_usd = 0.6,
			quote_ahead = jsonb_build_array(jsonb_build_object('from', clock_timestamp() + interval '2 h', 'pricePerHourUsd', 0.2))`)
		why := func() query.WaitingReason {
			found, err := s.WaitingFor(t, job.ID)
			require.NoError(t, err)
			require.NotEmpty(t, found[job.ID])
			return found[job.ID][0]
		}

		require.NoError(t, scaler.Scale(t.Context()))
		waits := why()
		require.Zero(t, provider.Started)
		require.Equal(t, query.WaitPrice, waits.Code, waits.Message)
		require.WithinDuration(t, time.Now().Add(6*time.Hour), waits.Until, time.Hour)

		s.Exec(t, "UPDATE jobs SET queued_at = queued_at - interval '6 h'")
		_, err := (&pass.Promoter{DB: s.DB, Notifier: s.Notifier}).Promote(t.Context())
		require.NoError(t, err)
		require.NoError(t, scaler.Scale(t.Context()))

		require.Equal(t, 1, provider.Started, "its patience is over")
		require.Equal(t, query.WaitCapacityBooting, why().Code)
	})
}

// advisor is a provider that gives advice.
type advisor struct {
	*jobstest.FakeProvider
	advice *fleet.Advice
}

func (a *advisor) Advise(context.Context, *capacity.Pool) (*fleet.Advice, error) {
	if a.advice == nil {
		return nil, errors.New("no <permission>")
	}
	return a.advice, nil
}

func TestAdviser_Pass(t *testing.T) {
	t.Parallel()

	s, _, provider, pool := scaled(t, 0, 4)
	preempted := 0.12
	a := &advisor{provider, &fleet.Advice{Preempted: &preempted, Uptime: 2 * time.Hour}}
	adviser := &fleet.Adviser{DB: s.DB, Providers: map[string]fleet.Provider{"fake": a}}

	require.NoError(t, adviser.Pass(t.Context()))
	said := poolStatus(t, s, pool).Advice
	a.advice = nil
	require.NoError(t, adviser.Pass(t.Context()))
	failed := poolStatus(t, s, pool).Advice

	require.InDelta(t, 0.12, *said.Preempted, 0)
	require.InDelta(t, 7200, *said.UptimeSeconds, 0)
	require.Nil(t, said.PricePerHourUSD)
	require.Equal(t, "no <permission>", failed.Problem)
	require.Nil(t, failed.Preempted)
	_, err := s.Pools.Pause(t.Context(), s.Admin, pool.ID)
	require.NoError(t, err)
	require.Equal(t, "no <permission>", poolStatus(t, s, pool).Advice.Problem, "a pause keeps it")
}
