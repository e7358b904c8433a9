package jobs_test

import (
	"bytes"
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/stretchr/testify/require"
)

func TestViewer(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	viewer, err := s.Keys.Authenticate(t.Context(), s.Secrets[access.RoleViewer])
	require.NoError(t, err)
	job, worker := s.Submit(t), s.Worker(t, "one").WorkerID
	pool := jobstest.AddPool(t, s, 0, 1)
	endpoint, _, err := s.Webhooks.CreateEndpoint(t.Context(), s.Client, "https://example.com/x", webhooks.FormatStandard, nil)
	require.NoError(t, err)
	operation, err := s.Bulk.Start(t.Context(), s.Client, bulk.Request{Action: joblist.BulkCancel})
	require.NoError(t, err)
	letter, delivery := models.NewDeadLetterID(), models.WebhookDeliveryID(models.NewWebhookDeliveryID())
	one := 1

	for name, verb := range map[string]func() error{
		"Submit": func() error { _, _, err := s.Submitter.Submit(t.Context(), viewer, jobstest.Submission()); return err },
		"SubmitMany": func() error {
			_, err := s.Submitter.SubmitMany(t.Context(), viewer, []submit.Submission{jobstest.Submission()})
			return err
		},
		"Continue":    func() error { _, _, err := s.Submitter.Continue(t.Context(), viewer, job.ID); return err },
		"Cancel":      func() error { _, err := s.Canceller.Cancel(t.Context(), viewer, job.ID); return err },
		"Delete":      func() error { _, err := s.Deleter.Delete(t.Context(), viewer, job.ID); return err },
		"Retry":       func() error { _, err := s.Retrier.Retry(t.Context(), viewer, job.ID, false); return err },
		"SetJobTier":  func() error { _, err := s.Operator.SetJobTier(t.Context(), viewer, job.ID, models.TierPro); return err },
		"PauseQueue":  func() error { _, err := s.Operator.PauseQueue(t.Context(), viewer, models.TierPro, "", ""); return err },
		"ResumeQueue": func() error { _, err := s.Operator.ResumeQueue(t.Context(), viewer, models.TierPro, ""); return err },
		"Halt":        func() error { _, err := s.Operator.Halt(t.Context(), viewer, models.HaltTargets, "x"); return err },
		"Resume":      func() error { _, err := s.Operator.Resume(t.Context(), viewer, models.HaltTargets); return err },
		"Monitor":     func() error { return s.Operator.Monitor(t.Context(), viewer, "POST", "/asynqmon/x") },
		"Redrive":     func() error { _, err := s.DeadLetters.Redrive(t.Context(), viewer, letter, operate.Edit{}); return err },
		"Discard":     func() error { _, err := s.DeadLetters.Discard(t.Context(), viewer, letter, ""); return err },
		"Request":     func() error { _, err := s.Inputs.Request(t.Context(), viewer, "image/png", 9, "AAAAAA=="); return err },
		"Put":         func() error { _, err := s.Inputs.Put(t.Context(), viewer, "", bytes.NewReader(nil)); return err },
		"StartBulk": func() error {
			_, err := s.Bulk.Start(t.Context(), viewer, bulk.Request{Action: joblist.BulkCancel})
			return err
		},
		"RedriveBulk":   func() error { _, err := s.Bulk.Redrive(t.Context(), viewer, bulk.RedriveRequest{Limit: 1}); return err },
		"PauseBulk":     func() error { _, err := s.Bulk.Pause(t.Context(), viewer, operation.ID); return err },
		"ResumeBulk":    func() error { _, err := s.Bulk.Resume(t.Context(), viewer, operation.ID); return err },
		"CancelBulk":    func() error { _, err := s.Bulk.Cancel(t.Context(), viewer, operation.ID); return err },
		"Drain":         func() error { _, err := s.Fleet.DrainWorker(t.Context(), viewer, worker, 0); return err },
		"Terminate":     func() error { _, err := s.Fleet.TerminateWorker(t.Context(), viewer, worker); return err },
		"Preempt":       func() error { _, err := s.Fleet.PreemptWorker(t.Context(), viewer, worker, 0); return err },
		"Quarantine":    func() error { _, err := s.Fleet.QuarantineWorker(t.Context(), viewer, worker, 5, "x"); return err },
		"Release":       func() error { _, err := s.Fleet.ReleaseQuarantine(t.Context(), viewer, worker); return err },
		"CreatePool":    func() error { _, err := s.Pools.Create(t.Context(), viewer, pool.PoolSpec); return err },
		"UpdatePool":    func() error { _, err := s.Pools.Update(t.Context(), viewer, pool.ID, pool.PoolSpec); return err },
		"PausePool":     func() error { _, err := s.Pools.Pause(t.Context(), viewer, pool.ID); return err },
		"ResumePool":    func() error { _, err := s.Pools.Resume(t.Context(), viewer, pool.ID); return err },
		"DeletePool":    func() error { return s.Pools.Delete(t.Context(), viewer, pool.ID) },
		"HoldEngine":    func() error { return s.Engines.Hold(t.Context(), viewer, pool.ID, "http://gpu-1") },
		"ResumeEngine":  func() error { return s.Engines.Resume(t.Context(), viewer, pool.ID, "http://gpu-1") },
		"ApplyModels":   func() error { _, err := s.Registry.Apply(t.Context(), viewer, registry.Application{}); return err },
		"RemoveModel":   func() error { return s.Registry.Remove(t.Context(), viewer, "testcard", false) },
		"RestoreModel":  func() error { _, err := s.Registry.Restore(t.Context(), viewer, "testcard"); return err },
		"CreateAccount": func() error { _, err := s.Accounts.Create(t.Context(), viewer, auth.AccountInput{}); return err },
		"UpdateAccount": func() error {
			_, err := s.Accounts.Update(t.Context(), viewer, s.Account.ID, auth.AccountInput{MaxRunning: &one})
			return err
		},
		"CreateKey": func() error { _, _, err := s.Keys.Create(t.Context(), viewer, auth.NewKey{}); return err },
		"RevokeKey": func() error { return s.Keys.Revoke(t.Context(), viewer, s.Client.KeyID) },
		"CreateEndpoint": func() error {
			_, _, err := s.Webhooks.CreateEndpoint(t.Context(), viewer, "https://example.com", webhooks.FormatStandard, nil)
			return err
		},
		"RotateSecret":    func() error { _, _, err := s.Webhooks.RotateSecret(t.Context(), viewer, endpoint.ID); return err },
		"RotateAccount":   func() error { _, err := s.Webhooks.RotateAccountSecret(t.Context(), viewer); return err },
		"DeleteEndpoint":  func() error { return s.Webhooks.DeleteEndpoint(t.Context(), viewer, endpoint.ID) },
		"EnableEndpoint":  func() error { _, err := s.Webhooks.EnableEndpoint(t.Context(), viewer, endpoint.ID); return err },
		"DisableEndpoint": func() error { _, err := s.Webhooks.DisableEndpoint(t.Context(), viewer, endpoint.ID); return err },
		"Redeliver":       func() error { _, err := s.Webhooks.Redeliver(t.Context(), viewer, delivery); return err },
		"TestEndpoint":    func() error { _, err := s.Webhooks.Test(t.Context(), viewer, endpoint.ID); return err },
	} {
		var refused *apierror.Error
		require.ErrorAs(t, verb(), &refused, "%s must refuse a viewer", name)
		require.Equal(t, apierror.CodeForbidden, refused.Code, "%s: %s", name, refused.Message)
	}
	require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)

	seen, err := s.Reads.Jobs.Get(t.Context(), viewer, job.ID)
	require.NoError(t, err)
	require.Equal(t, job.ID, seen.ID)
	accounts, err := s.Accounts.List(t.Context(), viewer, paging.Request{First: 5})
	require.NoError(t, err)
	require.NotEmpty(t, accounts.Items)
	_, err = s.Pools.Explain(t.Context(), viewer, pool.ID)
	require.NoError(t, err)
	_, err = s.Bulk.Get(t.Context(), viewer, operation.ID)
	require.NoError(t, err)
}
