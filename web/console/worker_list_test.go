package console

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestGPULine(t *testing.T) {
	t.Parallel()

	b := operator(t)
	b.Submit(t)
	worker := b.Worker(t, "one")
	_, fence := b.Lease(t, worker)
	_, err := b.Attempts.Heartbeat(t.Context(), worker, fence, []lease.GPUSample{
		{Utilization: new(0.97), MemoryUsedBytes: new(int64(60 << 30)), MemoryTotalBytes: new(int64(80 << 30)), TemperatureC: new(64.4),
			PowerW: new(652.3)},
		{Index: 1, ECCUncorrected: new(int64(2)), Xid: new(79)},
	})
	require.NoError(t, err)
	page := "/workers/" + string(worker.WorkerID)
	require.Contains(t, b.get(t, page).Body, "n/a: it ran no job, or its GPUs do not tell.")
	_, err = capacity.PutGPUMinute(t.Context(), b.DB, time.Now().Truncate(time.Minute))
	require.NoError(t, err)
	shown := b.get(t, page).Body
	require.Contains(t, shown, `aria-label="Utilization over 1 min: 97 to 97 %, now 97 %"`)
	require.Contains(t, shown, `aria-label="Temperature over 1 min: 64 to 64 °C, now 64 °C"`)
	require.Contains(t, b.get(t, "/workers?view=grid").Body, `aria-label="GPU utilization over 1 min: 97 to 97 %, now 97 %"`)

	got := b.get(t, "/workers").Body

	require.Regexp(t, `aria-label="75 %".*<span class="num">60 of 80 GiB</span>\s*<span class="quiet">97 %, 64 °C, 652 W</span>\s*</span>`,
		got)
	require.Contains(t, got, `<span class="error"> 2 uncorrected memory errors, XID 79</span>`)
}

func TestWorkerList(t *testing.T) {
	t.Parallel()

	t.Run("ShowsWorkersWithTheirJobs", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, _, _ := b.resumed(t)

		got := b.get(t, "/workers")

		require.Equal(t, http.StatusOK, got.Status)
		require.Contains(t, got.Body, `href="/jobs/`+string(job.ID)+`"`)
		require.Contains(t, got.Body, "first")
	})

	t.Run("SaysThatAWorkerIsSilentOnceItsHeartbeatIsOverdue", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		quiet, lost := b.Worker(t, "quiet-one"), b.Worker(t, "lost-one")
		b.Exec(t, "UPDATE workers SET last_heartbeat_at = clock_timestamp() - interval '20 seconds' WHERE id = ?", quiet.WorkerID)
		b.Exec(t, "UPDATE workers SET status = 'LOST', idle_since = NULL, lost_at = clock_timestamp(), last_heartbeat_at = '2026-11-25 13:05:02Z' WHERE id = ?", lost.WorkerID)
		require.NotContains(t, b.get(t, "/workers").Body, "silent", "it is in time, and a lost worker is more than silent")

		b.Exec(t, "UPDATE workers SET last_heartbeat_at = '2026-11-25 13:05:02Z' WHERE id = ?", quiet.WorkerID)

		require.Regexp(t, `silent</span> +since <time[^>]*>25 Nov 13:05 UTC</time>`, b.get(t, "/workers").Body)
	})

	t.Run("HidesTerminatedWorkers", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		worker := b.Worker(t, "gone-one")
		b.post(t, "/workers/"+string(worker.WorkerID)+"/terminate", nil)
		b.get(t, "/workers") // says once what was done

		require.NotContains(t, b.get(t, "/workers").Body, "gone-one")
		require.Contains(t, b.get(t, "/workers?all=1").Body, "gone-one")
	})
}

func TestWorkerPage(t *testing.T) {
	t.Parallel()

	t.Run("SaysWhatTheRankingOfHostsCounts", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		worker := b.Worker(t, "host-7")
		crashed := b.dies(t, worker, models.FailUnauthorized, "it broke", "")
		b.dies(t, worker, models.FailUnauthorized, "its machine left", "")
		b.Exec(t, `UPDATE job_attempts SET wasted_gpu_seconds = CASE WHEN job_id = ? THEN 7.5 ELSE 1.1 END,
			failure_class = CASE WHEN job_id = ? THEN 'MODEL_CRASH' ELSE 'PREEMPTED' END`, crashed.JobID, crashed.JobID)

		require.Contains(t, b.get(t, "/workers/"+string(worker.WorkerID)).Body, "7.5 s wasted by them, 8.6 s by all attempts")
		require.Regexp(t, `>Wasted by these</th>(?s).*data-label="Wasted">7.5 s`, b.get(t, "/workers").Body)

		b.Exec(t, "UPDATE job_attempts SET wasted_gpu_seconds = 0 WHERE failure_class = 'PREEMPTED'")
		require.Contains(t, b.get(t, "/workers/"+string(worker.WorkerID)).Body, ">7.5 s wasted<")
	})

	t.Run("ShowsWhatAWorkerRunsAndRan", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		worker := b.Worker(t, "host-<b>7")
		letter := b.dies(t, worker, models.FailUnauthorized, "it broke "+hostile, "the <i>end")
		b.Exec(t, "UPDATE job_attempts SET wasted_gpu_seconds = 90, failure_class = 'MODEL_CRASH'")
		b.Submit(t)
		lease, _ := b.Lease(t, worker)
		_, err := b.Fleet.QuarantineWorker(t.Context(), b.Admin, worker.WorkerID, 5, "loud <fan>")
		require.NoError(t, err)
		path := "/workers/" + string(worker.WorkerID)

		got := b.get(t, path).Body
		list := b.get(t, "/workers").Body

		require.Contains(t, got, "<h1>host-&lt;b&gt;7</h1>")
		require.Contains(t, got, `href="/jobs/`+string(lease.Job.ID)+`"`)
		require.Contains(t, got, `href="/jobs/`+string(letter.JobID)+`"`)
		require.Contains(t, got, "1 of 1 attempt lost or crashed")
		require.Contains(t, got, "it broke &lt;script&gt;")
		require.Contains(t, got, "<li>the &lt;i&gt;end</li>")
		require.Regexp(t, `(?s)Quarantined by test ADMIN.*loud &lt;fan&gt;`, got)
		require.NotContains(t, got, "<script>alert")
		require.Regexp(t, `(?s)Hosts that lost or crashed.*?href="`+path+
			`">host-&lt;b&gt;7</a>.*?data-label="Crashed">1<.*?data-label="Wasted">1 min 30 s.*?data-label="Quarantine" title="loud &lt;fan&gt;".*?quarantined</span>\s+until <time`, list)
		require.NotContains(t, list, ">drill</span>")
		b.Exec(t, "UPDATE jobs SET model = 'drill'")
		require.Regexp(t, `(?s)host-&lt;b&gt;7</a>\s+<span class="badge"[^>]*>drill</span>`, b.get(t, "/workers").Body,
			"what was asked to crash is marked")
		require.Equal(t, http.StatusNotFound, b.get(t, "/workers/wrk_x").Status)
	})

	t.Run("AsksBeforeADrain", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, worker, _ := b.resumed(t)
		path := "/workers/" + string(worker.WorkerID) + "/drain"

		asked := b.get(t, path).Body

		require.Contains(t, asked, "Drain second?")
		require.Contains(t, asked, string(job.ID))
		w, err := b.Reads.Fleet.Worker(t.Context(), worker.WorkerID)
		require.NoError(t, err)
		require.NotEqual(t, models.WorkerDraining, w.Status)
	})
}

func TestReclamations(t *testing.T) {
	t.Parallel()

	b := operator(t)
	pool := b.pool(t, "h200", nil)
	for _, name := range []string{"a", "b", "c"} {
		b.Submit(t)
		b.Lease(t, b.Worker(t, name))
	}
	b.Exec(t, "UPDATE workers SET pool_id = ?, capacity_class = 'SPOT', price_per_hour_usd = 4", pool.ID)
	b.Exec(t, `UPDATE job_attempts SET status = 'LOST', failure_class = 'PREEMPTED', wasted_gpu_seconds = 900,
		ended_at = clock_timestamp() - CASE (SELECT provider_instance_id FROM workers w WHERE w.id = worker_id) WHEN 'a' THEN interval '5 hours' WHEN 'b' THEN interval '299 minutes' ELSE interval '1 hour' END`)

	got := b.get(t, "/pools/"+string(pool.ID)).Body

	require.Contains(t, got, "3 workers taken, 3 jobs interrupted, 45 min 00 s of GPU time wasted, which cost $3.00.")
	require.Regexp(t, `(?s)Reclamations in 24 h.*?1 h ago.*?\$1\.00.*?5 h ago.*?data-label="Workers">2<.*?\$2\.00`, got)
}

func TestWorkerActions(t *testing.T) {
	t.Parallel()

	t.Run("DrainAWorker", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		_, worker, _ := b.resumed(t)

		got := b.post(t, "/workers/"+string(worker.WorkerID)+"/drain", nil)

		require.Equal(t, "/workers", got.Header.Get("Location"), got.Body)
		w, err := b.Reads.Fleet.Worker(t.Context(), worker.WorkerID)
		require.NoError(t, err)
		require.Equal(t, models.WorkerDraining, w.Status)
	})

	t.Run("AskBeforeTheyTerminate", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, worker, _ := b.resumed(t)
		path := "/workers/" + string(worker.WorkerID) + "/terminate"

		asked := b.get(t, path)
		require.Contains(t, asked.Body, "Terminate second?")
		require.Contains(t, asked.Body, string(job.ID))
		require.Equal(t, models.JobRunning, b.Reload(t, job.ID).Status)
		b.post(t, path, nil)

		require.Equal(t, models.JobQueued, b.Reload(t, job.ID).Status)
	})

	t.Run("QuarantineAHostAndReleaseIt", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		path := "/workers/" + string(b.Worker(t, "hot-one").WorkerID)
		require.Contains(t, b.get(t, "/workers").Body, path+"/quarantine")
		require.Contains(t, b.get(t, path+"/quarantine").Body, "Quarantine hot-one?")
		for field, value := range map[string]string{"minutes": "0", "reason": ""} {
			form := url.Values{"minutes": {"30"}, "reason": {"hot"}}
			form.Set(field, value)
			got := b.post(t, path+"/quarantine", form)
			require.Equal(t, http.StatusUnprocessableEntity, got.Status)
			require.Contains(t, got.Body, `id="`+field+`-error"`)
		}
		require.Equal(t, http.StatusUnprocessableEntity, b.post(t, path+"/quarantine", url.Values{"minutes": {"soon"}, "reason": {"hot"}}).Status)

		require.Equal(t, "/workers", b.post(t, path+"/quarantine",
			url.Values{"minutes": {"30"}, "reason": {"it runs hot"}}).Header.Get("Location"))

		shown := b.get(t, "/workers").Body
		require.Regexp(t, `title="it runs hot"><span class="badge is-quarantined">quarantined</span>\s+<span class="quiet">until\s+<time[^>]*>\d+ \w{3} \d\d:\d\d UTC`, shown)
		require.NotContains(t, shown, path+"/quarantine")
		require.Equal(t, "/workers", b.post(t, path+"/release", nil).Header.Get("Location"))
		require.NotContains(t, b.get(t, "/workers").Body, "is-quarantined")
	})

	t.Run("OfferOnlyWhatTheProviderCanDo", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		worker := b.Worker(t, "static-one")
		path := "/workers/" + string(worker.WorkerID)

		require.NotContains(t, b.get(t, "/workers").Body, path+"/preempt")
		require.Contains(t, b.get(t, path+"/terminate").Body, "Reelay stops using it; the machine keeps running until you stop it.")
		got := b.post(t, path+"/preempt", nil)
		require.Equal(t, http.StatusConflict, got.Status)
		require.Contains(t, got.Body, "Only spot machines")
		require.Contains(t, got.Body, `href="/workers">Back to workers</a>`)

		w, err := b.Reads.Fleet.Worker(t.Context(), worker.WorkerID)
		require.NoError(t, err)
		b.Exec(t, "UPDATE workers SET pool_id = ?", jobstest.AddPool(t, b.Stack, 0, 1).ID)
		b.Fleet.Providers = map[string]fleet.Provider{w.Provider: struct{ fleet.Provider }{}}
		require.NotContains(t, b.get(t, "/workers").Body, path+"/preempt", "it cannot give notice")
		require.Contains(t, b.get(t, path+"/terminate").Body, "Its machine ends now, without notice.")
		b.Fleet.Providers = map[string]fleet.Provider{w.Provider: struct{ fleet.Preemptor }{}}
		require.Contains(t, b.get(t, "/workers").Body, path+"/preempt")
		require.Contains(t, b.get(t, path+"/terminate").Body, "Its machine ends now, without notice.")
	})
}
