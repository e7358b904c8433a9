package console

import (
	"net/http"
	"testing"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/trends"
	"github.com/stretchr/testify/require"
)

func TestQueueCharts(t *testing.T) {
	t.Parallel()

	b := operator(t)
	b.withPast(t)

	for _, path := range []string{"/queues", "/queues/pro"} {
		for _, span := range trends.Ranges {
			got := b.page(t, path+"?range="+span.Name)
			for _, id := range []string{"depth", "waits", "submitted", "throughput"} {
				require.Regexp(t, `id="chart-`+id+`" data-chart="\{`, got, path)
			}
			require.Contains(t, got, `aria-current="true">`+span.Title+"</a>")
			require.Contains(t, got, `data-refresh="`+path+"/charts?range="+span.Name+`"`)
		}
		part := b.get(t, path+"/charts?range=24h")
		require.Equal(t, http.StatusOK, part.Status)
		require.Equal(t, "no-store", part.Header.Get("Cache-Control"))
		require.NotContains(t, part.Body, "<html")
	}
	require.Contains(t, b.page(t, "/queues/pro?range=24h"), "Queued by model")
	require.Contains(t, b.page(t, "/queues?range=24h"), "Queued by lane")
	require.Equal(t, http.StatusOK, b.get(t, "/queues?range=%3Cscript%3E").Status)
	require.Equal(t, http.StatusNotFound, b.get(t, "/queues/gold/charts").Status)
}

func TestQueueLimits(t *testing.T) {
	t.Parallel()

	b := operator(t)
	b.Submit(t)
	require.Regexp(t, `(?s)<tr id="queue-ENTERPRISE-testcard">.*?no pool and no worker serves it`, b.page(t, "/queues"))
	pool := b.pool(t, "only", func(s *capacity.PoolSpec) { s.MaxWorkers = 1 })
	require.Regexp(t, `(?s)<tr id="queue-ENTERPRISE-testcard">.*?0 of at most 1 worker`, b.page(t, "/queues"))
	id := b.Worker(t, "one").WorkerID
	b.Exec(t, "UPDATE workers SET pool_id = ?, status = 'BOOTING', registered_at = NULL, idle_since = NULL, token_hash = NULL WHERE id = ?",
		pool.ID, id)

	list, lane := b.page(t, "/queues"), b.page(t, "/queues/enterprise")

	require.Regexp(t, `(?s)<tr id="lane-ENTERPRISE".*?is-at_maximum.*?<tr id="queue-ENTERPRISE-testcard">.*?is-at_maximum.*?at the maximum of 1 worker<`, list)
	require.Contains(t, lane, "is-at_maximum")

	b.pool(t, "elsewhere", func(s *capacity.PoolSpec) { s.Tiers = []models.Tier{models.TierFree} })
	require.Contains(t, b.page(t, "/queues/enterprise"), "is-at_maximum", "that pool does not serve the lane")
	more := b.pool(t, "more", nil)
	require.NotContains(t, b.page(t, "/queues"), "is-at_maximum")
	b.Exec(t, "UPDATE pools SET paused_at = clock_timestamp() WHERE id = ?", more.ID)
	require.Contains(t, b.page(t, "/queues"), "is-at_maximum", "a paused pool adds no worker")
	b.Exec(t, "UPDATE pools SET paused_at = clock_timestamp()")
	require.Contains(t, b.page(t, "/queues"), "its pools are paused or may have no workers")
}

func TestLearnedDrain(t *testing.T) {
	t.Parallel()

	b := operator(t)
	b.Submit(t)
	b.Worker(t, "one")
	drain := func() float64 {
		o, err := b.Reads.History.Overview(t.Context(), b.Admin)
		require.NoError(t, err)
		require.NotNil(t, o.Drain.Seconds)
		return *o.Drain.Seconds
	}
	catalogue := drain()
	require.Positive(t, catalogue)

	b.Exec(t, `INSERT INTO render_times (model, time_class, gpu_type, ratio, variance, samples) VALUES
		('testcard', 'x', 'a', 4, 0, 30), ('testcard', 'y', 'b', 1, 0, 10), ('other', '', 'a', 100, 0, 5)`)

	require.InEpsilon(t, catalogue*(4*30+1*10)/40, drain(), 0.03, "the mean of the model's renders, to tenths of a second")
	b.Exec(t, "UPDATE learning SET began_at = clock_timestamp() - interval '5 minutes'")
	_, err := (&history.Recorder{DB: b.DB, Catalogue: b.Reads.Models.Catalogue}).Pass(t.Context())
	require.NoError(t, err)
	var recorded float64
	require.NoError(t, b.DB.NewRaw("SELECT max(drain_seconds / drain_samples) FROM history WHERE drain_samples > 0 AND seconds = 60").Scan(t.Context(), &recorded))
	require.InEpsilon(t, drain(), recorded, 1e-6, "alerts and charts have the same figure")
}
