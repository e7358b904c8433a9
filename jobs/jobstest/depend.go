package jobstest

import (
	"context"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// SubmitAfter submits a job that depends on others.
func SubmitAfter(t *testing.T, s *Stack, on ...models.JobID) *models.Job {
	t.Helper()
	return SubmitWith(t, s, func(in *submit.Submission) { in.DependsOn = on })
}

// SubmitWith submits a job that change has changed.
func SubmitWith(t *testing.T, s *Stack, change func(*submit.Submission)) *models.Job {
	t.Helper()
	job, _, err := TrySubmit(t.Context(), s, change)
	require.NoError(t, err)
	return job
}

// TrySubmit is SubmitWith for a submit that may fail.
func TrySubmit(ctx context.Context, s *Stack, change func(*submit.Submission)) (*models.Job, bool, error) {
	in := submit.Submission{Model: "testcard", Prompt: "a lighthouse", Params: []byte(`{"durationSeconds": 1, "pace": 0}`)}
	change(&in)
	return s.Submitter.Submit(ctx, s.Client, in)
}

// CompleteNext leases the job that is due and completes it.
func CompleteNext(t *testing.T, s *Stack, worker jobs.Principal) *models.Job {
	t.Helper()
	_, fence := s.Lease(t, worker)
	video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	end, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
	require.NoError(t, err)
	return end.Job
}
