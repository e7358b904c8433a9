package jobs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// scheduleDue submits a scheduled job as p that is due now.
func scheduleDue(t *testing.T, s *jobstest.Stack, p jobs.Principal) *models.Job {
	t.Helper()
	job := jobstest.SubmitAs(t, s, p, func(in *jobs.Submission) { in.RunAt = new(time.Now().Add(time.Hour)) })
	s.Exec(t, "UPDATE jobs SET created_at = created_at - interval '1 day', run_at = clock_timestamp() - interval '1 second' WHERE id = ?", job.ID)
	return job
}

func TestDue(t *testing.T) {
	t.Parallel()

	t.Run("QueuesTheJobsOfManyAccountsAndLanes", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		var due []*models.Job
		for i := range 120 {
			due = append(due, scheduleDue(t, s, []jobs.Principal{s.Admin, s.Client}[i%2]))
		}

		n, err := s.Scheduler.Due(t.Context())

		require.NoError(t, err)
		require.Equal(t, len(due), n)
		for _, job := range due {
			require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		}
		s.RequireInvariants(t)
		n, err = s.Scheduler.Due(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
	})

	t.Run("LeavesOnlyTheJobThatFailsToSave", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		var due []*models.Job
		for range 5 {
			due = append(due, scheduleDue(t, s, s.Client))
		}
		s.Exec(t, "ALTER TABLE jobs ADD CONSTRAINT never_queued CHECK (id <> '"+due[1].ID.UUID()+"' OR status <> 'QUEUED')")

		n, err := s.Scheduler.Due(t.Context())

		require.Equal(t, 4, n)
		require.ErrorContains(t, err, "never_queued")
		require.Equal(t, 1, strings.Count(err.Error(), string(due[1].ID)), "it is logged once")
		for i, job := range due {
			require.Equal(t, i != 1, s.Reload(t, job.ID).Status == models.JobQueued)
		}

		s.Exec(t, "ALTER TABLE jobs DROP CONSTRAINT never_queued")
		n, err = s.Scheduler.Due(t.Context())

		require.NoError(t, err)
		require.Equal(t, 1, n, "the next pass tries it again")
		s.RequireInvariants(t)
	})

	t.Run("SkipsLockedJobs", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		locked, free := scheduleDue(t, s, s.Client), scheduleDue(t, s, s.Client)

		require.NoError(t, s.DB.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			_, err := models.LockJob(ctx, tx, locked.ID)
			require.NoError(t, err)
			n, err := s.Scheduler.Due(ctx)
			require.Equal(t, 1, n)
			return err
		}))

		require.Equal(t, models.JobQueued, s.Reload(t, free.ID).Status)
		require.Equal(t, models.JobScheduled, s.Reload(t, locked.ID).Status)
		n, err := s.Scheduler.Due(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}
