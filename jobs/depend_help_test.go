package jobs_test

import (
	"context"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// submitAfter submits a job that depends on others.
func submitAfter(t *testing.T, s *jobstest.Stack, on ...models.JobID) *models.Job {
	t.Helper()
	return submitWith(t, s, func(in *jobs.Submission) { in.DependsOn = on })
}

func submitWith(t *testing.T, s *jobstest.Stack, change func(*jobs.Submission)) *models.Job {
	t.Helper()
	job, _, err := submitted(t.Context(), s, change)
	require.NoError(t, err)
	return job
}

func submitted(ctx context.Context, s *jobstest.Stack, change func(*jobs.Submission)) (*models.Job, bool, error) {
	in := jobs.Submission{Model: "testcard", Prompt: "a lighthouse", Params: []byte(`{"durationSeconds": 1, "pace": 0}`)}
	change(&in)
	return s.Submitter.Submit(ctx, s.Client, in)
}

// complete leases the job that is due and completes it.
func complete(t *testing.T, s *jobstest.Stack, worker jobs.Principal) *models.Job {
	t.Helper()
	_, fence := s.Lease(t, worker)
	video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	end, err := s.Holder.Complete(t.Context(), worker, fence, jobs.Completion{Video: &video})
	require.NoError(t, err)
	return end.Job
}
