package lease_test

import (
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// A phase never shows what the phase before it said.
func TestPhaseHasItsOwnMessage(t *testing.T) {
	t.Parallel()

	const said = "encoding, frame 50 of 96"
	encoding := func(t *testing.T) (*jobstest.Stack, *models.Job, jobs.Principal, lease.Fence) {
		t.Helper()
		s, job, worker, fence := jobstest.Leased(t)
		_, err := s.Attempts.ReportProgress(t.Context(), worker, fence, lease.ProgressReport{Progress: models.Progress{
			Percent: 94, Phase: models.PhaseEncoding, Message: said, Frame: new(50), TotalFrames: new(96), ETASeconds: new(3.0),
		}})
		require.NoError(t, err)
		return s, job, worker, fence
	}
	for name, leave := range map[string]struct {
		phase   models.Phase
		message string
		do      func(t *testing.T, s *jobstest.Stack, job *models.Job, worker jobs.Principal, fence lease.Fence) error
	}{
		"a retry": {models.PhaseWaiting, `^attempt 2 of \d+ starts at .* UTC; last failure: disk$`,
			func(t *testing.T, s *jobstest.Stack, _ *models.Job, worker jobs.Principal, fence lease.Fence) error {
				_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailTransient, Message: "disk"})
				return err
			}},
		"a release": {models.PhaseWaiting, "^its worker was preempted; requeued$", func(t *testing.T, s *jobstest.Stack, _ *models.Job,
			worker jobs.Principal, fence lease.Fence) error {
			_, err := s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
			return err
		}},
		"a failure": {models.PhaseDone, "^$", func(t *testing.T, s *jobstest.Stack, _ *models.Job, worker jobs.Principal,
			fence lease.Fence) error {
			_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy, Message: "No."})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s, job, worker, fence := encoding(t)
			require.NoError(t, leave.do(t, s, job, worker, fence))

			now, err := s.Reads.Jobs.Get(t.Context(), s.Client, job.ID)
			require.NoError(t, err)
			require.Equal(t, leave.phase, now.Progress.Phase)
			require.Regexp(t, leave.message, now.Progress.Message)
			require.Nil(t, now.Progress.Frame)
			require.Nil(t, now.Progress.ETASeconds)
		})
	}

	t.Run("an upload", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := encoding(t)
		seen := make(chan models.Progress, 100)
		go func() {
			_ = s.Watcher.Job(t.Context(), s.Client, job.ID, 50_000_000, func(job *models.Job) error {
				seen <- job.Progress
				return nil
			})
		}()
		require.Equal(t, said, (<-seen).Message)
		_, err := s.Attempts.ReportProgress(t.Context(), worker, fence,
			lease.ProgressReport{Progress: models.Progress{Percent: 96, Phase: models.PhaseUploading}})
		require.NoError(t, err)

		now, err := s.Reads.Jobs.Get(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		require.Equal(t, models.PhaseUploading, now.Progress.Phase)
		require.NotContains(t, now.Progress.Message, "encoding")
		for p := range seen {
			if p.Phase == models.PhaseUploading {
				require.NotContains(t, p.Message, "encoding")
				break
			}
		}
	})
}
