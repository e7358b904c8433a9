package web

import (
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestQueueList(t *testing.T) {
	t.Parallel()

	t.Run("ShowsWhatWaitsAndWhyPoolsScale", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.resumed(t)
		b.Submit(t)
		pool := &models.Pool{
			ID: models.NewPoolID(), Name: "h200", Provider: "static", Region: "local", GPUType: "any",
			CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, MaxWorkers: 4,
		}
		require.NoError(t, models.UpsertPool(t.Context(), b.DB, pool))
		require.NoError(t, models.InsertScalingDecision(t.Context(), b.DB, &models.ScalingDecision{
			PoolID: pool.ID, From: 1, To: 3, Reason: "two <jobs> wait", Inputs: []byte(`{}`),
		}))

		got := b.get(t, "/queues")

		require.Regexp(t, `(?s)<tr id="queue-ENTERPRISE-testcard">.*status=QUEUED&amp;tier=ENTERPRISE">1</a></td><td class="num">1</td>`, got.Body)
		require.Contains(t, got.Body, "1 → 3")
		require.Contains(t, got.Body, "two &lt;jobs&gt; wait")
		require.Contains(t, got.Body, "0 to 4")
	})
}
