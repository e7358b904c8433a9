package servers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/fleet"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/operations"
	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/ui"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// shown is how a surface shows a figure of the overview, by the figure's name in REST. Each figure
// of REST and GraphQL must have a line, if only an empty one.
type shown struct {
	top, overview, queues, metric func(v float64) string
}

var (
	whole = func(format string) func(float64) string {
		return func(v float64) string { return fmt.Sprintf(format, int(v)) }
	}
	took = func(format string) func(float64) string {
		return func(v float64) string { return fmt.Sprintf(format, ui.Seconds(&v)) }
	}
	spent = func(format string) func(float64) string {
		return func(v float64) string { return fmt.Sprintf(format, text.Seconds(v)) }
	}
	perHour = func(format string) func(float64) string {
		return func(v float64) string { return fmt.Sprintf(format, ui.Figure(&v, "/h")) }
	}
)

var shownFigures = map[string]shown{
	"queued": {top: whole("%d queued"), overview: whole("Queued %d oldest")},
	"promoted": {top: whole("(%d promoted)"), overview: whole("· %d promoted"), queues: whole("%d promoted, oldest"),
		metric: whole(`reelay_queue_promoted{tier="ENTERPRISE"} %d`)},
	"running":              {top: whole("%d running"), overview: whole("Running %d on")},
	"scheduled":            {top: whole("%d scheduled"), overview: whole("· %d scheduled")},
	"blocked":              {top: whole("%d blocked"), overview: whole("· %d blocked")},
	"dead_letters":         {top: whole("%d dead letters"), overview: whole("Dead letters %d"), metric: whole("reelay_dlq_size %d")},
	"workers_idle":         {metric: whole(`reelay_workers{status="IDLE"} %d`)},
	"workers_busy":         {overview: whole("Workers busy %d of"), metric: whole(`reelay_workers{status="BUSY"} %d`)},
	"workers_booting":      {overview: whole("%d booting"), metric: whole(`reelay_workers{status="BOOTING"} %d`)},
	"workers_draining":     {overview: whole("%d draining"), metric: whole(`reelay_workers{status="DRAINING"} %d`)},
	"workers_max":          {overview: whole("at most %d in pools")},
	"workers_without_pool": {overview: whole("%d without a pool")},
	// a row of the queues page is for that queue alone
	"estimated_drain_seconds": {top: spent("queues empty in %s"), overview: took("Queues empty in %s"),
		metric: func(v float64) string { return fmt.Sprintf("reelay_estimated_drain_time_all_seconds %v", v) }},
	"preemptions_per_hour":          {overview: perHour("Preemptions %s")},
	"operator_preemptions_per_hour": {overview: perHour("%s by operators")},
	"submitted_per_minute":          {}, "completed_per_minute": {}, "failure_rate": {}, "wait_seconds_p50": {}, "wait_seconds_p95": {},
	"render_seconds_p50": {},
	"render_seconds_p95": {}, "recovery_seconds_p95": {}, "gpu_utilization": {}, "cost_usd_per_hour": {}, "wasted_usd_per_hour": {}, "cost_usd_per_video": {},
}

// notFigures are the fields beside the figures.
var notFigures = map[string]bool{"at": true, "drain_leaves_out": true, "paid": true}

// growing are the figures that grow from one read to the next, because machines cost money while they are.
var growing = map[string]bool{"cost_usd_per_hour": true, "cost_usd_per_video": true}

// seedFigures makes jobs and workers of all kinds that figures tell apart.
func seedFigures(t *testing.T, s *strained) {
	t.Helper()
	b := jobstest.Over(t, s.db)
	taken := func(drilled bool) {
		worker := b.Worker(t, fmt.Sprint("taken ", drilled))
		b.Index().Lose() // the jobs are in the index of the other stack
		_, fence := b.Lease(t, worker)
		if drilled {
			b.Exec(t, "UPDATE workers SET drain_reason = ? WHERE id = ?", models.LeavesPreempted, worker.WorkerID)
		}
		_, err := b.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
		b.Exec(t, "UPDATE workers SET status = 'TERMINATED', ended_at = clock_timestamp(), token_hash = NULL WHERE id = ?", worker.WorkerID)
	}
	for range 12 {
		require.NoError(t, s.submit())
	}
	taken(true)
	taken(false)
	b.Exec(t, "UPDATE learning SET began_at = clock_timestamp() - interval '2 hours'")
	b.Exec(t, `UPDATE jobs j SET lane = c.lane, tier = c.tier, model = c.model, queued_at = j.queued_at - interval '1 minute'
		FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM jobs WHERE status = 'QUEUED') q
		JOIN (VALUES (1, 2, 'ENTERPRISE', 'PRO', 'testcard'), (3, 5, 'BATCH', 'BATCH', 'testcard'), (6, 7, 'FREE', 'FREE', 'dead')) c (first, last, lane, tier, model)
			ON q.n BETWEEN c.first AND c.last
		WHERE j.id = q.id`)
	_, err := b.Operator.PauseQueue(t.Context(), b.Admin, models.TierBatch, "", "storage")
	require.NoError(t, err)
	b.Exec(t, `INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers, zones, price_per_hour_usd)
		VALUES (md5('p')::uuid, 'spots', 'p', 'r', 'l4', 'SPOT', '{testcard}', 0, 7, '{r-a}', 2)`)
	pooled := b.Worker(t, "pooled")
	b.Exec(t, "UPDATE workers SET pool_id = md5('p')::uuid WHERE id = ?", pooled.WorkerID)
	_, err = (&history.Recorder{DB: s.db, Catalogue: s.catalogue}).Pass(t.Context())
	require.NoError(t, err)
}

// TestFiguresAgree compares what all surfaces show of one stack.
func TestFiguresAgree(t *testing.T) {
	t.Parallel()
	s := newStrained(t)
	seedFigures(t, s)
	key := s.houseKey(t, access.RoleOperator)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	read := func(path string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.publicURL+path, nil)
		require.NoError(t, err)
		if strings.HasPrefix(path, "/api") || path == "/metrics" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		res, err := browser.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode, "%s: %s", path, body)
		return string(body)
	}
	res, err := browser.PostForm(s.publicURL+"/login", url.Values{"key": {key}})
	require.NoError(t, err)
	res.Body.Close()
	operator := s.customer.WithKey(key)

	var rest, graphql, after map[string]any
	require.NoError(t, json.Unmarshal([]byte(read("/api/v1/overview")), &rest))
	state, err := operator.Overview(t.Context())
	require.NoError(t, err)
	data, err := json.Marshal(state)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &graphql))
	printed := func(cmd *cobra.Command, args ...string) string {
		var out strings.Builder
		cmd.SetArgs(append(args, "--endpoint", s.publicURL, "--key", key))
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard) // it warns of --key
		require.NoError(t, cmd.ExecuteContext(t.Context()))
		return out.String()
	}
	top := printed(operations.TopCommand(), "--once")
	overview, queues, metrics := textOf(read("/overview")), textOf(read("/queues")), read("/metrics")
	require.NoError(t, json.Unmarshal([]byte(read("/api/v1/overview")), &after))

	require.Len(t, graphql, len(rest), "REST and GraphQL have the same figures")
	for name, v := range rest {
		if notFigures[name] {
			continue
		}
		how, known := shownFigures[name]
		require.True(t, known, "%s has no line in the table", name)
		other, ok := graphql[camel(name)]
		require.True(t, ok, camel(name))
		if v == nil {
			require.Nil(t, other, name)
			continue
		}
		if growing[name] {
			require.GreaterOrEqual(t, other.(float64), 0.95*v.(float64), name) // it was read later
			continue
		}
		require.InDelta(t, v, other, 0.05*v.(float64)+1e-9, name)
		for surface, c := range map[string]struct {
			show func(float64) string
			in   string
		}{"top": {how.top, top}, "overview": {how.overview, overview}, "queues": {how.queues, queues}, "metrics": {how.metric, metrics}} {
			if c.show == nil {
				continue
			}
			// Rates fall while time passes, so a page shows what was read before it or after it.
			if later, _ := after[name].(float64); !strings.Contains(c.in, c.show(later)) {
				require.Contains(t, c.in, c.show(other.(float64)), "%s shows %s", surface, name)
			}
		}
	}

	// What the seeds must show.
	figures := func(names ...string) (all []float64) {
		for _, name := range names {
			all = append(all, rest[name].(float64))
		}
		return all
	}
	require.Equal(t, []float64{12, 2, 1, 7}, figures("queued", "promoted", "workers_without_pool", "workers_max")[:4])
	require.Positive(t, rest["preemptions_per_hour"])
	require.InDelta(t, rest["preemptions_per_hour"], rest["operator_preemptions_per_hour"], 1e-6, "one of each")
	left := map[string]float64{}
	for _, l := range rest["drain_leaves_out"].([]any) {
		left[l.(map[string]any)["reason"].(string)] = l.(map[string]any)["jobs"].(float64)
	}
	require.Equal(t, map[string]float64{"PAUSED": 3, "NO_CAPACITY": 2}, left)
	for _, in := range []string{overview, top} {
		require.Contains(t, in, "3 jobs: paused")
		require.Contains(t, in, "2 jobs: no worker and no pool can run them")
	}
	require.Contains(t, metrics, `reelay_queue_stuck_jobs{reason="PAUSED",tier="BATCH"} 3`)
	require.Contains(t, queues, "not until resumed")
	require.Contains(t, queues, "no pool and no worker serves it")
	listed, err := operator.Queues(t.Context())
	require.NoError(t, err)
	require.Regexp(t, `(?m)^\S+ +dead .* no pool and no worker serves it$`, printed(fleet.QueuesCommand()))
	for _, q := range listed {
		if lo.FromPtrOr(q.Model, "") == "dead" {
			require.Empty(t, q.ServedBy)
		} else if q.Tier == client.TierEnterprise {
			require.Equal(t, []string{"spots"}, q.ServedBy)
			require.Equal(t, 2, q.Promoted)
			require.Nil(t, q.OldestWaitSeconds, "only promoted jobs wait")
		}
	}
}

// camel is a name of REST as GraphQL has it.
func camel(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

var tags = regexp.MustCompile(`(?s)<(script|style).*?</(script|style)>|<[^>]*>`)

// textOf is the text of a page, its white space made one space.
func textOf(page string) string {
	return strings.Join(strings.Fields(tags.ReplaceAllString(page, " ")), " ")
}
