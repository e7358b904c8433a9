package operate_test

import (
	"sync"
	"testing"

	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

func TestRedrive(t *testing.T) {
	t.Parallel()

	t.Run("RunsInCriticalWithAllItsAttempts", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		job, dead := dies(t, s, worker, models.FailUnauthorized, "a face")

		again, err := s.DeadLetters.Redrive(t.Context(), s.Admin, dead.ID, operate.Edit{})

		require.NoError(t, err)
		require.Equal(t, job.ID, again.ID)
		require.Equal(t, 2, again.Run)
		require.Equal(t, models.JobQueued, again.Status)
		require.Equal(t, models.TierCritical, again.Lane)
		require.Equal(t, job.Tier, again.Tier)
		require.Zero(t, again.Failures)
		require.JSONEq(t, string(job.Params), string(again.Params))
		settled := deadLetter(t, s, dead.ID)
		require.Equal(t, models.ResolvedRedriven, settled.Resolution)
		require.Equal(t, string(s.Admin.KeyID), settled.ResolvedBy)
		require.Equal(t, 1, lo.Count(jobstest.EventTypes(t, s, job.ID), models.EventRedriven))
		s.RequireInvariants(t)
		s.Submit(t)
		require.Equal(t, job.ID, jobstest.CompleteNext(t, s, worker).ID, "it goes before the others")
		s.RequireInvariants(t)
	})

	t.Run("ReturnsTheSameJobWhenRepeated", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		job, dead := dies(t, s, worker, models.FailUnauthorized, "a face")
		_, err := s.DeadLetters.Redrive(t.Context(), s.Admin, dead.ID, operate.Edit{})
		require.NoError(t, err)
		_, newer := fails(t, s, worker, models.FailUnauthorized, "a face")
		require.NotEqual(t, dead.ID, newer.ID)
		before := s.Dump(t)

		again, err := s.DeadLetters.Redrive(t.Context(), s.Admin, dead.ID, operate.Edit{})

		require.NoError(t, err)
		require.Equal(t, job.ID, again.ID)
		require.Equal(t, 2, again.Run)
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("StartsOneRunForConcurrentCalls", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job, dead := dies(t, s, s.Worker(t, "one"), models.FailUnauthorized, "a face")
		errs := make([]error, 100)
		var calls sync.WaitGroup
		for i := range errs {
			calls.Go(func() {
				for again := true; again; again = postgres.IsOutage(errs[i]) { // no connection in time
					_, errs[i] = s.DeadLetters.Redrive(t.Context(), s.Admin, dead.ID, operate.Edit{})
				}
			})
		}
		calls.Wait()

		for _, err := range errs {
			require.NoError(t, err)
		}
		require.Equal(t, 2, s.Reload(t, job.ID).Run)
		require.Equal(t, 1, lo.Count(jobstest.EventTypes(t, s, job.ID), models.EventRedriven))
		s.RequireInvariants(t)
	})

	t.Run("AppliesEditsAndThenStartsFromScratch", func(t *testing.T) {
		t.Parallel()

		s, job, worker := failedJob(t)
		dead, err := models.FindDeadLetter(t.Context(), s.DB, job.ID, 1)
		require.NoError(t, err)

		again, err := s.DeadLetters.Redrive(t.Context(), s.Admin, dead.ID, operate.Edit{
			Params: []byte(`{"durationSeconds": 3, "pace": 0}`), Prompt: new("a harbour in the rain"),
		})

		require.NoError(t, err)
		require.Contains(t, string(again.Params), `"durationSeconds":3`)
		require.Contains(t, string(again.Params), `"resolution"`, "the defaults are filled in")
		require.Greater(t, again.TimeoutSeconds, 0)
		granted, fence := s.Lease(t, worker)
		require.Empty(t, granted.Checkpoints)
		require.JSONEq(t, string(again.Params), string(s.Reload(t, job.ID).Params))
		prompts, err := s.Edges(t, job.ID).Prompts(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a harbour in the rain", prompts[job.ID].Text)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err = s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)
		s.RequireInvariants(t)
	})

	t.Run("KeepsTheTimeoutOfTheSubmit", func(t *testing.T) {
		t.Parallel()

		s, job, _ := failedJob(t)
		s.Exec(t, "UPDATE jobs SET timeout_seconds = 77 WHERE id = ?", job.ID)
		dead, err := models.FindDeadLetter(t.Context(), s.DB, job.ID, 1)
		require.NoError(t, err)

		again, err := s.DeadLetters.Redrive(t.Context(), s.Admin, dead.ID, operate.Edit{Params: []byte(`{"durationSeconds": 3, "pace": 0}`)})

		require.NoError(t, err)
		require.Equal(t, 77, again.TimeoutSeconds)
	})

	t.Run("ValidatesEditsLikeASubmit", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, dead := dies(t, s, s.Worker(t, "one"), models.FailUnauthorized, "a face")
		before := s.Dump(t)

		for field, e := range map[string]operate.Edit{
			"prompt":                 {Prompt: new(" ")},
			"params.durationSeconds": {Params: []byte(`{"durationSeconds": -1}`)},
			"params":                 {Params: []byte(`[`)},
		} {
			_, err := s.DeadLetters.Redrive(t.Context(), s.Admin, dead.ID, e)
			jobstest.RequireInvalid(t, err, field)
		}

		require.Equal(t, before, s.Dump(t))
	})

	t.Run("RefusesAJobThatItsOwnerHasRetried", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job, dead := dies(t, s, s.Worker(t, "one"), models.FailUnauthorized, "a face")
		_, err := s.Retrier.Retry(t.Context(), s.Client, job.ID, false)
		require.NoError(t, err)

		_, err = s.DeadLetters.Redrive(t.Context(), s.Admin, dead.ID, operate.Edit{})

		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.Contains(t, err.Error(), "retried by the job's owner")
		require.Equal(t, 2, s.Reload(t, job.ID).Run)
	})
}

func TestBulkRedrive(t *testing.T) {
	t.Parallel()

	t.Run("RedrivesAGroupAtItsPace", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		var group []*models.Job
		var cause string
		for range 3 {
			job, dead := dies(t, s, worker, models.FailUnauthorized, "a face")
			group, cause = append(group, job), dead.Fingerprint
		}
		other, _ := dies(t, s, worker, models.FailPoison, "no key")

		op, err := s.Bulk.Redrive(t.Context(), s.Admin, bulk.RedriveRequest{Filter: models.DeadLetterFilter{Fingerprint: cause}, Limit: 2})
		require.NoError(t, err)
		require.Equal(t, 2, op.Matched)
		require.Equal(t, 600, op.PerMinute)
		require.JSONEq(t, `{"fingerprint": "`+cause+`"}`, string(op.Filter))
		over := jobstest.FinishBulk(t, s, op.ID)

		require.Equal(t, 2, over.Done)
		for i, run := range []int{2, 2, 1} {
			require.Equal(t, run, s.Reload(t, group[i].ID).Run)
		}
		require.Equal(t, 1, s.Reload(t, other.ID).Run)
		s.RequireInvariants(t)
		for _, limit := range []int{0, -1, 10_001} {
			_, err := s.Bulk.Redrive(t.Context(), s.Admin, bulk.RedriveRequest{Limit: limit})
			jobstest.RequireInvalid(t, err, "limit")
		}
	})

	t.Run("MatchesOnlyJobsWithAnOpenDeadLetter", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		dead, _ := dies(t, s, worker, models.FailUnauthorized, "a face")
		_, settled := dies(t, s, worker, models.FailUnauthorized, "a face")
		_, err := s.DeadLetters.Discard(t.Context(), s.Admin, settled.ID, "it is over")
		require.NoError(t, err)
		s.Submit(t)

		dry, err := s.Bulk.Start(t.Context(), s.Admin, bulk.Request{Action: joblist.BulkRedrive, DryRun: true})
		require.NoError(t, err)
		op, err := s.Bulk.Start(t.Context(), s.Admin, bulk.Request{Action: joblist.BulkRedrive})
		require.NoError(t, err)
		over := jobstest.FinishBulk(t, s, op.ID)

		require.Equal(t, 1, dry.Matched)
		require.Equal(t, 1, over.Done)
		require.Zero(t, over.Failed)
		require.Equal(t, 2, s.Reload(t, dead.ID).Run)
	})

	for _, action := range []joblist.BulkAction{joblist.BulkRedrive, joblist.BulkRetry} {
		t.Run("WaitsForTheRunsOfItsCanaries"+string(action), func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			worker := s.Worker(t, "one")
			var dead []*models.Job
			for range 5 {
				job, _ := dies(t, s, worker, models.FailUnauthorized, "a face")
				dead = append(dead, job)
			}
			op, err := s.Bulk.Start(t.Context(), s.Admin, bulk.Request{
				Action: action, Canary: new(2), Filter: joblist.JobFilter{Status: []models.JobStatus{models.JobFailed}},
			})
			require.NoError(t, err)

			require.Equal(t, 2, jobstest.BulkPass(t, s, s.Bulk, "5 s"))
			require.Zero(t, jobstest.BulkPass(t, s, s.Bulk, "5 s"), "the first two have yet to run")
			require.Equal(t, dead[0].ID, jobstest.CompleteNext(t, s, worker).ID)
			require.Zero(t, jobstest.BulkPass(t, s, s.Bulk, "5 s"))
			fails(t, s, worker, models.FailUnauthorized, "a face")
			require.Zero(t, jobstest.BulkPass(t, s, s.Bulk, "5 s"))

			stopped := jobstest.BulkOperation(t, s, op.ID)
			require.True(t, stopped.Paused)
			require.Contains(t, stopped.Errors[0].Message, "1 of the first 2 jobs failed")
			_, err = s.Bulk.Resume(t.Context(), s.Admin, op.ID)
			require.NoError(t, err)
			require.Equal(t, 5, jobstest.FinishBulk(t, s, op.ID).Done)
			require.Equal(t, 2, s.Reload(t, dead[1].ID).Run)
			s.RequireInvariants(t)
		})

		t.Run("ContinuesAfterItsCanariesSucceeded"+string(action), func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			worker := s.Worker(t, "one")
			for range 3 {
				dies(t, s, worker, models.FailUnauthorized, "a face")
			}
			op, err := s.Bulk.Start(t.Context(), s.Admin, bulk.Request{Action: action, Canary: new(1)})
			require.NoError(t, err)
			require.Equal(t, 1, jobstest.BulkPass(t, s, s.Bulk, "5 s"))
			jobstest.CompleteNext(t, s, worker)

			require.Equal(t, 2, jobstest.BulkPass(t, s, s.Bulk, "5 s"))

			require.False(t, jobstest.BulkOperation(t, s, op.ID).FinishedAt.IsZero())
		})
	}
}
