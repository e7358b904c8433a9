package console

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/fleet"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestGPULine(t *testing.T) {
	t.Parallel()

	b := operator(t)
	b.Submit(t)
	worker := b.Worker(t, "one")
	_, fence := b.Lease(t, worker)
	_, err := b.Holder.Heartbeat(t.Context(), worker, fence, []jobs.GPUSample{
		{Utilization: new(0.97), MemoryUsedBytes: new(int64(60 << 30)), MemoryTotalBytes: new(int64(80 << 30)), TemperatureC: new(64.4), PowerW: new(652.3)},
		{Index: 1, ECCUncorrected: new(int64(2)), Xid: new(79)},
	})
	require.NoError(t, err)

	got := b.get(t, "/workers").Body

	require.Regexp(t, `aria-label="75 %".*<span class="num">60 of 80 GiB</span> <span class="quiet">97 %, 64 °C, 652 W</span> </span>`, got)
	require.Contains(t, got, `<span class="error">2 uncorrected memory errors, XID 79</span>`)
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

		require.Regexp(t, `silent</span> since <time[^>]*>13:05:02.0</time> UTC`, b.get(t, "/workers").Body)
	})

	t.Run("HidesTerminatedWorkers", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		worker := b.Worker(t, "gone-one")
		b.post(t, "/workers/"+string(worker.WorkerID)+"/terminate", nil)

		require.NotContains(t, b.get(t, "/workers").Body, "gone-one")
		require.Contains(t, b.get(t, "/workers?all=1").Body, "gone-one")
	})
}

func TestWorkerActions(t *testing.T) {
	t.Parallel()

	t.Run("DrainAWorker", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		_, worker, _ := b.resumed(t)

		got := b.post(t, "/workers/"+string(worker.WorkerID)+"/drain", nil)

		require.Equal(t, "/workers", got.Header.Get("Location"), got.Body)
		w, err := b.Reader.Worker(t.Context(), worker.WorkerID)
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

		require.Equal(t, "/workers", b.post(t, path+"/quarantine", url.Values{"minutes": {"30"}, "reason": {"it runs hot"}}).Header.Get("Location"))

		shown := b.get(t, "/workers").Body
		require.Regexp(t, `title="it runs hot"><span class="badge is-quarantined">quarantined</span>\s+<span class="quiet">until \d+ \w{3} \d\d:\d\d UTC`, shown)
		require.NotContains(t, shown, path+"/quarantine")
		require.Equal(t, "/workers", b.post(t, path+"/release", nil).Header.Get("Location"))
		require.NotContains(t, b.get(t, "/workers").Body, "quarantined")
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

		w, err := b.Reader.Worker(t.Context(), worker.WorkerID)
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
