package jobs_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func films(n int) []jobs.Submission {
	all := make([]jobs.Submission, n)
	for i := range all {
		all[i] = jobs.Submission{Model: "testcard", Prompt: fmt.Sprintf("film %d", i), IdempotencyKey: pointer(fmt.Sprintf("film-%d", i))}
	}
	return all
}

func TestSubmitMany(t *testing.T) {
	t.Parallel()

	t.Run("AcceptsAThousandAtOnce", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		got, err := s.Submitter.SubmitMany(t.Context(), s.Client, films(jobs.MaxSubmitJobs))

		require.NoError(t, err)
		require.Len(t, got, jobs.MaxSubmitJobs)
		for i, one := range got {
			require.Nil(t, one.Refused)
			require.Equal(t, fmt.Sprintf("film-%d", i), one.Job.IdempotencyKey)
			require.Equal(t, s.Reload(t, got[0].Job.ID).QueueOrder, got[0].Job.QueueOrder)
		}
		last := s.Reload(t, got[999].Job.ID)
		require.Equal(t, last.QueueOrder, got[999].Job.QueueOrder)
		require.Greater(t, last.QueueOrder, got[0].Job.QueueOrder, "they keep their order")
		prompts, err := s.Reader.Prompts(t.Context(), []models.JobID{got[7].Job.ID})
		require.NoError(t, err)
		require.Equal(t, "film 7", prompts[got[7].Job.ID].Text)
		s.RequireInvariants(t)
	})

	t.Run("AnswersEachAsSubmitWould", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		before, dead := s.Submit(t), s.Submit(t)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, dead.ID)
		require.NoError(t, err)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierFree), models.RoleClient)
		others, _, err := s.Submitter.Submit(t.Context(), stranger, jobs.Submission{Model: "testcard", Prompt: "theirs", IdempotencyKey: pointer("k")})
		require.NoError(t, err)
		in := func(change func(*jobs.Submission)) jobs.Submission {
			in := jobs.Submission{Model: "testcard", Prompt: "fog"}
			change(&in)
			return in
		}

		got, err := s.Submitter.SubmitMany(t.Context(), s.Client, []jobs.Submission{
			in(func(in *jobs.Submission) { in.IdempotencyKey = pointer("k") }),
			in(func(in *jobs.Submission) { in.Model = "none" }),
			in(func(in *jobs.Submission) { in.IdempotencyKey = pointer("k") }),
			in(func(in *jobs.Submission) { in.IdempotencyKey, in.Prompt = pointer("k"), "rain" }),
			in(func(in *jobs.Submission) { in.Tier = models.TierCritical }),
			in(func(in *jobs.Submission) { in.DependsOn = []models.JobID{before.ID} }),
			in(func(in *jobs.Submission) { in.DependsOn = []models.JobID{others.ID} }),
			in(func(in *jobs.Submission) { in.DependsOn = []models.JobID{dead.ID} }),
			in(func(in *jobs.Submission) { in.ExpiresAt = pointer(before.CreatedAt) }),
		})

		require.NoError(t, err)
		require.Equal(t, models.JobQueued, got[0].Job.Status)
		require.NotEqual(t, others.ID, got[0].Job.ID)
		require.Equal(t, jobs.CodeInvalidInput, got[1].Refused.Code)
		require.Equal(t, "model", got[1].Refused.Field)
		require.True(t, got[2].Deduplicated)
		require.Equal(t, got[0].Job.ID, got[2].Job.ID)
		require.Equal(t, jobs.CodeIdempotencyConflict, got[3].Refused.Code)
		require.Equal(t, jobs.CodeForbidden, got[4].Refused.Code)
		require.Equal(t, models.JobBlocked, got[5].Job.Status)
		require.Equal(t, jobs.CodeNotFound, got[6].Refused.Code)
		require.Equal(t, models.JobFailed, s.Reload(t, got[7].Job.ID).Status)
		require.Equal(t, "expiresAt", got[8].Refused.Field)
		again, first, err := s.Submitter.Submit(t.Context(), s.Client, in(func(in *jobs.Submission) { in.IdempotencyKey = pointer("k") }))
		require.NoError(t, err)
		require.True(t, first)
		require.Equal(t, got[0].Job.ID, again.ID)
		s.RequireInvariants(t)
	})

	t.Run("TakesWhatFitsAndKnowsTheRestAgain", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Exec(t, "UPDATE accounts SET max_queued = 3 WHERE id = ?", s.Account.ID)

		got, err := s.Submitter.SubmitMany(t.Context(), s.Client, films(5))
		require.NoError(t, err)
		again, err := s.Submitter.SubmitMany(t.Context(), s.Client, films(5))
		require.NoError(t, err)

		for i := range 5 {
			require.Equal(t, i >= 3, got[i].Refused != nil, i)
			if i >= 3 {
				require.Equal(t, jobs.CodeQuotaExceeded, got[i].Refused.Code)
				require.Equal(t, jobs.CodeQuotaExceeded, again[i].Refused.Code)
				continue
			}
			require.True(t, again[i].Deduplicated)
			require.Equal(t, got[i].Job.ID, again[i].Job.ID)
		}
		s.RequireInvariants(t)
	})

	t.Run("TakesATokenForEachNewJob", func(t *testing.T) {
		t.Parallel()

		s, bucket := jobstest.New(t), &tokens{left: 5}
		s.Submitter.Admission.Rates = bucket

		got, err := s.Submitter.SubmitMany(t.Context(), s.Client, []jobs.Submission{
			submission("a", "0"), {Model: "none"}, submission("a", "0"), submission("b", "0"),
		})
		require.NoError(t, err)
		require.True(t, got[2].Deduplicated)
		require.Equal(t, 3, bucket.left, "a bad input and a repeated key take none")
		again, err := s.Submitter.SubmitMany(t.Context(), s.Client, append(films(4), submission("a", "0")))
		require.NoError(t, err)

		require.Nil(t, again[2].Refused)
		require.Equal(t, jobs.CodeRateLimited, again[3].Refused.Code)
		require.Equal(t, got[0].Job.ID, again[4].Job.ID)
		require.Equal(t, 5, s.Count(t, "jobs"))
	})

	t.Run("MakesOneJobOfAKeyHoweverManyCall", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				got, err := s.Submitter.SubmitMany(t.Context(), s.Client, films(20))
				require.NoError(t, err)
				require.Len(t, got, 20)
			})
		}
		wg.Wait()

		require.Equal(t, 20, s.Count(t, "jobs"))
		s.RequireInvariants(t)
	})

	t.Run("RefusesNoneAndTooMany", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for _, n := range []int{0, jobs.MaxSubmitJobs + 1} {
			_, err := s.Submitter.SubmitMany(t.Context(), s.Client, films(n))
			jobstest.RequireCode(t, err, jobs.CodeInvalidInput)
		}
		require.Zero(t, s.Count(t, "jobs"))
	})
}

// BenchmarkSubmit compares single submits with many in one call.
func BenchmarkSubmit(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := jobstest.New(b)
			s.Exec(b, "UPDATE accounts SET max_queued = 1000000000")
			all := films(n)
			for b.Loop() {
				for i := range all {
					all[i].IdempotencyKey = nil
				}
				var err error
				if n == 1 {
					_, _, err = s.Submitter.Submit(b.Context(), s.Client, all[0])
				} else {
					_, err = s.Submitter.SubmitMany(b.Context(), s.Client, all)
				}
				require.NoError(b, err)
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
