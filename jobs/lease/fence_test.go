package lease_test

import (
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

func TestFence(t *testing.T) {
	t.Parallel()

	t.Run("RefusesCallersThatDoNotHoldTheLease", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Submit(t)
		s.Submit(t)
		worker, other := s.Worker(t, "one"), s.Worker(t, "two")
		_, mine := s.Lease(t, worker)
		_, theirs := s.Lease(t, other)
		o := jobstest.UploadAll(t, s, worker, mine)
		before := s.Dump(t)

		for name, c := range map[string]struct {
			p    jobs.Principal
			f    lease.Fence
			code apierror.Code
		}{
			"a wrong token": {worker, lease.Fence{AttemptID: mine.AttemptID, Token: models.NewFencingToken()},
				apierror.CodeLeaseLost},
			"no token":          {worker, lease.Fence{AttemptID: mine.AttemptID}, apierror.CodeLeaseLost},
			"a malformed token": {worker, lease.Fence{AttemptID: mine.AttemptID, Token: "' OR 1=1 --"}, apierror.CodeLeaseLost},
			"a token with a prefix": {worker, lease.Fence{AttemptID: mine.AttemptID, Token: "urn:uuid:" + mine.Token},
				apierror.CodeLeaseLost},
			"another job's token":            {worker, lease.Fence{AttemptID: mine.AttemptID, Token: theirs.Token}, apierror.CodeLeaseLost},
			"another worker":                 {other, mine, apierror.CodeNotFound},
			"another worker's attempt":       {worker, theirs, apierror.CodeNotFound},
			"another attempt under my token": {worker, lease.Fence{AttemptID: theirs.AttemptID, Token: mine.Token}, apierror.CodeNotFound},
			"an unknown attempt":             {worker, lease.Fence{AttemptID: models.NewAttemptID(), Token: mine.Token}, apierror.CodeNotFound},
			"a malformed attempt":            {worker, lease.Fence{AttemptID: "att_1", Token: mine.Token}, apierror.CodeNotFound},
			"another kind of id": {worker, lease.Fence{AttemptID: models.AttemptID(models.NewJobID()), Token: mine.Token},
				apierror.CodeNotFound},
			"an enrolment key": {s.Enrolment, mine, apierror.CodeForbidden},
			"the job's owner":  {s.Client, mine, apierror.CodeForbidden},
			"an admin":         {s.Admin, mine, apierror.CodeForbidden},
		} {
			for verb, call := range jobstest.FencedVerbs {
				err := call(t, s, c.p, c.f, o)

				require.Error(t, err, "%s with %s", verb, name)
				jobstest.RequireCode(t, err, c.code)
				require.Equal(t, before, s.Dump(t), "%s with %s", verb, name)
			}
		}
	})

	t.Run("LeavesTheNextLeaseUntouched", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Submit(t)
		zombie, heir := s.Worker(t, "one"), s.Worker(t, "two")
		_, stale := s.Lease(t, zombie)
		o := jobstest.UploadAll(t, s, zombie, stale)
		s.ExpireLease(t, stale.AttemptID)
		_, err := s.Reaper.Reap(t.Context())
		require.NoError(t, err)
		s.Lease(t, heir)
		before := s.Dump(t)

		for verb, call := range jobstest.FencedVerbs {
			err := call(t, s, zombie, stale, o)

			require.ErrorIs(t, err, apierror.ErrLeaseLost, verb)
			require.Equal(t, before, s.Dump(t), verb)
		}
	})

	t.Run("AcceptsAnExpiredLeaseThatWasNotReaped", func(t *testing.T) {
		t.Parallel()

		for _, verb := range []string{"Heartbeat", "ReportProgress", "RequestUpload", "CommitCheckpoint", "CommitArtifact", "RejectCheckpoint",
			"StoreHandle"} {
			t.Run(verb, func(t *testing.T) {
				t.Parallel()

				s := jobstest.New(t)
				s.Submit(t)
				worker := s.Worker(t, "one")
				_, fence := s.Lease(t, worker)
				o := jobstest.UploadAll(t, s, worker, fence)
				s.ExpireLease(t, fence.AttemptID)

				require.NoError(t, jobstest.FencedVerbs[verb](t, s, worker, fence, o))

				reaped, err := s.Reaper.Reap(t.Context())
				require.NoError(t, err)
				require.Zero(t, reaped)
				attempt, err := models.GetAttempt(t.Context(), s.DB, fence.AttemptID)
				require.NoError(t, err)
				now, err := postgres.Now(t.Context(), s.DB)
				require.NoError(t, err)
				require.WithinDuration(t, now.Add(lease.LeaseTTL), attempt.LeaseExpiresAt, lease.LeaseTTL/2)
			})
		}
	})
}
