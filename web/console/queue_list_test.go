package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestQueueList(t *testing.T) {
	t.Parallel()

	t.Run("ShowsWhatWaitsAndWhyPoolsScale", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.resumed(t)
		b.Submit(t)
		pool := b.pool(t, "h200", nil)
		require.NoError(t, capacity.InsertScalingDecision(t.Context(), b.DB, &capacity.ScalingDecision{
			PoolID: pool.ID, From: 1, To: 3, Reason: "two <jobs> wait", Inputs: []byte(`{}`),
		}))

		got := b.get(t, "/queues")

		require.Contains(t, got.Body, `<a href="/pools/`+string(pool.ID)+`">h200</a>`)
		require.Regexp(t, `(?s)<tr id="queue-ENTERPRISE-testcard">.*q=tier%3Aenterprise[^"]*model%3Atestcard&amp;status=QUEUED">1</a>.*?</td><td class="num" data-label="Running">1\s+<span[^>]*>of 6</span>\s*<svg class="meter is-running"[^>]*aria-label="17 %"`, got.Body)
		require.Contains(t, got.Body, "1 → 3")
		require.Contains(t, got.Body, "two &lt;jobs&gt; wait")
		require.Contains(t, got.Body, "0 to 4")
		require.Contains(t, got.Body, "Provider static, region local, GPU any, spot. Models: testcard.")
	})
}

func TestQueueFigures(t *testing.T) {
	t.Parallel()

	t.Run("ShowHowManyJobsWaitForAProvider", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.AddTwin(t, "hosted", func(m *catalogue.Model) { m.Runtime = "runway" })
		_, err := b.Pools.Create(t.Context(), b.Admin, capacity.PoolSpec{Name: "runway", Provider: engine.Provider, EngineKind: "runway",
			Engines: []string{"https://api.dev.runwayml.com"}, Models: []string{"hosted"}})
		require.NoError(t, err)
		for range 2 {
			jobstest.SubmitWith(t, b.Stack, func(in *submit.Submission) { in.Model = "hosted" })
		}
		require.NotContains(t, b.get(t, "/queues").Body, "at a provider")

		b.Exec(t, "UPDATE provider_accounts SET concurrent = 0")
		got := b.get(t, "/queues").Body
		require.Regexp(t, `(?s)<tr id="lane-ENTERPRISE".*?>2 for a slot at a provider</span>.*?<tr id="queue-ENTERPRISE-hosted">`, got)
		require.Regexp(t, `(?s)<tr id="queue-ENTERPRISE-hosted">.*?title="An operator raises[^"]*">2 for a slot at a provider: All 0 slots at Runway are taken.</span>`, got)

		b.Exec(t, "UPDATE provider_accounts SET concurrent = 5, paused_until = clock_timestamp() + interval '1 hour', reason = 'slow down'")
		require.Contains(t, b.get(t, "/queues/enterprise").Body, "2 for a provider: Runway takes no jobs at the moment.")
	})

	t.Run("ShowWhichAccountFloodsALane", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		calm := b.NewKey(t, b.NewAccount(t, "calm "+hostile, models.TierEnterprise), access.RoleClient)
		first := jobstest.SubmitAs(t, b.Stack, calm, func(*submit.Submission) {})
		for range 12 {
			b.Submit(t)
		}
		b.Exec(t, "UPDATE accounts SET max_running = 0 WHERE id = ?", b.Account.ID)
		b.Exec(t, "UPDATE account_lanes SET capped = true WHERE account_id = ?", b.Account.ID)

		got := b.get(t, "/queues").Body
		lane := b.get(t, "/queues/enterprise").Body

		require.Regexp(t, `(?s)<tr id="lane-ENTERPRISE".*?client <span class="quiet">12, 92 %</span>.*?floods</span>`, got)
		require.Regexp(t, `(?s)client</span>.*?floods.*?at its limit.*?data-label="Waiting">12.*?data-label="Fair share">50 %`, lane)
		require.Contains(t, lane, "calm &lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;[U+202E]")
		require.Contains(t, lane, `<tr id="head-`+string(first.ID)+`">`, "the other account is at its limit")
		require.Equal(t, 1, strings.Count(lane, `<tr id="head-`))
		require.Contains(t, lane, "No pool and no worker can run it: it needs testcard.", "it says what the next job waits for")
		require.Equal(t, http.StatusNotFound, b.get(t, "/queues/nowhere").Status)
	})

	t.Run("ShowWhetherTheTargetIsMet", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		require.Regexp(t, `(?s)<tr id="lane-PRO".*?target 2 min</span></td><td class="num" data-label="Wait p50 / p95">n/a</td><td class="num queue-drain" data-label="Empty in">\s*empty`, b.get(t, "/queues").Body)
		b.Submit(t)
		b.Exec(t, "UPDATE jobs SET queued_at = clock_timestamp() - interval '20 seconds'")
		require.Regexp(t, `(?s)<tr id="lane-ENTERPRISE".*?<span class="under quiet">target 30 s</span>`, b.get(t, "/queues").Body)
		b.Exec(t, "UPDATE jobs SET queued_at = clock_timestamp() - interval '1 minute'")
		require.Regexp(t, `(?s)<tr id="lane-ENTERPRISE".*?<span class="under target-missed">target 30 s, missed</span>`, b.get(t, "/queues").Body)
	})
}

func TestQueueActions(t *testing.T) {
	t.Parallel()

	t.Run("PauseAndResumeALane", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)
		b.Submit(t)

		asked := b.get(t, "/queues/enterprise/pause")
		require.Contains(t, asked.Body, "Pause the enterprise lane?")
		require.Contains(t, asked.Body, "Waiting jobs (2)")
		got := b.post(t, "/queues/enterprise/pause", url.Values{"reason": {"storage is <full>"}})

		require.Equal(t, "/queues", got.Header.Get("Location"), got.Body)
		queues := b.get(t, "/queues").Body
		require.Regexp(t, `(?s)<tr id="lane-ENTERPRISE".*?paused</span>.*?Resume.*?<tr class="pause-row">.*?by test OPERATOR,.*?storage is &lt;full&gt;`, queues)
		require.NotContains(t, queues, `id="queue-ENTERPRISE-"`, "no row has an empty model")
		require.NotContains(t, queues, `action="/queues/enterprise/resume?model`, "the lane is resumed first")
		require.Regexp(t, `Paused: the enterprise lane</strong>.*storage is &lt;full&gt;`, b.get(t, "/jobs").Body)

		got = b.post(t, "/queues/enterprise/resume", nil)
		require.Equal(t, "/queues", got.Header.Get("Location"), got.Body)
		require.NotContains(t, b.get(t, "/queues").Body, "paused</span>")
		require.NotContains(t, b.get(t, "/jobs").Body, "Paused:")
	})

	t.Run("PauseOneModelInALane", func(t *testing.T) {
		t.Parallel()

		b := operator(t)

		require.Contains(t, b.get(t, "/queues/pro/pause?model=testcard").Body, "Pause testcard in the pro lane?")
		b.post(t, "/queues/pro/pause?model=testcard", nil)

		queues := b.get(t, "/queues").Body
		require.Regexp(t, `(?s)<tr id="lane-PRO".*?partly paused</span>.*?<tr id="queue-PRO-testcard">.*?paused</span>.*?action="/queues/pro/resume\?model=testcard"`, queues)
		b.post(t, "/queues/pro/resume?model=testcard", nil)
		require.NotContains(t, b.get(t, "/queues").Body, "paused</span>")
	})

	t.Run("KeepAReasonThatIsRefused", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		long := strings.Repeat("x", 201)

		got := b.post(t, "/queues/pro/pause", url.Values{"reason": {long}})

		require.Equal(t, http.StatusUnprocessableEntity, got.Status)
		require.Contains(t, got.Body, `value="`+long+`"`)
		require.Contains(t, got.Body, "up to 200 printable characters")
	})

	t.Run("RefuseUnknownLanes", func(t *testing.T) {
		t.Parallel()

		b := operator(t)

		got := b.post(t, "/queues/gold/pause", nil)
		require.Equal(t, http.StatusNotFound, got.Status)
		require.Contains(t, got.Body, `href="/queues">Back to queues</a>`)
		require.Equal(t, http.StatusNotFound, b.get(t, "/queues/gold/pause").Status)
	})
}
