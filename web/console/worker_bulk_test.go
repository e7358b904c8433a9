package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

var _ = alsoPages(func(t *testing.T, b *browser) map[string]string {
	one, other := b.Worker(t, "grid-one"), b.Worker(t, "grid-two")
	return map[string]string{
		"worker grid":          "/workers?view=grid",
		"workers to drain":     "/workers/act?verb=drain&id=" + string(one.WorkerID) + "&id=" + string(other.WorkerID),
		"workers to isolate":   "/workers/act?verb=quarantine&id=" + string(one.WorkerID),
		"workers of no filter": "/workers?state=lost&zone=nowhere",
	}
})

func TestWorkerFilters(t *testing.T) {
	t.Parallel()

	b := operator(t)
	pool := b.pool(t, "west <b>", nil)
	for i, name := range []string{"alpha", "beta", "gamma"} {
		id := b.Worker(t, name).WorkerID
		b.Exec(t, "UPDATE workers SET gpu_type = ?, zone = ?, agent_version = ?, pool_id = CASE WHEN ? THEN ?::uuid END WHERE id = ?",
			[]string{"H100", "H100", "L4"}[i], []any{"us-1a", nil, "us-1b"}[i], []string{"1.0", "1.1", "1.1"}[i], i == 0, pool.ID, id)
	}
	b.Exec(t, "UPDATE workers SET region = 'eu-7' WHERE provider_instance_id = 'beta'")
	b.Exec(t, "UPDATE workers SET status = 'LOST', idle_since = NULL, lost_at = clock_timestamp() WHERE provider_instance_id = 'gamma'")
	b.Exec(t, "UPDATE workers SET quarantined_until = clock_timestamp() + interval '1 hour', quarantine_cause = 'OPERATOR', quarantine_reason = 'hot' WHERE provider_instance_id = 'beta'")

	for query, want := range map[string]string{
		"":                                    "alpha beta gamma",
		"gpu=H100":                            "alpha beta",
		"zone=us-1b":                          "gamma",
		"zone=eu-7":                           "beta",
		"version=1.1":                         "beta gamma",
		"version=1.1&gpu=H100":                "beta",
		"state=LOST":                          "gamma",
		"state=quarantined":                   "beta",
		"state=busy":                          "",
		"pool=" + url.QueryEscape("west <b>"): "alpha",
		"pool=-":                              "beta gamma",
		"pool=other":                          "",
	} {
		for _, view := range []string{"", "&view=grid"} {
			got := b.get(t, "/workers?"+query+view)
			require.Equal(t, http.StatusOK, got.Status, query+view)
			var found []string
			for _, name := range []string{"alpha", "beta", "gamma"} {
				if strings.Contains(got.Body, ">"+name+"</a>") {
					found = append(found, name)
				}
			}
			require.Equal(t, want, strings.Join(found, " "), query+view)
			require.NotContains(t, got.Body, "west <b>")
			if want == "" {
				require.Contains(t, got.Body, "No worker matches these filters.")
			}
		}
	}
	grid := b.get(t, "/workers?view=grid").Body
	require.Regexp(t, `(?s)<a href="/workers\?gpu=H100&amp;pool=west\+%3Cb%3E&amp;view=grid&amp;zone=us-1a">\s*west &lt;b&gt;.*?1 worker, 1 idle`, grid)
	require.Regexp(t, `class="fleet-tile is-quarantined"`, grid)

	for query, says := range map[string]string{
		"state=asleep":                       "There is no such state of a worker.",
		"gpu=" + strings.Repeat("x", 10_000): "longer than 200 bytes",
		"zone=%00":                           "holds a character",
	} {
		got := b.get(t, "/workers?"+query)
		require.Equal(t, http.StatusUnprocessableEntity, got.Status, query)
		require.Contains(t, got.Body, says)
		require.Contains(t, got.Body, ">alpha</a>", "the page is still of use")
	}
	require.Equal(t, http.StatusOK, b.get(t, "/workers?zone="+url.QueryEscape("'\u202e<script>alert(1)</script>")).Status)
}

func TestWorkersAct(t *testing.T) {
	t.Parallel()

	form := func(verb string, ids ...models.WorkerID) url.Values {
		f := url.Values{"verb": {verb}}
		for _, id := range ids {
			f.Add("id", string(id))
		}
		return f
	}

	t.Run("SaysWhatWillHappenToEachAndDoesIt", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, busy, _ := b.resumed(t)
		idle, over := b.Worker(t, "idle-<i>1"), b.Worker(t, "over-one")
		b.post(t, "/workers/"+string(over.WorkerID)+"/terminate", nil)
		f := form("drain", busy.WorkerID, idle.WorkerID, over.WorkerID, models.NewWorkerID(), "wrk_nonsense")

		asked := b.get(t, "/workers/act?"+f.Encode()).Body

		require.Contains(t, asked, "Drain 2 workers?")
		require.Contains(t, asked, string(job.ID))
		require.Contains(t, asked, "may run for 5 min")
		require.Contains(t, asked, "idle-&lt;i&gt;1")
		require.Regexp(t, `over-one: It is terminated\..*1 worker of the chosen no longer exist`, strings.ReplaceAll(asked, "\n", " "))
		require.NotEqual(t, models.WorkerDraining, b.worker(t, busy.WorkerID).Status, "nothing has happened yet")

		done := b.post(t, "/workers/act", f)

		require.Equal(t, "/workers", done.Header.Get("Location"), done.Body)
		require.Contains(t, b.get(t, "/workers").Body, "Draining 2 workers. 2 left out.")
		require.Equal(t, models.WorkerDraining, b.worker(t, busy.WorkerID).Status)
		require.Equal(t, models.WorkerDraining, b.worker(t, idle.WorkerID).Status)

		b.post(t, "/workers/act", f) // the button was pressed twice

		require.Contains(t, b.get(t, "/workers").Body, "Draining 0 workers. 4 left out.")
	})

	t.Run("QuarantinesAndReleasesAndTerminates", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		one, two := b.Worker(t, "one").WorkerID, b.Worker(t, "two").WorkerID
		f := form("quarantine", one, two)
		for minutes, reason := range map[string]string{"soon": "hot", "0": "hot", "30": " "} {
			f.Set("minutes", minutes)
			f.Set("reason", reason)
			got := b.post(t, "/workers/act", f)
			require.Equal(t, http.StatusUnprocessableEntity, got.Status)
			require.Contains(t, got.Body, `role="alert"`)
			require.Contains(t, got.Body, `value="`+minutes+`"`, "what was typed is kept")
		}
		f.Set("minutes", "30")
		f.Set("reason", "hot rack")
		b.post(t, "/workers/act", f)
		require.Equal(t, "hot rack", b.worker(t, two).QuarantineReason)

		b.post(t, "/workers/act", form("release", one, two))
		b.post(t, "/workers/act", form("terminate", one, two))

		require.Equal(t, models.WorkerTerminated, b.worker(t, one).Status)
		require.Equal(t, models.WorkerTerminated, b.worker(t, two).Status)
		entries := b.get(t, "/workers/"+string(one)).Body
		require.Regexp(t, `(?s)Terminated by.*Released from quarantine by.*Quarantined by`, entries)
	})

	t.Run("RefusesWhatMakesNoSense", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		static := b.Worker(t, "static-one").WorkerID
		many := make([]models.WorkerID, 101)
		for i := range many {
			many[i] = models.NewWorkerID()
		}

		require.Equal(t, http.StatusUnprocessableEntity, b.get(t, "/workers/act?verb=explode&id="+string(static)).Status)
		require.Equal(t, http.StatusUnprocessableEntity, b.get(t, "/workers/act?"+form("drain", many...).Encode()).Status)
		require.Contains(t, b.get(t, "/workers/act?verb=drain").Body, "None of the chosen workers can be acted on.")
		require.Contains(t, b.get(t, "/workers/act?"+form("preempt", static).Encode()).Body, "cannot give notice of a preemption.")
		viewer := serve(t, b.Stack, configure(b.Stack))
		logInAs(t, viewer, access.RoleViewer)
		require.Contains(t, viewer.get(t, "/workers/act?"+form("drain", static).Encode()).Body, "Drain 1 worker?")
		require.Equal(t, http.StatusForbidden, viewer.post(t, "/workers/act", form("drain", static)).Status)
		require.Equal(t, models.WorkerIdle, b.worker(t, static).Status)
	})
}

// worker returns a worker as it is now.
func (b *browser) worker(t *testing.T, id models.WorkerID) *models.Worker {
	t.Helper()
	w, err := b.Reads.Fleet.Worker(t.Context(), id)
	require.NoError(t, err)
	return w
}
