package submit_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/stretchr/testify/require"
)

// tokens holds buckets that do not refill.
type tokens struct {
	mu   sync.Mutex
	left int
	held map[string]bool
}

// Take implements submit.Rates.
func (b *tokens) Take(_ context.Context, _ string, keys []string, _ int) (got []submit.Token, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == nil {
		b.held = map[string]bool{}
	}
	for _, key := range keys {
		switch {
		case b.held[key]:
			got = append(got, submit.TokenPending)
		case b.left > 0:
			b.left--
			b.held[key] = key != ""
			got = append(got, submit.TokenTaken)
		default:
			got, wait = append(got, submit.TokenRefused), 7*time.Second
		}
	}
	return got, wait
}

// Give implements submit.Rates.
func (b *tokens) Give(_ context.Context, _ string, keys []string, _ int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += len(keys)
	for _, key := range keys {
		delete(b.held, key)
	}
}

func submission(key string, seconds string) submit.Submission {
	in := submit.Submission{Model: "testcard", Prompt: "a lighthouse", Params: []byte(`{"durationSeconds": 1, "pace": ` + seconds + `}`)}
	if key != "" {
		in.IdempotencyKey = &key
	}
	return in
}

func TestRate(t *testing.T) {
	t.Parallel()

	setup := func(t *testing.T, left int) (*jobstest.Stack, *tokens, *jobstest.Tally) {
		s, bucket, meter := jobstest.New(t), &tokens{left: left}, &jobstest.Tally{}
		s.Submitter.Admission.Rates, s.Submitter.Admission.Observer = bucket, meter
		return s, bucket, meter
	}

	t.Run("RefusesSubmitsThatComeTooFast", func(t *testing.T) {
		t.Parallel()
		s, _, meter := setup(t, 1)
		s.Submit(t)

		_, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "0"))

		var refused *apierror.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, apierror.CodeRateLimited, refused.Code)
		require.Equal(t, 7, refused.RetryAfterSeconds)
		require.Contains(t, refused.Message, "Try again in 7 s.")
		require.Equal(t, map[apierror.Code]int{apierror.CodeRateLimited: 1}, meter.Refusals)
		n, err := s.Reads.Jobs.Count(t.Context(), s.Client, joblist.JobFilter{})
		require.NoError(t, err)
		require.Equal(t, 1, n, "nothing half-written")
	})

	t.Run("AcceptsARepeatedKeyWithoutTakingAToken", func(t *testing.T) {
		t.Parallel()
		s, bucket, _ := setup(t, 1)
		first, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("k", "0"))
		require.NoError(t, err)

		again, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, submission("k", "0"))

		require.NoError(t, err)
		require.True(t, deduplicated)
		require.Equal(t, first.ID, again.ID)
		_, _, err = s.Submitter.Submit(t.Context(), s.Client, submission("k", "1"))
		require.ErrorIs(t, err, apierror.New(apierror.CodeIdempotencyConflict, ""))
		require.Zero(t, bucket.left)
	})

	t.Run("ReturnsTheSameJobToConcurrentCallsWithOneKey", func(t *testing.T) {
		t.Parallel()
		s, bucket, meter := setup(t, 1)
		processes := []*submit.Submitter{s.Submitter, s.AnotherSubmitter()}
		ids, errs := make([]models.JobID, 120), make([]error, 120)
		var racing sync.WaitGroup
		for i := range ids {
			racing.Go(func() {
				job, _, err := processes[i%2].Submit(t.Context(), s.Client, submission("same", "0"))
				if errs[i] = err; err == nil {
					ids[i] = job.ID
				}
			})
		}
		racing.Wait()

		for i := range ids {
			require.NoError(t, errs[i])
			require.Equal(t, ids[0], ids[i])
		}
		require.Zero(t, bucket.left, "one job took one token")
		require.Empty(t, meter.Refusals)
	})

	t.Run("WaitsUntilAnotherProcessReleasesTheKey", func(t *testing.T) {
		t.Parallel()
		s, bucket, _ := setup(t, 1)
		bucket.Take(t.Context(), "", []string{"k"}, 1)
		done := make(chan error, 1)
		go func() {
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("k", "0"))
			done <- err
		}()
		_, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("other", "0"))
		require.ErrorIs(t, err, apierror.New(apierror.CodeRateLimited, ""), "there is no token for another key")

		bucket.Give(t.Context(), "", []string{"k"}, 1)

		require.NoError(t, <-done, "the other one came to nothing")
		require.Zero(t, bucket.left)
	})

	t.Run("TakesOneTokenForTwoJobsWithTheSameKeyInOneCall", func(t *testing.T) {
		t.Parallel()
		s, bucket, _ := setup(t, 2)

		got, err := s.Submitter.SubmitMany(t.Context(), s.Client, []submit.Submission{
			submission("a", "0"), submission("a", "0"), submission("b", "0"), submission("c", "0"), submission("c", "0"),
		})

		require.NoError(t, err)
		require.Equal(t, got[0].Job.ID, got[1].Job.ID)
		require.Nil(t, got[2].Refused)
		for _, answer := range got[3:] {
			require.Equal(t, apierror.CodeRateLimited, answer.Refused.Code)
		}
		require.Zero(t, bucket.left)
	})

	t.Run("ReturnsTheTokensOfDuplicatesAndRefusedSubmits", func(t *testing.T) {
		t.Parallel()
		s, bucket, meter := setup(t, 10)
		var racing sync.WaitGroup
		for range 8 {
			racing.Go(func() {
				_, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("same", "0"))
				require.NoError(t, err)
			})
		}
		racing.Wait()
		require.Equal(t, 9, bucket.left, "one job took one token")

		s.Exec(t, "UPDATE accounts SET max_queued = 1 WHERE id = ?", s.Account.ID)
		_, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "0"))

		require.ErrorIs(t, err, apierror.New(apierror.CodeQuotaExceeded, ""))
		require.Equal(t, 9, bucket.left)
		require.Equal(t, map[apierror.Code]int{apierror.CodeQuotaExceeded: 1}, meter.Refusals)
	})

	t.Run("DoesNotCountSubmitsOfAnAccountWithoutALimit", func(t *testing.T) {
		t.Parallel()
		s, _, _ := setup(t, 0)
		_, _, err := s.Submitter.Submit(t.Context(), s.Admin, submission("", "0"))
		require.NoError(t, err, "an operator's account is CRITICAL")

		s.Exec(t, "UPDATE accounts SET submits_per_minute = 0 WHERE id = ?", s.Account.ID)
		_, _, err = s.Submitter.Submit(t.Context(), s.Client, submission("", "0"))
		require.ErrorIs(t, err, apierror.New(apierror.CodeRateLimited, ""))
	})
}

func TestOverload(t *testing.T) {
	t.Parallel()

	setup := func(t *testing.T) (*jobstest.Stack, *jobstest.Tally) {
		s, meter := jobstest.New(t), &jobstest.Tally{}
		s.Submitter.Admission.Observer = meter
		return s, meter
	}

	t.Run("RefusesAJobThatWouldWaitTooLong", func(t *testing.T) {
		t.Parallel()
		s, meter := setup(t)
		s.Worker(t, "one")
		first, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("first", "400"))
		require.NoError(t, err)
		require.Nil(t, first.PredictedWaitSeconds, "nothing is known yet")
		require.NoError(t, s.Estimates.Refresh(t.Context()))

		_, _, err = s.Submitter.Submit(t.Context(), s.Client, submission("", "1"))

		var refused *apierror.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, apierror.CodeOverloaded, refused.Code)
		require.InDelta(t, 101, refused.RetryAfterSeconds, 2, "401 s are 101 s more than ten times 30 s")
		require.Equal(t, map[apierror.Code]int{apierror.CodeOverloaded: 1}, meter.Refusals)
		_, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, submission("first", "400"))
		require.NoError(t, err)
		require.True(t, deduplicated, "a repeated key passes")
		batch := submission("", "1")
		batch.Tier = models.TierBatch
		_, _, err = s.Submitter.Submit(t.Context(), s.Client, batch)
		require.NoError(t, err, "BATCH promises nothing")
		s.RequireInvariants(t)
	})

	t.Run("CountsOnAJobThatMayGiveWay", func(t *testing.T) {
		t.Parallel()
		s, _ := setup(t)
		pool := jobstest.AddPool(t, s, 1, 1)
		worker := s.Worker(t, "one")
		s.Exec(t, "UPDATE workers SET pool_id = ? WHERE id = ?", pool.ID, worker.WorkerID)
		batch := submission("", "600")
		batch.Tier = models.TierBatch
		_, _, err := s.Submitter.Submit(t.Context(), s.Client, batch)
		require.NoError(t, err)
		_, fence := s.Lease(t, worker)
		_, err = s.Attempts.ReportProgress(t.Context(), worker, fence,
			lease.ProgressReport{Progress: models.Progress{Percent: 1, Phase: models.PhaseRendering}})
		require.NoError(t, err)
		submit := func(yielding string) (*models.Job, error) {
			s.Exec(t, "UPDATE pools SET yielding_tiers = ?::text[]", yielding)
			require.NoError(t, s.Estimates.Refresh(t.Context()))
			job, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "1"))
			return job, err
		}

		_, err = submit("{}")
		require.ErrorIs(t, err, apierror.New(apierror.CodeOverloaded, ""))
		job, err := submit("{BATCH}")
		require.NoError(t, err)
		require.Equal(t, models.TierEnterprise, job.Lane)
		require.InDelta(t, 40, *job.PredictedWaitSeconds, 0, "the target, and the time to save a checkpoint")
	})

	t.Run("AcceptsIfTheWaitIsUnknown", func(t *testing.T) {
		t.Parallel()
		s, _ := setup(t)
		for range 3 {
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "600"))
			require.NoError(t, err)
			require.NoError(t, s.Estimates.Refresh(t.Context()))
		}
	})

	t.Run("ComparesPredictionsWithResults", func(t *testing.T) {
		t.Parallel()
		s, meter := setup(t)
		s.Notifier.Observer = meter
		worker := s.Worker(t, "one")
		require.NoError(t, s.Estimates.Refresh(t.Context()))
		first, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "119"))
		require.NoError(t, err)
		require.Zero(t, *first.PredictedWaitSeconds, "a worker is idle")

		s.Lease(t, worker)

		assigned := meter.Into(models.JobAssigned)
		require.Len(t, assigned, 1)
		require.Zero(t, *assigned[0].PredictedWaitSeconds)
		require.Equal(t, *s.Reload(t, first.ID).WaitedSeconds, *assigned[0].WaitedSeconds)
		require.NoError(t, s.Estimates.Refresh(t.Context()))
		second, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "119"))
		require.NoError(t, err)
		require.InDelta(t, 120, *second.PredictedWaitSeconds, 40, "the first one's render")
		require.InDelta(t, 240, *second.PredictedSeconds, 40, "and its own")
		s.Estimates.CaughtUp()
		third, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "119"))
		require.NoError(t, err)
		require.InDelta(t, 240, *third.PredictedWaitSeconds, 40, "the second one is known, though nothing was refreshed")
	})

	t.Run("ReportsCompletionsToTheObserver", func(t *testing.T) {
		t.Parallel()
		s, meter := setup(t)
		s.Notifier.Observer = meter
		worker := s.Worker(t, "one")
		require.NoError(t, s.Estimates.Refresh(t.Context()))
		_, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "20"))
		require.NoError(t, err)
		_, lost := s.Lease(t, worker)
		_, err = s.Attempts.Release(t.Context(), worker, lost, models.FailPreempted)
		require.NoError(t, err)

		done := jobstest.CompleteNext(t, s, worker)

		completed := meter.Into(models.JobCompleted)
		require.Len(t, completed, 1)
		require.Equal(t, done.CompletedAt.Sub(done.CreatedAt), completed[0].CompletedAt.Sub(completed[0].CreatedAt))
		require.Zero(t, completed[0].Failures)
		require.InDelta(t, 21, *done.PredictedSeconds, 3)
		failing, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "20"))
		require.NoError(t, err)
		require.NotNil(t, failing.PredictedSeconds)
		s.Exec(t, "UPDATE jobs SET failures = 1 WHERE id = ?", failing.ID)
		jobstest.CompleteNext(t, s, worker)
		completed = meter.Into(models.JobCompleted)
		require.Len(t, completed, 2)
		require.Equal(t, 1, completed[1].Failures)
	})
}

func TestObserver(t *testing.T) {
	t.Parallel()
	s, draft := jobstest.Drafted(t)
	meter := &jobstest.Tally{}
	s.Notifier.Observer = meter
	other := jobstest.SubmitAs(t, s, s.Client, draftOf(6))

	for range 2 {
		_, err := s.Deleter.Delete(t.Context(), s.Client, draft.ID)
		require.NoError(t, err)
	}

	require.Len(t, meter.Made, 1)
	require.Equal(t, other.ID, meter.Made[0].ID)
	require.Len(t, meter.Changes, 2)
	first, again := meter.Changes[0], meter.Changes[1]
	require.True(t, first[0].DeletedAt.IsZero())
	require.Equal(t, draft.LatestCheckpointID, first[0].LatestCheckpointID)
	require.False(t, first[1].DeletedAt.IsZero())
	require.False(t, again[0].DeletedAt.IsZero(), "it is deleted once")
}
