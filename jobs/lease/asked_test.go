package lease_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
	"github.com/stretchr/testify/require"
)

// workOf is a handle as the agent writes it.
func workOf(rest string) string {
	return `{"kind": "kling", "url": "https://kling", "key": "11111111-1111-4111-8111-111111111111", "account": "hosted"` + rest + `}`
}

const tenSeconds = `, "asked": {"model": "text-to-video/kling-3.0", "seconds": "10", "resolution": "1080p", "audio": true}`

func TestAsked(t *testing.T) {
	t.Parallel()

	// begin leases a job to a worker of Kling, which charges $0.2 a second.
	begin := func(t *testing.T) (*jobstest.Stack, *models.Job, jobs.Principal, lease.Fence) {
		s := jobstest.New(t)
		hosted(t, s, "hosted")
		s.Exec(t, `INSERT INTO provider_prices (provider, model, since, per_second_usd, per_call_usd)
			VALUES ('kling', 'text-to-video/kling-3.0', '2026-01-01', 0.2, 0)`)
		job := s.Submit(t)
		worker := hostedWorker(t, s, "hosted", "agent", 0)
		_, fence := s.Lease(t, worker)
		return s, job, worker, fence
	}
	store := func(t *testing.T, s *jobstest.Stack, worker jobs.Principal, fence lease.Fence, value string) {
		t.Helper()
		_, err := s.Attempts.StoreHandle(t.Context(), worker, fence, value)
		require.NoError(t, err)
	}

	t.Run("IsChargedOnceAlsoWhenAWorkerDies", func(t *testing.T) {
		t.Parallel()
		s, job, worker, fence := begin(t)
		store(t, s, worker, fence, workOf(tenSeconds))
		store(t, s, worker, fence, workOf(tenSeconds+`, "ref": "task-7"`))
		store(t, s, worker, fence, workOf(tenSeconds+`, "ref": "task-7", "made": true`))
		s.ExpireLease(t, fence.AttemptID)
		_, err := s.Reaper.Reap(t.Context())
		require.NoError(t, err)
		cost := func() *costs.Cost {
			rows, err := costs.OfJobs(t.Context(), s.DB, []models.JobID{job.ID})
			require.NoError(t, err)
			all := costs.Nothing()
			for _, row := range rows {
				all.Add(&row.Cost)
			}
			return &all
		}
		require.Equal(t, "2", cost().WastedUSD.String(), "the video is made, and nobody has it yet")
		require.True(t, cost().ChargedUSD.IsZero())

		second := hostedWorker(t, s, "hosted", "another", 0)
		next, fence := s.Lease(t, second)
		require.Contains(t, next.Job.Handle, "task-7")
		o := jobstest.UploadAll(t, s, second, fence)
		require.NoError(t, jobstest.FencedVerbs["Complete"](t, s, second, fence, o))

		require.Equal(t, "2", cost().ChargedUSD.String())
		require.True(t, cost().WastedUSD.IsZero())
		var refs []string
		require.NoError(t, s.DB.NewRaw("SELECT provider_ref FROM ledger WHERE kind = 'FEE'").Scan(t.Context(), &refs))
		require.Equal(t, []string{"task-7"}, refs)
		s.RequireInvariants(t)
	})

	t.Run("OfADefectiveVideoIsTheOperators", func(t *testing.T) {
		t.Parallel()
		s, job, worker, fence := begin(t)
		store(t, s, worker, fence, workOf(tenSeconds+`, "ref": "task-7"`))

		_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailDefectiveResult, Message: "BLACK: all of it"})

		require.NoError(t, err)
		rows, err := costs.OfJobs(t.Context(), s.DB, []models.JobID{job.ID})
		require.NoError(t, err)
		require.Equal(t, "2", rows[0].WastedUSD.String())
		require.True(t, rows[0].ChargedUSD.IsZero())
		s.RequireInvariants(t)
	})

	t.Run("IsKeptOfHostedProvidersOnly", func(t *testing.T) {
		t.Parallel()
		s, _, worker, fence := jobstest.Leased(t)
		store(t, s, worker, fence, workOf(tenSeconds))
		require.Zero(t, s.Count(t, "provider_jobs"))
		for _, other := range []string{`{"key": 5}`, `{"asked": null, "key": 7}`, `[]`, `"text"`, `{"ref": {}}`} {
			store(t, s, worker, fence, other)
		}
	})

	t.Run("RefusesWhatNoProviderBills", func(t *testing.T) {
		t.Parallel()
		s, _, worker, fence := begin(t)
		before := s.Dump(t)
		for _, bad := range []string{
			`{"asked": 5}`, `{"key": "k", "asked": {"model": "m"}}`, workOf(`, "asked": {}`), workOf(`, "asked": {"model": "` + strings.Repeat("m", 201) + `"}`),
			workOf(`, "asked": {"model": "m", "seconds": "-1"}`), workOf(`, "asked": {"model": "m", "seconds": 3601}`),
			workOf(`, "asked": {"model": "m", "seconds": "1e999999999"}`), workOf(`, "asked": {"model": "m", "seconds": "NaN"}`),
			workOf(`, "asked": {"model": "m", "seconds": "0.1234567"}`), workOf(`, "asked": {"model": "m", "resolution": "a b"}`),
			workOf(`, "asked": {"model": "m", "audio": "loud"}`), workOf(`, "asked": {"model": "m"}, "ref": 7`),
			workOf(fmt.Sprintf(`, "asked": {"model": "m"}, "ref": %q`, strings.Repeat("r", 1001))),
			workOf(`, "asked": {"model": "m"}, "ref": "\u0000"`),
		} {
			_, err := s.Attempts.StoreHandle(t.Context(), worker, fence, bad)
			jobstest.RequireInvalid(t, err, "value")
		}
		require.Equal(t, before, s.Dump(t))
	})
}
