package fleet_test

import (
	"slices"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// lossy is a worker that is lost while it holds a job.
type lossy struct {
	s        *jobstest.Stack
	scaler   *fleet.Scaler
	provider *jobstest.FakeProvider
	worker   jobs.Principal
	machine  string
	fence    lease.Fence
}

// detectors are those that can say that a worker is lost: its own notice, its lease, and the list
// of its provider. late means that another one said it before.
var detectors = map[string]func(t *testing.T, l lossy, late bool){
	"notice": func(t *testing.T, l lossy, late bool) {
		_, _ = l.s.Registrar.DrainSelf(t.Context(), l.worker, l.worker.WorkerID, "a preemption", time.Time{})
		_, err := l.s.Attempts.Release(t.Context(), l.worker, l.fence, models.FailPreempted)
		require.Equal(t, late, err != nil, "%v", err)
		_, err = l.s.Registrar.Deregister(t.Context(), l.worker, l.worker.WorkerID)
		require.NoError(t, err)
	},
	"lease": func(t *testing.T, l lossy, late bool) {
		l.s.ExpireLease(t, l.fence.AttemptID)
		n, err := l.s.Reaper.Reap(t.Context())
		require.NoError(t, err)
		require.Equal(t, late, n == 0)
	},
	"list": func(t *testing.T, l lossy, _ bool) {
		l.provider.Running = slices.DeleteFunc(l.provider.Running, func(id string) bool { return id == l.machine })
		require.NoError(t, l.scaler.Scale(t.Context()))
	},
}

// TestDetectors lets each detector be the first to say that a worker is lost. Those that say it
// later, when another worker has the job, change nothing.
func TestDetectors(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		order  []string
		ended  models.AttemptStatus
		events models.JobEventType
	}{
		"NoticeLeaseList": {[]string{"notice", "lease", "list"}, models.AttemptReleased, models.EventReleased},
		"NoticeListLease": {[]string{"notice", "list", "lease"}, models.AttemptReleased, models.EventReleased},
		"LeaseNoticeList": {[]string{"lease", "notice", "list"}, models.AttemptLost, models.EventLost},
		"LeaseListNotice": {[]string{"lease", "list", "notice"}, models.AttemptLost, models.EventLost},
		"ListNoticeLease": {[]string{"list", "notice", "lease"}, models.AttemptLost, models.EventLost},
		"ListLeaseNotice": {[]string{"list", "lease", "notice"}, models.AttemptLost, models.EventLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, scaler, provider, pool := scaled(t, 2, 2)
			require.NoError(t, scaler.Scale(t.Context()))
			machine := provider.Running[0]
			workers := enrol(t, s, provider, pool)
			job := s.Submit(t)
			_, fence := s.Lease(t, workers[0])
			lost := lossy{s, scaler, provider, workers[0], machine, fence}

			detectors[c.order[0]](t, lost, false)
			require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
			lease, next := s.Lease(t, workers[1])
			require.Equal(t, job.ID, lease.Job.ID)
			for _, later := range c.order[1:] {
				detectors[later](t, lost, true)
			}

			held := s.Reload(t, job.ID)
			require.Equal(t, []any{models.JobAssigned, 2}, []any{held.Status, held.AttemptNo}, "the newer attempt goes on")
			_, err := s.Attempts.Heartbeat(t.Context(), workers[1], next, nil)
			require.NoError(t, err)
			first, err := models.GetAttempt(t.Context(), s.DB, fence.AttemptID)
			require.NoError(t, err)
			require.Equal(t, c.ended, first.Status)
			events := jobstest.EventTypes(t, s, job.ID)
			require.Equal(t, []models.JobEventType{c.events, models.EventRequeued}, events[slices.Index(events, c.events):][:2])
			for _, once := range []models.JobEventType{c.events, models.EventRequeued} {
				require.Len(t, slices.DeleteFunc(slices.Clone(events), func(e models.JobEventType) bool { return e != once }), 1, once)
			}
			s.RequireInvariants(t)
			require.InDelta(t, 1, losses(t, s), 0.01)
		})
	}
}

// losses returns how many attempts the pool has lost, as its metrics and checkpoint interval count
// them. It sets all times back, since what happened in the last seconds is counted later.
func losses(t *testing.T, s *jobstest.Stack) float64 {
	t.Helper()
	s.Exec(t, "UPDATE job_events SET created_at = created_at - interval '3 seconds'")
	s.Exec(t, "UPDATE job_attempts SET leased_at = leased_at - interval '1 hour', ended_at = ended_at - interval '3 seconds'")
	s.Exec(t, "UPDATE learning SET until = until - interval '3 seconds'")
	_, err := s.Learner.Learn(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Checkpoints.Pass(t.Context()))
	return s.Checkpoints.All()[0].Plan.Losses
}
