package doctor_test

import (
	"testing"

	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// ward is a stack with a job in every state of interest, and its doctor.
type ward struct {
	*jobstest.Stack
	doctor *doctor.Doctor

	queued, done, held, lost models.JobID
	worker, idle             jobs.Principal
	fence                    lease.Fence
	video                    jobs.UploadedObject
	webhook                  models.WebhookDeliveryID
}

func newWard(t *testing.T) *ward {
	t.Helper()
	s := jobstest.New(t)
	w := &ward{Stack: s, doctor: &doctor.Doctor{DB: s.DB, Objects: s.Objects, Index: s.Index()}, webhook: models.NewWebhookDeliveryID()}
	w.worker, w.idle = s.Worker(t, "one"), s.Worker(t, "two")
	jobstest.Hook(t, s, jobstest.NewReceiver(t))
	s.Exec(t, "UPDATE webhook_endpoints SET told_since = now() - interval '1 hour'")

	w.done = s.Submit(t).ID
	_, fence := s.Lease(t, w.worker)
	w.video = jobstest.UploadAll(t, s, w.worker, fence).Video
	_, err := s.Attempts.Complete(t.Context(), w.worker, fence, lease.Completion{Video: &w.video})
	require.NoError(t, err)

	w.lost = s.Submit(t).ID
	_, fence = s.Lease(t, w.worker)
	s.ExpireLease(t, fence.AttemptID)
	_, err = s.Reaper.Reap(t.Context())
	require.NoError(t, err)
	_, fence = s.Lease(t, w.idle)
	_, err = s.Attempts.Fail(t.Context(), w.idle, fence, lease.Failure{Class: models.FailContentPolicy, Message: "no"})
	require.NoError(t, err)

	w.held = s.Submit(t).ID
	_, w.fence = s.Lease(t, w.worker)
	jobstest.UploadAll(t, s, w.worker, w.fence)
	w.queued = s.Submit(t).ID
	s.Exec(t, "UPDATE presence SET seen_at = clock_timestamp()")
	s.Exec(t, "UPDATE dead_letters SET resolved_at = clock_timestamp(), resolution = 'DISCARDED', resolved_by = 'x'")
	return w
}

// examine returns all findings by check, and those that are not in order.
func (w *ward) examine(t *testing.T, c doctor.Checkup) (map[string]doctor.Finding, []string) {
	t.Helper()
	all, err := w.doctor.Examine(t.Context(), c)
	require.NoError(t, err)
	byCheck := map[string]doctor.Finding{}
	var checks []string
	for _, f := range all {
		byCheck[f.Check] = f
		if f.Check == "durability" || f.Check == "connections" {
			continue // the tests' PostgreSQL does not sync to disk, and many tests use it at once
		}
		require.NotEmpty(t, f.Check)
		require.NotEmpty(t, f.Holds, f.Check)
		if f.Level != doctor.LevelOK {
			require.NotEmpty(t, f.Found, f.Check)
			require.NotEmpty(t, f.Matters, f.Check)
			require.NotEmpty(t, f.Fix, f.Check)
			checks = append(checks, f.Check+" "+string(f.Level))
		}
	}
	return byCheck, checks
}

func (w *ward) requireFound(t *testing.T, c doctor.Checkup, expected ...string) {
	t.Helper()
	_, checks := w.examine(t, c)
	require.ElementsMatch(t, expected, checks)
}
