package jobs_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// tokens are buckets that nothing flows into.
type tokens struct {
	mu   sync.Mutex
	left int
	held map[string]bool
}

// Take implements jobs.Rates.
func (b *tokens) Take(_ context.Context, _ string, keys []string, _ int) (got []jobs.Token, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == nil {
		b.held = map[string]bool{}
	}
	for _, key := range keys {
		switch {
		case b.held[key]:
			got = append(got, jobs.TokenHeld)
		case b.left > 0:
			b.left--
			b.held[key] = key != ""
			got = append(got, jobs.TokenTaken)
		default:
			got, wait = append(got, jobs.TokenRefused), 7*time.Second
		}
	}
	return got, wait
}

// Give implements jobs.Rates.
func (b *tokens) Give(_ context.Context, _ string, keys []string, _ int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += len(keys)
	for _, key := range keys {
		delete(b.held, key)
	}
}

// tally is what an observer learned.
type tally struct {
	mu      sync.Mutex
	refused map[apierror.Code]int
	changed [][2]models.Job
}

// Refused implements [jobs.Observer].
func (m *tally) Refused(code apierror.Code, _ models.Tier) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused == nil {
		m.refused = map[apierror.Code]int{}
	}
	m.refused[code]++
}

// Changed implements [jobs.Observer].
func (m *tally) Changed(before, after *models.Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changed = append(m.changed, [2]models.Job{*before, *after})
}

// into returns the jobs that changed into a status.
func (m *tally) into(status models.JobStatus) []models.Job {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []models.Job
	for _, c := range m.changed {
		if c[0].Status != status && c[1].Status == status {
			found = append(found, c[1])
		}
	}
	return found
}

func submission(key string, seconds string) jobs.Submission {
	in := jobs.Submission{Model: "testcard", Prompt: "a lighthouse", Params: []byte(`{"durationSeconds": 1, "pace": ` + seconds + `}`)}
	if key != "" {
		in.IdempotencyKey = &key
	}
	return in
}

func TestRate(t *testing.T) {
	t.Parallel()

	setup := func(t *testing.T, left int) (*jobstest.Stack, *tokens, *tally) {
		s, bucket, meter := jobstest.New(t), &tokens{left: left}, &tally{}
		s.Submitter.Admission.Rates, s.Submitter.Admission.Observer = bucket, meter
		return s, bucket, meter
	}

	t.Run("RefusesWhatComesTooFast", func(t *testing.T) {
		t.Parallel()
		s, _, meter := setup(t, 1)
		s.Submit(t)

		_, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "0"))

		var refused *apierror.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, apierror.CodeRateLimited, refused.Code)
		require.Equal(t, 7, refused.RetryAfterSeconds)
		require.Contains(t, refused.Message, "Try again in 7 s.")
		require.Equal(t, map[apierror.Code]int{apierror.CodeRateLimited: 1}, meter.refused)
		n, err := s.Reader.CountJobs(t.Context(), s.Client, models.JobFilter{})
		require.NoError(t, err)
		require.Equal(t, 1, n, "nothing half-written")
	})

	t.Run("LetsARepeatedKeyPassAndTakesNothingForIt", func(t *testing.T) {
		t.Parallel()
		s, bucket, _ := setup(t, 1)
		first, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("k", "0"))
		require.NoError(t, err)

		again, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, submission("k", "0"))

		require.NoError(t, err)
		require.True(t, deduplicated)
		require.Equal(t, first.ID, again.ID)
		_, _, err = s.Submitter.Submit(t.Context(), s.Client, submission("k", "1"))
		require.ErrorIs(t, err, &apierror.Error{Code: apierror.CodeIdempotencyConflict})
		require.Zero(t, bucket.left)
	})

	t.Run("GivesEveryCallerOfAKeyItsJobWhileTheFirstIsBeingWritten", func(t *testing.T) {
		t.Parallel()
		s, bucket, meter := setup(t, 1)
		processes := []*jobs.Submitter{s.Submitter, s.AnotherSubmitter()}
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
		require.Empty(t, meter.refused)
	})

	t.Run("WaitsForAKeyThatAnotherProcessHoldsUntilItIsGivenBack", func(t *testing.T) {
		t.Parallel()
		s, bucket, _ := setup(t, 1)
		bucket.Take(t.Context(), "", []string{"k"}, 1)
		done := make(chan error, 1)
		go func() {
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("k", "0"))
			done <- err
		}()
		_, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("other", "0"))
		require.ErrorIs(t, err, &apierror.Error{Code: apierror.CodeRateLimited}, "there is no token for another key")

		bucket.Give(t.Context(), "", []string{"k"}, 1)

		require.NoError(t, <-done, "the other one came to nothing")
		require.Zero(t, bucket.left)
	})

	t.Run("TakesOneTokenForTwoOfAKeyInOneCall", func(t *testing.T) {
		t.Parallel()
		s, bucket, _ := setup(t, 2)

		got, err := s.Submitter.SubmitMany(t.Context(), s.Client, []jobs.Submission{
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

	t.Run("GivesTheTokensOfLosersAndRefusedOnesBack", func(t *testing.T) {
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

		require.ErrorIs(t, err, &apierror.Error{Code: apierror.CodeQuotaExceeded})
		require.Equal(t, 9, bucket.left)
		require.Equal(t, map[apierror.Code]int{apierror.CodeQuotaExceeded: 1}, meter.refused)
	})

	t.Run("CountsNothingForWhoHasNoLimit", func(t *testing.T) {
		t.Parallel()
		s, _, _ := setup(t, 0)
		_, _, err := s.Submitter.Submit(t.Context(), s.Admin, submission("", "0"))
		require.NoError(t, err, "an operator's account is CRITICAL")

		s.Exec(t, "UPDATE accounts SET submits_per_minute = 0 WHERE id = ?", s.Account.ID)
		_, _, err = s.Submitter.Submit(t.Context(), s.Client, submission("", "0"))
		require.ErrorIs(t, err, &apierror.Error{Code: apierror.CodeRateLimited})
	})
}

func TestOverload(t *testing.T) {
	t.Parallel()

	setup := func(t *testing.T) (*jobstest.Stack, *tally) {
		s, meter := jobstest.New(t), &tally{}
		s.Submitter.Admission.Observer = meter
		return s, meter
	}

	t.Run("RefusesWhatWouldWaitFarTooLong", func(t *testing.T) {
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
		require.Equal(t, map[apierror.Code]int{apierror.CodeOverloaded: 1}, meter.refused)
		_, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, submission("first", "400"))
		require.NoError(t, err)
		require.True(t, deduplicated, "a repeated key passes")
		batch := submission("", "1")
		batch.Tier = models.TierBatch
		_, _, err = s.Submitter.Submit(t.Context(), s.Client, batch)
		require.NoError(t, err, "BATCH promises nothing")
		s.RequireInvariants(t)
	})

	t.Run("AcceptsWhereNobodyCanTell", func(t *testing.T) {
		t.Parallel()
		s, _ := setup(t)
		for range 3 {
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "600"))
			require.NoError(t, err)
			require.NoError(t, s.Estimates.Refresh(t.Context()))
		}
	})

	t.Run("PredictsAndCompares", func(t *testing.T) {
		t.Parallel()
		s, meter := setup(t)
		s.Notifier.Observer = meter
		worker := s.Worker(t, "one")
		require.NoError(t, s.Estimates.Refresh(t.Context()))
		first, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "20"))
		require.NoError(t, err)
		require.Zero(t, *first.PredictedWaitSeconds, "a worker is idle")

		s.Lease(t, worker)

		assigned := meter.into(models.JobAssigned)
		require.Len(t, assigned, 1)
		require.Zero(t, *assigned[0].PredictedWaitSeconds)
		require.Equal(t, *s.Reload(t, first.ID).WaitedSeconds, *assigned[0].WaitedSeconds)
		require.NoError(t, s.Estimates.Refresh(t.Context()))
		second, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "20"))
		require.NoError(t, err)
		require.InDelta(t, 21, *second.PredictedWaitSeconds, 3, "the first one's render")
		require.InDelta(t, 42, *second.PredictedSeconds, 3, "and its own")
		s.Estimates.CaughtUp()
		third, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "20"))
		require.NoError(t, err)
		require.InDelta(t, 42, *third.PredictedWaitSeconds, 3, "the second one is known, though nothing was refreshed")
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
		_, err = s.Holder.Release(t.Context(), worker, lost, models.FailPreempted)
		require.NoError(t, err)

		done := complete(t, s, worker)

		completed := meter.into(models.JobCompleted)
		require.Len(t, completed, 1)
		require.Equal(t, done.CompletedAt.Sub(done.CreatedAt), completed[0].CompletedAt.Sub(completed[0].CreatedAt))
		require.Zero(t, completed[0].Failures)
		require.InDelta(t, 21, *done.PredictedSeconds, 3)
		failing, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "20"))
		require.NoError(t, err)
		require.NotNil(t, failing.PredictedSeconds)
		s.Exec(t, "UPDATE jobs SET failures = 1 WHERE id = ?", failing.ID)
		complete(t, s, worker)
		completed = meter.into(models.JobCompleted)
		require.Len(t, completed, 2)
		require.Equal(t, 1, completed[1].Failures)
	})
}

func TestEstimateJobs(t *testing.T) {
	t.Parallel()

	t.Run("TellsOfEachJobWhenItStartsAndIsDone", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		var rows []*models.Job
		for range 3 {
			job, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "9"))
			require.NoError(t, err)
			rows = append(rows, job)
		}
		none, err := s.Reader.EstimateJobs(t.Context(), rows)
		require.NoError(t, err)
		require.Empty(t, none, "nothing is known")
		s.Lease(t, worker)
		rows[0] = s.Reload(t, rows[0].ID)
		require.NoError(t, s.Estimates.Refresh(t.Context()))

		found, err := s.Reader.EstimateJobs(t.Context(), rows)

		require.NoError(t, err)
		for i, wait := range []float64{0, 10, 20} {
			guess := found[rows[i].ID]
			if i == 0 {
				require.Nil(t, guess.WaitSeconds, "it waits no more")
			} else {
				require.InDelta(t, wait, *guess.WaitSeconds, 3)
				require.InDelta(t, math.Round(10**guess.WaitSeconds)/10, *guess.WaitSeconds, 0, "to tenths")
			}
			require.WithinDuration(t, time.Now().Add(time.Duration(wait+10)*time.Second), guess.CompletionAt, 4*time.Second)
			require.Zero(t, guess.CompletionAt.Nanosecond())
		}
		estimate, err := s.Submitter.Estimate(t.Context(), s.Client, submission("", "9"))
		require.NoError(t, err)
		require.InDelta(t, 30, *estimate.WaitSeconds, 3)
		require.Equal(t, 3, estimate.Position)
		require.InDelta(t, 10, *estimate.RenderSeconds, 0.1)
		require.InDelta(t, 20, *s.Estimates.Drain(models.TierEnterprise, "testcard", 2), 0.1)
	})

	t.Run("CountsTheTimeUntilAJobIsDue", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.Worker(t, "one")
		require.NoError(t, s.Estimates.Refresh(t.Context()))
		in := submission("", "10")
		in.RunAt = new(time.Now().Add(time.Hour))

		estimate, err := s.Submitter.Estimate(t.Context(), s.Client, in)

		require.NoError(t, err)
		require.InDelta(t, 3600, *estimate.WaitSeconds, 60)
		require.InDelta(t, 3600, *estimate.WaitSecondsP90, 60)
	})

	t.Run("RefusesTimesThatASubmitRefuses", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		for field, in := range map[string]jobs.Submission{
			"runAt":     {Model: "testcard", Prompt: "x", RunAt: new(time.Now().AddDate(9, 0, 0))},
			"expiresAt": {Model: "testcard", Prompt: "x", ExpiresAt: new(time.Now().Add(-time.Hour))},
		} {
			_, err := s.Submitter.Estimate(t.Context(), s.Client, in)
			jobstest.RequireInvalid(t, err, field)
		}
	})

	t.Run("KnowsThatAnAccountCameToItsCapAMomentAgo", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.Exec(t, "UPDATE accounts SET max_running = 1 WHERE id = ?", s.Account.ID)
		worker, _ := s.Worker(t, "one"), s.Worker(t, "two")
		require.NoError(t, s.Estimates.Refresh(t.Context()))
		var rows []*models.Job
		for range 3 {
			job, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "9"))
			require.NoError(t, err)
			rows = append(rows, job)
		}
		s.Lease(t, worker)

		wait := func(i int) float64 {
			found, err := s.Reader.EstimateJobs(t.Context(), rows)
			require.NoError(t, err)
			return *found[rows[i].ID].WaitSeconds
		}
		testrun.Eventually(t, "the forecast is learnt", func() bool { return math.Abs(wait(1)-10) < 3 && math.Abs(wait(2)-20) < 3 })
		require.NoError(t, s.Estimates.Refresh(t.Context()))
		require.InDelta(t, 10, wait(1), 3, "it says the same")
		require.InDelta(t, 20, wait(2), 3)
	})

	t.Run("KnowsOfAJobThatStartedAfterItsAccountWasRead", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.Exec(t, "UPDATE accounts SET max_running = 1 WHERE id = ?", s.Account.ID)
		worker, _ := s.Worker(t, "one"), s.Worker(t, "two")
		_, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "9"))
		require.NoError(t, err)
		s.Lease(t, worker)
		require.NoError(t, s.Estimates.Refresh(t.Context()))

		next, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "9"))

		require.NoError(t, err)
		require.InDelta(t, 10, *next.PredictedWaitSeconds, 3)
	})

	t.Run("LearnsHowLongRendersTake", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		job := s.Submit(t)
		_, fence := s.Lease(t, worker)
		film := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("film"))
		_, err := s.Holder.Complete(t.Context(), worker, fence, jobs.Completion{Video: &film})
		require.NoError(t, err)
		s.Exec(t, "UPDATE job_attempts SET gpu_seconds = 3 WHERE job_id = ?", job.ID)
		s.Exec(t, "UPDATE learning SET began_at = began_at - interval '1 minute', until = until - interval '1 minute'")
		s.Exec(t, "UPDATE jobs SET completed_at = completed_at - interval '3 seconds' WHERE id = ?", job.ID)

		n, err := s.Learner.Learn(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		n, err = s.Learner.Learn(t.Context())
		require.NoError(t, err)
		require.Zero(t, n, "each job teaches once")

		require.NoError(t, s.Estimates.Refresh(t.Context()))
		estimate, err := s.Submitter.Estimate(t.Context(), s.Client, submission("", "0"))
		require.NoError(t, err)
		require.InDelta(t, 3, *estimate.RenderSeconds, 0.01, "three times what the catalogue says")
	})
}
