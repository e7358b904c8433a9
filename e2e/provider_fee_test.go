package e2e

import (
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// The model of the tests asks Kling for five seconds.
const feePrices = `prices: [{provider: kling, model: text-to-video/kling-3.0, since: 2026-01-01, rules: [{perSecondUsd: 0.07, perCallUsd: 0.01}]}]`

func TestProviderFee(t *testing.T) {
	t.Parallel()

	t.Run("IsThePriceOfTheSecondsOnceAlsoIfAnAgentIsKilled", func(t *testing.T) {
		t.Parallel()
		h := startProviders(t).rent(t, "hosted", 2, 4)
		operator := h.operator(t)
		book, err := operator.PriceBook(t.Context())
		require.NoError(t, err)
		require.Nil(t, book.Models[0].Price)
		require.NotEmpty(t, book.Models[0].Problem)
		_, err = operator.ImportProviderPrices(t.Context(), "prices.yaml", feePrices, false)
		require.NoError(t, err)
		h.feed(t, 3)
		testrun.Eventually(t, "that the provider works on all jobs", func() bool { return h.fake.Most() == 3 })

		h.restart(t, 0)
		h.restart(t, 1)
		h.fake.Run(50 * time.Millisecond)

		h.check(t)
		for _, id := range h.ids {
			job, err := h.client(t).Job(t.Context(), id)
			require.NoError(t, err)
			require.NotNil(t, job.CostUsd)
			require.InDelta(t, 0.36, *job.CostUsd, 1e-9, "five seconds, and a call")
			require.NotNil(t, job.EstimatedCostUsd)
			require.InDelta(t, 0.36, *job.EstimatedCostUsd, 1e-9)
		}
		report, err := operator.Costs(t.Context(), client.CostRequest{By: client.CostGroupProvider, First: 9})
		require.NoError(t, err)
		require.Len(t, report.Rows, 1)
		require.Equal(t, "kling", report.Rows[0].Key)
		require.InDelta(t, 3*0.36, report.Rows[0].ChargedUsd, 1e-9)
		require.InDelta(t, 3*0.36, *report.Rows[0].CostUsd, 1e-9)
		require.Zero(t, report.Total.Unpriced)
	})
}
