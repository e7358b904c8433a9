package auth_test

import (
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestUpdateAccount(t *testing.T) {
	t.Parallel()

	t.Run("RemovesTheAccountFromItsLinesAndReturnsIt", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		first, second, third := s.Submit(t), s.Submit(t), s.Submit(t)
		require.Equal(t, first.ID, jobstest.LeaseNext(t, s, s.Worker(t, "one")).Job.ID)
		idle := s.Worker(t, "two")
		hinted := func() int {
			jobs, err := s.Index().First(t.Context(), []models.Queue{third.Queue()}, nil, 5)
			require.NoError(t, err)
			return len(jobs)
		}

		_, err := s.Accounts.Update(t.Context(), s.Admin, s.Account.ID, auth.AccountInput{MaxRunning: new(1)})
		require.NoError(t, err)
		require.Zero(t, hinted())
		require.Nil(t, jobstest.LeaseNext(t, s, idle))

		account, err := s.Accounts.Update(t.Context(), s.Admin, s.Account.ID, auth.AccountInput{MaxRunning: new(2)})

		require.NoError(t, err)
		require.Equal(t, 2, account.MaxRunning)
		require.Equal(t, 1, hinted(), "the account is back in its line")
		require.Equal(t, second.ID, jobstest.LeaseNext(t, s, idle).Job.ID)
		require.Nil(t, jobstest.LeaseNext(t, s, s.Worker(t, "three")))
		s.RequireInvariants(t)
	})

	t.Run("OnlyAnAdminChangesHowLongDraftsAreKept", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		operator := s.NewKey(t, s.NewAccount(t, "staff", models.TierCritical), access.RoleOperator)
		update := func(p jobs.Principal, hours int) error {
			_, err := s.Accounts.Update(t.Context(), p, s.Account.ID, auth.AccountInput{DraftsKeptHours: &hours})
			return err
		}
		for _, hours := range []int{-1, 0, 2161} {
			jobstest.RequireInvalid(t, update(s.Admin, hours), "draftsKeptHours")
		}
		jobstest.RequireCode(t, update(operator, 1), apierror.CodeForbidden)
		require.NoError(t, update(s.Admin, 2160))
	})

	t.Run("AppliesTheNewTiersLimitsButKeepsCustomOnes", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, err := s.Accounts.Update(t.Context(), s.Admin, s.Account.ID, auth.AccountInput{MaxQueued: new(7)})
		require.NoError(t, err)

		account, err := s.Accounts.Update(t.Context(), s.Admin, s.Account.ID, auth.AccountInput{Tier: new(models.TierFree),
			SubmitsPerMinute: new(300)})

		require.NoError(t, err)
		require.Equal(t, []int{7, 1, 300}, []int{account.MaxQueued, account.MaxRunning, account.SubmitsPerMinute})
		log, err := s.Reads.History.AuditLog(t.Context(), s.Admin, string(s.Account.ID), paging.Request{First: 1})
		require.NoError(t, err)
		require.JSONEq(t, `{"name": "client", "before": {"tier": "ENTERPRISE", "maxRunning": 200}, "after": {"tier": "FREE", "maxRunning": 1}}`,
			string(log.Items[0].Payload))
	})

	t.Run("LetsOnlyAdminsAssignCritical", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		operator, err := s.Keys.Authenticate(t.Context(), s.Secrets[access.RoleOperator])
		require.NoError(t, err)

		_, err = s.Accounts.Update(t.Context(), operator, s.Account.ID, auth.AccountInput{Tier: new(models.TierCritical)})
		jobstest.RequireCode(t, err, apierror.CodeForbidden)

		_, err = s.Accounts.Update(t.Context(), s.Admin, s.Account.ID, auth.AccountInput{Tier: new(models.TierCritical)})
		require.NoError(t, err)
	})

	t.Run("StillDeduplicatesARepeatedSubmit", func(t *testing.T) {
		t.Parallel()

		for name, change := range map[string]struct{ from, to models.Tier }{
			"raised": {models.TierPro, models.TierEnterprise}, "lowered": {models.TierEnterprise, models.TierFree},
		} {
			s := jobstest.New(t)
			s.Exec(t, "UPDATE accounts SET tier = ? WHERE id = ?", change.from, s.Account.ID)
			bare, spelt := jobstest.Submission(), jobstest.Submission()
			bare.IdempotencyKey, spelt.IdempotencyKey, spelt.Tier = new("bare"), new("spelt"), change.from
			first := map[string]models.JobID{}
			for key, in := range map[string]submit.Submission{"bare": bare, "spelt": spelt} {
				job, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
				require.NoError(t, err)
				first[key] = job.ID
			}

			_, err := s.Accounts.Update(t.Context(), s.Admin, s.Account.ID, auth.AccountInput{Tier: &change.to})
			require.NoError(t, err)

			for key, in := range map[string]submit.Submission{"bare": bare, "spelt": spelt} {
				again, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, in)
				require.NoError(t, err, "%s, %s", name, key)
				require.True(t, deduplicated)
				require.Equal(t, first[key], again.ID)
			}
			spelt.Tier = ""
			_, _, err = s.Submitter.Submit(t.Context(), s.Client, spelt)
			jobstest.RequireCode(t, err, apierror.CodeIdempotencyConflict)
		}
	})
}
