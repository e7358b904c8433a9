package submit_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func videos(n int) []submit.Submission {
	all := make([]submit.Submission, n)
	for i := range all {
		all[i] = submit.Submission{Model: "testcard", Prompt: fmt.Sprintf("video %d", i), IdempotencyKey: new(fmt.Sprintf("video-%d", i))}
	}
	return all
}

func TestSubmitMany(t *testing.T) {
	t.Parallel()

	t.Run("AcceptsAThousandJobsInOneCall", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		got, err := s.Submitter.SubmitMany(t.Context(), s.Client, videos(submit.MaxSubmitJobs))

		require.NoError(t, err)
		require.Len(t, got, submit.MaxSubmitJobs)
		for i, one := range got {
			require.Nil(t, one.Refused)
			require.Equal(t, fmt.Sprintf("video-%d", i), one.Job.IdempotencyKey)
			require.Equal(t, s.Reload(t, got[0].Job.ID).QueueOrder, got[0].Job.QueueOrder)
		}
		last := s.Reload(t, got[999].Job.ID)
		require.Equal(t, last.QueueOrder, got[999].Job.QueueOrder)
		require.Greater(t, last.QueueOrder, got[0].Job.QueueOrder, "they keep their order")
		prompts, err := s.Edges(t, got[7].Job.ID).Prompts(t.Context())
		require.NoError(t, err)
		require.Equal(t, "video 7", prompts[got[7].Job.ID].Text)
		s.RequireInvariants(t)
	})

	t.Run("AnswersEachJobLikeSubmit", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		before, dead := s.Submit(t), s.Submit(t)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, dead.ID)
		require.NoError(t, err)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierFree), access.RoleClient)
		others, _, err := s.Submitter.Submit(t.Context(), stranger, submit.Submission{Model: "testcard", Prompt: "theirs",
			IdempotencyKey: new("k")})
		require.NoError(t, err)
		in := func(change func(*submit.Submission)) submit.Submission {
			in := submit.Submission{Model: "testcard", Prompt: "fog"}
			change(&in)
			return in
		}

		got, err := s.Submitter.SubmitMany(t.Context(), s.Client, []submit.Submission{
			in(func(in *submit.Submission) { in.IdempotencyKey = new("k") }),
			in(func(in *submit.Submission) { in.Model = "none" }),
			in(func(in *submit.Submission) { in.IdempotencyKey = new("k") }),
			in(func(in *submit.Submission) { in.IdempotencyKey, in.Prompt = new("k"), "rain" }),
			in(func(in *submit.Submission) { in.Tier = models.TierCritical }),
			in(func(in *submit.Submission) { in.DependsOn = []models.JobID{before.ID} }),
			in(func(in *submit.Submission) { in.DependsOn = []models.JobID{others.ID} }),
			in(func(in *submit.Submission) { in.DependsOn = []models.JobID{dead.ID} }),
			in(func(in *submit.Submission) { in.ExpiresAt = new(before.CreatedAt) }),
		})

		require.NoError(t, err)
		require.Equal(t, models.JobQueued, got[0].Job.Status)
		require.NotEqual(t, others.ID, got[0].Job.ID)
		require.Equal(t, apierror.CodeInvalidInput, got[1].Refused.Code)
		require.Equal(t, "model", got[1].Refused.Field)
		require.True(t, got[2].Deduplicated)
		require.Equal(t, got[0].Job.ID, got[2].Job.ID)
		require.Equal(t, apierror.CodeIdempotencyConflict, got[3].Refused.Code)
		require.Equal(t, apierror.CodeForbidden, got[4].Refused.Code)
		require.Equal(t, models.JobBlocked, got[5].Job.Status)
		require.Equal(t, apierror.CodeNotFound, got[6].Refused.Code)
		require.Equal(t, models.JobFailed, s.Reload(t, got[7].Job.ID).Status)
		require.Equal(t, "expiresAt", got[8].Refused.Field)
		again, first, err := s.Submitter.Submit(t.Context(), s.Client, in(func(in *submit.Submission) { in.IdempotencyKey = new("k") }))
		require.NoError(t, err)
		require.True(t, first)
		require.Equal(t, got[0].Job.ID, again.ID)
		s.RequireInvariants(t)
	})

	t.Run("AcceptsWhatFitsAndDeduplicatesItOnRetry", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Exec(t, "UPDATE accounts SET max_queued = 3 WHERE id = ?", s.Account.ID)

		got, err := s.Submitter.SubmitMany(t.Context(), s.Client, videos(5))
		require.NoError(t, err)
		again, err := s.Submitter.SubmitMany(t.Context(), s.Client, videos(5))
		require.NoError(t, err)

		for i := range 5 {
			require.Equal(t, i >= 3, got[i].Refused != nil, i)
			if i >= 3 {
				require.Equal(t, apierror.CodeQuotaExceeded, got[i].Refused.Code)
				require.Equal(t, apierror.CodeQuotaExceeded, again[i].Refused.Code)
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

		got, err := s.Submitter.SubmitMany(t.Context(), s.Client, []submit.Submission{
			submission("a", "0"), {Model: "none"}, submission("a", "0"), submission("b", "0"),
		})
		require.NoError(t, err)
		require.True(t, got[2].Deduplicated)
		require.Equal(t, 3, bucket.left, "a bad input and a repeated key take none")
		again, err := s.Submitter.SubmitMany(t.Context(), s.Client, append(videos(4), submission("a", "0")))
		require.NoError(t, err)

		require.Nil(t, again[2].Refused)
		require.Equal(t, apierror.CodeRateLimited, again[3].Refused.Code)
		require.Equal(t, got[0].Job.ID, again[4].Job.ID)
		require.Equal(t, 5, s.Count(t, "jobs"))
	})

	t.Run("MakesOneJobForAKeyOfConcurrentCalls", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				got, err := s.Submitter.SubmitMany(t.Context(), s.Client, videos(20))
				require.NoError(t, err)
				require.Len(t, got, 20)
			})
		}
		wg.Wait()

		require.Equal(t, 20, s.Count(t, "jobs"))
		s.RequireInvariants(t)
	})

	t.Run("RefusesZeroAndTooManyJobs", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for _, n := range []int{0, submit.MaxSubmitJobs + 1} {
			_, err := s.Submitter.SubmitMany(t.Context(), s.Client, videos(n))
			jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
		}
		require.Zero(t, s.Count(t, "jobs"))
	})
}

// holdAccount locks an account until the returned transaction ends.
func holdAccount(t *testing.T, s *jobstest.Stack, id models.AccountID) bun.Tx {
	t.Helper()
	held, err := s.DB.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = models.LockAccount(t.Context(), held, id)
	require.NoError(t, err)
	return held
}

// TestSubmits covers concurrent calls that share a transaction.
func TestSubmits(t *testing.T) {
	t.Parallel()

	// together runs calls that all wait while an account is locked, and returns how many
	// transactions wrote their jobs.
	together := func(t *testing.T, s *jobstest.Stack, calls ...func()) (commits int) {
		held := holdAccount(t, s, s.Account.ID)
		var wg sync.WaitGroup
		for i, call := range calls {
			wg.Go(call)
			testrun.Eventually(t, "the submission waits", func() bool { return submit.Submitting(s.Submitter) == i+1 })
		}
		require.NoError(t, held.Rollback())
		wg.Wait()
		require.NoError(t, s.DB.NewRaw("SELECT count(DISTINCT xmin::text) FROM job_inputs").Scan(t.Context(), &commits))
		return commits
	}

	t.Run("AreAnsweredIndividually", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Exec(t, "UPDATE accounts SET max_queued = 5 WHERE id = ?", s.Account.ID)
		const callers = 12
		found, errs := make([]*models.Job, callers), make([]error, callers)
		var calls []func()
		for i := range callers {
			in := jobstest.Submission()
			switch {
			case i%3 == 1: // one job for all of these
				in.IdempotencyKey = new("the same")
			case i%3 == 2:
				in.Tier = models.TierCritical
			}
			calls = append(calls, func() { found[i], _, errs[i] = s.Submitter.Submit(t.Context(), s.Client, in) })
		}

		commits := together(t, s, calls...)

		require.Equal(t, 2, commits, "the first one, and all the others")
		for i := range callers {
			if i%3 == 2 {
				jobstest.RequireCode(t, errs[i], apierror.CodeForbidden)
				continue
			}
			require.NoError(t, errs[i], i)
			if i%3 == 1 {
				require.Equal(t, found[1].ID, found[i].ID)
			}
		}
		require.Equal(t, 5, s.Count(t, "jobs"))
		s.RequireInvariants(t)
		_, _, err := s.Submitter.Submit(t.Context(), s.Client, jobstest.Submission())
		jobstest.RequireCode(t, err, apierror.CodeQuotaExceeded)
	})

	t.Run("DoNotWaitForAnotherAccountsLock", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)
		held := holdAccount(t, s, stranger.AccountID)
		const callers = 5
		var strangers, own sync.WaitGroup
		one := func(p jobs.Principal) func() {
			return func() {
				_, _, err := s.Submitter.Submit(t.Context(), p, jobstest.Submission())
				require.NoError(t, err)
			}
		}
		two := func(p jobs.Principal) func() {
			return func() {
				_, err := s.Submitter.SubmitMany(t.Context(), p, videos(2))
				require.NoError(t, err)
			}
		}

		for range callers {
			strangers.Go(one(stranger))
			strangers.Go(two(stranger))
			own.Go(one(s.Client))
			own.Go(two(s.Client))
		}
		own.Wait()

		require.Equal(t, callers+2, s.Count(t, "jobs"), "the stranger's wait")
		require.NoError(t, held.Rollback())
		strangers.Wait()
		require.Equal(t, 2*(callers+2), s.Count(t, "jobs"))
		s.RequireInvariants(t)
	})

	t.Run("TakeOneStatementThatWaitsWhileTheirAccountIsLocked", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		held := holdAccount(t, s, s.Account.ID)
		var submits sync.WaitGroup
		submits.Go(func() { s.Submit(t) })
		s.WaitForLocks(t, 1)

		var waiting string
		require.NoError(t, s.DB.NewRaw(`SELECT query FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(t.Context(), &waiting))
		require.Contains(t, waiting, "-- Writes new jobs")
		require.NoError(t, held.Rollback())
		submits.Wait()
		require.Equal(t, 1, s.Count(t, "jobs"))
		s.RequireInvariants(t)
	})

	t.Run("LockTheirAccountOnceAllElseIsWritten", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		held := holdAccount(t, s, s.Account.ID)
		var submits sync.WaitGroup
		submits.Go(func() {
			_, err := s.Submitter.SubmitMany(t.Context(), s.Client, []submit.Submission{jobstest.Submission(), jobstest.Submission()})
			require.NoError(t, err)
		})

		var waiting string
		testrun.Eventually(t, "the calls wait for locks", func() bool {
			return s.DB.NewRaw(`SELECT query FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
				AND query_start < clock_timestamp() - interval '0.2 s'`).Scan(t.Context(), &waiting) == nil
		})

		require.Contains(t, waiting, "UPDATE accounts SET queued", "the jobs are written before")
		require.NoError(t, held.Rollback())
		submits.Wait()
		s.RequireInvariants(t)
	})

	t.Run("MakeOneVideoForARequestAndItsRetries", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		const tries = 3
		ids := make([]models.JobID, tries)
		held := holdAccount(t, s, s.Account.ID)
		var calls sync.WaitGroup
		for retry := range tries {
			calls.Go(func() {
				video, _, err := s.Videos.Create(t.Context(), s.Client, jobstest.Submission(), submit.VideoRequest{Digest: make([]byte, 32),
					Retry: retry})
				require.NoError(t, err)
				ids[retry] = video.ID
			})
			s.WaitForLocks(t, retry+1)
		}

		require.NoError(t, held.Rollback())
		calls.Wait()

		require.Equal(t, []models.JobID{ids[0], ids[0], ids[0]}, ids)
		require.Equal(t, 1, s.Count(t, "jobs"))
		s.RequireInvariants(t)
	})

	t.Run("DoNotFailBecauseOfEachOther", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'poisoned'; END $$`)
		s.Exec(t, `CREATE TRIGGER refuse AFTER INSERT ON jobs FOR EACH ROW WHEN (NEW.user_id = 'poison') EXECUTE FUNCTION refuse()`)
		const callers = 6
		errs := make([]error, callers)
		var calls []func()
		for i := range callers {
			in := jobstest.Submission()
			if i == 4 {
				in.UserID = "poison"
			}
			calls = append(calls, func() { _, _, errs[i] = s.Submitter.Submit(t.Context(), s.Client, in) })
		}

		together(t, s, calls...)

		for i, err := range errs {
			if i == 4 {
				require.ErrorContains(t, err, "poisoned")
				continue
			}
			require.NoError(t, err, i)
		}
		require.Equal(t, callers-1, s.Count(t, "jobs"))
		s.RequireInvariants(t)
	})
}

// BenchmarkSubmit measures concurrent callers that submit that many jobs in each call.
func BenchmarkSubmit(b *testing.B) {
	for _, c := range []struct{ callers, jobs int }{{1, 1}, {32, 1}, {128, 1}, {8, 100}} {
		b.Run(fmt.Sprintf("%dcallers/%djobs", c.callers, c.jobs), func(b *testing.B) {
			s := jobstest.New(b)
			s.Exec(b, "UPDATE accounts SET max_queued = 1000000000")
			all := videos(c.jobs)
			for i := range all {
				all[i].IdempotencyKey = nil
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var callers sync.WaitGroup
			for range c.callers {
				callers.Go(func() {
					for left.Add(-1) >= 0 {
						var err error
						if len(all) == 1 {
							_, _, err = s.Submitter.Submit(b.Context(), s.Client, all[0])
						} else {
							_, err = s.Submitter.SubmitMany(b.Context(), s.Client, all)
						}
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			callers.Wait()
			b.ReportMetric(float64(c.jobs*b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
