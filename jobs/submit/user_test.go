package submit_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// shared is a stack whose client's account may have 5 waiting jobs, and each of its users 3 of
// them.
func shared(t *testing.T) *jobstest.Stack {
	t.Helper()
	s := jobstest.New(t)
	s.Submitter.UserShare = submit.DefaultUserShare
	s.Exec(t, "UPDATE accounts SET max_queued = 5 WHERE id = ?", s.Account.ID)
	return s
}

// videosOf returns a submission of each of these users; "" is no user.
func videosOf(users ...string) []submit.Submission {
	var all []submit.Submission
	for _, user := range users {
		in := jobstest.Submission()
		in.UserID = user
		all = append(all, in)
	}
	return all
}

// letIn returns, for each answer, whether it has a job.
func letIn(t *testing.T, all []submit.Submitted) string {
	t.Helper()
	var is []string
	for _, one := range all {
		switch {
		case one.Refused == nil:
			is = append(is, "in")
		case one.Refused.Field == "userId":
			require.Equal(t, apierror.CodeQuotaExceeded, one.Refused.Code)
			require.Positive(t, one.Refused.RetryAfterSeconds)
			is = append(is, "user")
		default:
			require.Equal(t, apierror.CodeQuotaExceeded, one.Refused.Code)
			is = append(is, "account")
		}
	}
	return strings.Join(is, " ")
}

func TestSubmitOfUsers(t *testing.T) {
	t.Parallel()

	t.Run("LeavesRoomForOtherUsers", func(t *testing.T) {
		t.Parallel()

		s := shared(t)

		first, err := s.Submitter.SubmitMany(t.Context(), s.Client, videosOf("ada", "ada", "", "ada", "ada", "bob", "bob"))
		require.NoError(t, err)
		s.Exec(t, "UPDATE accounts SET max_queued = 6 WHERE id = ?", s.Account.ID)
		then, err := s.Submitter.SubmitMany(t.Context(), s.Client, videosOf("ada", "", "bob"))
		require.NoError(t, err)

		require.Equal(t, "in in in in user in account", letIn(t, first))
		require.Equal(t, "user in account", letIn(t, then))
		s.RequireInvariants(t)
	})

	t.Run("CountsOnlyWaitingJobs", func(t *testing.T) {
		t.Parallel()

		s := shared(t)
		s.Exec(t, "UPDATE accounts SET max_queued = 6 WHERE id = ?", s.Account.ID)
		another := s.NewKey(t, s.NewAccount(t, "another", models.TierPro), access.RoleClient)
		all, err := s.Submitter.SubmitMany(t.Context(), s.Client, videosOf("ada", "ada", "ada"))
		require.NoError(t, err)
		keyed := videosOf("ada")[0]
		keyed.IdempotencyKey = new("k")
		_, err = s.Submitter.SubmitMany(t.Context(), another, videosOf("ada", "ada"))
		require.NoError(t, err, "another account's user is another one")
		_, _, err = s.Submitter.Submit(t.Context(), s.Client, keyed)
		jobstest.RequireCode(t, err, apierror.CodeQuotaExceeded)

		_, err = s.Canceller.Cancel(t.Context(), s.Client, all[0].Job.ID)
		require.NoError(t, err)
		_, _, err = s.Submitter.Submit(t.Context(), s.Client, keyed)
		require.NoError(t, err)
		_, again, err := s.Submitter.Submit(t.Context(), s.Client, keyed)

		require.NoError(t, err, "a used key is answered however many wait")
		require.True(t, again)
	})

	t.Run("HoldsForConcurrentCalls", func(t *testing.T) {
		t.Parallel()

		s := shared(t)
		s.Exec(t, "UPDATE accounts SET max_queued = 20 WHERE id = ?", s.Account.ID)
		var calls sync.WaitGroup
		for range 3 {
			submitter := s.AnotherSubmitter()
			for range 8 {
				calls.Go(func() {
					if _, _, err := submitter.Submit(t.Context(), s.Client, videosOf("ada")[0]); err != nil {
						jobstest.RequireCode(t, err, apierror.CodeQuotaExceeded)
					}
				})
			}
		}
		calls.Wait()

		require.Equal(t, 10, s.Count(t, "jobs"))
	})

	t.Run("HasNoLimitUnlessOneIsSet", func(t *testing.T) {
		t.Parallel()

		s := shared(t)
		for name, unlimit := range map[string]func(){
			"a share of all":       func() { s.Submitter.UserShare = 100 },
			"an unlimited account": func() { s.Exec(t, "UPDATE accounts SET max_queued = ?", jobs.Unlimited) },
		} {
			s.Submitter.UserShare = 10
			s.Exec(t, "UPDATE accounts SET max_queued = 10")
			unlimit()

			all, err := s.Submitter.SubmitMany(t.Context(), s.Client, videosOf("ada", "ada"))

			require.NoError(t, err)
			require.Equal(t, "in in", letIn(t, all), name)
		}
	})
}
