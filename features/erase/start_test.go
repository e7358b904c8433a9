package erase_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/stretchr/testify/require"
)

func TestStart(t *testing.T) {
	t.Parallel()

	t.Run("RefusesWhoMayNotAndWhatIsWrong", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		operator, viewer := s.NewKey(t, s.Account, access.RoleOperator), s.NewKey(t, s.Account, access.RoleViewer)
		before := s.Dump(t)
		for name, c := range map[string]struct {
			p    jobs.Principal
			id   models.AccountID
			name string
			code apierror.Code
		}{
			"a client":           {s.Client, s.Account.ID, "client", apierror.CodeForbidden},
			"a viewer":           {viewer, s.Account.ID, "client", apierror.CodeForbidden},
			"an operator":        {operator, s.Account.ID, "client", apierror.CodeForbidden},
			"an enrolment key":   {s.Enrolment, s.Account.ID, "client", apierror.CodeForbidden},
			"an unknown account": {s.Admin, models.NewAccountID(), "client", apierror.CodeNotFound},
			"another kind of id": {s.Admin, models.AccountID(s.Admin.KeyID), "client", apierror.CodeNotFound},
			"no id":              {s.Admin, "", "client", apierror.CodeNotFound},
			"no name":            {s.Admin, s.Account.ID, "", apierror.CodeInvalidInput},
			"another name":       {s.Admin, s.Account.ID, "Client", apierror.CodeInvalidInput},
			"a name and a space": {s.Admin, s.Account.ID, "client ", apierror.CodeInvalidInput},
			"the own account":    {s.Admin, s.Admin.AccountID, "house", apierror.CodeConflict},
		} {
			_, err := s.Eraser.Start(t.Context(), c.p, c.id, c.name)
			jobstest.RequireCode(t, err, c.code)
			require.Equal(t, before, s.Dump(t), name)
		}
		for _, p := range []jobs.Principal{s.Client, s.Enrolment} {
			_, err := s.Eraser.Get(t.Context(), p, s.Account.ID)
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
			_, err = s.Eraser.List(t.Context(), p)
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
		}
		_, err := s.Eraser.Get(t.Context(), s.Admin, s.Account.ID)
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
	})

	t.Run("LeavesTheLastAdminKey", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, err := s.Eraser.Start(t.Context(), jobs.Host, s.Admin.AccountID, "house")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.ErrorContains(t, err, "the last ADMIN key")
		another := s.NewKey(t, s.Account, access.RoleAdmin)

		_, err = s.Eraser.Start(t.Context(), another, s.Admin.AccountID, "house")

		require.NoError(t, err)
	})

	t.Run("ReturnsTheSameDeletionAgain", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		first := start(t, s)

		again, err := s.Eraser.Start(t.Context(), s.Admin, s.Account.ID, "whatever")
		require.NoError(t, err)
		require.Equal(t, first.StartedAt, again.StartedAt)
		over := finish(t, s)
		last, err := s.Eraser.Start(t.Context(), s.Admin, s.Account.ID, "")

		require.NoError(t, err)
		require.Equal(t, over.FinishedAt, last.FinishedAt)
		require.Equal(t, 1, s.Count(t, "account_deletions"))
		var acts int
		require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM audit_log WHERE action = 'deleteAccount'").Scan(t.Context(), &acts))
		require.Equal(t, 1, acts)
	})

	t.Run("FreesTheName", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		start(t, s)

		account, err := s.Keys.EnsureAccount(t.Context(), s.Account.Name, models.TierPro)

		require.NoError(t, err)
		require.NotEqual(t, s.Account.ID, account.ID)
		p := s.NewKey(t, account, access.RoleClient)
		finish(t, s)
		jobstest.SubmitAs(t, s, p, nil)
	})

	t.Run("ClosesTheAccountAtOnce", func(t *testing.T) {
		t.Parallel()

		s, _, worker, _ := jobstest.Leased(t)
		queued := s.Submit(t)
		secret := s.Secrets[access.RoleClient]
		made, err := s.Schedules.Create(t.Context(), s.Client, schedule.Input{Name: "night", EverySeconds: 3600,
			Request: schedule.Request{Job: &submit.Submission{Model: "testcard", Prompt: "fog"}}})
		require.NoError(t, err)
		cancelled := jobstest.CancelledJob(t, s)

		start(t, s)

		_, err = s.Keys.Authenticate(t.Context(), secret)
		jobstest.RequireCode(t, err, apierror.CodeUnauthenticated)
		require.ErrorContains(t, err, "is being deleted")
		// What was authenticated before is refused, too.
		refused := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, apierror.ErrAccountClosed)
			require.ErrorContains(t, err, "is being deleted")
		}
		for _, submitter := range []*submit.Submitter{s.Submitter, s.AnotherSubmitter()} {
			_, _, err = submitter.Submit(t.Context(), s.Client, jobstest.Submission())
			refused(err)
		}
		_, err = s.Schedules.FireNow(t.Context(), s.Admin, made.ID, time.Time{})
		require.ErrorContains(t, err, "is being deleted")
		_, err = s.Retrier.Retry(t.Context(), s.Client, cancelled.ID, false)
		jobstest.RequireCode(t, err, apierror.CodeQuotaExceeded)
		_, _, err = s.Keys.Create(t.Context(), s.Admin, auth.NewKey{AccountID: s.Account.ID, Role: access.RoleClient, Name: "late"})
		refused(err)
		_, err = s.Members.Create(t.Context(), s.Admin,
			auth.NewMember{Email: "late@example.com", Role: access.RoleViewer, AccountID: s.Account.ID})
		refused(err)
		_, err = s.Accounts.Update(t.Context(), s.Admin, s.Account.ID, auth.AccountInput{MaxRunning: new(5)})
		refused(err)
		_, _, err = s.Webhooks.CreateEndpoint(t.Context(), s.Client, "http://127.0.0.1:4321", webhooks.FormatStandard, nil)
		require.True(t, postgres.IsClosedAccount(err), "%v", err)
		_, err = s.Inputs.Request(t.Context(), s.Client, "image/png", 1, jobstest.Checksum([]byte("x")))
		require.True(t, postgres.IsClosedAccount(err), "%v", err)
		require.Nil(t, jobstest.LeaseNext(t, s, s.Worker(t, "two")), "none of its jobs starts")
		require.Equal(t, models.JobQueued, s.Reload(t, queued.ID).Status)
		require.NotEmpty(t, worker.WorkerID)
		s.Exec(t, "UPDATE schedules SET decided_until = decided_until - interval '3 hours'")
		n, err := s.Schedules.Decide(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
	})

	t.Run("LetsNoSubmitInProgressSurvive", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		var accepted sync.Map
		var submits sync.WaitGroup
		begun := make(chan bool, 8)
		for i := range 8 {
			submitter, reuse := s.AnotherSubmitter(), i%2 == 0
			submits.Go(func() {
				for n := range 40 {
					in := jobstest.Submission()
					if reuse {
						in.CallbackURL = "https://example.com/hook"
					}
					job, _, err := submitter.Submit(context.Background(), s.Client, in)
					if err != nil {
						require.ErrorIs(t, err, apierror.ErrAccountClosed)
						return
					}
					accepted.Store(job.ID, true)
					if n == 2 {
						begun <- true
					}
				}
			})
		}
		<-begun
		start(t, s)
		submits.Wait()

		over := finish(t, s)

		n := 0
		accepted.Range(func(any, any) bool { n++; return true })
		require.Equal(t, n, over.Deletion.Deleted["JOBS"], "each accepted job was deleted")
		require.Zero(t, s.Count(t, "jobs"))
		s.RequireRows(t)
	})
}
