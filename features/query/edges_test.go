package query_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/stretchr/testify/require"
)

// What belongs to a job is read through one of these doors. None shows another tenant's.
func TestEdges(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	worker := s.Worker(t, "one")
	job := s.Submit(t)
	_, fence := s.Lease(t, worker)
	jobstest.UploadAll(t, s, worker, fence)
	job = s.Reload(t, job.ID)
	other := jobs.Principal{Role: access.RoleClient, AccountID: models.NewAccountID()}
	artifacts, err := s.EdgesOf(t, job).Artifacts(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, artifacts)

	t.Run("AreNotMadeForAnotherTenant", func(t *testing.T) {
		t.Parallel()

		for name, caller := range map[string]jobs.Principal{"another client": other, "a worker": worker, "nobody": {}} {
			_, err := s.Reads.Jobs.Of(caller, job)
			require.Equal(t, apierror.NotFound("job"), err, name)
			_, err = s.Reads.Workflows.Of(caller, &models.Workflow{ID: models.NewWorkflowID(), AccountID: s.Account.ID})
			require.Equal(t, apierror.NotFound("workflow"), err, name)
			_, err = s.Reads.Webhooks.Tries(t.Context(), caller, &webhooks.Delivery{AccountID: s.Account.ID})
			require.Equal(t, apierror.NotFound("webhook delivery"), err, name)
			_, err = wire.New(s.Reads).OfJobs(t.Context(), caller, []*models.Job{job}, s.Base, time.Hour)
			require.Equal(t, apierror.NotFound("job"), err, name)
			_, err = s.Reads.Jobs.LiveLog(t.Context(), caller, fence.AttemptID, 0)
			require.ErrorIs(t, err, apierror.NotFound("attempt"), name)
		}
		own := *job
		own.AccountID = other.AccountID
		_, err := s.Reads.Jobs.Of(other, &own, job)
		require.Equal(t, apierror.NotFound("job"), err, "one of its own does not open the rest")
	})

	t.Run("AreLeftOutByReadsOfManyIDs", func(t *testing.T) {
		t.Parallel()

		for name, seen := range map[*jobs.Principal]bool{&other: false, &s.Client: true} {
			rows, err := s.Reads.Jobs.ByID(t.Context(), *name, []models.JobID{job.ID})
			require.NoError(t, err)
			require.Equal(t, seen, len(rows) > 0)
			files, err := s.Reads.Jobs.Artifacts(t.Context(), *name, []models.ArtifactID{artifacts[0].ID})
			require.NoError(t, err)
			require.Equal(t, seen, len(files) > 0)
			held, err := s.Reads.Fleet.CurrentJobs(t.Context(), *name, []models.WorkerID{worker.WorkerID})
			require.NoError(t, err)
			require.Equal(t, seen, len(held) > 0)
		}
	})

	t.Run("HaveNoJobsIfNobodyMadeThem", func(t *testing.T) {
		t.Parallel()

		var zero query.Edges
		attempts, err := zero.Attempts(t.Context())
		require.NoError(t, err)
		require.Empty(t, attempts)
		reasons, err := s.Reads.Jobs.WaitingFor(t.Context(), zero)
		require.NoError(t, err)
		require.Empty(t, reasons)
	})

	t.Run("HideThePromptOfALeaseFromClients", func(t *testing.T) {
		t.Parallel()

		_, err := s.Reads.Jobs.LeasedPrompt(t.Context(), s.Client, job.ID)
		require.Equal(t, apierror.NotFound("job"), err)
		prompt, err := s.Reads.Jobs.LeasedPrompt(t.Context(), worker, job.ID)
		require.NoError(t, err)
		require.NotEmpty(t, prompt.Text)
	})
}
