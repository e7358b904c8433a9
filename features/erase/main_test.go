package erase_test

import (
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/budget"
	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/features/erase"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/budgets"
	"github.com/reelay/reelay/models/erasure"
	"github.com/reelay/reelay/models/joblist"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { jobstest.Main(m) }

// start begins the deletion of the client's account.
func start(t *testing.T, s *jobstest.Stack) *erase.Report {
	t.Helper()
	report, err := s.Eraser.Start(t.Context(), s.Admin, s.Account.ID, s.Account.Name)
	require.NoError(t, err)
	return report
}

// pass runs a pass, as if the waits of the deletion were over.
func pass(t *testing.T, s *jobstest.Stack) *erase.Report {
	t.Helper()
	s.Exec(t, "UPDATE account_deletions SET next_at = clock_timestamp()")
	_, err := s.Eraser.Pass(t.Context())
	require.NoError(t, err)
	return report(t, s)
}

func report(t *testing.T, s *jobstest.Stack) *erase.Report {
	t.Helper()
	report, err := s.Eraser.Get(t.Context(), s.Admin, s.Account.ID)
	require.NoError(t, err)
	return report
}

// finish runs passes to the end of the deletion.
func finish(t *testing.T, s *jobstest.Stack) *erase.Report {
	t.Helper()
	for range 20 {
		if report := pass(t, s); report.Finished() {
			return report
		}
	}
	require.FailNow(t, "the deletion does not end")
	return nil
}

// furnish gives the client's account some of everything. Its texts contain the secret.
func furnish(t *testing.T) (*jobstest.Stack, *models.Job) {
	t.Helper()
	s, job := jobstest.SecretJob(t)
	worker := s.Worker(t, "two")
	_, err := s.Budgets.Set(t.Context(), s.Admin, budget.Input{
		AccountID: s.Account.ID, UserID: "user-" + jobstest.Secret, Period: budgets.PerMonth, LimitUSD: decimal.NewFromInt(100), Soft: true})
	require.NoError(t, err)
	user := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.UserID, in.Prompt = "user-"+jobstest.Secret, jobstest.Secret })
	_, fence := s.Lease(t, worker)
	video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	_, err = s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
	require.NoError(t, err)
	require.Equal(t, models.JobCompleted, s.Reload(t, user.ID).Status)
	s.AskApproval(t, s.Client)
	s.SubmitWorkflow(t, s.Client, "the "+jobstest.Secret, "a", "b")
	_, err = s.Schedules.Create(t.Context(), s.Client, schedule.Input{Name: jobstest.Secret, EverySeconds: 3600,
		Request: schedule.Request{Job: &submit.Submission{Model: "testcard", Prompt: jobstest.Secret}}})
	require.NoError(t, err)
	s.UploadMedia(t, s.Client, "audio/wav", []byte(jobstest.Secret))
	s.RequestInput(t, s.Client, []byte(jobstest.Secret))
	operator := s.NewKey(t, s.Account, access.RoleOperator)
	_, err = s.Reads.Views.Save(t.Context(), operator, query.ViewInput{Name: jobstest.Secret, Query: "q=" + jobstest.Secret, Shared: true})
	require.NoError(t, err)
	_, err = s.Members.Create(t.Context(), s.Admin, auth.NewMember{
		Email: jobstest.Secret + "@example.com", Name: jobstest.Secret, Role: access.RoleViewer, AccountID: s.Account.ID})
	require.NoError(t, err)
	_, err = s.Bulk.Start(t.Context(), s.Client, bulk.Request{Action: joblist.BulkCancel, Key: jobstest.Secret})
	require.NoError(t, err)
	s.Exec(t, `INSERT INTO arrivals (account_id, tier, model, jobs_per_second, gpu_seconds, until)
		VALUES (?, 'PRO', 'testcard', 1, 1, now())`, s.Account.ID)
	return s, job
}

func count(r *erase.Report, kind erasure.Kind) int { return r.Deletion.Deleted[kind] }
