package submit_test

import (
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

func draftOf(steps int) func(*submit.Submission) {
	return func(in *submit.Submission) { in.Draft = &submit.Draft{Steps: steps} }
}

func TestDraft(t *testing.T) {
	t.Parallel()

	t.Run("EndsWithACheckpointAndAPreview", func(t *testing.T) {
		t.Parallel()
		s, job := jobstest.Drafted(t)

		require.Equal(t, models.JobCompleted, job.Status)
		require.Empty(t, job.ResultID)
		require.NotEmpty(t, job.LatestCheckpointID)
		require.NotEmpty(t, job.PreviewID)
		require.Equal(t, 7*24*time.Hour, job.KeptUntil.Sub(job.CompletedAt))
		s.RequireInvariants(t)
		again := s.Reload(t, job.ID)
		require.True(t, job.KeptUntil.Equal(again.KeptUntil))
	})

	t.Run("CostsItsShareOfTheRender", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		whole := s.Submit(t)

		draft := jobstest.SubmitAs(t, s, s.Client, draftOf(6))

		require.InDelta(t, whole.EstimatedGPUSeconds/4, draft.EstimatedGPUSeconds, 1e-9) // 6 of 24 steps
	})

	t.Run("HasOneToAllSteps", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		for _, steps := range []int{-1, 0, 25, 1 << 30} {
			in := jobstest.Submission()
			draftOf(steps)(&in)
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
			jobstest.RequireInvalid(t, err, "draft.steps")
		}
		jobstest.SubmitAs(t, s, s.Client, draftOf(24))
		require.Equal(t, 1, s.Count(t, "jobs"))
	})

	t.Run("NeedsAModelThatMakesDrafts", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		in := jobstest.Submission()
		draftOf(6)(&in)
		in.Model = bare(t, s)
		_, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		jobstest.RequireInvalid(t, err, "draft")
	})

	t.Run("IsAnotherRequestThanTheVideo", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		in := jobstest.Submission()
		in.IdempotencyKey = new("k")
		_, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		in.Draft = &submit.Draft{Steps: 6}
		_, _, err = s.Submitter.Submit(t.Context(), s.Client, in)
		jobstest.RequireCode(t, err, apierror.CodeIdempotencyConflict)
	})

	t.Run("IsNotCompletedWithoutItsPreviewAndCheckpoint", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		job := jobstest.SubmitAs(t, s, s.Client, draftOf(6))
		worker := s.Worker(t, "one")
		_, fence := s.Lease(t, worker)
		preview := s.Upload(t, worker, fence, models.ArtifactPreview, []byte("a clip"))
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		complete := func(c lease.Completion) error {
			_, err := s.Attempts.Complete(t.Context(), worker, fence, c)
			return err
		}
		jobstest.RequireInvalid(t, complete(lease.Completion{}), "preview")
		jobstest.RequireInvalid(t, complete(lease.Completion{Video: &video}), "preview")
		jobstest.RequireInvalid(t, complete(lease.Completion{Video: &video, Preview: &preview}), "preview")
		jobstest.RequireInvalid(t, complete(lease.Completion{Preview: &preview}), "preview")
		jobstest.Checkpoint(t, s, worker, fence, 5)
		jobstest.RequireInvalid(t, complete(lease.Completion{Preview: &preview}), "preview")
		jobstest.Checkpoint(t, s, worker, fence, 6)
		require.NoError(t, complete(lease.Completion{Preview: &preview}))
		require.NoError(t, complete(lease.Completion{Preview: &preview}), "a repeated call")
		require.Equal(t, models.JobCompleted, s.Reload(t, job.ID).Status)
	})

	t.Run("AVideoHasNoPreview", func(t *testing.T) {
		t.Parallel()
		s, _, worker, fence := jobstest.Leased(t)
		o := jobstest.UploadAll(t, s, worker, fence)
		preview := s.Upload(t, worker, fence, models.ArtifactPreview, []byte("a clip"))
		_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &o.Video, Preview: &preview})
		jobstest.RequireInvalid(t, err, "preview")
	})
}

// bare adds a model that makes no drafts and has no seed, and returns its name.
func bare(t *testing.T, s *jobstest.Stack) string {
	t.Helper()
	s.SeedCatalogue(t)
	_, err := s.Registry.Apply(t.Context(), s.Admin, applying(`models: [{name: bare, type: video.generate, gpuTypes: [any],
		timeoutSeconds: 60, gpuSecondsPerSecond: 1, params: {type: object}}]`))
	require.NoError(t, err)
	return "bare"
}

func applying(source string) registry.Application {
	return registry.Application{File: "models.yaml", Source: source}
}

func TestContinue(t *testing.T) {
	t.Parallel()

	t.Run("BeginsWithTheDraftsCheckpoint", func(t *testing.T) {
		t.Parallel()
		s, draft := jobstest.Drafted(t)
		checkpoint := draft.LatestCheckpointID

		job, again, err := s.Submitter.Continue(t.Context(), s.Client, draft.ID)

		require.NoError(t, err)
		require.False(t, again)
		require.Equal(t, draft.ID, job.Continues)
		require.Equal(t, models.JobQueued, job.Status)
		require.JSONEq(t, string(draft.Params), string(job.Params))
		require.Zero(t, job.DraftSteps)
		s.RequireInvariants(t)
		worker := s.Worker(t, "two")
		granted, fence := s.Lease(t, worker)
		require.Equal(t, job.ID, granted.Job.ID)
		require.Len(t, granted.Checkpoints, 1)
		require.Equal(t, checkpoint, granted.Checkpoints[0].ID)
		prompts, err := s.Edges(t, job.ID).Prompts(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a lighthouse in the fog", prompts[job.ID].Text)
		_, err = s.Attempts.ReportProgress(t.Context(), worker, fence, lease.ProgressReport{
			Progress: models.Progress{Phase: models.PhaseResuming}, ResumedFrom: checkpoint, ResumedNote: "torch 2.14\x00 made it",
		})
		require.NoError(t, err)
		events, err := models.ListJobEvents(t.Context(), s.DB, job.ID, 0, 10)
		require.NoError(t, err)
		resumed := lo.Filter(events, func(e *models.JobEvent, _ int) bool { return e.Type == models.EventResumed })
		require.Len(t, resumed, 1)
		require.Contains(t, string(resumed[0].Payload), "torch 2.14")
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		end, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)
		require.NotEmpty(t, end.Job.ResultID)
		s.RequireInvariants(t)
	})

	t.Run("HappensOnce", func(t *testing.T) {
		t.Parallel()
		s, draft := jobstest.Drafted(t)
		var ids [4]models.JobID
		var fresh [4]bool
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				job, again, err := s.Submitter.Continue(t.Context(), s.Client, draft.ID)
				if err == nil {
					ids[i], fresh[i] = job.ID, !again
				}
			})
		}
		all.Wait()

		made := 0
		for i := range ids {
			require.Equal(t, ids[0], ids[i])
			require.NotEmpty(t, ids[i])
			if fresh[i] {
				made++
			}
		}
		require.Equal(t, 1, made)
		require.Equal(t, 2, s.Count(t, "jobs"))
		s.RequireInvariants(t)
	})

	t.Run("RefusesWhatIsNoCompletedDraft", func(t *testing.T) {
		t.Parallel()
		s, done := jobstest.Completed(t)
		waiting := jobstest.SubmitAs(t, s, s.Client, draftOf(6))
		for _, id := range []models.JobID{done.ID, waiting.ID} {
			_, _, err := s.Submitter.Continue(t.Context(), s.Client, id)
			jobstest.RequireCode(t, err, apierror.CodeConflict)
		}
		for _, id := range []models.JobID{"", "job_1", models.NewJobID()} {
			_, _, err := s.Submitter.Continue(t.Context(), s.Client, id)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
		}
	})

	t.Run("RefusesADraftOfAnotherAccount", func(t *testing.T) {
		t.Parallel()
		s, draft := jobstest.Drafted(t)
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierPro), access.RoleClient)
		_, _, err := s.Submitter.Continue(t.Context(), other, draft.ID)
		jobstest.RequireCode(t, err, apierror.CodeNotFound)

		job, _, err := s.Submitter.Continue(t.Context(), s.Admin, draft.ID)
		require.NoError(t, err)
		require.Equal(t, s.Account.ID, job.AccountID, "an operator continues it for its account")
		s.RequireInvariants(t)
	})

	t.Run("RefusesADraftThatIsNoLongerKept", func(t *testing.T) {
		t.Parallel()
		s, draft := jobstest.Drafted(t)
		s.Exec(t, "UPDATE jobs SET kept_until = clock_timestamp() - interval '1 second'")
		_, _, err := s.Submitter.Continue(t.Context(), s.Client, draft.ID)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.ErrorContains(t, err, "kept until")
	})

	t.Run("RefusesADeletedDraft", func(t *testing.T) {
		t.Parallel()
		s, draft := jobstest.Drafted(t)
		_, err := s.Deleter.Delete(t.Context(), s.Client, draft.ID)
		require.NoError(t, err)
		_, _, err = s.Submitter.Continue(t.Context(), s.Client, draft.ID)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.Positive(t, s.Reload(t, draft.ID).WastedGPUSeconds)
		s.RequireInvariants(t)
	})

	t.Run("OutlivesItsDraft", func(t *testing.T) {
		t.Parallel()
		s, draft := jobstest.Drafted(t)
		checkpoint := draft.LatestCheckpointID
		job, _, err := s.Submitter.Continue(t.Context(), s.Client, draft.ID)
		require.NoError(t, err)

		_, err = s.Deleter.Delete(t.Context(), s.Client, draft.ID)
		require.NoError(t, err)
		_, err = s.Upkeep.DeleteObjects(t.Context())
		require.NoError(t, err)

		lease, _ := s.Lease(t, s.Worker(t, "two"))
		require.Equal(t, checkpoint, lease.Checkpoints[0].ID)
		require.Contains(t, jobstest.Stored(t, s), lease.Checkpoints[0].ObjectKey)
		require.Zero(t, s.Reload(t, draft.ID).WastedGPUSeconds)
		s.RequireInvariants(t)

		jobstest.Age(t, s, "200 days") // the draft's row goes, the running job's stays
		_, err = s.Upkeep.ForgetJobs(t.Context())
		require.NoError(t, err)
		require.Empty(t, s.Reload(t, job.ID).Continues)
		require.Equal(t, 1, s.Count(t, "jobs"))
	})

	t.Run("IsRetriedFromTheDraftsCheckpointWhileItIsKept", func(t *testing.T) {
		t.Parallel()
		s, draft := jobstest.Drafted(t)
		checkpoint := draft.LatestCheckpointID
		worker := s.Worker(t, "two")
		job, _, err := s.Submitter.Continue(t.Context(), s.Client, draft.ID)
		require.NoError(t, err)
		fail := func() *lease.Lease {
			granted, fence := s.Lease(t, worker)
			require.Equal(t, job.ID, granted.Job.ID)
			_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy, Message: "no"})
			require.NoError(t, err)
			return granted
		}
		review := func() {
			s.Exec(t, "UPDATE artifacts SET review_at = '-infinity'")
			_, err := s.Upkeep.ReviewArtifacts(t.Context())
			require.NoError(t, err)
			s.RequireInvariants(t)
		}
		fail()

		// The draft's own time to be kept does not matter any more.
		s.Exec(t, "UPDATE jobs SET kept_until = clock_timestamp() - interval '1 second' WHERE id = ?", draft.ID)
		review()
		again, dedup, err := s.Submitter.Continue(t.Context(), s.Client, draft.ID)
		require.NoError(t, err)
		require.True(t, dedup)
		require.Equal(t, models.JobFailed, again.Status)
		_, err = s.Retrier.Retry(t.Context(), s.Client, job.ID, false)
		require.NoError(t, err)
		granted := fail()
		require.Len(t, granted.Checkpoints, 1)
		require.Equal(t, checkpoint, granted.Checkpoints[0].ID)

		// A failed job keeps its checkpoints for a day. After that it starts from scratch.
		jobstest.Age(t, s, "25 hours")
		review()
		_, err = s.Retrier.Retry(t.Context(), s.Client, job.ID, false)
		require.NoError(t, err)
		granted, fence := s.Lease(t, worker)
		require.Empty(t, granted.Checkpoints)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		end, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)
		require.Equal(t, models.JobCompleted, end.Job.Status)
		s.RequireInvariants(t)
	})

	t.Run("StartsAfreshWithAnEditedPrompt", func(t *testing.T) {
		t.Parallel()
		s, draft := jobstest.Drafted(t)
		job, _, err := s.Submitter.Continue(t.Context(), s.Client, draft.ID)
		require.NoError(t, err)
		worker := s.Worker(t, "two")
		_, fence := s.Lease(t, worker)
		_, err = s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy, Message: "no"})
		require.NoError(t, err)
		letter, err := models.FindDeadLetter(t.Context(), s.DB, job.ID, 1)
		require.NoError(t, err)

		_, err = s.DeadLetters.Redrive(t.Context(), s.Admin, letter.ID, operate.Edit{Prompt: new("a harbour")})

		require.NoError(t, err)
		lease, _ := s.Lease(t, worker)
		require.Equal(t, job.ID, lease.Job.ID)
		require.Empty(t, lease.Checkpoints)
		s.RequireInvariants(t)
	})

	t.Run("KeepsTheVersionOfTheModel", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.SeedCatalogue(t)
		draft := jobstest.FinishDraft(t, s, s.Worker(t, "one"), jobstest.SubmitAs(t, s, s.Client, draftOf(6)))
		_, err := s.Registry.Apply(t.Context(), s.Admin, applying(`models: [{name: testcard, type: video.generate, gpuTypes: [any],
			timeoutSeconds: 60, gpuSecondsPerSecond: 1, params: {type: object, maxProperties: 0}}]`))
		require.NoError(t, err)

		job, _, err := s.Submitter.Continue(t.Context(), s.Client, draft.ID)

		require.NoError(t, err)
		require.Equal(t, draft.ModelVersion, job.ModelVersion)
		s.Exec(t, "UPDATE jobs SET model_version = 77 WHERE id = ?", draft.ID)
		s.Exec(t, "UPDATE jobs SET continues = NULL")
		s.Exec(t, "UPDATE jobs SET latest_checkpoint_id = ? WHERE id = ?", draft.LatestCheckpointID, draft.ID)
		_, _, err = s.Submitter.Continue(t.Context(), s.Client, draft.ID)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.ErrorContains(t, err, "Version 77")
	})
}
