package lease_test

import (
	"fmt"
	"testing"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/stretchr/testify/require"
)

// rehearse submits a drill of so many steps of a second each, by the catalogue.
func rehearse(t *testing.T, s *jobstest.Stack, steps int) *models.Job {
	t.Helper()
	return jobstest.SubmitWith(t, s, func(in *submit.Submission) {
		in.Model, in.Params = "drill", fmt.Appendf(nil, `{"steps": %d, "stepMillis": 1000}`, steps)
	})
}

// drillWorker registers a worker for drills.
func drillWorker(t *testing.T, s *jobstest.Stack) jobs.Principal {
	t.Helper()
	_, secret, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
		Provider: "static", ProviderInstanceID: "one", GPUCount: 1, Region: "local", GPUType: "any",
		CapacityClass: models.CapacitySpot, Models: []string{"drill"}, AgentVersion: "test",
	})
	require.NoError(t, err)
	p, err := s.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	return p
}

// render lets the worker complete its next job in so many seconds.
func render(t *testing.T, s *jobstest.Stack, worker jobs.Principal, seconds float64) {
	t.Helper()
	_, fence := s.Lease(t, worker)
	video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
	require.NoError(t, err)
	s.Exec(t, "UPDATE job_attempts SET gpu_seconds = ? WHERE id = ?", seconds, fence.AttemptID)
}

// learnRenders lets the pass see all jobs that have completed.
func learnRenders(t *testing.T, s *jobstest.Stack) map[string]*backlog.RenderTime {
	t.Helper()
	s.Exec(t, "UPDATE jobs SET completed_at = completed_at - interval '3 seconds'")
	s.Exec(t, "UPDATE learning SET until = until - interval '3 seconds'")
	_, err := s.Learner.Learn(t.Context())
	require.NoError(t, err)
	s.Exec(t, "UPDATE jobs SET completed_at = completed_at - interval '1 day'")
	known, err := backlog.ListRenderTimes(t.Context(), s.DB)
	require.NoError(t, err)
	found := map[string]*backlog.RenderTime{}
	for _, one := range known {
		found[one.TimeClass] = one
	}
	return found
}

// TestRenderTimesByClass has a GPU that takes three times as long as the catalogue says, and a start
// that takes 5 s whatever the job.
func TestRenderTimesByClass(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	s.Exec(t, "UPDATE accounts SET max_running = 1000, max_queued = 1000, submits_per_minute = 10000")
	worker := drillWorker(t, s)
	truth := func(steps int) float64 { return 5 + 3*float64(steps) }
	for range 50 {
		require.Equal(t, "8,512", rehearse(t, s, 8).TimeClass)
		render(t, s, worker, truth(8))
	}
	known := learnRenders(t, s)
	require.Len(t, known, 1)
	require.EqualValues(t, 50, known["8,512"].Samples)

	var job *models.Job
	for range 110 {
		job = rehearse(t, s, 40)
	}
	drains, err := estimate.ReadDrains(t.Context(), s.DB, s.Reads.Models.Catalogue.Current())
	require.NoError(t, err)
	require.InEpsilon(t, 110*truth(40), *drains.All().Seconds, 0.25)
	require.NoError(t, s.Estimates.Refresh(t.Context()))
	accounts, err := models.GetAccounts(t.Context(), s.DB, []models.AccountID{job.AccountID})
	require.NoError(t, err)
	next, _ := s.Estimates.Submit(job, accounts[0])
	require.InEpsilon(t, 110*truth(40), *next.WaitSeconds, 0.25)
	require.InEpsilon(t, truth(40), *next.RenderSeconds, 0.25)

	for range 3 {
		render(t, s, worker, truth(40))
	}
	known = learnRenders(t, s)
	require.Len(t, known, 2)
	times := estimate.NewRenderTimes([]*backlog.RenderTime{known["8,512"], known["32,512"]})
	require.InDelta(t, truth(40), times.Seconds(job), 0.01, "its class has samples now")
	drill, err := s.Reads.Models.Catalogue.Current().Model("drill")
	require.NoError(t, err)
	for _, steps := range []int{10, 60, 200} { // the class of 200 has no samples
		params := fmt.Appendf(nil, `{"steps": %d, "stepMillis": 1000}`, steps)
		other := &models.Job{Model: "drill", TimeClass: drill.TimeClass(params), EstimatedGPUSeconds: drill.EstimateGPUSeconds(params)}
		require.InEpsilon(t, truth(steps), times.Seconds(other), 0.25, "%d steps", steps)
	}
}
